// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/number.h: rounding and ranges of element types, and
// conversion of numbers to and from text.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace yoke::program {

// Rounds `value` to the float type. For 16-bit types, it is first rounded to f32.
double round_to_type(Type type, double value);

// Truncates toward zero and saturates; NaN becomes 0. For bool: value != 0.
std::int64_t float_to_integer(Type type, double value);

// Keeps the low bits of `value` that fit in the integer type. For bool: value != 0.
std::int64_t wrap_to_type(Type type, std::int64_t value);

// A number as written: digits, `inf` or `nan`, and whether a `-` precedes it.
struct NumberText {
  std::string_view digits;
  bool negative = false;
  bool is_float() const;
  std::string text() const { return (negative ? "-" : "") + std::string(digits); }
};

// Converts the number to `type`; on failure, sets `reason`.
std::optional<Literal> literal_from_text(Type type, const NumberText& text, std::string& reason);

// The canonical text. A float zero is `0`.
std::string literal_to_text(Type type, const Literal& literal);

// Whether the type holds the literal exactly.
bool literal_fits(Type type, const Literal& literal);

}  // namespace yoke::program
