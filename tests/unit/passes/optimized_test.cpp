// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/optimized_test.cpp: equal programs are optimized once, and the memory for them is bounded.
#include "passes/optimized.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace yoke::passes {
namespace {

// A program with a temporary that the passes remove, and unused arguments, which make its text long.
program::Module module_with(const std::string& name, int argument_count) {
  std::string text = "yoke.program 1\nprogram " + name + "() {\n";
  for (int i = 0; i < argument_count; ++i) {
    text += "  arg unused_argument_with_a_long_name_" + std::to_string(i) + " : f32[4] in\n";
  }
  text +=
      "  arg x : f32[4] in\n  arg y : f32[4] out\n  temp t : f32[4]\n  t[i] = x[i] * 2\n  y[i] = t[i] + "
      "1\n}\n";
  return program::parse_and_verify(text);
}

std::shared_ptr<const OptimizedModule> optimized(const program::Module& module) {
  return passes::optimized(program::print(module), module);
}

TEST(OptimizedModules, AreSharedByEqualPrograms) {
  const program::Module module = module_with("shared", 0);
  const auto first = optimized(module);
  EXPECT_EQ(first->text, program::print(first->module));
  EXPECT_EQ(program::print(first->module.programs[0]), program::print(optimize(module.programs[0]).program));
  EXPECT_EQ(first->text.find("temp"), std::string::npos);
  EXPECT_EQ(optimized(module_with("shared", 0)), first);
  const auto other = optimized(module_with("other", 0));
  EXPECT_NE(other, first);
  EXPECT_EQ(other->module.programs[0].name, "other");
}

TEST(OptimizedModules, AreMadeOnceForThreadsThatAskAtTheSameTime) {
  const program::Module module = module_with("raced", 200);
  std::vector<std::shared_ptr<const OptimizedModule>> found(8);
  std::vector<std::thread> threads;
  for (auto& each : found) {
    threads.emplace_back([&] { each = optimized(module); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), 1U);
  EXPECT_NE(found[0], nullptr);
}

TEST(OptimizedModules, ForgetThoseThatWereUsedLongestAgo) {
  constexpr int kArguments = 2000;
  const program::Module used = module_with("used", kArguments);
  const program::Module unused = module_with("unused", kArguments);
  const std::size_t each = 2 * program::print(used).size();
  const auto count = static_cast<int>(kMostOptimizedBytes / each);
  ASSERT_GT(count, 3);
  const std::weak_ptr<const OptimizedModule> kept = optimized(used);
  const std::weak_ptr<const OptimizedModule> forgotten = optimized(unused);
  for (int i = 0; i < count; ++i) {
    (void)optimized(module_with("p" + std::to_string(i), kArguments));
    (void)optimized(used);
  }
  EXPECT_FALSE(kept.expired());
  EXPECT_TRUE(forgotten.expired());
}

TEST(OptimizedModules, LargerThanTheLimitAreNotKept) {
  const program::Module module = module_with("large", 30000);
  const std::string text = program::print(module);
  ASSERT_GT(2 * text.size(), kMostOptimizedBytes);
  const std::weak_ptr<const OptimizedModule> made = passes::optimized(text, module);
  EXPECT_TRUE(made.expired());
}

}  // namespace
}  // namespace yoke::passes
