// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/fuse_test.cpp: substitution of elementwise temporaries. For those that must stay, see
// fuse_refusal_test.cpp.
#include <gmock/gmock.h>

#include "../../support/error_of.h"
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(Fuse, ElementwiseChainBecomesOneStatement) {
  expect_turns(fuse, "arg x : f32[4, 8] in; arg b : f32[8] in; arg y : f32[4, 8] out",
               "temp t : f32[4, 8]; temp u : f32[4, 8]; t[i, j] = x[i, j] + b[j]; "
               "u[i, j] = t[i, j] * 2.0; y[n, o] = max(u[n, o], 0.0)",
               "y[n, o] = max((x[n, o] + b[o]) * 2.0, 0.0)");
}

TEST(Fuse, ProducerIsSubstitutedInAReductionThatReadsEachElementOnce) {
  expect_turns(fuse, "arg x : f32[4, 8] in; arg y : f32[8] out",
               "temp t : f32[4, 8]; t[i, j] = exp(x[i, j]); y[o] = sum[n] t[n, o]",
               "y[o] = sum[n] exp(x[n, o])");
}

TEST(Fuse, ALoopOfOneIterationRepeatsNothing) {
  expect_turns(fuse, "arg x : f32[4] in; arg y : f32[4, 1] out",
               "temp t : f32[4]; t[i] = exp(x[i]); y[i, j] = t[i]", "y[i, j] = exp(x[i])");
}

TEST(Fuse, ProductAndSumBecomeAContraction) {
  expect_turns(fuse, "arg x : f32[4, 8] in; arg w : f32[5, 8] in; arg y : f32[4, 5] out",
               "temp t : f32[4, 5, 8]; t[n, o, i] = x[n, i] * w[o, i]; y[n, o] = sum[i] t[n, o, i]",
               "y[n, o] = sum[i] x[n, i] * w[o, i]");
}

TEST(Fuse, CopiesAreSubstitutedInContractions) {
  expect_turns(fuse, "arg x : f32[100, 8] in; arg w : f32[8, 5] in; arg y : f32[4, 5] out",
               "temp s : f32[4, 8]; temp t : f32[5, 8]; s[n, i] = x[row + n, i]; t[o, i] = w[i, o]; "
               "y[n, o] = sum[i] s[n, i] * t[o, i]",
               "y[n, o] = sum[i] x[row + n, i] * w[i, o]", "symbol row in 0..96 step 4");
}

// Elements keep their row-major numbers.
TEST(Fuse, ReshapesAreSubstitutedInSeveralConsumers) {
  const char* arguments =
      "arg x : f32[4, 24] in; arg w : f32[4, 3, 8] in; arg y : f32[4, 3, 8] out; arg z : f32[3, 4, 4] out";
  expect_turns(fuse, arguments,
               "temp t : f32[4, 3, 8]; t[i, h, d] = x[i, 8*h + d]; y[i, h, d] = exp(t[i, h, d]); "
               "z[h, i, j] = sum[d] t[i, h, d] * w[j, h, d]",
               "y[i, h, d] = exp(x[i, 8*h + d]); z[h, i, j] = sum[d] x[i, 8*h + d] * w[j, h, d]");
  // Elements change their order, or some are left out.
  expect_keeps(fuse, arguments,
               "temp t : f32[4, 3, 8]; t[i, h, d] = x[i, h + 3*d]; y[i, h, d] = exp(t[i, h, d]); "
               "z[h, i, j] = sum[d] t[i, h, d] * w[j, h, d]");
  expect_keeps(
      fuse,
      "arg x : f32[4, 32] in; arg w : f32[4, 3, 8] in; arg y : f32[4, 3, 8] out; arg z : f32[3, 4, 4] out",
      "temp t : f32[4, 3, 8]; t[i, h, d] = x[i, 8*h + d]; y[i, h, d] = exp(t[i, h, d]); "
      "z[h, i, j] = sum[d] t[i, h, d] * w[j, h, d]");
}

TEST(Fuse, CopiesAreSubstitutedInProductsOfUnusualOperands) {
  // The other factor is padded, has no summed loop, or has all loops of the product.
  expect_turns(fuse, "arg x : f32[4, 8] in; arg w : f32[8, 5] in; arg y : f32[4, 5] out",
               "temp t : f32[5, 8]; t[o, i] = w[i, o]; y[n, o] = sum[i] (x[n, i - 1] else 0) * t[o, i]",
               "y[n, o] = sum[i] (x[n, i - 1] else 0) * w[i, o]");
  expect_turns(fuse, "arg x : f32[4] in; arg w : f32[8, 4] in; arg y : f32[4] out",
               "temp t : f32[4, 8]; t[n, i] = w[i, n]; y[n] = sum[i] x[n] * t[n, i]",
               "y[n] = sum[i] x[n] * w[i, n]");
  expect_turns(fuse, "arg x : f32[8] in; arg w : f32[4, 5, 8] in; arg y : f32[4, 5] out",
               "temp t : f32[4, 8]; t[n, i] = x[i]; y[n, o] = sum[i] t[n, i] * w[n, o, i]",
               "y[n, o] = sum[i] x[i] * w[n, o, i]");
}

TEST(Fuse, CopyIsSubstitutedInSeveralConsumers) {
  // The contraction would lose its summed loop in one operand.
  expect_keeps(fuse, "arg b : f32[8] in; arg x : f32[4, 8] in; arg y : f32[4, 8] out; arg z : f32[8, 8] out",
               "temp t : f32[4, 8]; t[i, j] = b[j]; y[i, j] = x[i, j] + t[i, j]; "
               "z[j, k] = sum[i] t[i, j] * x[i, k]");
  expect_turns(fuse, "arg x : f32[100, 8] in; arg y : f32[4, 8] out; arg z : f32[8] out",
               "temp t : f32[4, 8]; t[i, j] = x[row + i, j]; y[i, j] = t[i, j] * t[i, j]; "
               "z[j] = max[i] t[i, j]",
               "y[i, j] = x[row + i, j] * x[row + i, j]; z[j] = max[i:4] x[row + i, j]",
               "symbol row in 0..96 step 4");
}

TEST(Fuse, CopiesOfPartsComputeTheParts) {
  const std::string header = "arg x : f32[8] in; arg a : f32[4] out; arg b : f32[4] out";
  expect_turns(fuse, header, "temp t : f32[8]; t[i] = exp(x[i]); a[i] = t[i]; b[i] = t[i + 4]",
               "a[i] = exp(x[i]); b[i] = exp(x[i + 4])");
  // Together they are larger than the whole.
  expect_keeps(fuse, header + "; arg c : f32[1] out",
               "temp t : f32[8]; t[i] = exp(x[i]); a[i] = t[i]; b[i] = t[i + 4]; c[i] = t[i + 7]");
}

TEST(Fuse, ConstantsAndScalarsAreSubstitutedExceptInContractions) {
  expect_turns(fuse, "arg x : f32[4, 8] in; arg lr : f64[] in; arg y : f32[4, 8] out; arg z : f32[4] out",
               "temp one : f32[8]; temp rate : f32[4]; one[j] = 1.0; rate[i] = -f32(lr[]); "
               "y[i, j] = x[i, j] * rate[i] + one[j]; z[i] = sum[j] x[i, j] * one[j]",
               "temp one : f32[8]; one[j] = 1.0; y[i, j] = x[i, j] * -f32(lr[]) + 1.0; "
               "z[i] = sum[j] x[i, j] * one[j]");
}

TEST(Fuse, CastMayBeRepeatedForItsOnlyConsumer) {
  expect_turns(fuse, "arg x : u8[4, 8] in; arg w : f32[5, 8] in; arg y : f32[4, 5] out",
               "temp t : f32[4, 8]; t[n, i] = f32(x[n, i]); y[n, o] = sum[i] abs(t[n, i] - w[o, i])",
               "y[n, o] = sum[i] abs(f32(x[n, i]) - w[o, i])");
}

TEST(Fuse, LightWorkIsRepeatedIfItsOperandIsLiveAnyway) {
  expect_turns(fuse, "arg x : f32[16, 8] in; arg b : f32[8] in; arg y : f32[16, 8] out; arg z : f32[8] out",
               "temp t : f32[16, 8]; t[i, j] = max(x[i, j] + b[j], 0); y[i, j] = t[i, j] * exp(t[i, j]); "
               "z[j] = sum[i] t[i, j]",
               "y[i, j] = max(x[i, j] + b[j], 0) * exp(max(x[i, j] + b[j], 0)); "
               "z[j] = sum[i] max(x[i, j] + b[j], 0)");
}

TEST(Fuse, SumOfProductsOfTheSameElementsIsNoContraction) {
  expect_turns(fuse, "arg x : f32[4, 8] in; arg w : f32[4, 8] in; arg y : f32[4] out",
               "temp t : f32[4, 8]; t[i, j] = exp(x[i, j]); y[i] = sum[j] t[i, j] * w[i, j]",
               "y[i] = sum[j] exp(x[i, j]) * w[i, j]");
}

TEST(Fuse, LoopIndexValuesAreRewritten) {
  expect_turns(fuse, "arg x : i64[4] in; arg y : i64[4] out",
               "temp t : i64[9]; t[i] = i * 3 + s; y[j] = x[j] + t[2*j + 1]",
               "y[j] = x[j] + ((j * 2 + 1) * 3 + s)", "symbol s in 0..5");
}

TEST(Fuse, UpdateBecomesInPlaceIfItReadsOnlyItsOwnElement) {
  expect_turns(fuse, "arg g : f32[4] in; arg w : f32[4] inout",
               "temp t : f32[4]; t[i] = g[i] + 0.01 * w[i]; w[i] = w[i] - 0.1 * t[i]",
               "w[i] = w[i] - 0.1 * (g[i] + 0.01 * w[i])");
}

TEST(Fuse, UpdateOfTheFirstTensorBecomesInPlace) {
  expect_turns(fuse, "arg w : f32[4] inout", "temp t : f32[4]; t[i] = w[i] * 2.0; w[i] = t[i] + 1.0",
               "w[i] = w[i] * 2.0 + 1.0");
}

TEST(Fuse, GatherIndicesAreRewritten) {
  expect_turns(fuse, "arg table : f32[9, 8] in; arg n : i32[4] in; arg y : f32[8, 4] out",
               "temp t : f32[4, 8]; t[b, d] = (table[n[b], d] else 0) * 2.0; y[d, b] = t[b, d] + 1.0",
               "y[d, b] = (table[n[b], d] else 0) * 2.0 + 1.0");
  // The indices are a slice of a longer list.
  expect_turns(fuse, "arg table : f32[9, 8] in; arg words : i32[100] in; arg y : f32[4, 8] out",
               "temp n : i32[4]; n[b] = words[row + b]; y[b, d] = (table[n[b], d] else 0)",
               "y[b, d] = (table[words[row + b], d] else 0)", "symbol row in 0..96 step 4");
  // The gathered tensor is a transpose, which would be read repeatedly and against the memory order.
  expect_keeps(fuse, "arg table : f32[8, 9] in; arg n : i32[4] in; arg y : f32[4, 8] out",
               "temp t : f32[9, 8]; t[b, d] = table[d, b]; y[b, d] = (t[n[b], d] else -1.0)");
  expect_turns(fuse, "arg table : f32[9, 20] in; arg n : i32[4] in; arg y : f32[4, 8] out",
               "temp t : f32[9, 8]; t[b, d] = table[b, d + 5]; y[b, d] = (t[n[b], d] else -1.0)",
               "y[b, d] = (table[n[b], d + 5] else -1.0)");
}

TEST(Fuse, ElseIsKeptIfBothAreOutOfRangeTogether) {
  expect_turns(fuse, "arg x : f32[8] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = x[i]; y[i] = (t[i - 1] else 2.0)", "y[i] = (x[i - 1] else 2.0)");
  // A padded copy keeps its own `else`.
  expect_turns(fuse, "arg x : f32[8] in; arg y : f32[8] out",
               "temp t : f32[10]; t[i] = (x[i - 1] else 0); y[i] = t[i + 2]", "y[i] = (x[i + 1] else 0)");
  // The outer `else` never applies.
  expect_turns(fuse, "arg x : f32[8] in; arg y : f32[8] out",
               "temp t : f32[10]; t[i] = (x[i - 1] else 0); y[i] = (t[i + 2] else 3.0)",
               "y[i] = (x[i + 1] else 0)");
}

TEST(Fuse, ElseWithTheValueOfAConstantIsTheConstant) {
  expect_turns(fuse, "arg y : f32[9] out", "temp t : f32[8]; t[i] = 2.0; y[i] = (t[i - 1] else 2.0)",
               "y[i] = 2.0");
}

TEST(Fuse, ValuesAreComputedInAScatter) {
  expect_turns(fuse, "arg x : f32[4] in; arg n : i32[4] in; arg w : f32[9] inout",
               "temp t : f32[4]; t[i] = exp(x[i]); w[n[i]] += t[i]", "w[n[i]] += exp(x[i])");
}

TEST(Fuse, ElseIsKeptIfOneIndexIsOutOfRangeInBothTensors) {
  expect_turns(fuse, "arg x : f32[8, 8] in; arg y : f32[8, 8] out",
               "temp t : f32[8, 8]; t[i, j] = exp(x[i, j]); y[i, j] = (t[i - 1, j] else 2.0)",
               "y[i, j] = (exp(x[i - 1, j]) else 2.0)");
  // The index into n does not depend on the loop that exceeds its range.
  expect_turns(fuse, "arg x : f32[9, 8] in; arg n : i32[12] in; arg y : f32[10, 8] out",
               "temp t : f32[9, 8]; t[i, j] = (x[i, n[row + j]] else 2.0); y[i, j] = (t[i - 1, j] else 2.0)",
               "y[i, j] = (x[i - 1, n[row + j]] else 2.0)", "symbol row in 0..5");
}

TEST(Fuse, ElseOfAComputedValueBecomesAGuard) {
  expect_turns(fuse, "arg x : f32[8] in; arg z : f32[20] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = exp(x[i]) * z[i + 2]; y[i] = (t[i - 1] else 2.0)",
               "y[i] = (exp(x[i - 1]) * z[i + 1] else 2.0)");
  expect_turns(fuse, "arg x : f32[4] in; arg y : f32[8] out",
               "temp t : f32[4]; t[i] = exp(x[i]); y[i] = (t[(i - 3) / 2] else 2.0)",
               "y[i] = (exp(x[(i - 3) / 2]) else 2.0)");
  // An enclosing guard covers the new reads.
  expect_turns(fuse, "arg x : f32[8] in; arg z : f32[9] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = exp(x[i]); y[i] = (t[i - 1] * z[i] else 2.0)",
               "y[i] = (exp(x[i - 1]) * z[i] else 2.0)");
}

TEST(Fuse, GuardedProductsStayContractions) {
  const std::string arguments =
      "arg x : f32[4, 8] in; arg w : f32[8, 3] in; arg b : f32[8] in; arg y : f32[4, 8] out";
  expect_turns(fuse, arguments,
               "temp t : f32[8, 3]; t[i, k] = w[i, k]; y[n, i] = sum[k] (x[n, i + k - 1] * t[i, k] else 0)",
               "y[n, i] = sum[k] (x[n, i + k - 1] * w[i, k] else 0)");
  expect_keeps(fuse, arguments,
               "temp t : f32[8, 3]; t[i, k] = w[i, k] * b[i]; "
               "y[n, i] = sum[k] (x[n, i + k - 1] * t[i, k] else 0)");
}

TEST(Fuse, DividedIndicesAreRewritten) {
  // In the copy: the dividend is rewritten.
  expect_turns(fuse, "arg x : f32[4] in; arg y : f32[3] out",
               "temp t : f32[8]; t[i] = (x[(i + 1) / 2] else -1.0); y[i] = t[2*i + 3]",
               "y[i] = (x[(2*i + 4) / 2] else -1.0)");
  expect_turns(fuse, "arg x : f32[4] in; arg y : f32[8] out",
               "temp t : f32[8]; t[i] = (x[(i) / 2] else -1.0); y[i] = t[i]",
               "y[i] = (x[(i) / 2] else -1.0)");
  // In the reader: the copy takes the index as it is.
  expect_turns(fuse, "arg x : f32[3, 4] in; arg y : f32[8, 3] out",
               "temp t : f32[4, 3]; t[i, j] = x[j, i]; y[i, j] = (t[(i + 1) / 2, j] else 2.0)",
               "y[i, j] = (x[j, (i + 1) / 2] else 2.0)");
}

TEST(Fuse, TemporaryCopiedIntoAnArgumentBecomesTheArgument) {
  expect_turns(fuse, "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; y[i] = t[i]; z[i] = exp(t[i])",
               "y[i] = sum[j] x[i, j]; z[i] = exp(y[i])");
  // The first half of t can be computed in place in y.
  expect_turns(fuse, "arg x : f32[2] in; arg y : f32[4] inout",
               "temp t : f32[4]; t[i] for[i:2] = y[i] * 2.0; t[i + 2] = x[i]; y[i] = t[i]",
               "y[i] for[i:2] = y[i] * 2.0; y[i + 2] = x[i]");
}

TEST(Fuse, CopyWhoseOperandIsNotNeededAfterwardsIsSubstitutedInSeveralConsumers) {
  expect_turns(fuse, "arg x : f32[6, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp s : f32[6]; temp t : f32[4]; s[i] = sum[j] x[i, j]; t[i] = s[i + 2]; y[i] = t[i] + 1.0; "
               "z[i] = exp(t[i])",
               "temp s : f32[6]; s[i] = sum[j] x[i, j]; y[i] = s[i + 2] + 1.0; z[i] = exp(s[i + 2])");
}

TEST(WithoutMemory, SubstitutesAtAnyCost) {
  const std::string arguments =
      "arg x : f32[4, 8] in; arg w : f32[5, 8] in; arg y : f32[4, 5] out; arg z : f32[4, 8] out; ";
  const std::string before =
      arguments +
      "temp t : f32[4, 8]; temp u : f32[4, 8]; t[i, j] = exp(x[i, j]); u[i, j] = t[i, j] * t[i, j]; "
      "y[i, j] = sum[k] u[i, k] * w[j, k]; z[i, j] = t[i, j] + 1.0";
  expect_keeps(fuse, arguments, before.substr(arguments.size()));
  const std::vector<std::string> both = {"u", "t"};
  const program::Program after = without_memory(program_of(program_text(before)), both);
  const std::string expected =
      "y[i, j] = sum[k] exp(x[i, k]) * exp(x[i, k]) * w[j, k]; z[i, j] = exp(x[i, j]) + 1.0";
  EXPECT_EQ(program::print(after), program::print(program_of(program_text(arguments + expected))));
  for (const program::Tensor& tensor : optimized(after).tensors) {
    EXPECT_NE(tensor.role, program::Role::kTemp) << tensor.name;
  }
}

TEST(WithoutMemory, KeepsTheOffsetFromAGatheredElement) {
  const std::string text = program_text(
      "arg x : f32[8] in; arg z : f32[9] in; arg n : i32[8] in; arg y : f32[8] out; "
      "temp t : f32[8]; t[i] = x[i] * z[i + 1]; y[i] = (t[n[i]] else 0)");
  const std::vector<std::string> names = {"t"};
  EXPECT_THAT(test::error_of([&] { (void)without_memory(program_of(text), names); }),
              test::is_error(ErrorCode::kInvalidArgument, "'t' needs memory"))
      << "an index cannot be n[i] + 1";
}

TEST(WithoutMemory, ChangesNothingIfNoTemporaryIsNamed) {
  const program::Program before =
      program_of(program_text("arg x : f32[4] in; arg y : f32[4] out; temp unused : f32[4]; y[i] = x[i]"));
  EXPECT_EQ(program::print(without_memory(before, {})), program::print(before));
}

TEST(WithoutMemory, RefusesWhatNeedsIt) {
  const std::string text = program_text(
      "arg x : f32[4, 8] in; arg y : f32[4] out; temp sums : f32[4]; temp parts : f32[4]; temp padded : "
      "f32[4]; "
      "sums[i] = sum[j] x[i, j]; parts[i] = 1.0; parts[0] = 2.0; padded[i] = exp(x[0, 0]); "
      "y[i] = sums[i] + parts[i] + (padded[i + 2] else 5.0)");
  const auto message = [&](const std::string& name) {
    const std::vector<std::string> names = {name};
    return test::error_of([&] { (void)without_memory(program_of(text), names); });
  };
  EXPECT_THAT(message("sums"),
              test::is_error(ErrorCode::kInvalidArgument, "'sums' needs memory, because it is"));
  EXPECT_THAT(message("parts"), test::is_error(ErrorCode::kInvalidArgument, "'parts' needs memory"));
  EXPECT_THAT(message("padded"), test::is_error(ErrorCode::kInvalidArgument,
                                                "the statement that computes 'y' cannot compute it as well"));
  EXPECT_THAT(message("y"), test::is_error(ErrorCode::kInvalidArgument, "'y' is an argument"));
  EXPECT_THAT(message("other"), test::is_error(ErrorCode::kNotFound, "it has no tensor 'other'"));
}

}  // namespace
}  // namespace yoke::passes
