// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/index_programs.cpp: border_programs.h, gathers and scatters.
#include <iterator>
#include <string_view>

#include "border_programs.h"
#include "borders.h"
#include "corpus.h"

namespace yoke::conformance {

using program::Type;

namespace {

// T stands for the type of the elements, I for that of the indices, N for the extent that they index.
struct IndexForm {
  std::string_view body;
};
constexpr IndexForm kGathers[] = {
    {"arg x : T[N] in\n arg p : I[400] in  # below N\n arg y : T[400] out\n y[i] = (x[p[i]] else 1)\n"},
    {"arg x : T[N, 5] in\n arg p : I[90] in  # below N\n arg y : T[90, 5] out\n y[i, j] = (x[p[i], j] else "
     "1)\n"},
    {"arg x : T[5, N] in\n arg p : I[90] in  # below N\n arg y : T[90, 5] out\n y[i, j] = (x[j, p[i]] else "
     "0)\n"},
    {"arg x : T[N, N] in\n arg p : I[90] in  # below N\n arg q : I[90] in  # below N\n arg y : T[90] out\n "
     "y[i] = (x[p[i], q[-i + 89]] else 1)\n"},
    {"arg x : T[N, 3] in\n arg p : I[20, 9] in  # below N\n arg y : T[20, 9, 3] out\n y[i, j, k] = (x[p[i, "
     "j], -k + 2] else 1)\n"},
    {"arg x : T[N] in\n arg z : T[N] in\n arg p : I[200] in  # below N\n arg y : T[200] out\n y[i] = "
     "(max(x[p[i]], z[p[i]]) else 1)\n"},
    {"arg x : T[N] in\n arg p : I[200] in  # below N\n arg y : T[200] out\n y[i] = max(x[0], (x[p[i]] else "
     "1))\n"}};
// The index tensor is the tensor that it indexes, or changes before and after the gather.
constexpr IndexForm kOwnIndices[] = {
    {"arg p : I[90] in  # below 90\n arg y : I[90] out\n y[i] = (p[p[i]] else 1)\n"},
    {"arg x : T[N] in\n arg p : I[200] inout  # below N\n arg y : T[200] out\n arg z : T[200] out\n p[i] = "
     "p[i] + 1\n y[i] = (x[p[i]] else 1)\n p[i] = p[i] - 2\n z[i] = (x[p[-i + 199]] else 0)\n p[i] = 0\n"},
    {"arg x : T[60] in\n arg p : I[60] inout  # below 60\n arg y : T[60] inout\n repeat t in 0..3 {\n "
     "y[p[i]] "
     "max= x[i]\n p[i] = I(i) % 7 + I(t)\n }\n"}};
constexpr IndexForm kScatters[] = {
    {"arg x : T[400] in\n arg p : I[400] in  # below N\n arg y : T[N] inout\n y[p[i]] A x[i]\n"},
    {"arg x : T[90, 5] in\n arg p : I[90] in  # below N\n arg y : T[N, 5] inout\n y[p[i], j] A x[i, j]\n"},
    {"arg x : T[90, 5] in\n arg p : I[90] in  # below N\n arg y : T[5, N] inout\n y[j, p[i]] A x[i, j]\n"},
    {"arg x : T[90] in\n arg p : I[90] in  # below N\n arg q : I[90] in  # below N\n arg y : T[N, N] inout\n "
     "y[p[i], q[i]] A x[i]\n"}};

std::string filled(std::string_view body, Type element, Type index, std::uint64_t extent,
                   std::string_view assign) {
  std::string text;
  for (const char character : body) {
    switch (character) {
      case 'T':
        text += name_of(element);
        break;
      case 'I':
        text += name_of(index);
        break;
      case 'N':
        text += std::to_string(extent);
        break;
      case 'A':
        text += assign;
        break;
      default:
        text += character;
    }
  }
  return text;
}

}  // namespace

std::vector<Case> index_programs(std::uint64_t seed, std::uint64_t type_mask) {
  constexpr std::uint64_t kExtents[] = {1, 2, 31, 200, 257};
  constexpr std::string_view kAssigns[] = {"+=", "max=", "min=", "*="};
  std::vector<Case> all;
  std::uint64_t draw = 0;
  const auto add = [&](std::string_view body, Type element, Type index) {
    ++draw;
    const bool is_narrow = program::is_float(element) && program::byte_size(element) == 2;
    // Sums and products of 16-bit floats depend on the order.
    const std::string_view assign = kAssigns[is_narrow ? 1 + draw % 2 : draw % 4];
    Case one =
        corpus_case("yoke.program 1\nprogram indices" + std::to_string(all.size()) + "() {\n " +
                        filled(body, element, index, kExtents[draw % std::size(kExtents)], assign) + "}\n",
                    seed);
    if (assign == "*=") {
      for (Data& data : one.data) {
        data.kind = data.kind == DataKind::kDyadic ? DataKind::kUnit : data.kind;
      }
    }
    append(all, {std::move(one)});
  };
  const std::vector<Type> types = types_of(type_mask);
  std::size_t pair = 0;
  for (const Type element : types) {
    for (const Type index : types) {
      if (program::is_float(index) || index == Type::kBool || element == Type::kBool) {
        continue;
      }
      // Every other form, so that each form has every type of index.
      pair += 1;
      for (std::size_t form = pair % 2; form < std::size(kGathers); form += 2) {
        add(kGathers[form].body, element, index);
      }
      for (std::size_t form = pair % 2; form < std::size(kScatters); form += 2) {
        add(kScatters[form].body, element, index);
      }
      add(kOwnIndices[pair % std::size(kOwnIndices)].body, element, index);
    }
  }
  return all;
}

}  // namespace yoke::conformance
