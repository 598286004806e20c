// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/shape_error_test.cpp: error messages name the operation, the tensors and their shapes.
#include <gtest/gtest.h>

#include <cmath>

#include "evaluate.h"

namespace yoke {
namespace {

Tensor f32(const std::string& name, Dims dims) {
  return placeholder(name, Type::kF32, std::move(dims));
}

TEST(ShapeErrorTest, EinsumNamesTheIndexAndBothTensors) {
  EXPECT_MESSAGE("einsum \"b i; o i => b o\": index i is 784 in 'x' [50, 784] but 100 in 'w' [10, 100]",
                 einsum("b i; o i => b o", f32("x", {50, 784}), f32("w", {10, 100})));
  EXPECT_MESSAGE("einsum \"... a; ... a => a\": axis 0 of `...` is 3 in 'x' [3, 2] but 4 in 'y' [4, 2]",
                 einsum("... a; ... a => a", f32("x", {3, 2}), f32("y", {4, 2})));
}

TEST(ShapeErrorTest, EinsumNamesTheWrongRank) {
  EXPECT_MESSAGE("einsum \"b i => b\": operand 1 has 2 indices, but 'x' [50] has rank 1",
                 einsum("b i => b", f32("x", {50})));
  EXPECT_MESSAGE("einsum \"... a b => a\": operand 1 has 2 indices besides `...`, but 'x' [50] has rank 1",
                 einsum("... a b => a", f32("x", {50})));
}

TEST(ShapeErrorTest, EinsumReportsInvalidSpecs) {
  const Tensor x = f32("x", {2, 2});
  EXPECT_MESSAGE("einsum \"a b; b c\", column 9: expected `=>` and the indices of the result",
                 einsum("a b; b c", x, x));
  EXPECT_MESSAGE("einsum \"a b => c\": index c of the result does not appear in any operand",
                 einsum("a b => c", x));
  EXPECT_MESSAGE("einsum \"a b => a a\": index a appears twice in the result", einsum("a b => a a", x));
  EXPECT_MESSAGE("einsum \"a b; b => a\": expected 2 operands, got 1", einsum("a b; b => a", x));
  EXPECT_MESSAGE(
      "einsum \"a, b => a\", column 1: 'a,' is not a valid index; separate letters or words by spaces, as in "
      "\"b i; o i => b o\"",
      einsum("a, b => a", x));
  EXPECT_MESSAGE(
      "einsum \"a b => a => b\", column 10: '=>' is not a valid index; separate letters or words by "
      "spaces, as in \"b i; o i => b o\"",
      einsum("a b => a => b", x));
  EXPECT_MESSAGE(
      "einsum \"b1,oi->bo\", column 2: '1' is not a valid index; each index is a letter, as in "
      "\"bi,oi->bo\"",
      einsum("b1,oi->bo", x, x));
  EXPECT_MESSAGE(
      "einsum \"ab->ab,c\", column 7: ',' is not a valid index; each index is a letter, as in "
      "\"bi,oi->bo\"",
      einsum("ab->ab,c", x));
  EXPECT_MESSAGE("einsum \"ab->ac\": index c of the result does not appear in any operand",
                 einsum("ab->ac", x));
  EXPECT_MESSAGE("einsum \"... a ... => a\", column 7: `...` appears twice in one term",
                 einsum("... a ... => a", x));
  EXPECT_MESSAGE(
      "einsum \"a b; a b => a\": 'x' [2, 2] is f32 and 'y' [2, 2] is f64; all operands must have the same "
      "numeric type",
      einsum("a b; a b => a", x, placeholder("y", Type::kF64, {2, 2})));
}

TEST(ShapeErrorTest, BroadcastingNamesTheAxis) {
  EXPECT_MESSAGE("+: cannot broadcast 'x' [50, 3] with 'b' [4]: axis -1 has sizes 3 and 4",
                 f32("x", {50, 3}) + f32("b", {4}));
}

TEST(ShapeErrorTest, OperationsReportWrongTypes) {
  const Tensor x = f32("x", {2});
  const Tensor n = placeholder("n", Type::kI64, {2});
  EXPECT_MESSAGE("*: 'x' [2] is f32 but 'n' [2] is i64; cast one of them", x * n);
  EXPECT_MESSAGE("*: cannot combine the number 0.5 with 'n' [2], which is i64; cast one of them", n * 0.5);
  EXPECT_MESSAGE("exp: 'n' [2] is i64; exp takes floats", exp(n));
  EXPECT_MESSAGE("fma: 'n' [2] is i64; fma takes floats", fma(n, n, n));
  EXPECT_MESSAGE("where: the condition 'x' [2] is f32, but must be bool, such as the result of a comparison",
                 where(x, x, 0.0));
  EXPECT_MESSAGE("any: 'x' [2] is f32, but must be bool, such as the result of a comparison", any(x));
  EXPECT_MESSAGE("mean: 'n' [2] is i64; cast it to a float first", mean(n));
}

TEST(ShapeErrorTest, OperationsReportInvalidAxes) {
  const Tensor x = f32("x", {2, 3});
  EXPECT_MESSAGE("sum: axis 2 is out of range for 'x' [2, 3]", sum(x, {2}));
  EXPECT_MESSAGE("max: axis -2 of 'x' [2, 3] is listed twice", max(x, {0, -2}));
  EXPECT_MESSAGE("squeeze: axis 0 of 'x' [2, 3] does not have size 1", squeeze(x, 0));
  EXPECT_MESSAGE("permute: 'x' [2, 3] has 2 axes, but the order lists 1", permute(x, {0}));
}

TEST(ShapeErrorTest, ShapesMustBeValidInPrograms) {
  const std::uint64_t huge = std::uint64_t{1} << 33U;  // its square is 4 modulo 2^64
  EXPECT_MESSAGE("a tensor of shape [8589934592, 8589934592, 1] has more elements than a program can address",
                 reshape(f32("x", {4}), {huge, huge, 1}));
  EXPECT_MESSAGE("a tensor of shape [8589934592, 8589934592] has more elements than a program can address",
                 broadcast_to(f32("x", {1}), {huge, huge}));
  EXPECT_MESSAGE("a tensor of shape [3, 0]: every dimension must be at least 1",
                 one_hot(placeholder("n", Type::kU8, {3}), 0, Type::kF32));
  EXPECT_MESSAGE("a tensor of shape [2, 0]: every dimension must be at least 1", zeros(Type::kF32, {2, 0}));
}

TEST(ShapeErrorTest, FullReportsNumbersThatTheTypeCannotRepresent) {
  EXPECT_MESSAGE("full: 300.000000 cannot be represented as u8", full(Type::kU8, {2}, 300));
  EXPECT_MESSAGE("full: nan cannot be represented as i64", full(Type::kI64, {2}, std::nan("")));
}

TEST(ShapeErrorTest, ShapeOperationsReportMismatches) {
  const Tensor x = f32("x", {2, 3});
  EXPECT_MESSAGE("reshape: 'x' [2, 3] has 6 elements, but [4] has 4", reshape(x, {4}));
  EXPECT_MESSAGE("broadcast_to: cannot broadcast 'x' [2, 3] to [3, 3]", broadcast_to(x, {3, 3}));
  EXPECT_MESSAGE("slice: [2, 4) is not a valid range of axis 1 of 'x' [2, 3]", slice(x, 1, 2, 4));
  EXPECT_MESSAGE(
      "concat along axis 1: 'x' [2, 3] f32 and 'y' [3, 3] f32 must be equal except for the size of that axis",
      concat({x, f32("y", {3, 3})}, 1));
  EXPECT_MESSAGE(
      "take_along_axis: the indices 'ids' [3, 3] must have the shape of 'x' [2, 3] except for the size of "
      "axis 1",
      take_along_axis(x, placeholder("ids", Type::kI32, {3, 3}), 1));
  EXPECT_MESSAGE("take: the indices 'ids' [3] are f32; they must be integers", take(x, f32("ids", {3})));
  EXPECT_MESSAGE("slice: the step must be at least 1; use flip to reverse an axis", slice(x, 1, 0, 3, 0));
  EXPECT_MESSAGE("split: axis 1 of 'x' [2, 3] cannot be split into 2 equal parts; give the sizes",
                 split(x, 2, 1));
  EXPECT_MESSAGE("split: the sizes [1, 1] must be at least 1 and add up to the size of axis 1 of 'x' [2, 3]",
                 split(x, Dims{1, 1}, 1));
  EXPECT_MESSAGE("pad: expected one pair of widths for each axis of 'x' [2, 3], got 1", pad(x, {{1, 1}}));
  EXPECT_MESSAGE(
      "pad: the widths 0 and 18446744073709551615 of axis 1 of 'x' [2, 3] are too large; was a "
      "difference negative?",
      pad(x, {{}, {0, ~std::uint64_t{0}}}));
  EXPECT_MESSAGE(
      "windows: size 2, stride 1 and dilation 3 must be at least 1, and a window must fit into axis 1 of 'x' "
      "[2, 3]",
      windows(x, 1, 2, 1, 3));
}

TEST(ShapeErrorTest, RowsMustBeInRangeForEveryValueOfTheSymbol) {
  const Tensor x = f32("x", {60, 3});
  EXPECT_MESSAGE(
      "rows('x' [60, 3], row, 7): the symbol ranges from 0 to 56, which selects rows 0 to 62, but axis 0 has "
      "60 rows",
      rows(x, Symbol{"row", 0, 60, 7}, 7));
  EXPECT_MESSAGE("rows('x' [60, 3], row, 1): the symbol's range [0, 0) with step 1 is empty",
                 rows(x, Symbol{"row", 0, 0, 1}, 1));
  EXPECT_MESSAGE("rows('x' [60, 3], row, 61): cannot take 61 rows of axis 0",
                 rows(x, Symbol{"row", 0, 1, 1}, 61));
}

TEST(ShapeErrorTest, DynamicSliceReportsItsStarts) {
  const Tensor x = f32("x", {60, 3});
  EXPECT_MESSAGE("dynamic_slice of 'x' [60, 3]: expected 2 starts and sizes, got 1 and 2",
                 dynamic_slice(x, {0}, {1, 1}));
  EXPECT_MESSAGE("dynamic_slice of 'x' [60, 3]: size 4 is out of range for axis 1",
                 dynamic_slice(x, {0, 0}, {1, 4}));
  EXPECT_MESSAGE(
      "dynamic_slice of 'x' [60, 3]: the symbol ranges from 0 to 2, which selects elements 0 to 3, but axis "
      "1 "
      "has 3 elements",
      dynamic_slice(x, {0, Symbol{"k", 0, 3, 1}}, {1, 2}));
  EXPECT_MESSAGE("dynamic_slice of 'x' [60, 3]: the start of axis 0 must be an integer scalar",
                 dynamic_slice(x, {f32("start", {}), 0}, {1, 2}));
}

TEST(ShapeErrorTest, InvalidLeavesAreReported) {
  EXPECT_MESSAGE("tensor 'x' [2, 0]: every dimension must be at least 1", f32("x", {2, 0}));
  EXPECT_MESSAGE("literal 'x': f32[2, 2] needs 16 bytes, but got 12", tensor<float>({1, 2, 3}, {2, 2}, "x"));
  EXPECT_MESSAGE("tensor 'x' [1099511627776, 1099511627776] has more elements than a program can address",
                 f32("x", {std::uint64_t{1} << 40U, std::uint64_t{1} << 40U}));
  EXPECT_MESSAGE("an empty Tensor has no type, dims or values; assign an expression to it first",
                 Tensor().dims());
  EXPECT_MESSAGE("exp: an operand is an empty Tensor; assign an expression to it first", exp(Tensor()));
}

TEST(ShapeErrorTest, LossesNameTheirOperands) {
  const Tensor logits = f32("logits", {50, 10});
  EXPECT_MESSAGE(
      "cross_entropy: the labels 'labels' [40] must have the shape of the logits 'logits' [50, 10] without "
      "the last axis",
      cross_entropy(logits, placeholder("labels", Type::kU8, {40})));
  EXPECT_MESSAGE(
      "cross_entropy: the labels 'labels' [50] are f32; they must be class numbers of integer type",
      cross_entropy(logits, f32("labels", {50})));
  EXPECT_MESSAGE("mse: the output 'logits' [50, 10] and the target 'target' [50] differ in shape",
                 mse(logits, f32("target", {50})));
}

}  // namespace
}  // namespace yoke
