// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/hint_programs.cpp: border_programs.h, groups of statements over rows of any length.
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

// {r} rows of {c} elements of the type {T}. `before` makes h of x; `group` may stand in the hint.
struct HintForm {
  std::string_view tensors;
  std::string_view group;
  std::string_view hint;
};

constexpr HintForm kHintForms[] = {
    {"temp m : {T}[{r}]\n temp e : {T}[{r}, {c}]\n temp t : {T}[{r}]\n arg y : {T}[{r}, {c}] out\n",
     "m[i] = max[j] h[i, j]\n e[i, j] = exp(h[i, j] - m[i])\n t[i] = sum[j] e[i, j]\n y[i, j] = e[i, j] / "
     "t[i]\n",
     "@softmax"},
    // In place, as in the corpus.
    {"temp m : {T}[{r}]\n temp t : {T}[{r}]\n arg y : {T}[{r}, {c}] out\n",
     "m[i] = max[j] h[i, j]\n h[i, j] = exp(h[i, j] - m[i])\n t[i] = sum[j] h[i, j]\n h[i, j] = h[i, j] / "
     "t[i]\n",
     "@softmax"},
    // Along the first dimension.
    {"temp m : {T}[{c}]\n temp e : {T}[{r}, {c}]\n temp t : {T}[{c}]\n arg y : {T}[{r}, {c}] out\n",
     "m[j] = max[i] h[i, j]\n e[i, j] = exp(h[i, j] - m[j])\n t[j] = sum[i] e[i, j]\n y[i, j] = e[i, j] / "
     "t[j]\n",
     "@softmax"},
    // The logarithm, and a sum of a row that other statements use.
    {"temp m : {T}[{r}]\n temp t : {T}[{r}]\n arg y : {T}[{r}, {c}] out\n",
     "m[i] = max[j] h[i, j]\n t[i] = sum[j] exp(h[i, j] - m[i])\n y[i, j] = h[i, j] - m[i] - log(t[i])\n",
     "@softmax"},
    {"temp m : {T}[{r}]\n temp v : {T}[{r}]\n arg y : {T}[{r}, {c}] out\n",
     "m[i] = sum[j] h[i, j]\n m[i] = m[i] / {c}\n v[i] = sum[j] (h[i, j] - m[i]) * (h[i, j] - m[i])\n y[i, "
     "j] "
     "= (h[i, j] - m[i]) * rsqrt(v[i] / {c} + 1)\n",
     "@fused[i]"},
    {"temp m : {T}[{r}]\n temp t : {T}[{r}, {c}]\n arg y : {T}[{r}, {c}] out\n arg z : {T}[{r}] out\n",
     "t[i, j] = max(h[i, j], 0) * 2\n m[i] = max[j] t[i, j]\n y[i, j] = t[i, j] + m[i]\n z[i] = min[j] y[i, "
     "j]\n",
     "@fused[i]"},
    {"temp t : {T}[{r}, {c}]\n temp q : {T}[{r}, {c}]\n arg y : {T}[{r}, {c}] out\n",
     "t[i, j] = h[i, j] * 2\n q[i, j] = t[i, j] - h[i, j]\n y[i, j] = q[i, j] * t[i, j] + 1\n",
     "@fused[i, j]"}};

std::string filled(std::string_view form, const std::string& type, std::uint64_t rows,
                   std::uint64_t columns) {
  std::string made(form);
  const std::pair<std::string_view, std::string> values[] = {
      {"{T}", type}, {"{r}", std::to_string(rows)}, {"{c}", std::to_string(columns)}};
  for (const auto& [name, value] : values) {
    for (std::size_t at = made.find(name); at != std::string::npos; at = made.find(name, at)) {
      made.replace(at, name.size(), value);
    }
  }
  return made;
}

// Statements that make h of x: as it is; or with rows that are -inf, mostly -inf, infinite or NaN at the end.
std::string rows_of(std::uint64_t kind, std::uint64_t columns) {
  switch (kind) {
    case 0:
      return "h[i, j] = x[i, j]\n";
    case 1:
      return "h[i, j] = select(i % 2 == 1, -inf, x[i, j])\n";
    case 2:
      return text("h[i, j] = select(i % 3 == 1 && j != ", columns / 2, ", -inf, x[i, j])\n");
    case 3:
      return text("h[i, j] = select(i % 3 == 1 && j == ", columns - 1, ", nan, x[i, j])\n");
    case 4:
      return text("h[i, j] = select(i % 3 == 1 && j == ", columns - 1, ", inf, x[i, j] * 30)\n");
    default:
      return "h[i, j] = select(j > i, -inf, x[i, j])\n";
  }
}

}  // namespace

std::vector<Case> hint_programs(std::uint64_t seed, std::uint64_t type_mask) {
  constexpr std::uint64_t kLengths[] = {1,    2,      3,      7,      16,     31,     32,    33,   64,
                                        65,   127,    128,    129,    255,    257,    511,   513,  1000,
                                        1023, 1024,   1025,   2047,   2049,   4095,   4096,  4097, 5000,
                                        8193, 10'000, 16'385, 32'769, 65'535, 65'537, 70'001};
  const std::vector<Type> types = types_of(type_mask);
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  std::vector<Case> all;
  if (!has(Type::kI64) || !has(Type::kF32)) {
    return all;
  }
  for (std::size_t form = 0; form < std::size(kHintForms); ++form) {
    for (std::size_t length = 0; length < std::size(kLengths); ++length) {
      Random random(seed, "hints", form * 100 + length);
      const std::string type = has(Type::kF64) && random.chance(4) ? "f64" : "f32";
      const std::uint64_t extent = kLengths[length];
      const std::uint64_t others = extent > 2000 ? 2 : 2 + random.below(5);
      const bool is_along_first = kHintForms[form].group.find("[i] h") != std::string_view::npos &&
                                  kHintForms[form].group.starts_with("m[j]");
      const std::uint64_t rows = is_along_first ? extent : others;
      const std::uint64_t columns = is_along_first ? others : extent;
      std::string body = text("arg x : {T}[{r}, {c}] in\n temp h : {T}[{r}, {c}]\n ",
                              kHintForms[form].tensors, rows_of(random.below(6), columns));
      const std::string group(kHintForms[form].group);
      body += random.chance(5) ? group : text(kHintForms[form].hint, " {\n", group, "}\n");
      body += group.find(" y[") == std::string::npos && !group.starts_with("y[") ? "y[i, j] = h[i, j]\n" : "";
      Case one = corpus_case(filled(text("yoke.program 1\nprogram hints", all.size(), "() {\n ", body, "}\n"),
                                    type, rows, columns),
                             seed);
      one.data[0].kind = DataKind::kUniform;
      append(all, {std::move(one)});
    }
  }
  return all;
}

}  // namespace yoke::conformance
