// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/sibling_programs.cpp: border_programs.h, programs in which many statements differ in
// one detail. A backend whose cache has an incomplete key confuses them.
#include <yoke/program/text.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "../check.h"
#include "../random.h"
#include "border_programs.h"
#include "corpus.h"
#include "variants.h"

namespace yoke::conformance {

namespace {

// Inputs and a statement whose target is y.
struct Form {
  std::string_view inputs;
  std::string_view target;
  std::string_view statement;
};

constexpr std::string_view kSymbols = "symbol s in 0..4, symbol t in 0..4 step 3";
constexpr std::string_view kVectors =
    "arg x : f32[70] in\n arg z : f32[70] in\n arg p : i32[70] in  # below 70\n arg q : i32[70] in  # below "
    "70\n";
constexpr std::string_view kMatrices = "arg x : f32[16, 16] in\n arg w : f32[16, 16] in\n";
constexpr std::string_view kIntegers =
    "arg x : i32[40] in\n arg z : i32[40] in\n arg p : i32[40] in  # below 40\n arg q : i32[40] in  # below "
    "40\n";
constexpr Form kForms[] = {
    {kVectors, "f32[70]", "y[i] for[i:33] = max(x[i] * 2.5 + z[s + i], 0)"},
    {kVectors, "f32[70]", "y[2*i] for[i:33] = select(x[t + i] < z[i], abs(x[i]) * f32(s), f32(i))"},
    {kVectors, "f32[70]", "y[i] for[i:39] = (x[i + 3] - z[(i + 3) / 2] else 2)"},
    {kVectors, "f32[70]", "y[i] for[i:39] = (x[p[i]] else 2) - (z[q[i + 1]] else -1) * (x[i - s] else 3)"},
    {kVectors, "f32[70]", "y[p[i]] for[i:60] += x[i] * 2 - z[s + i]"},
    {kMatrices, "f32[16, 16]", "y[i, j] for[i:9, j:7] = sum[k:5] x[i, k] * w[k, j]"},
    {kMatrices, "f32[16, 16]", "y[i, j] for[i:9, j:1] += sum[k:6] x[s + i, k] * w[j, k + 1] * 2"},
    {kMatrices, "f32[16, 16]", "y[i, 0] for[i:9] = sum[k:12] abs(x[i, k])"},
    {kMatrices, "f32[16, 16]", "y[1, i] for[i:9] max= min[k:12] x[k, i] + w[s + i, 2]"},
    {kIntegers, "i32[40]", "y[i] = x[i] / 3"},
    {kIntegers, "i32[40]", "y[i] = i32(x[i] < 3) + select(x[i] < z[i], i32(i + s), i32(i64(x[i]) * t))"},
    {kIntegers, "i32[40]", "y[i] = i32(random_bits(1, s, i)) ^ i32(random_bits(t, 2, i + 1))"},
    {kIntegers, "i32[40]", "y[p[i]] max= i32(u8(x[i])) << 3"}};

std::string module_of(std::uint64_t number, std::string_view inputs, std::string_view outputs,
                      std::string_view body) {
  return text("yoke.program 1\nprogram siblings", number, "(", kSymbols, ") {\n ", inputs, outputs, body,
              "}\n");
}

// The statement, many of its variants, and the statement again, each with its own target.
Case sibling_program(std::uint64_t seed, std::uint64_t number) {
  constexpr std::size_t kMost = 45;
  const Form& form = kForms[number % std::size(kForms)];
  Random random(seed, "siblings", number);
  const Case base = corpus_case(module_of(number, form.inputs, text(" arg y : ", form.target, " inout\n"),
                                          text(" ", form.statement, "\n")),
                                seed);
  const auto statement_of = [](const program::Program& one) {
    return program::print(one, one.statements[0]);
  };
  const std::string first = statement_of(base.program);
  std::vector<std::string> statements;
  for (program::Program variant : variants_of(base.program)) {
    // A statement of the same tensors and symbols.
    const std::string statement = statement_of(variant);
    variant.statements = base.program.statements;
    if (statement != first && program::print(variant) == program::print(base.program)) {
      statements.push_back(statement);
    }
  }
  for (std::size_t i = statements.size(); i > 1; --i) {
    std::swap(statements[i - 1], statements[random.below(i)]);
  }
  statements.resize(std::min(statements.size(), kMost));
  statements.insert(statements.begin(), first);
  statements.push_back(first);
  std::string outputs;
  std::string body;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    outputs += text(" arg y", i, " : ", form.target, " inout\n");
    std::string statement = statements[i];
    const std::string name = text("y", i);
    for (std::size_t at = 0; (at = statement.find("y[", at)) != std::string::npos; at += name.size()) {
      statement.replace(at, 1, name);
    }
    body += " " + statement + "\n";
  }
  Case one = corpus_case(module_of(number, form.inputs, outputs, body), seed);
  one.index = number;
  for (Data& data : one.data) {
    data.kind = data.kind == DataKind::kDyadic && form.inputs == kIntegers ? DataKind::kWide : data.kind;
  }
  return one;
}

}  // namespace

std::vector<Case> sibling_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  for (std::uint64_t number = 0; number < 3 * std::size(kForms); ++number) {
    append(all, {sibling_program(seed, number)});
  }
  std::erase_if(all, [&](const Case& one) {
    return std::any_of(one.program.tensors.begin(), one.program.tensors.end(),
                       [&](const program::Tensor& tensor) {
                         return (type_mask >> static_cast<unsigned>(tensor.type) & 1U) == 0;
                       });
  });
  return all;
}

}  // namespace yoke::conformance
