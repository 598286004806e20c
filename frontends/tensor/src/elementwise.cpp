// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/elementwise.cpp: the elementwise operations.
#include <yoke/ops.h>

#include <utility>

#include "node.h"

namespace yoke {

using program::Op;

using detail::map;

Tensor operator+(const Tensor& a, const Tensor& b) {
  return map(Op::kAdd, {a, b});
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return map(Op::kSub, {a, b});
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return map(Op::kMul, {a, b});
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return map(Op::kDiv, {a, b});
}
Tensor operator%(const Tensor& a, const Tensor& b) {
  return map(Op::kMod, {a, b});
}
Tensor operator-(const Tensor& x) {
  return map(Op::kNeg, {x});
}

Tensor operator<(const Tensor& a, const Tensor& b) {
  return map(Op::kLess, {a, b});
}
Tensor operator<=(const Tensor& a, const Tensor& b) {
  return map(Op::kLessEqual, {a, b});
}
Tensor operator>(const Tensor& a, const Tensor& b) {
  return map(Op::kGreater, {a, b});
}
Tensor operator>=(const Tensor& a, const Tensor& b) {
  return map(Op::kGreaterEqual, {a, b});
}
Tensor equal(const Tensor& a, const Tensor& b) {
  return map(Op::kEqual, {a, b});
}
Tensor not_equal(const Tensor& a, const Tensor& b) {
  return map(Op::kNotEqual, {a, b});
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return map(Op::kAnd, {a, b});
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return map(Op::kOr, {a, b});
}
Tensor logical_not(const Tensor& x) {
  return map(Op::kNot, {x});
}
Tensor bit_and(const Tensor& a, const Tensor& b) {
  return map(Op::kBitAnd, {a, b});
}
Tensor bit_or(const Tensor& a, const Tensor& b) {
  return map(Op::kBitOr, {a, b});
}
Tensor bit_xor(const Tensor& a, const Tensor& b) {
  return map(Op::kBitXor, {a, b});
}
Tensor bit_not(const Tensor& x) {
  return map(Op::kBitNot, {x});
}
Tensor shift_left(const Tensor& x, const Tensor& count) {
  return map(Op::kShiftLeft, {x, count});
}
Tensor shift_right(const Tensor& x, const Tensor& count) {
  return map(Op::kShiftRight, {x, count});
}

Tensor select(const Tensor& condition, const Tensor& then, const Tensor& otherwise) {
  return map(Op::kSelect, {condition, then, otherwise});
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return map(Op::kMin, {a, b});
}
Tensor maximum(const Tensor& a, const Tensor& b) {
  return map(Op::kMax, {a, b});
}
Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c) {
  return map(Op::kFma, {a, b, c});
}
Tensor pow(const Tensor& base, const Tensor& exponent) {
  return map(Op::kPow, {base, exponent});
}

Tensor abs(const Tensor& x) {
  return map(Op::kAbs, {x});
}
Tensor sign(const Tensor& x) {
  return map(Op::kSign, {x});
}
Tensor floor(const Tensor& x) {
  return map(Op::kFloor, {x});
}
Tensor ceil(const Tensor& x) {
  return map(Op::kCeil, {x});
}
Tensor round(const Tensor& x) {
  return map(Op::kRound, {x});
}
Tensor trunc(const Tensor& x) {
  return map(Op::kTrunc, {x});
}
Tensor exp(const Tensor& x) {
  return map(Op::kExp, {x});
}
Tensor exp2(const Tensor& x) {
  return map(Op::kExp2, {x});
}
Tensor expm1(const Tensor& x) {
  return map(Op::kExpm1, {x});
}
Tensor log(const Tensor& x) {
  return map(Op::kLog, {x});
}
Tensor log2(const Tensor& x) {
  return map(Op::kLog2, {x});
}
Tensor log1p(const Tensor& x) {
  return map(Op::kLog1p, {x});
}
Tensor sqrt(const Tensor& x) {
  return map(Op::kSqrt, {x});
}
Tensor rsqrt(const Tensor& x) {
  return map(Op::kRsqrt, {x});
}
Tensor recip(const Tensor& x) {
  return map(Op::kRecip, {x});
}
Tensor sin(const Tensor& x) {
  return map(Op::kSin, {x});
}
Tensor cos(const Tensor& x) {
  return map(Op::kCos, {x});
}
Tensor tanh(const Tensor& x) {
  return map(Op::kTanh, {x});
}
Tensor sigmoid(const Tensor& x) {
  return map(Op::kSigmoid, {x});
}
Tensor erf(const Tensor& x) {
  return map(Op::kErf, {x});
}
Tensor erfc(const Tensor& x) {
  return map(Op::kErfc, {x});
}
Tensor square(const Tensor& x) {
  return map(Op::kMul, {x, x});
}
// The constant comes first, so that it gets the gradient at 0.
Tensor relu(const Tensor& x) {
  return map(Op::kMax, {Tensor(0), x});
}

Tensor cast(const Tensor& x, Type type) {
  detail::require(x, "cast");
  if (const detail::Node* node = detail::constant_of(x); node != nullptr) {
    const Tensor value = program::is_float(node->type)
                             ? detail::constant(type, node->literal.number)
                             : detail::constant_integer(type, node->literal.integer);
    if (program::is_float(type) || !program::is_float(node->type)) {
      return x.rank() == 0 ? value : detail::permute_node(value, x.dims(), {});
    }
  }
  if (x.type() == type) {
    return x;
  }
  auto node = detail::new_node(detail::Kind::kMap, type, x.dims());
  node->op = Op::kCast;
  node->args = {x};
  return detail::finish(std::move(node));
}

}  // namespace yoke
