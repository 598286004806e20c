// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/shape_error_test.cpp: what does not fit is refused with tensors, shapes and operation in
// one sentence.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "evaluate.h"

namespace yoke {
namespace {

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

Tensor f32(const std::string& name, Dims dims) {
  return placeholder(name, Type::kF32, std::move(dims));
}

TEST(ShapeErrorTest, EinsumNamesIndexAndBothTensors) {
  EXPECT_EQ(refusal([] {
              einsum("b i; o i => b o", f32("x", {50, 784}), f32("w", {10, 100}));
            }),
            "einsum \"b i; o i => b o\": index i is 784 in 'x' [50, 784] but 100 in 'w' [10, 100]");
}

TEST(ShapeErrorTest, EinsumWithTheWrongRank) {
  EXPECT_EQ(refusal([] { einsum("b i => b", f32("x", {50})); }),
            "einsum \"b i => b\": operand 1 has 2 indices, but 'x' [50] has 1 axes");
  EXPECT_EQ(refusal([] { einsum("... a b => a", f32("x", {50})); }),
            "einsum \"... a b => a\": operand 1 has 2 indices besides `...`, but 'x' [50] has 1 axes");
}

TEST(ShapeErrorTest, EinsumThatMakesNoSense) {
  const Tensor x = f32("x", {2, 2});
  EXPECT_EQ(refusal([&] { einsum("a b", x); }),
            "einsum \"a b\": there must be one `=>`, before the indices of the result");
  EXPECT_EQ(refusal([&] { einsum("a b => c", x); }),
            "einsum \"a b => c\": index c of the result is in no operand");
  EXPECT_EQ(refusal([&] { einsum("a b => a a", x); }), "einsum \"a b => a a\": the result has index a twice");
  EXPECT_EQ(refusal([&] { einsum("a b; b => a", x); }),
            "einsum \"a b; b => a\" names 2 operands, but 1 were given");
  EXPECT_EQ(refusal([&] { einsum("a, b => a", x); }),
            "einsum \"a, b => a\": 'a,' is no index; write letters or words with blanks between them, like "
            "\"b i; o i => b o\"");
  EXPECT_EQ(refusal([&] { einsum("... a ... => a", x); }),
            "einsum \"... a ... => a\": an operand has `...` twice");
  EXPECT_EQ(refusal([&] {
              einsum("... a; ... a => a", f32("x", {3, 2}), f32("y", {4, 2}));
            }),
            "einsum \"... a; ... a => a\": axis 0 of `...` is 3 in 'x' [3, 2] but 4 in 'y' [4, 2]");
  EXPECT_EQ(
      refusal([&] {
        einsum("a b; a b => a", x, placeholder("y", Type::kF64, {2, 2}));
      }),
      "einsum \"a b; a b => a\": 'x' [2, 2] is f32 and 'y' [2, 2] is f64; all must be numbers of one type");
}

TEST(ShapeErrorTest, BroadcastingNamesTheAxis) {
  EXPECT_EQ(refusal([] {
              f32("x", {50, 3}) + f32("b", {4});
            }),
            "+: 'x' [50, 3] and 'b' [4] do not broadcast: axis 1, counted in the longer shape, is 3 in one "
            "and 4 in the other");
}

TEST(ShapeErrorTest, TypesAreNotMixed) {
  EXPECT_EQ(refusal([] { f32("x", {2}) * placeholder("n", Type::kI64, {2}); }),
            "*: 'x' [2] is f32 but 'n' [2] is i64; cast one of them");
  EXPECT_EQ(refusal([] { placeholder("n", Type::kI64, {2}) * 0.5; }),
            "*: the number 0.5 meets 'n' [2], which is i64; cast one of them");
  EXPECT_EQ(refusal([] { exp(placeholder("n", Type::kI64, {2})); }), "exp: 'n' [2] is i64; exp takes floats");
  EXPECT_EQ(refusal([] {
              const Tensor n = placeholder("n", Type::kI64, {2});
              fma(n, n, n);
            }),
            "fma: 'n' [2] is i64; fma takes floats");
  EXPECT_EQ(refusal([] { select(f32("x", {2}), f32("y", {2}), 0.0); }),
            "select: the condition 'x' [2] is f32; it must be bool, as comparisons give");
  EXPECT_EQ(refusal([] { any(f32("x", {2})); }), "any: 'x' [2] is f32; it takes bool, as comparisons give");
  EXPECT_EQ(refusal([] { mean(placeholder("n", Type::kU8, {2})); }),
            "mean: 'n' [2] is u8; cast it to a float first");
}

TEST(ShapeErrorTest, AxesThatDoNotExist) {
  const Tensor x = f32("x", {2, 3});
  EXPECT_EQ(refusal([&] { sum(x, {2}); }), "sum: axis 2 does not exist in 'x' [2, 3], which has 2 axes");
  EXPECT_EQ(refusal([&] { max(x, {0, -2}); }), "max: axis -2 of 'x' [2, 3] is named twice");
  EXPECT_EQ(refusal([&] { squeeze(x, 0); }), "squeeze: axis 0 of 'x' [2, 3] has more than one element");
  EXPECT_EQ(refusal([&] { permute(x, {0}); }), "permute: 'x' [2, 3] has 2 axes, but the order names 1");
}

TEST(ShapeErrorTest, ShapesThatNoProgramCanHold) {
  const std::uint64_t huge = std::uint64_t{1} << 33U;  // its square is 4 modulo 2^64
  EXPECT_EQ(refusal([&] {
              reshape(f32("x", {4}), {huge, huge, 1});
            }),
            "a tensor of shape [8589934592, 8589934592, 1] has more elements than a program can address");
  EXPECT_EQ(refusal([&] {
              broadcast_to(f32("x", {1}), {huge, huge});
            }),
            "a tensor of shape [8589934592, 8589934592] has more elements than a program can address");
  EXPECT_EQ(refusal([] { one_hot(placeholder("n", Type::kU8, {3}), 0, Type::kF32); }),
            "a tensor of shape [3, 0]: every dimension must be at least 1");
  EXPECT_EQ(refusal([] {
              zeros(Type::kF32, {2, 0});
            }),
            "a tensor of shape [2, 0]: every dimension must be at least 1");
}

TEST(ShapeErrorTest, NumbersThatTheTypeDoesNotHold) {
  EXPECT_EQ(refusal([] { full(Type::kU8, {2}, 300); }), "full: 300.000000 is no value of u8");
  EXPECT_EQ(refusal([] { full(Type::kI64, {2}, std::nan("")); }), "full: nan is no value of i64");
}

TEST(ShapeErrorTest, ShapesThatDoNotFit) {
  const Tensor x = f32("x", {2, 3});
  EXPECT_EQ(refusal([&] { reshape(x, {4}); }), "reshape: 'x' [2, 3] has 6 elements, but [4] has 4");
  EXPECT_EQ(refusal([&] { broadcast_to(x, {3, 3}); }), "broadcast_to: 'x' [2, 3] cannot become [3, 3]");
  EXPECT_EQ(refusal([&] { slice(x, 1, 2, 4); }), "slice: 2..4 is no range of axis 1 of 'x' [2, 3]");
  EXPECT_EQ(refusal([&] {
              concat({x, f32("y", {3, 3})}, 1);
            }),
            "concat along axis 1: 'x' [2, 3] f32 and 'y' [3, 3] f32 differ in more than that axis");
  EXPECT_EQ(refusal([&] { take_along(x, placeholder("ids", Type::kI32, {3})); }),
            "take_along: 'ids' [3] must have the shape of 'x' [2, 3] without its last axis");
  EXPECT_EQ(refusal([&] { gather(x, f32("ids", {3})); }),
            "gather: the numbers 'ids' [3] are f32; they must be of an integer type");
}

TEST(ShapeErrorTest, RowsThatASymbolCanLeave) {
  const Tensor x = f32("x", {60, 3});
  EXPECT_EQ(refusal([&] {
              rows(x, Symbol{"row", 0, 60, 7}, 7);
            }),
            "rows('x' [60, 3], row, 7): the symbol runs from 0 to 56, so rows up to 62 would be read, but "
            "axis 0 has 60");
  EXPECT_EQ(refusal([&] {
              rows(x, Symbol{"row", 0, 0, 1}, 1);
            }),
            "rows('x' [60, 3], row, 1): the symbol's range 0..0 step 1 is empty");
  EXPECT_EQ(refusal([&] {
              rows(x, Symbol{"row", 0, 1, 1}, 61);
            }),
            "rows('x' [60, 3], row, 61): axis 0 has no 61 rows");
}

TEST(ShapeErrorTest, LeavesThatCannotBe) {
  EXPECT_EQ(refusal([] { f32("x", {2, 0}); }), "tensor 'x' [2, 0]: every dimension must be at least 1");
  EXPECT_EQ(refusal([] {
              tensor<float>({1, 2, 3}, {2, 2}, "x");
            }),
            "literal 'x': f32[2, 2] takes 16 bytes, but 12 were given");
  EXPECT_EQ(refusal([] {
              f32("x", {std::uint64_t{1} << 40U, std::uint64_t{1} << 40U});
            }),
            "tensor 'x' [1099511627776, 1099511627776] has more elements than a program can address");
  EXPECT_EQ(refusal([] { (void)Tensor().dims(); }),
            "an empty Tensor was asked for its type, dims or values; assign an expression to it first");
  EXPECT_EQ(refusal([] { exp(Tensor()); }), "exp: an operand is an empty Tensor; give it a value first");
}

TEST(ShapeErrorTest, LossesSayWhatTheyNeed) {
  const Tensor logits = f32("logits", {50, 10});
  EXPECT_EQ(refusal([&] { cross_entropy(logits, placeholder("labels", Type::kU8, {40})); }),
            "cross_entropy: the labels 'labels' [40] must have the shape of the logits 'logits' [50, 10] "
            "without the last axis, the classes");
  EXPECT_EQ(refusal([&] { cross_entropy(logits, f32("labels", {50})); }),
            "cross_entropy: the labels 'labels' [50] are f32; they must be class numbers of an integer type");
  EXPECT_EQ(refusal([&] { mse(logits, f32("target", {50})); }),
            "mse: the output 'logits' [50, 10] and the target 'target' [50] differ in shape");
}

}  // namespace
}  // namespace yoke
