// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/attention_kernel_test.cpp: attention by yoke's own kernels, on the CPU, compared with exact results.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../support/exact_attention.h"
#include "harness.h"

namespace yoke::codegen::test {
namespace {

using yoke::test::AttentionShape;
using yoke::test::body_of;
using yoke::test::compare_attention;

Target ampere() {
  Target target;
  target.capability = 80;
  target.fused_attention = true;
  return target;
}

conformance::Case attention_case(const std::string& body) {
  return case_of("yoke.program 1\nprogram p() {\n" + body + "}\n");
}

// No kernel stores scores.
void expect_kernels(const program::Program& program, bool has_gradient) {
  const Plan plan = generate(program, ampere());
  EXPECT_EQ(plan.launches.size(), has_gradient ? 4U : 1U);
  for (const Launch& launch : plan.launches) {
    EXPECT_TRUE(launch.remark.starts_with("by yoke's kernels: ")) << launch.remark;
  }
}

std::vector<conformance::Contents> check(std::span<const AttentionShape> shapes) {
  std::vector<conformance::Case> cases;
  std::vector<conformance::Contents> starts;
  for (const AttentionShape& shape : shapes) {
    cases.push_back(attention_case(body_of(shape)));
    expect_kernels(cases.back().program, shape.has_gradient);
    starts.push_back(conformance::initial_arguments(cases.back()));
  }
  const std::vector<conformance::Contents> results = results_of(cases, starts, ampere());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(compare_attention(shapes[i], starts[i], results[i]), "") << "shape " << i << "\n"
                                                                       << program::print(cases[i].program);
  }
  return results;
}

// A tile has 64 keys, and 64 or 128 queries; those of gradients have 64 keys or queries, or 32 for large heads.
constexpr AttentionShape kShapes[] = {
    {.batch = 1, .heads = 2, .queries = 130, .keys = 130, .size = 64, .value_size = 64},
    {.type = "f16",
     .batch = 1,
     .heads = 1,
     .queries = 64,
     .keys = 128,
     .size = 40,
     .value_size = 16,
     .is_causal = false},
    {.batch = 2, .heads = 2, .queries = 33, .keys = 65, .size = 8, .value_size = 40},
    {.batch = 1, .heads = 1, .queries = 128, .keys = 20, .size = 16, .value_size = 8},
    {.batch = 1, .heads = 1, .queries = 70, .keys = 90, .size = 128, .value_size = 72, .is_causal = false},
    {.type = "f16", .batch = 1, .heads = 1, .queries = 65, .keys = 64, .size = 80, .value_size = 128},
    {.batch = 1, .heads = 1, .queries = 40, .keys = 40, .size = 128, .value_size = 128},
    {.batch = 1, .heads = 1, .queries = 64, .keys = 192, .size = 32, .value_size = 16},
    {.batch = 1,
     .heads = 1,
     .queries = 2,
     .keys = 200,
     .size = 24,
     .value_size = 32,
     .is_causal = false,
     .has_gradient = false}};

TEST(AttentionKernelTest, ResultsAreExactWithinTheRoundingOf16Bits) {
  SKIP_WITHOUT_COMPILER();
  check(kShapes);
}

conformance::Contents result_of(const conformance::Case& one, const conformance::Contents& start) {
  return results_of(std::span(&one, 1), std::span(&start, 1), ampere())[0];
}

std::size_t index_of(const AttentionShape& shape, int row, int head, int element, int size) {
  return static_cast<std::size_t>((row * shape.heads + head) * size + element);
}

void set(conformance::Contents& contents, std::size_t argument, std::size_t element, std::uint16_t bits) {
  std::memcpy(contents[argument].data() + 2 * element, &bits, 2);
}

std::uint16_t bits_of(const conformance::Contents& contents, std::size_t argument, std::size_t element) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, contents[argument].data() + 2 * element, 2);
  return bits;
}

bool is_nan(std::uint16_t bf16) {
  return (bf16 & 0x7fffU) > 0x7f80U;
}

constexpr std::uint16_t kInfinity = 0x7f80;  // of bf16
constexpr std::uint16_t kNan = 0x7fc0;
constexpr std::uint16_t kLarge = 0x7e80;  // 2^126

// Row 70 of head 1 is in the second tile of queries, after a tile of keys that all its keys see.
TEST(AttentionKernelTest, RowsWithInfinityOrNanAreNanAndOthersAreExact) {
  SKIP_WITHOUT_COMPILER();
  const AttentionShape shape = {.batch = 1, .heads = 2, .queries = 80, .keys = 80, .has_gradient = false};
  const conformance::Case one = attention_case(body_of(shape));
  const conformance::Contents usual = conformance::initial_arguments(one);
  const conformance::Contents expected = result_of(one, usual);
  for (const std::uint16_t special : {kInfinity, kNan}) {
    conformance::Contents start = usual;
    set(start, 0, index_of(shape, 70, 1, 3, 16), special);
    conformance::Contents result = result_of(one, start);
    for (int element = 0; element < 16; ++element) {
      const std::size_t at = index_of(shape, 70, 1, element, 16);
      EXPECT_TRUE(is_nan(bits_of(result, 3, at))) << element;
      set(result, 3, at, bits_of(expected, 3, at));
    }
    EXPECT_EQ(result[3], expected[3]) << "another row changes";
  }
}

// All keys of the first tile have the score minus infinity, the others do not: the weights of the former are 0.
TEST(AttentionKernelTest, ScoresOfMinusInfinityHaveNoWeight) {
  SKIP_WITHOUT_COMPILER();
  const AttentionShape shape = {
      .batch = 1, .heads = 1, .queries = 20, .keys = 100, .is_causal = false, .has_gradient = false};
  const conformance::Case one = attention_case(body_of(shape));
  conformance::Contents start = conformance::initial_arguments(one);
  for (int query = 0; query < 20; ++query) {
    set(start, 0, index_of(shape, query, 0, 5, 16), kLarge);
  }
  for (int key = 0; key < 100; ++key) {
    set(start, 1, index_of(shape, key, 0, 5, 16), key < 64 ? kLarge | 0x8000U : 0);
  }
  const conformance::Contents result = result_of(one, start);
  EXPECT_EQ(compare_attention(shape, start, result), "");
  // Without any finite score, the statements give NaN too.
  for (int key = 64; key < 100; ++key) {
    set(start, 1, index_of(shape, key, 0, 5, 16), kLarge | 0x8000U);
  }
  const conformance::Contents none = result_of(one, start);
  for (std::size_t i = 0; i < 20 * 16; ++i) {
    EXPECT_TRUE(is_nan(bits_of(none, 3, i))) << i;
  }
}

TEST(AttentionKernelTest, GradientsOfInfinityAreNanWhereTheStatementsHaveThem) {
  SKIP_WITHOUT_COMPILER();
  const AttentionShape shape = {.batch = 1, .heads = 1, .queries = 70, .keys = 70};
  const conformance::Case one = attention_case(body_of(shape));
  conformance::Contents start = conformance::initial_arguments(one);
  const conformance::Contents expected = result_of(one, start);
  set(start, 4, index_of(shape, 66, 0, 3, 16), kInfinity);  // q
  const conformance::Contents result = result_of(one, start);
  for (int row = 0; row < 70; ++row) {
    const std::size_t at = index_of(shape, row, 0, 0, 16);
    EXPECT_EQ(is_nan(bits_of(result, 1, at)), row == 66) << "dq of query " << row;
    EXPECT_TRUE(row > 66 || (is_nan(bits_of(result, 2, at)) && is_nan(bits_of(result, 3, at))))
        << "of key " << row;
  }
  std::memcpy(start[4].data(), conformance::initial_arguments(one)[4].data(), start[4].size());
  EXPECT_EQ(result_of(one, start), expected);
}

// Rows that fill the last part of the queries are 0: an infinite key must not meet them.
TEST(AttentionKernelTest, KeyThatNoQuerySeesForItsInfinityHasNoGradient) {
  SKIP_WITHOUT_COMPILER();
  constexpr std::uint16_t kMinusOne = 0xbf80;
  const AttentionShape shape = {.batch = 1, .heads = 1, .queries = 70, .keys = 70, .is_causal = false};
  const conformance::Case one = attention_case(body_of(shape));
  conformance::Contents start = conformance::initial_arguments(one);
  for (std::size_t i = 0; i < start[4].size() / 2; ++i) {
    set(start, 4, i, kMinusOne);
  }
  set(start, 5, index_of(shape, 5, 0, 3, 16), kInfinity);
  const conformance::Contents result = result_of(one, start);
  for (int element = 0; element < 16; ++element) {
    const std::size_t at = index_of(shape, 5, 0, element, 16);
    EXPECT_EQ(bits_of(result, 2, at) & 0x7fffU, 0U) << "dk";
    EXPECT_EQ(bits_of(result, 3, at) & 0x7fffU, 0U) << "dv";
  }
}

// Query, key and value are parts of one tensor, as the tensor frontend has them.
TEST(AttentionKernelTest, OperandsMayBePartsOfATensor) {
  SKIP_WITHOUT_COMPILER();
  const AttentionShape shape = {
      .batch = 2, .heads = 2, .queries = 70, .keys = 70, .size = 16, .value_size = 16};
  const conformance::Case usual = attention_case(body_of(shape));
  std::string body = body_of(shape);
  const std::pair<std::string, std::string> changes[] = {
      {" arg q : bf16[2, 70, 2, 16] in\n arg k : bf16[2, 70, 2, 16] in\n arg v : bf16[2, 70, 2, 16] in\n",
       " arg p : bf16[2, 70, 3, 2, 16] in\n"},
      {"q[b, i, h, d]", "p[b, i, 0, h, d]"},
      {"k[b, j, h, d]", "p[b, j, 1, h, d]"},
      {"v[b, j, h, d]", "p[b, j, 2, h, d]"}};
  for (const auto& [from, to] : changes) {
    std::size_t at = body.find(from);
    ASSERT_NE(at, std::string::npos);
    for (; at != std::string::npos; at = body.find(from, at + to.size())) {
      if (body[at - 1] != 'd') {  // not dq, dk and dv
        body.replace(at, from.size(), to);
      }
    }
  }
  const conformance::Case packed = attention_case(body);
  expect_kernels(packed.program, true);
  conformance::Contents start = conformance::initial_arguments(usual);  // g, dq, dk, dv, q, k, v, o
  conformance::Contents together = {start[0], start[1], start[2], start[3], {}, start[7]};
  constexpr std::size_t kRow = 2 * 16 * 2;  // bytes of all heads
  for (std::size_t row = 0; row < 2 * 70; ++row) {
    for (const std::size_t part : {4U, 5U, 6U}) {
      const auto from = start[part].begin() + static_cast<std::ptrdiff_t>(row * kRow);
      together[4].insert(together[4].end(), from, from + kRow);
    }
  }
  const conformance::Contents found = result_of(packed, together);
  const conformance::Contents expected = result_of(usual, start);
  for (const std::size_t i : {1U, 2U, 3U}) {
    EXPECT_EQ(found[i], expected[i]) << i;
  }
  EXPECT_EQ(found[5], expected[7]);
}

TEST(AttentionKernelTest, IsOffByDefault) {
  Target target = ampere();
  target.fused_attention = false;
  const program::Program program = attention_case(body_of({})).program;
  EXPECT_GT(generate(program, target).workspace_byte_count, 3U * 2 * 24 * 24 * 4) << "scores are stored";
  EXPECT_LT(generate(program, ampere()).workspace_byte_count, 8192U) << "they are not";
}

}  // namespace
}  // namespace yoke::codegen::test
