// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/library_test.cpp: how threads divide convolutions by oneDNN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness.h"

namespace yoke::cc::test {
namespace {

using ::testing::StartsWith;

constexpr int kThreads[] = {1, 2, 4};

TEST(LibraryTest, GroupedConvolutionsRunInOneDnnWithMoreThreadsThanGroups) {
  const std::string dims =
      "  arg x : f32[1, 2, 32, 12, 12]@\n  arg w : f32[2, 48, 32, 3, 3]@\n"
      "  arg y : f32[1, 2, 48, 12, 12]@\n  ";
  const char* statements[] = {
      "y[n, g, o, h, v] = sum[c, i, j] (x[n, g, c, h + i - 1, v + j - 1] * w[g, o, c, i, j] else 0)",
      "x[n, g, c, h, v] = sum[o, i, j] (y[n, g, o, h + 1 - i, v + 1 - j] * w[g, o, c, i, j] else 0)",
      "w[g, o, c, i, j] = sum[n, h, v] (x[n, g, c, h + i - 1, v + j - 1] * y[n, g, o, h, v] else 0)",
  };
  for (const std::string statement : statements) {
    std::string text = dims;
    for (std::size_t at = 0; (at = text.find('@')) != std::string::npos;) {
      const char name = text[text.rfind("arg ", at) + 4];
      text.replace(at, 1, name == statement[0] ? " out" : " in");
    }
    text = text_of(text + statement + "\n");
    for (const int threads : kThreads) {
      EXPECT_THAT(compile(read(text), threads)->notes[0].reason, StartsWith("oneDNN convolution ("))
          << threads << " threads\n"
          << text;
      expect_like_reference(text, 7, {.threads = threads});
    }
  }
}

}  // namespace
}  // namespace yoke::cc::test
