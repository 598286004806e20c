// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/elementwise.cpp: the elementwise operations.
#include <yoke/ops.h>

#include <utility>

#include "node.h"

namespace yoke {

using program::Op;

using detail::map;

#define YOKE_DEFINE_1(id, function)  \
  Tensor function(const Tensor& x) { \
    return map(Op::k##id, {x});      \
  }
#define YOKE_DEFINE_2(id, function)                   \
  Tensor function(const Tensor& a, const Tensor& b) { \
    return map(Op::k##id, {a, b});                    \
  }
#define YOKE_DEFINE_3(id, function)                                    \
  Tensor function(const Tensor& a, const Tensor& b, const Tensor& c) { \
    return map(Op::k##id, {a, b, c});                                  \
  }
#define YOKE_OP(id, function, text, arity, ...) YOKE_DEFINE_##arity(id, function)
#include <yoke/program/ops.def>

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
