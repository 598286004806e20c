// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/scalar.cpp: scalars that the host sets.
#include <yoke/tensor.h>

#include <utility>

#include "node.h"

namespace yoke {

Scalar scalar(std::string name, double value, Type type) {
  if (name.empty() || (type != Type::kF32 && type != Type::kF64)) {
    detail::fail("scalar '" + name + "': it needs a name, and the type f32 or f64");
  }
  auto node = detail::new_node(detail::Kind::kScalar, type, {});
  node->name = std::move(name);
  node->scalar = std::make_shared<detail::ScalarState>();
  node->scalar->value = value;
  Scalar made;
  made.tensor_ = detail::finish(std::move(node));
  return made;
}

double Scalar::value() const {
  return tensor_ ? tensor_.node()->scalar->value.load() : 0;
}

void Scalar::set(double value) const {
  detail::require(tensor_, "Scalar::set");
  tensor_.node()->scalar->value = value;
}

}  // namespace yoke
