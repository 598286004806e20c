// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/repeat_products.cpp: border_programs.h, products and reductions in repeat blocks.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "../check.h"
#include "../random.h"
#include "border_programs.h"
#include "borders.h"
#include "corpus.h"

namespace yoke::conformance {

using program::Type;

namespace {

// {i} {j} {k} are extents, {t} the number of rounds, {T} the type, {A} ":f32" for types that need an accumulator. The
// block's variable is t.
struct RepeatForm {
  std::string_view tensors;
  std::string_view before;
  std::string_view block;
};

constexpr RepeatForm kRepeatForms[] = {
    // A factor, the target, or all of them move with the variable.
    {"arg x : {T}[{t}, {i}, {k}] in\n arg w : {T}[{k}, {j}] in\n arg y : {T}[{t}, {i}, {j}] inout\n", "",
     "y[t, i, j] = sum{A}[k] x[t, i, k] * w[k, j]\n"},
    {"arg x : {T}[{i}, {k}] in\n arg w : {T}[{t}, {k}, {j}] in\n arg y : {T}[{t}, {i}, {j}] inout\n", "",
     "y[t, i, j] = sum{A}[k] x[i, k] * w[t, k, j]\n"},
    {"arg x : {T}[{i}, {t}, {k}] in\n arg w : {T}[{k}, {t}, {j}] in\n arg y : {T}[{i}, {j}] inout\n", "",
     "y[i, j] += sum{A}[k] x[i, t, k] * w[k, t, j]\n"},
    {"arg x : {T}[{i+t}, {k+t}] in\n arg w : {T}[{k+t}, {j+t}] in\n arg y : {T}[{i+t}, {j}] inout\n", "",
     "y[t + i, j] for[i:{i}, j:{j}] = sum{A}[k:{k}] x[t + i, t + k] * w[t + k, t + j]\n"},
    {"arg x : {T}[{t}, {i}, {k}] in\n arg w : {T}[{t}, {j}, {k}] in\n arg y : {T}[{t}, {i}, {j}] inout\n", "",
     "y[t, i, j] = sum{A}[k] x[-t + {t-1}, i, k] * w[t, j, k]\n"},
    // A factor that an earlier round, or an earlier statement of the round, wrote.
    {"arg x : {T}[{i}, {k}] in\n arg w : {T}[{k}, {k}] in\n arg h : {T}[{t+1}, {i}, {k}] out\n",
     "h[0, i, j] = x[i, j]\n",
     "h[t + 1, i, j] = sum{A}[k] h[t, i, k] * w[k, j]\n h[t + 1, i, j] = max(min(h[t + 1, i, j], 2), -2)\n"},
    {"arg x : {T}[{k}, {i}] in\n arg w : {T}[{k}, {k}] in\n arg h : {T}[{t+1}, {k}, {i}] out\n",
     "h[{t}, i, j] = x[i, j]\n",
     "h[-t + {t-1}, i, j] = sum{A}[k] w[i, k] * h[-t + {t}, k, j]\n h[-t + {t-1}, i, j] = max(min(h[-t + "
     "{t-1}, i, j], 2), -2)\n"},
    {"arg x : {T}[{i}, {k}] in\n arg w : {T}[{k}, {j}] in\n arg y : {T}[{t}, {i}, {j}] inout\n temp v : "
     "{T}[{k}, {j}]\n",
     "", "v[k, j] = w[k, j] + {T}(t)\n y[t, i, j] = sum{A}[k] x[i, k] * v[k, j]\n"},
    {"arg x : {T}[{i}, {k}] in\n arg w : {T}[{k}, {j}] in\n arg y : {T}[{i}, {j}] inout\n temp u : {T}[{i}, "
     "{k}]\n",
     "u[i, k] = x[i, k]\n", "y[i, j] += sum{A}[k] u[i, k] * w[k, j]\n u[i, k] = -u[i, k] + {T}(t)\n"},
    // Reductions, gathers and scatters.
    {"arg x : {T}[{t}, {i}, {k}] in\n arg y : {T}[{t}, {i}] inout\n arg z : {T}[{k}] inout\n", "",
     "y[t, i] = sum{A}[k] x[t, i, k]\n z[k] += sum{A}[i] x[t, i, k]\n"},
    {"arg x : {T}[{t}, {i}, {k}] in\n arg y : i32[{t}, {i}] inout\n arg z : {T}[{k}] inout\n", "",
     "y[t, i] = argmax[k] x[t, i, k]\n z[k] max= max{A}[i] x[t, i, k]\n"},
    {"arg x : {T}[{k}, {j}] in\n arg idx : i32[{t}, {i}] in  # below {k}\n arg y : {T}[{t}, {i}, {j}] "
     "inout\n",
     "", "y[t, i, j] = (x[idx[t, i], j] else 3)\n"},
    {"arg x : {T}[{t}, {i}, {j}] in\n arg idx : i32[{t}, {i}] in  # below {k}\n arg y : {T}[{k}, {j}] "
     "inout\n",
     "", "y[idx[t, i], j] += x[t, i, j]\n"},
    {"arg x : {T}[{k}, {j}] in\n arg w : {T}[{t}] in\n arg y : {T}[{k}, {j}] inout\n", "",
     "y[k, j] += (x[t + k - 2, j] * w[t] else 1)\n"}};

// {i} and so on, replaced.
std::string filled(std::string_view form, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string made(form);
  for (const auto& [name, value] : values) {
    for (std::size_t at = made.find(name); at != std::string::npos; at = made.find(name, at)) {
      made.replace(at, name.size(), value);
    }
  }
  return made;
}

Case repeat_product(std::uint64_t seed, std::uint64_t number, Type type) {
  constexpr std::uint64_t kExtents[] = {1,  2,  3,  4,  5,  7,  8,  9,  13, 15, 16,  17,  31,
                                        32, 33, 47, 48, 49, 63, 64, 65, 96, 97, 100, 129, 257};
  Random random(seed, "repeat-products", number);
  const std::uint64_t rounds = 1 + random.below(6);
  std::uint64_t i = 0;
  std::uint64_t j = 0;
  std::uint64_t k = 0;
  do {
    i = kExtents[random.below(std::size(kExtents))];
    j = kExtents[random.below(std::size(kExtents))];
    k = kExtents[random.below(std::size(kExtents))];
  } while (rounds * i * j * k > 200'000 || rounds * i * k * k > 200'000);
  const bool is_narrow = program::byte_size(type) == 2;
  const RepeatForm& form = kRepeatForms[number % std::size(kRepeatForms)];
  const std::vector<std::pair<std::string, std::string>> values = {{"{T}", name_of(type)},
                                                                   {"{A}", is_narrow ? ":f32" : ""},
                                                                   {"{i}", std::to_string(i)},
                                                                   {"{j}", std::to_string(j)},
                                                                   {"{k}", std::to_string(k)},
                                                                   {"{t}", std::to_string(rounds)},
                                                                   {"{t+1}", std::to_string(rounds + 1)},
                                                                   {"{t-1}", std::to_string(rounds - 1)},
                                                                   {"{i+t}", std::to_string(i + rounds)},
                                                                   {"{j+t}", std::to_string(j + rounds)},
                                                                   {"{k+t}", std::to_string(k + rounds)}};
  Case one =
      corpus_case(filled(text("yoke.program 1\nprogram repeat_product", number, "() {\n ", form.tensors, " ",
                              form.before, " repeat t in 0..{t} {\n ", form.block, " }\n}\n"),
                         values),
                  seed);
  one.index = number;
  return one;
}

}  // namespace

std::vector<Case> repeat_product_programs(std::uint64_t seed, std::uint64_t type_mask) {
  const std::vector<Type> types = types_of(type_mask);
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  std::vector<Type> used;
  for (const Type type : {Type::kF32, Type::kF64, Type::kI32, Type::kBF16, Type::kI64}) {
    if (has(type) && (program::byte_size(type) != 2 || has(Type::kF32))) {
      used.push_back(type);
    }
  }
  std::vector<Case> all;
  for (std::uint64_t number = 0; number < 84 && !used.empty() && has(Type::kI32) && has(Type::kI64);
       ++number) {
    const std::uint64_t round = number / std::size(kRepeatForms);
    all.push_back(repeat_product(seed, number, used[round % 2 == 0 ? 0 : (round / 2 + seed) % used.size()]));
  }
  return all;
}

}  // namespace yoke::conformance
