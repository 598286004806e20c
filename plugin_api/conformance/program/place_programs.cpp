// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/place_programs.cpp: border_programs.h, reductions in which one element decides the
// result, at every place of a row.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "../check.h"
#include "../random.h"
#include "border_programs.h"
#include "borders.h"

namespace yoke::conformance {

using program::Type;

namespace {

constexpr std::uint64_t kLengths[] = {1,   2,   3,    5,    7,    8,    9,    15,   16,   17,   31,
                                      32,  33,  47,   48,   49,   63,   64,   65,   95,   97,   127,
                                      128, 129, 255,  256,  257,  384,  511,  512,  513,  640,  767,
                                      769, 999, 1023, 1024, 1025, 1279, 1536, 2047, 2049, 4097, 8193};

// The element that differs: above or below all others, equal to the highest, or special.
std::string special_of(Type type, Random& random) {
  if (program::is_float(type)) {
    constexpr const char* kSpecials[] = {"nan", "inf", "-inf", "100", "-100", "4", "-4", "-0.0"};
    return kSpecials[random.below(std::size(kSpecials))];
  }
  const std::int64_t specials[] = {program::highest_integer(type), program::lowest_integer(type), 9, 100};
  return std::to_string(specials[random.below(std::size(specials))]);
}

// Row i of h has the element at place i from the front, at place i from the end, or at multiples of a fixed distance.
std::string place_of(std::uint64_t kind, std::uint64_t rows, std::uint64_t length) {
  return kind == 0   ? "j == i"
         : kind == 1 ? text("j + i == ", length - 1)
                     : text("j == i * ", std::max<std::uint64_t>(length / rows, 1), " + ", length % rows);
}

Case place_program(std::uint64_t seed, std::uint64_t number, Type type, bool has_i32) {
  Random random(seed, "places", number);
  const std::uint64_t length = kLengths[number % std::size(kLengths)];
  const std::uint64_t rows = std::min<std::uint64_t>(length, length > 1100 ? 9 : 33);
  const std::uint64_t layout = random.below(3);  // along rows, along columns, in the middle
  const std::string at = layout == 0 ? "[i, j]" : layout == 1 ? "[j, i]" : "[a, j, i]";
  const std::string kept = layout == 2 ? "a, i" : "i";
  const std::string kept_dims = layout == 2 ? text("2, ", rows) : std::to_string(rows);
  const std::string dims = layout == 0   ? text(rows, ", ", length)
                           : layout == 1 ? text(length, ", ", rows)
                                         : text("2, ", length, ", ", rows);
  const std::string place = place_of(random.below(3), rows, length);
  ProgramText text_of(seed, text("places", number));
  const auto reduce = [&](Type result, const std::string& name, const std::string& value,
                          const char* assign) {
    text_of.output(result, kept_dims, kept, name + text("[j:", length, "] ") + value, assign);
  };
  text_of.input("x", type, dims, {DataKind::kDyadic, 1, -1});
  if (type == Type::kBool) {
    reduce(type, "any", place, "=");
    reduce(type, "all", "!(" + place + ")", "=");
    reduce(type, "any", "x" + at + " && " + place, "=");
    reduce(type, "all", "x" + at + " || !(" + place + ")", "=");
    return text_of.finished();
  }
  text_of.input("h", type, dims, {DataKind::kDyadic, 1, -1}, "inout");
  const std::string value = "select(" + place + ", " + special_of(type, random) + ", x" + at + ")";
  text_of.statement("h" + at + " = " + value);
  const std::string accumulator = program::byte_size(type) == 2 ? ":f32" : "";
  const bool adds = random.chance(3);
  for (const char* name : {"sum", "max", "min"}) {
    const std::string combined = std::string(name) == "sum" ? "+=" : std::string(name) + "=";
    reduce(type, name + accumulator, "h" + at, adds ? combined.c_str() : "=");
  }
  reduce(type, (random.chance(2) ? "max" : "min") + accumulator, value, "=");
  if (!program::is_float(type)) {
    reduce(type, "prod", "h" + at, "=");
  }
  if (has_i32) {
    reduce(Type::kI32, "argmax", "h" + at, "=");
    reduce(Type::kI32, "argmin", "h" + at, "=");
    reduce(Type::kI32, random.chance(2) ? "argmax" : "argmin", value, "=");
  }
  return text_of.finished();
}

}  // namespace

std::vector<Case> place_programs(std::uint64_t seed, std::uint64_t type_mask) {
  const std::vector<Type> types = types_of(type_mask);
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  std::vector<Case> all;
  for (std::uint64_t number = 0; number < 4 * std::size(kLengths) && has(Type::kI64) && has(Type::kBool);
       ++number) {
    // f32, and another type in turn.
    const Type type = number / std::size(kLengths) % 2 == 0 && has(Type::kF32)
                          ? Type::kF32
                          : types[(number + seed) % types.size()];
    if (program::byte_size(type) != 2 || has(Type::kF32)) {
      append(all, {place_program(seed, number, type, has(Type::kI32))});
    }
  }
  return all;
}

}  // namespace yoke::conformance
