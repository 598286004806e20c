// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/variants_test.cpp: the variants of a program differ from it in one attribute.
#include "variants.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <set>
#include <string>
#include <utility>

namespace yoke::conformance {
namespace {

std::set<std::string> texts_of(const std::string& base) {
  std::set<std::string> texts;
  const program::Program parsed = program::parse_and_verify(base).programs.at(0);
  for (const program::Program& variant : variants_of(parsed)) {
    EXPECT_NO_THROW(program::verify(variant)) << program::print(variant);
    EXPECT_TRUE(texts.insert(program::print(variant)).second) << "twice: " << program::print(variant);
  }
  EXPECT_FALSE(texts.contains(program::print(parsed)));
  return texts;
}

TEST(Variants, DifferInEachAttribute) {
  const std::string base =
      "yoke.program 1\nprogram p(symbol s in 0..9 step 2) {\n  arg x : f32[30] in\n  arg w : f32[30] in\n"
      "  arg y : f32[20] inout\n  y[i] for[i:15] = sum[k:4] (x[s + i] * 2.5 + w[i + k] else 1.0)\n}\n";
  const std::set<std::string> texts = texts_of(base);
  constexpr std::pair<const char*, const char*> kChanges[] = {{"in 0..9 step 2", "in 0..8 step 2"},
                                                              {"step 2", "step 3"},
                                                              {"s in 0", "s in 1"},
                                                              {"arg w : f32[30]", "arg w : f32[31]"},
                                                              {"i:15", "i:16"},
                                                              {"k:4", "k:5"},
                                                              {"2.5", "2.5000002"},
                                                              {"2.5", "-2.5"},
                                                              {"else 1.0", "else 2.0"},
                                                              {"sum[", "max["},
                                                              {" = sum", " += sum"},
                                                              {"* 2.5", "- 2.5"},
                                                              {"w[i + k]", "w[i + k + 1]"},
                                                              {"w[i + k]", "x[i + k]"},
                                                              {"sum[", "sum:f64["}};
  for (const auto& [from, to] : kChanges) {
    std::string changed = base;
    changed.replace(changed.find(from), std::string(from).size(), to);
    EXPECT_TRUE(texts.contains(program::print(program::parse_and_verify(changed)))) << from << " to " << to;
  }
}

TEST(Variants, HaveOtherNames) {
  const std::set<std::string> texts =
      texts_of("yoke.program 1\nprogram first() {\n  arg y : f32[2] out\n  y[i] = 1.0\n}\n");
  EXPECT_TRUE(texts.contains("yoke.program 1\nprogram firsq() {\n  arg y : f32[2] out\n  y[i] = 1.0\n}\n"));
  EXPECT_TRUE(texts.contains("yoke.program 1\nprogram first() {\n  arg y7 : f32[2] out\n  y7[i] = 1.0\n}\n"));
}

}  // namespace
}  // namespace yoke::conformance
