// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/execute.h: runs any verified program, plainly, in host memory: the
// oracle.
#pragma once

#include <yoke/program/program.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace yoke::program {

// Runs a verified program. `arguments` holds one pointer per argument, in order of declaration, to
// byte_count() bytes, aligned to the element; `symbol_values` one value per symbol. Throws
// std::invalid_argument on a wrong count or a symbol's value outside its range. Sums run in the order of the
// loops, in the accumulator's type.
void execute(const Program& program, std::span<void* const> arguments,
             std::span<const std::int64_t> symbol_values);

// The value of an expression of constants, as execute() computes it. Throws std::invalid_argument where it
// reads a tensor, a loop or a symbol.
Literal evaluate(const Expr& expr);

// Threefry 4x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011).
std::array<std::uint32_t, 4> threefry4x32(const std::array<std::uint32_t, 4>& key,
                                          const std::array<std::uint32_t, 4>& counter);

// random_bits of the program format: key = seed and stream, low word first; counter = counter >> 2; word
// counter & 3.
std::uint32_t random_bits(std::int64_t seed, std::int64_t stream, std::int64_t counter);

// 16-bit floats as stored, rounded to nearest even.
std::uint16_t f32_to_f16(float value);
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);
float bf16_to_f32(std::uint16_t bits);

}  // namespace yoke::program
