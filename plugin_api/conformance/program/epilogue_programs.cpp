// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/epilogue_programs.cpp: border_programs.h, products with more terms, with statements
// before and after them, and large repeat blocks.
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

// X and W stand for the factors.
constexpr std::string_view kTerms[] = {"X * W",
                                       "X * W",
                                       "W * X",
                                       "X * W * s[]",
                                       "2 * X * W",
                                       "X * W * d[k]",
                                       "(X - c[i]) * W",
                                       "X * (W + b[j])",
                                       "-X * W",
                                       "X * W - 1",
                                       "max(X, 0) * W",
                                       "max(X * W, 0)",
                                       "X * W * X",
                                       "select(k < 3, X * W, 0)",
                                       "select(X > W, X, W)",
                                       "abs(X - W)"};
// Statements after the product h that compute the result y.
constexpr std::string_view kEpilogues[] = {
    "y[i, j] = h[i, j] + b[j]\n",
    "y[i, j] = max(h[i, j] + b[j], 0)\n",
    "y[i, j] = (h[i, j] + c[i]) * s[]\n",
    "y[i, j] = h[i, j] * 0.5 + r[i, j]\n",
    "y[i, j] = r[i, j]\n y[i, j] += h[i, j]\n",
    "h[i, j] = h[i, j] + b[j]\n h[i, j] = max(h[i, j], 0)\n y[i, j] = h[i, j]\n",
    "y[i, j] = select(r[i, j] > 0, h[i, j], 0)\n",
    "v[i] = sumA[j] h[i, j]\n y[i, j] = h[i, j] - v[i]\n",
    "v[i] = max[j] h[i, j]\n y[i, j] = h[i, j] - v[i]\n",
    "y[i, j] = h[i, j] * h[i, j]\n",
    "y[i, j] = h[i, -j + {n-1}]\n"};

std::string with(std::string text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

Case epilogue_program(std::uint64_t seed, std::uint64_t number, Type type) {
  constexpr std::uint64_t kExtents[] = {1,  1,  2,  3,  4,  5,  7,  8,  9,  13,  15,
                                        16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 129};
  Random random(seed, "epilogues", number);
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  do {
    m = kExtents[random.below(std::size(kExtents))];
    n = kExtents[random.below(std::size(kExtents))];
    k = kExtents[random.below(std::size(kExtents))];
  } while (m * n * k > 150'000);
  const bool x_is_transposed = random.chance(2);
  const bool w_is_transposed = random.chance(2);
  const std::string name = name_of(type);
  const std::string sum = program::byte_size(type) == 2 ? "sum:f32" : "sum";
  std::string term(kTerms[number % std::size(kTerms)]);
  term = with(with(term, "X", x_is_transposed ? "x[k, i]" : "x[i, k]"), "W",
              w_is_transposed ? "w[j, k]" : "w[k, j]");
  std::string epilogue(kEpilogues[number / 3 % std::size(kEpilogues)]);
  epilogue = with(with(epilogue, "sumA", sum), "{n-1}", std::to_string(n - 1));
  epilogue = program::byte_size(type) == 2 ? with(epilogue, "max[j]", "max:f32[j]") : epilogue;
  epilogue = program::is_float(type) ? epilogue : with(epilogue, "0.5", "5");
  const auto dims = [](std::uint64_t a, std::uint64_t b, bool is_transposed) {
    return is_transposed ? text("[", b, ", ", a, "]") : text("[", a, ", ", b, "]");
  };
  const bool is_temporary = random.chance(2);
  const bool adds = random.chance(3);
  std::string made = text(
      "yoke.program 1\nprogram epilogue", number, "() {\n arg x : ", name, dims(m, k, x_is_transposed),
      " in\n arg w : ", name, dims(k, n, w_is_transposed), " in\n arg b : ", name, "[", n,
      "] in\n arg c : ", name, "[", m, "] in\n arg d : ", name, "[", k, "] in\n arg s : ", name,
      "[] in\n arg r : ", name, "[", m, ", ", n, "] in\n arg y : ", name, "[", m, ", ", n, "] out\n ",
      epilogue.find("v[i]") == std::string::npos ? "" : text("temp v : ", name, "[", m, "]\n "),
      is_temporary ? "temp h : " : "arg h : ", name, "[", m, ", ", n, "]", is_temporary ? "\n" : " inout\n");
  made += adds ? (random.chance(2) ? " h[i, j] = b[j]\n" : " h[i, j] = r[i, j]\n") : "";
  made += text(" h[i, j] ", adds ? "+=" : "=", " ", sum, "[k:", k, "] ", term, "\n ", epilogue, "}\n");
  Case one = corpus_case(made, seed);
  one.index = number;
  return one;
}

// {n} elements, rounds of t, a symbol s from 0 to 4.
// NOLINTBEGIN(bugprone-suspicious-missing-comma): the literals are long
constexpr std::string_view kRoundForms[] = {
    "arg x : {T}[{x}] in\n arg y : {T}[{n}] inout\n repeat R {\n y[i] += x[t + i]\n }\n",
    "arg x : {T}[{r}, {n}] in\n arg y : {T}[{r}, {n}] inout\n repeat R {\n y[t, i] = x[t, i] * 2 + {T}(s)\n "
    "}\n",
    "arg x : {T}[{x}] in\n arg y : {T}[{n}] inout\n temp q : {T}[{n}]\n repeat R {\n q[i] = x[i + s] - "
    "{T}(t)\n y[i] = "
    "max(y[i], q[i])\n }\n",
    "arg x : {T}[{x}] in\n arg y : {T}[{n}] inout\n temp a : {T}[]\n repeat R {\n a[] = max[i:{n}] x[i + "
    "t]\n "
    "y[i] = min(y[i] "
    "+ a[], 50)\n }\n",
    "arg x : {T}[{x}] in\n arg p : i32[{n}] in  # below {n}\n arg y : {T}[{n}] inout\n repeat R {\n y[p[i]] "
    "max= x[i + t] - "
    "{T}(t)\n }\n",
    "arg x : {T}[{n}] in\n arg y : {T}[{n}] out\n temp u : {T}[{n}]\n y[i] = x[i]\n repeat R {\n u[i] = y[-i "
    "+ {n-1}]\n "
    "y[i] = min(max(u[i] + {T}(t), -9), 9)\n }\n",
    "arg x : {T}[{x}] in\n arg y : {T}[{n}] inout\n repeat R {\n y[i] = (x[-i + t + s] else 3) - y[i]\n }\n",
    "arg x : {T}[{n}] in\n arg y : {T}[{n}] inout\n repeat R {\n y[i] = select(i < t * 3, x[i], y[i])\n y[t] "
    "= {T}(s)\n }\n"};
// NOLINTEND(bugprone-suspicious-missing-comma)

Case round_program(std::uint64_t seed, std::uint64_t number, Type type) {
  constexpr std::uint64_t kExtents[] = {33, 100, 1025, 20'001, 70'001};
  constexpr std::uint64_t kSteps[] = {1, 2, 3, 7, 64};
  Random random(seed, "rounds", number);
  const std::uint64_t n = kExtents[random.below(std::size(kExtents))];
  const std::uint64_t step = kSteps[random.below(std::size(kSteps))];
  const std::uint64_t most = std::min<std::uint64_t>(std::max<std::uint64_t>(80'000 / n, 2), 60);
  const std::uint64_t low = random.below(5);
  // The last round may be anywhere in the last step. The form with y[t] needs low values of t.
  const bool is_short = number % std::size(kRoundForms) == 7;
  const std::uint64_t high = is_short ? std::min<std::uint64_t>(n, 30) : low + 1 + random.below(step * most);
  std::string made = text("yoke.program 1\nprogram rounds", number, "(symbol s in 0..5 step 4) {\n ",
                          kRoundForms[number % std::size(kRoundForms)], "}\n");
  made = with(made, "R {", text("t in ", low, "..", high, " step ", step, " {"));
  made = with(with(made, "{T}", name_of(type)), "{n}", std::to_string(n));
  made = with(with(made, "{n-1}", std::to_string(n - 1)), "{x}", std::to_string(n + high + 5));
  Case one = corpus_case(with(made, "{r}", std::to_string(high)), seed);
  one.index = number;
  return one;
}

std::vector<Type> used_types(std::uint64_t type_mask, std::initializer_list<Type> wanted) {
  std::vector<Type> used;
  for (const Type type : types_of(type_mask)) {
    if (std::find(wanted.begin(), wanted.end(), type) != wanted.end()) {
      used.push_back(type);
    }
  }
  return used;
}

}  // namespace

std::vector<Case> epilogue_programs(std::uint64_t seed, std::uint64_t type_mask) {
  const std::vector<Type> used =
      used_types(type_mask, {Type::kF32, Type::kF64, Type::kI32, Type::kBF16, Type::kI64, Type::kU32});
  std::vector<Case> all;
  for (std::uint64_t number = 0; number < 176 && !used.empty(); ++number) {
    const Type type = used[number % 2 == 0 ? 0 : (number / 2 + seed) % used.size()];
    const bool is_signed = type != Type::kU32 || kTerms[number % std::size(kTerms)] != "-X * W";
    if ((program::byte_size(type) != 2 || used[0] == Type::kF32 || used.size() > 1) && is_signed) {
      append(all, {epilogue_program(seed, number, type)});
    }
  }
  return all;
}

std::vector<Case> round_programs(std::uint64_t seed, std::uint64_t type_mask) {
  const std::vector<Type> used = used_types(type_mask, {Type::kF32, Type::kF64, Type::kI32, Type::kI64});
  std::vector<Case> all;
  for (std::uint64_t number = 0; number < 64 && !used.empty(); ++number) {
    append(all, {round_program(seed, number, used[(number / std::size(kRoundForms) + seed) % used.size()])});
  }
  return all;
}

}  // namespace yoke::conformance
