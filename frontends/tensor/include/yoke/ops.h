// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/ops.h: operations on tensors.
// Shapes and types are checked when an expression is built.
//
// Elementwise operations broadcast like numpy: shapes are aligned at the last axis, and axes that are missing
// or of size 1 are repeated. The operands' types must be equal; a plain number takes the type of the other
// operand. Axes are numbered from 0; negative numbers count from the last axis. A tensor has at most 8 axes.
//
// Invalid operands are an Error kInvalidArgument that names the operation, the tensors and their shapes.
#pragma once

#include <yoke/tensor.h>

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace yoke {

using Axes = std::vector<int>;  // for reductions, empty means all axes

// The elementwise operations are the rows of yoke/program/ops.def, and mean what the program format says:
//   operators  + - * / % < <= > >=, unary -
//   1 operand  abs sign floor ceil round trunc exp exp2 expm1 log log2 log1p sqrt rsqrt recip sin cos tanh
//              sigmoid erf erfc logical_not bit_not
//   2 operands minimum maximum pow equal not_equal logical_and logical_or bit_and bit_or bit_xor
//              shift_left(x, count) shift_right(x, count)
//   3 operands fma(a, b, c) = a * b + c, where(condition, a, b), random_bits(seed, stream, counter)
// equal is not operator==, which containers would use. Integer division truncates; x / 0 and x % 0 are 0.
// pow(x, 2) is x * x. minimum and maximum are NaN if an operand is; where the operands are equal, the gradient goes to
// the first. The gradient of abs at 0 is 0, and so are those of sign, floor, ceil, round and trunc everywhere.
#define YOKE_DECLARE_1(function) Tensor function(const Tensor& x);
#define YOKE_DECLARE_2(function) Tensor function(const Tensor& a, const Tensor& b);
#define YOKE_DECLARE_3(function) Tensor function(const Tensor& a, const Tensor& b, const Tensor& c);
#define YOKE_OP(id, function, text, arity, ...) YOKE_DECLARE_##arity(function)
#include <yoke/program/ops.def>
#undef YOKE_DECLARE_1
#undef YOKE_DECLARE_2
#undef YOKE_DECLARE_3

Tensor square(const Tensor& x);
Tensor relu(const Tensor& x);  // max(0, x); the gradient at 0 is 0
// The gradient is cast back to the type of x. Casts to or from integers have gradient 0.
Tensor cast(const Tensor& x, Type type);
Tensor stop_gradient(const Tensor& x);  // the value of x; gradients() treats it as a constant

// Reductions. With `keep_dims`, the result keeps the reduced axes with size 1; otherwise they are
// removed. sum and prod of bool and u8 return i64. mean takes floats, any and all take bool. The gradient
// of max and min is shared evenly by equal elements.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor max(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor any(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
// The index (i64) of the largest or smallest element along `axis`; of equal elements, the lowest index.
Tensor argmax(const Tensor& x, int axis = -1, bool keep_dims = false);
Tensor argmin(const Tensor& x, int axis = -1, bool keep_dims = false);

// Sums of products, in one of two notations:
//   numpy's, einsum("bi,oi->bo", x, w): every letter is an index, and `,` separates operands.
//     Without `->`, the result has the indices that occur once, in alphabetical order.
//   words, einsum("b i; o i => b o", x, w): an index is a letter or a word, spaces separate indices, and `;`
//     separates operands. A specification with `=>` or `;` is in this notation.
// Indices that are missing in the result are summed over. An index that occurs twice in an operand selects
// its diagonal. `...` stands for any further axes, aligned at the last one and broadcast.
// In the notation of words, an axis of an operand may also be a sum of two indices, such as 2*o+k (stride 2) or o+3*k
// (dilation 3): o selects a window of the axis, and k an element of the window. A convolution:
//   einsum("b 2*o+k c; k c d => b o d", x, w)
// The size of one of the two indices must be known from other axes; the other gets the largest size that fits. 2*o=+k
// pads the axis with zeros, half before and half after it, so that the size of o is the number of strides in the axis,
// as XLA's SAME does; 2*o<+k is the same as 2*o+k. 2*o alone selects every second element, and a number one element.
// einsum takes up to 12 operands and multiplies them in pairs, in the order with the fewest multiplications.
Tensor einsum(std::string_view spec, const std::vector<Tensor>& operands);
template <std::convertible_to<Tensor>... Tensors>
Tensor einsum(std::string_view spec, const Tensors&... operands) {
  return einsum(spec, std::vector<Tensor>{operands...});
}
Tensor matmul(const Tensor& a, const Tensor& b);  // "...ik,...kj->...ij"

// Shape operations. They are index arithmetic in the program and
// copy nothing, except concat, stack and reshapes that join axes.
Tensor reshape(const Tensor& x, const Dims& dims);
Tensor flatten(const Tensor& x);    // keeps axis 0 and joins the others
Tensor transpose(const Tensor& x);  // swaps the last two axes
Tensor permute(const Tensor& x, const Axes& order);
Tensor squeeze(const Tensor& x, int axis);    // removes an axis of size 1
Tensor unsqueeze(const Tensor& x, int axis);  // inserts an axis of size 1, which becomes `axis`
Tensor broadcast_to(const Tensor& x, const Dims& dims);
// Elements begin, begin + step, ... below end. Error kInvalidArgument: the range is empty or exceeds the
// axis.
Tensor slice(const Tensor& x, int axis, std::uint64_t begin, std::uint64_t end, std::uint64_t step = 1);
// Consecutive parts of these sizes, or `count` equal parts.
std::vector<Tensor> split(const Tensor& x, const Dims& sizes, int axis = 0);
std::vector<Tensor> split(const Tensor& x, std::uint64_t count, int axis = 0);
Tensor flip(const Tensor& x, const Axes& axes = {});             // reverses the axes, or all of them
Tensor roll(const Tensor& x, std::int64_t shift, int axis = 0);  // element i moves to (i + shift) % size
Tensor concat(const std::vector<Tensor>& parts, int axis);       // joins along an existing axis
Tensor stack(const std::vector<Tensor>& parts, int axis = 0);    // joins along a new axis
// Adds elements of `value` before and after each axis, as numpy.pad: one pair of widths per axis.
struct Padding {
  std::uint64_t before = 0;
  std::uint64_t after = 0;
};
Tensor pad(const Tensor& x, const std::vector<Padding>& widths, double value = 0);
// Sliding windows, as torch.Tensor.unfold: window o of the axis has the elements o * stride + k * dilation.
// The windows replace the axis, and k is appended as the last axis. A pooling is max(windows(...), {-1}); a
// convolution is an einsum of windows, and so are its gradients in the program.
Tensor windows(const Tensor& x, int axis, std::uint64_t size, std::uint64_t stride = 1,
               std::uint64_t dilation = 1);

// The start of a dynamic slice along one axis: a number, a symbol whose range fits (an Error otherwise), or
// an integer scalar tensor. Numbers and tensors are moved into the range in which the slice fits, as in JAX.
struct Start {
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  // NOLINTNEXTLINE(google-explicit-constructor): for lists such as {0, row}
  Start(Integer number) : value(static_cast<std::int64_t>(number)) {}
  Start(Symbol symbol) : value(std::move(symbol)) {}  // NOLINT(google-explicit-constructor): as above
  Start(Tensor scalar) : value(std::move(scalar)) {}  // NOLINT(google-explicit-constructor): as above
  std::variant<std::int64_t, Symbol, Tensor> value;
};
// Elements start, ..., start + size - 1 along each axis, as jax.lax.dynamic_slice. Numbers and symbols are an
// offset in the program. rows(x, symbol, count) slices axis 0 only.
Tensor dynamic_slice(const Tensor& x, const std::vector<Start>& starts, const Dims& sizes);

// x[..., ids[...], ...]: slices along `axis` by index, as jax.numpy.take; the axes of ids replace the axis.
// With axis 0, rows of a table. An index that is out of range yields zeros and contributes no gradient.
Tensor take(const Tensor& x, const Tensor& ids, int axis = 0);
// Elements along `axis` by index, as in numpy and JAX; torch calls it gather. The shapes of x and ids are
// equal except for that axis. An index that is out of range yields 0 and contributes no gradient.
Tensor take_along_axis(const Tensor& x, const Tensor& ids, int axis);
// Appends an axis of size `count` that is 1 at the index in `ids` and 0 elsewhere.
Tensor one_hot(const Tensor& ids, std::uint64_t count, Type type = Type::kF32);

Tensor full(Type type, const Dims& dims, double value);
Tensor zeros(Type type, const Dims& dims);
Tensor iota(const Dims& dims, int axis);  // i64: the index along `axis`

}  // namespace yoke
