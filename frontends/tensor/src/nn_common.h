// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/nn_common.h: what the sources of the layers share.
#pragma once

#include <yoke/nn.h>

#include <cmath>
#include <string>

#include "node.h"

namespace yoke::nn {

// U(-b, b) with b = 1 / sqrt(fan_in), for weights whose dims are not known yet.
inline Initializer uniform_by_fan_in() {
  return Initializer::kaiming_uniform(std::sqrt(1.0 / 3));
}
// The same for the bias that belongs to a weight.
inline Initializer uniform_by_fan_in(const Dims& weight) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in(weight)));
  return Initializer::uniform(-bound, bound);
}

// Error kInvalidArgument: x is empty, or has another type or rank. `form` describes the input.
inline void check_input(const Tensor& x, const std::string& layer, Type type, std::size_t rank,
                        const char* form) {
  detail::require(x, layer.c_str());
  if (x.type() != type || x.rank() != rank) {
    detail::fail(layer + ": the input " + detail::describe(x) + " is " +
                 std::string(program::type_name(x.type())) + "; it must be " +
                 std::string(program::type_name(type)) + " " + form);
  }
}

// Error kInvalidArgument: an earlier input had another size.
inline void check_size(const Parameter& weight, std::size_t axis, std::uint64_t size, const Tensor& x,
                       const std::string& layer) {
  if (weight.has_dims() && weight.dims()[axis] != size) {
    detail::fail(layer + ": the last axis of the input " + detail::describe(x) + " has size " +
                 std::to_string(x.dims().back()) + ", but parameter '" + weight.name() + "' " +
                 dims_text(weight.dims()) + " expects " + std::to_string(weight.dims()[axis]));
  }
}

}  // namespace yoke::nn
