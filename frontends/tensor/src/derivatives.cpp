// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/derivatives.cpp: derivatives of the unary operations.
#include <yoke/ops.h>

#include "node.h"

namespace yoke::detail {

using program::Op;

Tensor unary_gradient(Op op, const Tensor& x, const Tensor& y, const Tensor& dy) {
  switch (op) {
    case Op::kCast:
      return cast(dy, x.type());
    case Op::kNeg:
      return -dy;
    case Op::kAbs:
      return dy * sign(x);
    case Op::kExp:
      return dy * y;
    case Op::kExp2:
      return dy * (y * 0.6931471805599453);
    case Op::kExpm1:
      return dy * (y + 1);
    case Op::kLog:
      return dy / x;
    case Op::kLog2:
      return dy / (x * 0.6931471805599453);
    case Op::kLog1p:
      return dy / (x + 1);
    case Op::kSqrt:
      return dy * 0.5 / y;
    case Op::kRsqrt:
      return dy * -0.5 * (y * y * y);
    case Op::kRecip:
      return -(dy * (y * y));
    case Op::kSin:
      return dy * cos(x);
    case Op::kCos:
      return -(dy * sin(x));
    case Op::kTanh:
      return dy * (1 - y * y);
    case Op::kSigmoid:
      return dy * (y * (1 - y));
    case Op::kErf:
      return dy * (1.1283791670955126 * exp(-(x * x)));
    case Op::kErfc:
      return dy * (-1.1283791670955126 * exp(-(x * x)));
    default:
      return {};  // sign, floor, ceil, round, trunc
  }
}

}  // namespace yoke::detail
