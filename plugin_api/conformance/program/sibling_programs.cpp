// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/sibling_programs.cpp: border_programs.h, programs in which many statements differ in
// one detail. A backend whose cache has an incomplete key confuses them.
#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "../check.h"
#include "../random.h"
#include "border_programs.h"
#include "borders.h"
#include "corpus.h"

namespace yoke::conformance {

namespace {

struct Difference {
  std::string_view from;
  std::string_view to;
};
// A statement whose target is y, and the differences between it and its siblings.
struct Siblings {
  std::string_view inputs;
  std::string_view target;
  std::string_view statement;
  std::span<const Difference> differences;
  std::string_view symbols = "";
};

constexpr Difference kMap[] = {
    {"2.5", "2.25"},       {"2.5", "-2.5"},        {"2.5", "0"},       {"+ z", "- z"},
    {"+ z", "* z"},        {"max(", "min("},       {", 0)", ", 1)"},   {", 0)", ", -1)"},
    {"x[i]", "x[i + 1]"},  {"x[i]", "x[-i + 33]"}, {"x[i]", "x[2*i]"}, {"x[i]", "x[0]"},
    {"z[i]", "x[i]"},      {"z[i]", "z[0]"},       {"x[i]", "z[i]"},   {"y[i]", "y[i + 2]"},
    {"= max", "+= max"},   {"= max", "max= max"},  {"i:33", "i:34"},   {"i:33", "i:32"},
    {"x[i]", "abs(x[i])"}, {"y[i]", "y[2*i]"},     {"i:33", "i:1"},    {"x[i]", "x[i + s]"},
    {"z[i]", "z[i + s]"},  {"x[i]", "x[i + t]"},   {"2.5", "f32(s)"},  {"2.5", "f32(t)"},
    {"2.5", "f32(i)"}};
constexpr Difference kElse[] = {{"else 2", "else 3"},
                                {"else 2", "else -2"},
                                {"else 2", "else nan"},
                                {"else 2", "else inf"},
                                {"i + 3", "i + 4"},
                                {"i + 3", "i - 3"},
                                {"i + 3", "-i + 3"},
                                {"i + 3", "2*i + 3"},
                                {"x[", "z["},
                                {"x[i + 3]", "x[(i + 3) / 2]"},
                                {"x[i + 3]", "x[(i + 3) / 3]"},
                                {"x[i + 3]", "x[p[i]]"},
                                {"x[i + 3]", "x[q[i]]"},
                                {"x[i + 3]", "x[p[i + 1]]"},
                                {"x[i + 3]", "x[i + s]"},
                                {"x[i + 3]", "x[i + t]"},
                                {"x[i + 3]", "x[i - s]"}};
constexpr Difference kProduct[] = {{"x[i, k]", "x[k, i]"},
                                   {"w[k, j]", "w[j, k]"},
                                   {"y[i, j]", "y[j, i]"},
                                   {"x[i, k]", "x[i + 1, k]"},
                                   {"x[i, k]", "x[i, k + 1]"},
                                   {"w[k, j]", "w[k, j + 1]"},
                                   {"w[k, j]", "w[-k + 5, j]"},
                                   {"w[k, j]", "w[2*k, j]"},
                                   {"w[k, j]", "x[k, j]"},
                                   {"x[i, k]", "w[i, k]"},
                                   {"k:5", "k:6"},
                                   {"k:5", "k:1"},
                                   {"i:9", "i:10"},
                                   {"j:7", "j:8"},
                                   {"j:7", "j:1"},
                                   {"i:9", "i:1"},
                                   {"= sum", "+= sum"},
                                   {"= sum", "max= sum"},
                                   {"sum", "max"},
                                   {"sum", "prod"},
                                   {"w[k, j]", "w[k, j] * 2"},
                                   {"w[k, j]", "w[k, j] * 3"},
                                   {"k] * w", "k] + w"},
                                   {"x[i, k]", "x[i + s, k]"},
                                   {"x[i, k]", "x[i + t, k]"},
                                   {"w[k, j]", "w[k, 0]"},
                                   {"x[i, k]", "x[0, k]"},
                                   {"y[i, j]", "y[i + 1, j]"}};
constexpr Difference kReduction[] = {{"sum", "max"},
                                     {"sum", "min"},
                                     {"sum", "prod"},
                                     {"x[i, k]", "x[k, i]"},
                                     {"x[i, k]", "x[i + 1, k]"},
                                     {"x[i, k]", "x[i, k + 1]"},
                                     {"x[i, k]", "x[i, -k + 12]"},
                                     {"x[i, k]", "x[0, k]"},
                                     {"x[i, k]", "w[i, k]"},
                                     {"k:12", "k:11"},
                                     {"k:12", "k:1"},
                                     {"= sum", "+= sum"},
                                     {"i:9", "i:10"},
                                     {"x[i, k]", "x[i, k] * 2"},
                                     {"x[i, k]", "abs(x[i, k])"},
                                     {"y[i, 0]", "y[i, 1]"},
                                     {"y[i, 0]", "y[1, i]"},
                                     {"x[i, k]", "x[i + s, k]"}};
constexpr Difference kWhole[] = {{"/ 3", "/ 4"},
                                 {"/ 3", "/ -3"},
                                 {"/ 3", "% 3"},
                                 {"/ 3", ">> 3"},
                                 {"/ 3", "<< 3"},
                                 {"/ 3", "& 3"},
                                 {"/ 3", "| 3"},
                                 {"/ 3", "^ 3"},
                                 {"/ 3", "- 3"},
                                 {"/ 3", "* 3"},
                                 {"x[i] / 3", "3 / x[i]"},
                                 {"x[i] / 3", "x[i] / z[i]"},
                                 {"x[i] / 3", "z[i] / x[i]"},
                                 {"x[i] / 3", "i32(u8(x[i]))"},
                                 {"x[i] / 3", "i32(f32(x[i]))"},
                                 {"x[i] / 3", "i32(i64(x[i]))"},
                                 {"x[i] / 3", "i32(x[i] < z[i])"},
                                 {"x[i] / 3", "i32(x[i] <= z[i])"},
                                 {"x[i] / 3", "i32(z[i] < x[i])"},
                                 {"x[i] / 3", "i32(x[i] == z[i])"},
                                 {"x[i] / 3", "i32(x[i] < 3)"},
                                 {"x[i] / 3", "i32(i + s)"},
                                 {"x[i] / 3", "i32(i + t)"},
                                 {"x[i] / 3", "i32(i * 3)"},
                                 {"x[i] / 3", "select(x[i] < z[i], x[i], 3)"},
                                 {"x[i] / 3", "select(x[i] < z[i], 3, x[i])"},
                                 {"x[i] / 3", "i32(random_bits(1, 2, i))"},
                                 {"x[i] / 3", "i32(random_bits(2, 1, i))"},
                                 {"x[i] / 3", "i32(random_bits(1, 2, i + 1))"},
                                 {"x[i] / 3", "i32(random_bits(1, s, i))"},
                                 {"x[i] / 3", "i32(random_bits(1, t, i))"},
                                 {"y[i] =", "y[p[i]] +="},
                                 {"y[i] =", "y[p[i]] max="},
                                 {"y[i] =", "y[q[i]] +="},
                                 {"y[i] =", "y[-i + 39] ="}};

constexpr std::string_view kSymbols = "symbol s in 0..4, symbol t in 0..4 step 3";
constexpr Siblings kSiblings[] = {{"arg x : f32[70] in\n arg z : f32[70] in\n", "f32[70]",
                                   "y[i] for[i:33] = max(x[i] * 2.5 + z[i], 0)", kMap, kSymbols},
                                  {"arg x : f32[20] in\n arg z : f32[20] in\n arg p : i32[40] in  # below "
                                   "20\n arg q : i32[40] in  # below 20\n",
                                   "f32[40]", "y[i] for[i:39] = (x[i + 3] else 2)", kElse, kSymbols},
                                  {"arg x : f32[16, 16] in\n arg w : f32[16, 16] in\n", "f32[16, 16]",
                                   "y[i, j] for[i:9, j:7] = sum[k:5] x[i, k] * w[k, j]", kProduct, kSymbols},
                                  {"arg x : f32[14, 14] in\n arg w : f32[14, 14] in\n", "f32[14, 14]",
                                   "y[i, 0] for[i:9] = sum[k:12] x[i, k]", kReduction, kSymbols},
                                  {"arg x : i32[40] in\n arg z : i32[40] in\n arg p : i32[40] in  # below "
                                   "40\n arg q : i32[40] in  # below 40\n",
                                   "i32[40]", "y[i] = x[i] / 3", kWhole, kSymbols}};

std::string replaced(std::string statement, std::string_view from, std::string_view to) {
  const std::size_t at = statement.find(from);
  return at == std::string::npos ? statement : statement.replace(at, from.size(), to);
}

// The statement, each sibling, pairs of differences, and the statement again.
Case sibling_program(std::uint64_t seed, std::uint64_t number) {
  const Siblings& form = kSiblings[number % std::size(kSiblings)];
  Random random(seed, "siblings", number);
  std::vector<std::string> statements;
  const auto difference = [&]() -> const Difference& {
    return form.differences[random.below(form.differences.size())];
  };
  for (const Difference& one : form.differences) {
    statements.push_back(replaced(std::string(form.statement), one.from, one.to));
  }
  for (int i = 0; i < 12; ++i) {
    const Difference& first = difference();
    const Difference& second = difference();
    const std::string once = replaced(std::string(form.statement), first.from, first.to);
    const std::string both = first.from.find(second.from) == std::string_view::npos &&
                                     second.from.find(first.from) == std::string_view::npos
                                 ? replaced(once, second.from, second.to)
                                 : once;
    try {
      corpus_case(text("yoke.program 1\nprogram p(", form.symbols, ") {\n ", form.inputs,
                       " arg y : ", form.target, " inout\n ", both, "\n}\n"),
                  seed);
      statements.push_back(both);
    } catch (const std::exception&) {
      // The two differences together are invalid.
    }
  }
  for (std::size_t i = statements.size(); i > 1; --i) {
    std::swap(statements[i - 1], statements[random.below(i)]);
  }
  statements.insert(statements.begin(), std::string(form.statement));
  statements.emplace_back(form.statement);
  std::string outputs;
  std::string body;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    outputs += text(" arg y", i, " : ", form.target, " inout\n");
    body += " " + replaced(statements[i], "y[", text("y", i, "[")) + "\n";
  }
  Case one = corpus_case(text("yoke.program 1\nprogram siblings", number, "(", form.symbols, ") {\n ",
                              form.inputs, outputs, body, "}\n"),
                         seed);
  one.index = number;
  for (Data& data : one.data) {
    data.kind = data.kind == DataKind::kDyadic && number % 10 == 4 ? DataKind::kWide : data.kind;
  }
  return one;
}

}  // namespace

std::vector<Case> sibling_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  for (std::uint64_t number = 0; number < 40; ++number) {
    append(all, {sibling_program(seed, number)});
  }
  std::uint64_t mask = type_mask;
  std::erase_if(all, [&](const Case& one) {
    return std::any_of(one.program.tensors.begin(), one.program.tensors.end(),
                       [&](const program::Tensor& tensor) {
                         return (mask >> static_cast<unsigned>(tensor.type) & 1U) == 0;
                       });
  });
  return all;
}

}  // namespace yoke::conformance
