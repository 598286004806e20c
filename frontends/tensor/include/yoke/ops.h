// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/ops.h: operations on tensors. Shapes and types are checked when the
// expression is built.
//
// Elementwise operations broadcast as numpy does: shapes are aligned at the right, a dimension of 1 (or a
// missing one) repeats. Types must agree; there are no implicit casts, except that a plain number takes the
// type of the other operand. Whatever does not fit throws Error kInvalidArgument, with tensors, shapes and
// operation in the sentence.
#pragma once

#include <yoke/tensor.h>

#include <string_view>
#include <vector>

namespace yoke {

using Axes = std::vector<int>;  // negative counts from the last; empty: all axes

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);  // integers truncate; x / 0 = 0
Tensor operator%(const Tensor& a, const Tensor& b);  // integers
Tensor operator-(const Tensor& x);

Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, const Tensor& b);  // not operator==: containers would use it
Tensor not_equal(const Tensor& a, const Tensor& b);

Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor bit_and(const Tensor& a, const Tensor& b);
Tensor bit_or(const Tensor& a, const Tensor& b);
Tensor bit_xor(const Tensor& a, const Tensor& b);
Tensor bit_not(const Tensor& x);
Tensor shift_left(const Tensor& x, const Tensor& count);
Tensor shift_right(const Tensor& x, const Tensor& count);

Tensor select(const Tensor& condition, const Tensor& then, const Tensor& otherwise);
Tensor minimum(const Tensor& a, const Tensor& b);  // NaN when either is; at a tie the gradient goes to `a`
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c);
Tensor pow(const Tensor& base, const Tensor& exponent);

Tensor abs(const Tensor& x);  // gradient at 0: 0
Tensor sign(const Tensor& x);
Tensor floor(const Tensor& x);  // sign and the roundings: gradient 0
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // half to even
Tensor trunc(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor recip(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);
Tensor square(const Tensor& x);
Tensor relu(const Tensor& x);             // max(0, x); gradient at 0: 0
Tensor cast(const Tensor& x, Type type);  // the gradient is cast back; to or from integers it is 0
Tensor stop_gradient(const Tensor& x);    // the value, as a constant for gradients()

// Reductions. `keep_dims` leaves the reduced axes with extent 1. sum and prod of bool and u8 give i64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor max(const Tensor& x, const Axes& axes = {},
           bool keep_dims = false);  // equal maxima share the gradient evenly
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor any(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);  // of bool
Tensor all(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor argmax(const Tensor& x, int axis = -1, bool keep_dims = false);  // i64; the lowest index wins
Tensor argmin(const Tensor& x, int axis = -1, bool keep_dims = false);

// einsum("b i; o i => b o", x, w): operands before `=>`, parted by `;`. An index is a letter or a word;
// blanks part indices. Indices that the result lacks are summed over. `...` stands for any further axes,
// aligned at the right and broadcast. An index that one operand has twice is its diagonal.
Tensor einsum(std::string_view spec, const Tensor& a);
Tensor einsum(std::string_view spec, const Tensor& a, const Tensor& b);
Tensor einsum(std::string_view spec, const Tensor& a, const Tensor& b, const Tensor& c);
Tensor matmul(const Tensor& a, const Tensor& b);  // "... i k; ... k j => ... i j"

// Shape. All but concat, and reshapes that join axes, are index arithmetic in the program and copy nothing.
Tensor reshape(const Tensor& x, const Dims& dims);
Tensor flatten(const Tensor& x);    // keeps axis 0, joins the others
Tensor transpose(const Tensor& x);  // swaps the last two axes
Tensor permute(const Tensor& x, const Axes& order);
Tensor squeeze(const Tensor& x, int axis);
Tensor unsqueeze(const Tensor& x, int axis);
Tensor broadcast_to(const Tensor& x, const Dims& dims);
Tensor slice(const Tensor& x, int axis, std::uint64_t begin, std::uint64_t end);  // `end` excluded
Tensor concat(const std::vector<Tensor>& parts, int axis);

// table[ids[...], ...]: rows of `table` by number. A number outside the table gives zeros, and gets no
// gradient.
Tensor gather(const Tensor& table, const Tensor& ids);
// x[..., ids[...]]: one element of the last axis for each of the others; outside: 0.
Tensor take_along(const Tensor& x, const Tensor& ids);
// A last axis of `count`, 1 at the place that `ids` says, else 0.
Tensor one_hot(const Tensor& ids, std::uint64_t count, Type type = Type::kF32);

Tensor full(Type type, const Dims& dims, double value);
Tensor zeros(Type type, const Dims& dims);
Tensor iota(const Dims& dims, int axis);  // i64: the position along `axis`

}  // namespace yoke
