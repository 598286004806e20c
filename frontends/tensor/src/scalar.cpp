// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/scalar.cpp: scalars that the host sets.
#include <yoke/tensor.h>

#include <utility>

#include "node.h"

namespace yoke {

Scalar scalar(std::string name, double value, Type type) {
  if (name.empty() || (type != Type::kF32 && type != Type::kF64)) {
    detail::fail((name.empty() ? "scalar" : "scalar '" + name + "'") +
                 ": it needs a name, and the type f32 or f64");
  }
  auto node = detail::new_node(detail::Kind::kScalar, type, {});
  node->name = std::move(name);
  node->scalar = std::make_shared<detail::ScalarState>();
  node->scalar->value = value;
  Scalar made;
  made.tensor_ = detail::finish(std::move(node));
  return made;
}

namespace {

detail::ScalarState& state_of(const Tensor& tensor) {
  if (!tensor) {
    throw Error(ErrorCode::kFailedPrecondition, "cannot use an empty Scalar; create it with scalar() first");
  }
  return *tensor.node()->scalar;
}

}  // namespace

double Scalar::value() const {
  return state_of(tensor_).value;
}

void Scalar::set(double value) const {
  state_of(tensor_).value = value;
}

}  // namespace yoke
