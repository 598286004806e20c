// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/values.h: operations on the registers of a warp.
#pragma once

#include <yoke/program/program.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace yoke::board {

namespace program = yoke::program;
using program::is_float;
using program::Type;

inline constexpr std::int64_t kLanes = 32;

// A value in a register. Floats of every type are f64 there, integers and bools i64; each operation rounds or wraps.
union Word {
  double f;
  std::int64_t i;
};
using Row = std::array<Word, kLanes>;
using Numbers = std::array<std::int64_t, kLanes>;

// Offsets are in elements.
Word load(Type type, const std::byte* tensor, std::int64_t element);
void load(Type type, const std::byte* tensor, const Numbers& elements, Row& out);
void store_word(Type type, std::byte* tensor, std::int64_t element, Word value);

Word converted(Type from, Type to, Word value);
// The operands have the type of the result.
Word applied(program::Op op, Type type, Word a, Word b);
// As applied(), but neither rounded nor wrapped to the type; with the bug folded_unrounded.
Word folded(program::Op op, Type type, Word a, Word b);
// a = op(a, b, c), rounded to `type`. Not for leaves and guards.
void apply_lanes(const program::Expr& expr, Type type, Row& a, const Row& b, const Row& c);

}  // namespace yoke::board
