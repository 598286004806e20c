// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/panel_test.cpp: products in panels, and updates in the same pass, give correct results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"

namespace yoke::cc::test {
namespace {

using ::testing::Not;
using ::testing::StartsWith;

constexpr char kUpdate[] = "update of the preceding product";

std::string dims(const std::string& indices, int m, int n, int k) {
  std::string text = "f32";
  for (const char c : indices) {
    text += c == 'm'   ? std::to_string(m)
            : c == 'n' ? std::to_string(n)
            : c == 'k' ? std::to_string(k)
                       : std::string(1, c);
  }
  return text;
}

struct Shape {
  int m, n, k;
};
std::string product(const Shape& shape, const std::string& a, const std::string& b, const std::string& t) {
  const auto [m, n, k] = shape;
  return text_of("  arg a : " + dims(a, m, n, k) + " in\n  arg b : " + dims(b, m, n, k) + " in\n  arg t : " +
                 dims(t, m, n, k) + " out\n  t" + t + " = sum[k] a" + a + " * b" + b + "\n");
}

TEST(PanelTest, AllShapesMatchTheReference) {
  if (!has_panels()) {
    GTEST_SKIP() << "this machine's kernels have no panels";
  }
  // Whole blocks and rows left over; every width of the last panel and columns left over.
  const Shape shapes[] = {{16, 144, 16},  {17, 150, 31},  {300, 33, 17}, {180, 52, 40},
                          {97, 150, 100}, {301, 68, 129}, {24, 500, 70}, {16, 100, 1024}};
  std::uint64_t seed = 100;
  for (const Shape& shape : shapes) {
    for (const char* t : {"[m, n]", "[n, m]"}) {
      const std::string text = product(shape, "[m, k]", "[n, k]", t);
      ++seed;
      expect_like_reference(text, seed, {.threads = static_cast<int>(seed % 3 + 1)});
      ASSERT_FALSE(HasFailure()) << text;
    }
  }
}

TEST(PanelTest, ProductsOfSmallBatchesRunInPanels) {
  if (!has_panels()) {
    GTEST_SKIP() << "this machine's kernels have no panels";
  }
  EXPECT_EQ(notes_of(product({32, 500, 784}, "[m, k]", "[n, k]", "[m, n]"))[0], "cc product in panels");
  EXPECT_EQ(notes_of(product({500, 32, 784}, "[m, k]", "[n, k]", "[m, n]"))[0], "cc product in panels");
  // oneDNN is as fast if it need not transpose, or if the batch is large.
  EXPECT_THAT(notes_of(product({32, 500, 784}, "[m, k]", "[k, n]", "[m, n]"))[0],
              StartsWith("oneDNN matmul"));
  EXPECT_THAT(notes_of(product({500, 784, 32}, "[k, m]", "[k, n]", "[m, n]"))[0],
              StartsWith("oneDNN matmul"));
  EXPECT_THAT(notes_of(product({150, 200, 100}, "[m, k]", "[n, k]", "[m, n]"))[0],
              StartsWith("oneDNN matmul"));
}

// The same product without panels.
std::shared_ptr<const CompiledProgram> compile_without_panels(const program::Program& program) {
  static const KernelTable table = [] {
    KernelTable one = best_kernels();
    one.panel = nullptr;
    return one;
  }();
  return compile(program, 1, &table);
}

TEST(PanelTest, LargeProductsMatchOneDnnWhereSumsAreExact) {
  if (!has_panels()) {
    GTEST_SKIP() << "this machine's kernels have no panels";
  }
  // Several groups of panels; rows in place and packed; rows and columns left over.
  const Shape shapes[] = {{133, 263, 512}, {500, 120, 300}, {64, 300, 1024}, {65, 150, 1731}};
  for (const Shape& shape : shapes) {
    for (const char* relu : {"t[m, n]", "max(t[m, n] + c[n], 0)", "t[m, n] + c[n]"}) {
      const auto [m, n, k] = shape;
      conformance::Case one = case_of(text_of(
          "  arg a : " + dims("[m, k]", m, n, k) + " in\n  arg b : " + dims("[n, k]", m, n, k) +
          " in\n  arg c : " + dims("[n]", m, n, k) + " in\n  arg y : " + dims("[m, n]", m, n, k) +
          " out\n  temp t : " + dims("[m, n]", m, n, k) +
          "\n  @dense {\n    t[m, n] = sum[k] a[m, k] * b[n, k]\n" + "    y[m, n] = " + relu + "\n  }\n"));
      one.data.assign(one.data.size(), {conformance::DataKind::kDyadic});
      const std::vector<Guarded> start = start_of(one);
      const std::vector<Guarded> wanted = run_guarded(compile_without_panels(one.program), start, {});
      for (const int threads : {1, 2, 3}) {
        const auto compiled = compile(one.program, threads);
        if (threads == 1) {
          EXPECT_THAT(compiled->notes[0].reason, StartsWith("cc product in panels"));
        }
        EXPECT_TRUE(same_bytes(run_guarded(compiled, start, {}), wanted))
            << m << " x " << n << " x " << k << ", " << threads << " threads, " << relu;
      }
    }
  }
}

TEST(PanelTest, ResultsHaveTheSameBitsForAnyNumberOfThreads) {
  if (!has_panels()) {
    GTEST_SKIP() << "this machine's kernels have no panels";
  }
  for (const auto& [shape, t] :
       {std::pair(Shape{601, 51, 77}, "[m, n]"), {{601, 51, 77}, "[n, m]"}, {{193, 200, 512}, "[m, n]"}}) {
    const conformance::Case one = case_of(product(shape, "[m, k]", "[n, k]", t));
    const std::vector<Guarded> start = start_of(one);
    const auto alone = compile(one.program, 1);
    EXPECT_EQ(alone->notes[0].reason, "cc product in panels");
    for (const int threads : {2, 3, 4}) {
      EXPECT_TRUE(
          same_bytes(run_guarded(alone, start, {}), run_guarded(compile(one.program, threads), start, {})))
          << threads << " threads, " << t;
    }
  }
}

// A weight gradient and the update of its weight. `role` is the gradient's.
std::string update(const std::string& role, const std::string& statement, const std::string& t = "[m, n]",
                   const Shape& shape = {157, 84, 33}) {
  const auto [m, n, k] = shape;
  return text_of("  arg a : " + dims("[k, m]", m, n, k) + " in\n  arg b : " + dims("[k, n]", m, n, k) +
                 " in\n  arg lr : f32[] in\n  arg w : " + dims(t, m, n, k) + " inout\n  " + role +
                 " t : " + dims(t, m, n, k) + (role == "arg" ? " out" : "") + "\n  @dense {\n    t" + t +
                 " = sum[k] a[k, m] * b[k, n]\n    w" + t + " = " + statement + "\n  }\n");
}

TEST(PanelTest, UpdatesRunInTheProductWithTheSameBitsAsAlone) {
  struct Case {
    const char* statement;
    const char* t = "[m, n]";
    bool is_fused = true;
  };
  const Case cases[] = {{"w[m, n] - 0.1 * t[m, n]"},
                        {"w[m, n] - t[m, n] * 0.1"},
                        {"w[m, n] - lr[] * t[m, n]"},
                        {"w[n, m] - lr[] * t[n, m]", "[n, m]"},
                        {"w[m, n] - t[m, n]", "[m, n]", false},
                        {"w[m, n] + 0.1 * t[m, n]", "[m, n]", false},
                        {"t[m, n] - 0.1 * w[m, n]", "[m, n]", false},
                        {"w[m, n] - t[m, n] * t[m, n]", "[m, n]", false},
                        {"w[m, n] - b[0, n] * t[m, n]", "[m, n]", false}};
  for (const Case& c : cases) {
    const std::string text = update("temp", c.statement, c.t);
    for (const int threads : {1, 3}) {
      expect_like_reference(text, 7, {.threads = threads});
    }
    ASSERT_FALSE(HasFailure()) << text;
    if (!has_panels()) {
      continue;
    }
    // A gradient that is an output is stored, and the update reads it.
    conformance::Case fused = case_of(text);
    conformance::Case alone = case_of(update("arg", c.statement, c.t));
    // Sums of eighths are exact, so oneDNN may add them in any order.
    fused.data.assign(fused.data.size(), {conformance::DataKind::kDyadic});
    alone.data.assign(alone.data.size(), {conformance::DataKind::kDyadic});
    EXPECT_EQ(compile(fused.program)->notes[1].reason == kUpdate, c.is_fused) << text;
    EXPECT_NE(compile(alone.program)->notes[1].reason, kUpdate);
    std::vector<Guarded> start = start_of(alone);
    const std::vector<Guarded> wanted = run_guarded(compile(alone.program), start, {});
    start.pop_back();
    const std::vector<Guarded> got = run_guarded(compile(fused.program), start, {});
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(got[3].data()), got[3].byte_count()),
              std::string(reinterpret_cast<const char*>(wanted[3].data()), wanted[3].byte_count()))
        << text;
  }
}

TEST(PanelTest, UpdatesOfAllShapesMatchTheReference) {
  // Also fewer rows than a block.
  const Shape shapes[] = {{8, 61, 16},   {11, 500, 32},  {12, 16, 20},   {13, 96, 31},
                          {300, 33, 17}, {100, 52, 140}, {14, 512, 100}, {512, 70, 20}};
  for (const Shape& shape : shapes) {
    const std::string text = update("temp", "w[m, n] - lr[] * t[m, n]", "[m, n]", shape);
    EXPECT_EQ(notes_of(text)[1] == kUpdate, has_panels()) << text;
    for (const int threads : {1, 2, 5}) {
      expect_like_reference(text, 9, {.threads = threads});
    }
  }
}

TEST(PanelTest, UpdatesByOperandsWithoutAdjacentElementsMatchTheReference) {
  // The distance of 2048 bytes suits no cache, but only rows with adjacent elements can be packed.
  const std::string text = text_of(R"(
  arg a : f32[33, 20, 512] in
  arg b : f32[33, 84] in
  arg w : f32[20, 84] inout
  temp t : f32[20, 84]
  @dense {
    t[m, n] = sum[k] a[k, m, 3] * b[k, n]
    w[m, n] = w[m, n] - 0.5 * t[m, n]
  }
)");
  EXPECT_EQ(notes_of(text)[1] == kUpdate, has_panels());
  expect_like_reference(text, 11);
}

// Four columns are left over. The kernel for four terms needs adjacent terms in both operands, and packs the columns.
TEST(PanelTest, LastColumnsOfUpdatesUseTheStridesOfBothOperands) {
  const char* const factors[][2] = {{"a[m, k]", "b[k, n]"}, {"a[k, m]", "c[n + k]"}, {"a[m, k]", "c[n + k]"}};
  for (const auto& [first, second] : factors) {
    const std::string text = text_of(
        "  arg a : f32[70, 70] in\n  arg b : f32[70, 84] in\n  arg c : f32[153] in\n"
        "  arg w : f32[70, 84] inout\n  temp t : f32[70, 84]\n  @dense {\n    t[m, n] = sum[k:70] " +
        std::string(first) + " * " + second + "\n    w[m, n] = w[m, n] - 0.5 * t[m, n]\n  }\n");
    EXPECT_EQ(notes_of(text)[1] == kUpdate, has_panels()) << text;
    expect_like_reference(text, 12);
  }
}

// The last row of the columns ends before memory that the process must not read.
TEST(PanelTest, ProductsReadNothingAfterTheirOperands) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* const pages = static_cast<std::byte*>(
      ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(pages), MAP_FAILED);
  ASSERT_EQ(::mprotect(pages + 2 * page, page, PROT_NONE), 0);
  for (const int n : {17, 33, 37, 45}) {
    const program::Program p = read(update("temp", "w[m, n] - lr[] * t[m, n]", "[m, n]", {40, n, 20}));
    std::vector<float> a(20 * 40), lr(1), w(40 * static_cast<std::size_t>(n), 3.0F);
    std::byte* const b = pages + 2 * page - p.tensors[1].byte_count();
    run_on_cc(p,
              {reinterpret_cast<std::byte*>(a.data()), b, reinterpret_cast<std::byte*>(lr.data()),
               reinterpret_cast<std::byte*>(w.data())},
              {});
    EXPECT_THAT(w, testing::Each(3.0F));
  }
  ::munmap(pages, 3 * page);
}

TEST(PanelTest, BiasAndReluRunInTheProductWithTheSameBitsAsAlone) {
  const auto text = [](const std::string& role, const std::string& statement) {
    return text_of(
        "  arg a : f32[52, 70] in\n  arg b : f32[301, 70] in\n  arg c : f32[301] in\n"
        "  arg y : f32[52, 301] out\n  " +
        role + " t : f32[52, 301]" + (role == "arg" ? " out" : "") +
        "\n  @dense {\n    t[m, n] = sum[k] a[m, k] * b[n, k]\n    y[m, n] = " + statement + "\n  }\n");
  };
  struct Case {
    const char* statement;
    bool is_fused = true;
  };
  const Case cases[] = {{"max(t[m, n] + c[n], 0)"},        {"max(c[n] + t[m, n], 0)"},
                        {"max(t[m, n] + c[m], 0)", false}, {"max(t[m, n] + c[n], -0.0)", false},
                        {"max(t[m, n] + c[n], 1)", false}, {"max(t[m, n] - c[n], 0)", false},
                        {"min(t[m, n] + c[n], 0)", false}};
  for (const Case& c : cases) {
    const std::string whole = text("temp", c.statement);
    for (const conformance::DataKind kind :
         {conformance::DataKind::kUniform, conformance::DataKind::kSpecial}) {
      expect_like_reference(whole, 10, {.kind = kind, .threads = 2});
    }
    ASSERT_FALSE(HasFailure()) << whole;
    if (!has_panels()) {
      continue;
    }
    const conformance::Case fused = case_of(whole);
    const conformance::Case alone = case_of(text("arg", c.statement));
    EXPECT_EQ(compile(fused.program)->notes[1].reason == "bias and maximum of the preceding product",
              c.is_fused)
        << whole;
    std::vector<Guarded> start = start_of(alone);
    const std::vector<Guarded> wanted = run_guarded(compile(alone.program), start, {});
    start.pop_back();
    const std::vector<Guarded> got = run_guarded(compile(fused.program), start, {});
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(got[3].data()), got[3].byte_count()),
              std::string(reinterpret_cast<const char*>(wanted[3].data()), wanted[3].byte_count()))
        << whole;
  }
}

TEST(PanelTest, UpdatesOfAnOperandRunAfterTheProduct) {
  const std::string text = text_of(R"(
  arg w : f32[96, 96] inout
  arg b : f32[96, 96] in
  temp t : f32[96, 96]
  @dense {
    t[m, n] = sum[k] w[k, m] * b[k, n]
    w[m, n] = w[m, n] - 0.5 * t[m, n]
  }
)");
  EXPECT_THAT(notes_of(text)[1], Not(StartsWith(kUpdate)));
  expect_like_reference(text, 8);
}

}  // namespace
}  // namespace yoke::cc::test
