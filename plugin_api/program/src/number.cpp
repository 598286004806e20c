// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/number.cpp: rounding and ranges of element types, and
// conversion of numbers to and from text.
#include "number.h"

#include <yoke/program/execute.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace yoke::program {
namespace {

// The shortest text that reads back as the same value.
template <typename Float>
std::string shortest(Float value) {
  char buffer[64];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

double parse_double(std::string_view digits, bool& in_range) {
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  in_range = result.ec == std::errc();
  return value;
}

std::optional<double> float_from_digits(Type type, std::string_view digits) {
  bool in_range = true;
  if (type == Type::kF64) {
    const double value = parse_double(digits, in_range);
    return in_range ? std::optional(value) : std::nullopt;
  }
  // Directly to f32, because a detour through f64 would round twice.
  float value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec != std::errc()) {
    // A number too small for f32 becomes 0; a number too large is an error.
    const double wide = parse_double(digits, in_range);
    if (!in_range || std::abs(wide) > 1) {
      return std::nullopt;
    }
    value = static_cast<float>(wide);
  }
  const double rounded = round_to_type(type, static_cast<double>(value));
  return std::isinf(rounded) ? std::nullopt : std::optional(rounded);
}

}  // namespace

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<std::uint16_t>(sign | 0x7e00U);
  }
  if (magnitude >= 0x477ff000U) {  // 65520 and above round to infinity
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: subnormal in f16, a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;  // exact
    const auto steps = static_cast<std::uint32_t>(scaled);
    const float rest = scaled - static_cast<float>(steps);
    const bool up = rest > 0.5F || (rest == 0.5F && (steps & 1U) != 0);
    return static_cast<std::uint16_t>(sign | (steps + (up ? 1U : 0U)));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t wide = bits;
  const std::uint32_t sign = (wide & 0x8000U) << 16;
  const std::uint32_t exponent = (wide >> 10) & 0x1fU;
  const std::uint32_t fraction = wide & 0x3ffU;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (fraction << 13));
}

std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // keeps NaN a NaN
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

double round_to_type(Type type, double value) {
  if (type == Type::kF64) {
    return value;
  }
  const auto single = static_cast<float>(value);
  if (type == Type::kF16) {
    return static_cast<double>(f16_to_f32(f32_to_f16(single)));
  }
  if (type == Type::kBF16) {
    return static_cast<double>(bf16_to_f32(f32_to_bf16(single)));
  }
  return static_cast<double>(single);
}

std::int64_t float_to_integer(Type type, double value) {
  if (type == Type::kBool) {
    return value != 0 ? 1 : 0;
  }
  if (std::isnan(value)) {
    return 0;
  }
  if (value <= static_cast<double>(lowest_integer(type))) {
    return lowest_integer(type);
  }
  // For i64, the bound rounds to 2^63, which is out of range.
  if (value >= static_cast<double>(highest_integer(type))) {
    return highest_integer(type);
  }
  return static_cast<std::int64_t>(value);
}

std::int64_t wrap_to_type(Type type, std::int64_t value) {
  switch (type) {
    case Type::kI32:
      return static_cast<std::int32_t>(value);
    case Type::kU32:
      return static_cast<std::uint32_t>(value);
    case Type::kU8:
      return static_cast<std::uint8_t>(value);
    case Type::kBool:
      return value != 0 ? 1 : 0;
    default:
      return value;
  }
}

bool NumberText::is_float() const {
  return digits == "inf" || digits == "nan" || digits.find_first_of(".e") != std::string_view::npos;
}

std::optional<Literal> literal_from_text(Type type, const NumberText& text, std::string& reason) {
  const std::string name(type_name(type));
  Literal literal;
  if (type == Type::kBool) {
    reason = "expected true or false, found the number " + text.text();
    return std::nullopt;
  }
  if (is_float(type)) {
    if (text.digits == "inf" || text.digits == "nan") {
      literal.number = text.digits == "nan" ? std::numeric_limits<double>::quiet_NaN()
                                            : std::numeric_limits<double>::infinity();
    } else if (const auto value = float_from_digits(type, text.digits)) {
      literal.number = *value;
    } else {
      reason = "the number " + text.text() + " does not fit in " + name;
      return std::nullopt;
    }
    if (text.negative && !std::isnan(literal.number)) {
      literal.number = -literal.number;
    }
    return literal;
  }
  if (text.is_float()) {
    reason = "expected an integer of type " + name + ", found the number " + text.text();
    return std::nullopt;
  }
  const std::string whole = text.text();
  const auto result = std::from_chars(whole.data(), whole.data() + whole.size(), literal.integer);
  if (result.ec != std::errc() || literal.integer < lowest_integer(type) ||
      literal.integer > highest_integer(type)) {
    reason = "the number " + whole + " does not fit in " + name;
    return std::nullopt;
  }
  return literal;
}

std::string literal_to_text(Type type, const Literal& literal) {
  if (type == Type::kBool) {
    return literal.integer != 0 ? "true" : "false";
  }
  if (!is_float(type)) {
    return std::to_string(literal.integer);
  }
  const double value = literal.number;
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  if (value == 0 && !std::signbit(value)) {
    return "0";
  }
  return type == Type::kF32 ? shortest(static_cast<float>(value)) : shortest(value);
}

bool literal_fits(Type type, const Literal& literal) {
  if (is_float(type)) {
    return std::isnan(literal.number) || round_to_type(type, literal.number) == literal.number;
  }
  return literal.integer >= lowest_integer(type) && literal.integer <= highest_integer(type);
}

}  // namespace yoke::program
