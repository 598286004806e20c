// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/derivatives.cpp: the derivatives of the elementwise operations.
#include <yoke/ops.h>

#include <functional>
#include <string>

#include "node.h"

namespace yoke::detail {

using program::Op;

void fail_without_derivative(const std::string& operation, const Node& node) {
  fail("gradients: '" + operation + "' of " + describe(node.args[0]) +
       " has no derivative; use stop_gradient to treat it as a constant");
}

// NOLINTNEXTLINE(readability-function-size): one rule per operation
std::vector<Tensor> map_gradients(const Node& node, const Tensor& y, const Tensor& dy,
                                  const std::vector<bool>& needed) {
  const Tensor& a = node.args[0];
  const Tensor& b = node.args[node.args.size() > 1 ? 1 : 0];
  const Tensor zero = constant(node.type, 0);
  using Rule = std::function<Tensor()>;
  const auto rules = [&](const std::vector<Rule>& all) {
    std::vector<Tensor> gradients(node.args.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      gradients[i] = needed[i] && all[i] ? all[i]() : Tensor();
    }
    return gradients;
  };
  const auto times = [&](const Tensor& factor) {
    return number_of(dy) == 1.0 && factor.dims() == dy.dims() ? factor : dy * factor;
  };
  // Where the operands are equal, the first gets the gradient. Comparing with y instead of b gives the same
  // result, and b can be freed earlier.
  const auto choice = [&](const Rule& takes_second) {
    return rules(
        {[&] { return where(takes_second(), zero, dy); }, [&] { return where(takes_second(), dy, zero); }});
  };
  switch (node.op) {
    case Op::kCast:
      return rules({[&] { return cast(dy, a.type()); }});
    case Op::kAdd:
      return rules({[&] { return dy; }, [&] { return dy; }});
    case Op::kSub:
      return rules({[&] { return dy; }, [&] { return -dy; }});
    case Op::kMul:
      if (a.is(b)) {
        return rules({[&] { return times(2 * a); }});
      }
      return rules({[&] { return times(b); }, [&] { return times(a); }});
    case Op::kDiv:
      // Sums before dividing, which saves divisions if b is broadcast.
      return rules({[&] { return dy / b; }, [&] { return -(sum_to(dy * y, b.dims()) / b); }});
    case Op::kMod:
      return rules({[&] { return dy; }, [&] { return -(dy * trunc(a / b)); }});
    case Op::kNeg:
      return rules({[&] { return -dy; }});
    case Op::kMin:
      return choice([&] { return y < a; });
    case Op::kMax:
      return choice([&] { return y > a; });
    case Op::kAbs:
      return rules({[&] { return times(sign(a)); }});
    case Op::kSign:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kTrunc:
      return rules({});  // 0 between the steps
    case Op::kExp:
      return rules({[&] { return times(y); }});
    case Op::kExp2:
      return rules({[&] { return times(y * 0.6931471805599453); }});
    case Op::kExpm1:
      return rules({[&] { return times(y + 1); }});
    case Op::kLog:
      return rules({[&] { return dy / a; }});
    case Op::kLog2:
      return rules({[&] { return dy / (a * 0.6931471805599453); }});
    case Op::kLog1p:
      return rules({[&] { return dy / (a + 1); }});
    case Op::kSqrt:
      return rules({[&] { return dy * 0.5 / y; }});
    case Op::kRsqrt:
      return rules({[&] { return dy * -0.5 * (y * y * y); }});
    case Op::kRecip:
      return rules({[&] { return -times(y * y); }});
    case Op::kPow:  // for a base of 0 the power does not depend on the exponent
      return rules({[&] { return times(b * pow(a, b - 1)); },
                    [&] { return dy * where(equal(a, 0), zero, y * log(a)); }});
    case Op::kSin:
      return rules({[&] { return times(cos(a)); }});
    case Op::kCos:
      return rules({[&] { return -times(sin(a)); }});
    case Op::kTanh:
      return rules({[&] { return times(1 - y * y); }});
    case Op::kSigmoid:
      return rules({[&] { return times(y * (1 - y)); }});
    case Op::kErf:
      return rules({[&] { return times(1.1283791670955126 * exp(-(a * a))); }});
    case Op::kErfc:
      return rules({[&] { return times(-1.1283791670955126 * exp(-(a * a))); }});
    case Op::kFma:
      return rules({[&] { return times(b); }, [&] { return times(a); }, [&] { return dy; }});
    case Op::kSelect:
      return rules({Rule(), [&] { return where(a, dy, zero); }, [&] { return where(a, zero, dy); }});
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kEqual:
    case Op::kNotEqual:
    case Op::kAnd:
    case Op::kOr:
    case Op::kNot:
    case Op::kBitAnd:
    case Op::kBitOr:
    case Op::kBitXor:
    case Op::kBitNot:
    case Op::kShiftLeft:
    case Op::kShiftRight:
    case Op::kRandomBits:
    case Op::kConst:
    case Op::kRead:
    case Op::kIndex:
    case Op::kGuard:
      break;  // never floats, or not elementwise
  }
  fail_without_derivative(std::string(program::op_info(node.op).name), node);
}

}  // namespace yoke::detail
