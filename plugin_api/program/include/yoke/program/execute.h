// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/execute.h: the reference executor, which defines what a program
// means. Every function is safe to call from any thread.
#pragma once

#include <yoke/program/program.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace yoke::program {

// Runs a program in host memory, one element after another, on the calling thread. `arguments` holds one
// pointer per argument, in order of declaration, to byte_count() bytes aligned to the element size.
// `symbol_values` holds one value per symbol. Sums run in loop order, in the accumulator's type.
// Precondition: the program is verified.
// Throws std::invalid_argument for a wrong count, a null argument, or a symbol value out of range.
void execute(const Program& program, std::span<void* const> arguments,
             std::span<const std::int64_t> symbol_values);

// The value of a constant expression, as execute() computes it. Throws std::invalid_argument if the
// expression reads a tensor, a loop or a symbol.
Literal evaluate(const Expr& expr);

// Threefry 4x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011).
std::array<std::uint32_t, 4> threefry4x32(const std::array<std::uint32_t, 4>& key,
                                          const std::array<std::uint32_t, 4>& counter);

// The `random_bits` function of the program format. The Threefry key is seed and stream, low word first; the
// Threefry counter is counter >> 2; the result is word counter & 3.
std::uint32_t random_bits(std::int64_t seed, std::int64_t stream, std::int64_t counter);

// 16-bit floats as stored; conversion rounds to nearest even.
std::uint16_t f32_to_f16(float value);
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);
float bf16_to_f32(std::uint16_t bits);

}  // namespace yoke::program
