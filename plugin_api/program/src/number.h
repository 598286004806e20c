// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/number.h: what each element type can hold, and numbers to and from text.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace yoke::program {

// `value` rounded to what the float type holds; 16-bit types are rounded from f32.
double round_to_type(Type type, double value);

// Saturating, toward zero; NaN gives 0; bool: value != 0.
std::int64_t float_to_integer(Type type, double value);

// The low bits of `value`, in the range of the integer type; bool: value != 0.
std::int64_t wrap_to_type(Type type, std::int64_t value);

// A number as written: digits, `inf` or `nan`, with `-` before it or not.
struct NumberText {
  std::string_view digits;
  bool negative = false;
  bool is_float() const;
  std::string text() const { return (negative ? "-" : "") + std::string(digits); }
};

// Reads the number as one of `type`; on failure `reason` says why.
std::optional<Literal> literal_from_text(Type type, const NumberText& text, std::string& reason);

// The canonical text; a float zero is `0`.
std::string literal_to_text(Type type, const Literal& literal);

// Whether the type can hold the literal exactly.
bool literal_fits(Type type, const Literal& literal);

}  // namespace yoke::program
