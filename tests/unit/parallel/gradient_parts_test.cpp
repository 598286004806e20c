// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/gradient_parts_test.cpp: where gradient programs are cut for the buckets of a StepPlan.
#include <yoke/program/text.h>
#include <yoke/runtime/gradient_parts.h>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr std::uint64_t kCount = 64;  // of elements of a parameter: a bucket of 256 bytes
constexpr const char* kSize = "f32[64]";

// Layers l(count - 1) to l0: statement i computes the gradient of the i-th parameter of the plan, which is that of
// layer count - 1 - i, and reads the parameters of that layer and of those that `also_reads` names.
GradientProgram gradients(std::size_t count, const std::map<std::size_t, std::size_t>& also_reads = {}) {
  std::string arguments = std::string("  arg x : ") + kSize + " in\n";
  std::string statements;
  GradientProgram result;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    arguments += "  arg w" + n + " : " + kSize + " in\n  arg g" + n + " : " + kSize + " out\n";
    const auto other = also_reads.find(i);
    statements += "  g" + n + "[k] = x[k] * w" + n + "[k]" +
                  (other != also_reads.end() ? " + w" + std::to_string(other->second) + "[k]" : "") + "\n";
    result.gradients.push_back("g" + n);
    result.parameters.push_back("w" + n);
  }
  result.program =
      program::parse_and_verify("yoke.program 1\nprogram gradient() {\n" + arguments + statements + "}\n")
          .programs.at(0);
  return result;
}

class GradientPartsTest : public ::testing::Test {
 protected:
  StepPlan plan(std::size_t count) {
    std::vector<Context> contexts(2, Context(rig.stream()));
    std::vector<StepParameter> parameters;
    for (std::size_t i = 0; i < count; ++i) {
      parameters.push_back({"w" + std::to_string(i), {YOKE_TYPE_F32, {kCount}}});
    }
    return {contexts, 2, parameters, {}, {.bucket_byte_count = 256, .overlap = Overlap::kOn}, nullptr};
  }
  static std::vector<std::size_t> sizes(const passes::Cut& cut) {
    std::vector<std::size_t> result;
    for (const program::Program& part : cut.parts) {
      result.push_back(part.statements.size());
    }
    return result;
  }
  Rig rig;
};

using Sizes = std::vector<std::size_t>;
using Buckets = std::vector<GradientParts::Bucket>;

TEST_F(GradientPartsTest, EachBucketIsMergedAfterThePartThatMakesItFinal) {
  const GradientProgram given = gradients(3);
  const GradientParts parts = cut_at_buckets(plan(3), std::span(&given, 1));
  EXPECT_EQ(sizes(parts.programs.at(0)), (Sizes{1, 1, 1}));
  ASSERT_EQ(parts.after.size(), 3U);
  for (std::size_t b = 0; b < 3; ++b) {
    EXPECT_EQ(parts.after[b], (Buckets{{b, true, true}}));
  }
}

TEST_F(GradientPartsTest, ABucketIsUpdatedAfterTheLastPartThatReadsItsParameters) {
  const std::vector<GradientProgram> given = {gradients(4), gradients(4, {{2, 0}})};
  const GradientParts parts = cut_at_buckets(plan(4), given);
  ASSERT_EQ(parts.after.size(), 4U);
  EXPECT_EQ(parts.after[0], (Buckets{{0, true, false}})) << "statement 2 of the other program reads w0";
  EXPECT_EQ(parts.after[1], (Buckets{{1, true, true}}));
  EXPECT_EQ(parts.after[2], (Buckets{{0, false, true}, {2, true, true}}));
  EXPECT_EQ(parts.after[3], (Buckets{{3, true, true}}));
}

TEST_F(GradientPartsTest, BucketsAreFinalInEveryProgram) {
  // The second program computes the gradients in another order, so its first part is longer.
  GradientProgram other = gradients(3);
  std::rotate(other.program.statements.begin(), other.program.statements.begin() + 1,
              other.program.statements.end());
  const std::vector<GradientProgram> given = {gradients(3), other};
  const GradientParts parts = cut_at_buckets(plan(3), given);
  EXPECT_EQ(sizes(parts.programs.at(0)), (Sizes{1, 1, 1}));
  EXPECT_EQ(sizes(parts.programs.at(1)), (Sizes{3, 0, 0}));
}

TEST_F(GradientPartsTest, ThereAreAtMostEightParts) {
  const GradientProgram given = gradients(20);
  const GradientParts parts = cut_at_buckets(plan(20), std::span(&given, 1));
  EXPECT_EQ(parts.after.size(), 8U);
  std::vector<int> merged(20, 0);
  std::vector<int> updated(20, 0);
  for (const Buckets& after : parts.after) {
    EXPECT_GE(after.size(), 2U);
    for (const GradientParts::Bucket& bucket : after) {
      merged[bucket.number] += bucket.merges ? 1 : 0;
      updated[bucket.number] += bucket.updates ? 1 : 0;
    }
  }
  EXPECT_EQ(merged, std::vector<int>(20, 1));
  EXPECT_EQ(updated, std::vector<int>(20, 1));
}

TEST_F(GradientPartsTest, UnknownNamesAreRefused) {
  GradientProgram given = gradients(2);
  given.gradients[1] = "h";
  EXPECT_THAT(error_of([&] { cut_at_buckets(plan(2), std::span(&given, 1)); }),
              is_error(ErrorCode::kInvalidArgument, "gradient program 'gradient': it has no argument 'h'"));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, cut_at_buckets(plan(2), {}));
}

}  // namespace
}  // namespace yoke::test
