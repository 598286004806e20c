// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/literal_programs.cpp: border_programs.h, literals at every place of a statement.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "border_programs.h"
#include "borders.h"
#include "number.h"

namespace yoke::conformance {

using program::Type;

namespace {

// A value of x and z. L stands for the literal, T for the type, and A for an accumulator if the type needs one. x has
// 40 elements and y has 20.
struct Place {
  std::string_view value;
  std::string_view assign = "=";
  bool is_for_numbers = true;  // not for bool
  bool takes_all = false;      // true: every literal; false: a third of them
};

constexpr Place kPlaces[] = {{"(x[i + 20] else L)", "=", false, true},
                             {"L", "=", false, true},
                             {"(x[i + 20] + z[i] else L)", "=", true, true},
                             {"select(i < 3, L, x[i])", "=", false, true},
                             {"select(x[i] == L, z[i], x[i])", "=", false, true},
                             {"max(x[i], (x[2*i + 1] else L))"},
                             {"((x[-i + 19] else L) * z[i + 1] else 3)"},
                             {"maxA[k:6] (x[i + k + 17] else L)"},
                             {"(x[(i + 1) / 2] else L)", "=", false},
                             {"(x[p[i]] else L)", "=", false, true},
                             {"x[i] + L"},
                             {"L - x[i]"},
                             {"x[i] * L"},
                             {"x[i] / L"},
                             {"L % x[i]"},
                             {"min(x[i], L)"},
                             {"select(x[i] < L, x[i], z[i])"},
                             {"select(L >= x[i], L, z[i])"},
                             {"L", "+="},
                             {"L", "max="},
                             {"(x[i + 21] else L)", "min="},
                             {"T(x[0] < L) - z[i]"}};

// The borders of the type as texts, each value once.
std::vector<std::string> literals(Type type) {
  std::vector<std::string> all;
  for (const double value : float_borders(type)) {
    all.push_back(program::literal_to_text(type, {value, 0}));
  }
  for (const std::int64_t value : integer_borders(type)) {
    all.push_back(program::literal_to_text(type, {0, value}));
  }
  if (type == Type::kBool) {
    all = {"true", "false"};
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::string filled(std::string_view value, Type type, const std::string& literal) {
  std::string made;
  for (const char character : value) {
    made += character == 'L'   ? literal
            : character == 'T' ? name_of(type)
            : character == 'A' ? std::string(program::byte_size(type) == 2 ? ":f32" : "")
                               : std::string(1, character);
  }
  return made;
}

}  // namespace

std::vector<Case> literal_programs(std::uint64_t seed, std::uint64_t type_mask) {
  constexpr int kMost = 30;
  std::vector<Case> all;
  for (std::size_t number = 0; number < std::size(kPlaces); ++number) {
    const Place& place = kPlaces[number];
    for (const Type type : types_of(type_mask)) {
      if (type == Type::kBool && place.is_for_numbers) {
        continue;
      }
      Batches batches(
          seed, "literals" + std::to_string(number) + "_" + name_of(type),
          [&](ProgramText& text) {
            text.input("x", type, "40", {DataKind::kEdges, 1, -1});
            text.input("z", type, "40", {DataKind::kEdges, 0, -1});
            if (place.value.find("p[") != std::string_view::npos) {
              text.input("p", Type::kI32, "20", {DataKind::kIndex, 40, -1});
            }
          },
          kMost);
      std::size_t draw = number + static_cast<std::size_t>(seed % 3);
      for (const std::string& literal : literals(type)) {
        // Most literals test nearly the same thing, so each seed takes a third of them.
        if (place.takes_all || draw++ % 3 == 0) {
          batches.next().output(type, "20", "i", filled(place.value, type, literal),
                                std::string(place.assign));
        }
      }
      append(all, batches.made());
    }
  }
  return all;
}

}  // namespace yoke::conformance
