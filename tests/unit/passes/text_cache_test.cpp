// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/text_cache_test.cpp: equal programs are optimized once, and the memory for them is bounded.
#include "passes/text_cache.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/device.h>
#include <yoke/runtime/passes.h>
#include <yoke/runtime/runtime.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "test_paths.h"

namespace yoke {
namespace {

using detail::TextCache;

TEST(TextCache, MakesEachTextOnce) {
  TextCache cache(1000);
  const auto first = cache.get("a", [] { return std::string("made of a"); });
  EXPECT_EQ(*first, "made of a");
  EXPECT_EQ(cache.get("a", [] { return std::string("another"); }), first);
  EXPECT_EQ(*cache.get("b", [] { return std::string("made of b"); }), "made of b");
  EXPECT_EQ(cache.made_count(), 2U);
}

TEST(TextCache, ThreadsWaitForTheOneThatMakesTheText) {
  TextCache cache(1000);
  std::vector<TextCache::Text> found(8);
  std::vector<std::thread> threads;
  for (auto& each : found) {
    threads.emplace_back([&] {
      each = cache.get("a", [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return std::string("b");
      });
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(cache.made_count(), 1U);
  for (const auto& each : found) {
    EXPECT_EQ(each, found[0]);
  }
}

TEST(TextCache, TriesAgainAfterAnException) {
  TextCache cache(1000);
  const auto fail = []() -> std::string { throw std::runtime_error("no"); };
  EXPECT_THROW(cache.get("a", fail), std::runtime_error);
  EXPECT_THROW(cache.get("a", fail), std::runtime_error);
  EXPECT_EQ(*cache.get("a", [] { return std::string("b"); }), "b");
  EXPECT_EQ(cache.made_count(), 1U);
}

TEST(TextCache, DropsTheTextThatWasUsedLongestAgo) {
  TextCache cache(30);
  const auto get = [&](const std::string& key) {
    const auto before = cache.made_count();
    (void)cache.get(key, [] { return std::string(9, 'x'); });
    return cache.made_count() != before;
  };
  EXPECT_TRUE(get("a"));
  EXPECT_TRUE(get("b"));
  EXPECT_TRUE(get("c"));  // 30 bytes
  EXPECT_FALSE(get("a"));
  EXPECT_TRUE(get("d"));
  EXPECT_FALSE(get("a"));
  EXPECT_FALSE(get("c"));
  EXPECT_TRUE(get("b"));  // drops d
  EXPECT_TRUE(get("d"));
}

TEST(TextCache, TextThatIsTooLargeReplacesNoOther) {
  TextCache cache(30);
  const auto small = [] { return std::string("small"); };
  (void)cache.get("a", small);
  const std::weak_ptr<const std::string> large = cache.get("b", [] { return std::string(30, 'x'); });
  (void)cache.get("a", small);
  EXPECT_EQ(cache.made_count(), 2U);
  EXPECT_TRUE(large.expired());
}

constexpr const char* kProgram =
    "yoke.program 1\nprogram shared() {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  temp t : f32[4]\n"
    "  t[i] = x[i] * 2.0\n  y[i] = t[i] + 1.0\n}\n";

TEST(OptimizedTexts, AreSharedByRuntimesAndDevices) {
  const auto text_on_a_new_device = [] {
    RuntimeOptions options;
    options.plugin_dirs = {test::plugin_folder()};
    options.search_environment = false;
    Runtime runtime(options);
    return compile(runtime.backend("cc")->open_device(0), kProgram)->text();
  };
  const std::string first = text_on_a_new_device();
  const std::uint64_t made = detail::optimized_texts().made_count();
  EXPECT_EQ(text_on_a_new_device(), first);
  EXPECT_EQ(detail::optimized_texts().made_count(), made);
  program::Module module = program::parse_and_verify(kProgram);
  module.programs[0] = passes::optimize(module.programs[0]).program;
  EXPECT_EQ(first, program::print(module));
  EXPECT_EQ(first, program::print(program::parse(first)));
}

}  // namespace
}  // namespace yoke
