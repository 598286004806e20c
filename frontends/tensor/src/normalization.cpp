// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/normalization.cpp: normalizations over features, groups of channels, and batches.
#include <yoke/normalization.h>
#include <yoke/ops.h>

#include <string>

#include "node.h"

namespace yoke {
namespace {

void require_floats(const Tensor& x, std::size_t least_rank, const std::string& function) {
  detail::require(x, function.c_str());
  if (x.rank() < least_rank || !program::is_float(x.type())) {
    detail::fail(function + ": the input " + detail::describe(x) + " is " +
                 std::string(program::type_name(x.type())) + "; it must be floats with at least " +
                 detail::counted(least_rank, "axis", "axes"));
  }
}

void check_shape(const Tensor& given, const Dims& dims, const char* what, const std::string& function) {
  if (given && given.dims() != dims) {
    detail::fail(function + ": the " + what + " " + detail::describe(given) + " must have the shape " +
                 dims_text(dims));
  }
}

// Scales and shifts, where these are given.
Tensor transformed(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor scaled = weight ? x * weight : x;
  return bias ? scaled + bias : scaled;
}

Tensor normalized(const Tensor& x, const Axes& axes, double eps) {
  const Tensor centered = x - mean(x, axes, true);
  return centered * rsqrt(mean(square(centered), axes, true) + eps);
}

Axes last_axes(std::size_t count) {
  Axes axes;
  for (std::size_t k = 1; k <= count; ++k) {
    axes.push_back(-static_cast<int>(k));
  }
  return axes;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  std::size_t axis_count) {
  if (axis_count == 0) {
    detail::fail("layer_norm: axis_count must be at least 1");
  }
  require_floats(x, axis_count, "layer_norm");
  const Dims dims(x.dims().end() - static_cast<std::ptrdiff_t>(axis_count), x.dims().end());
  check_shape(weight, dims, "weight", "layer_norm");
  check_shape(bias, dims, "bias", "layer_norm");
  return transformed(normalized(x, last_axes(axis_count), eps), weight, bias);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  require_floats(x, 1, "rms_norm");
  check_shape(weight, {x.dims().back()}, "weight", "rms_norm");
  return transformed(x * rsqrt(mean(square(x), {-1}, true) + eps), weight, {});
}

Tensor group_norm(const Tensor& x, std::uint64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  require_floats(x, 2, "group_norm");
  const std::uint64_t channels = x.dims().back();
  if (groups == 0 || channels % groups != 0) {
    detail::fail("group_norm: " + std::to_string(groups) + " groups do not divide the " +
                 detail::counted(channels, "channel") + " of the input " + detail::describe(x));
  }
  check_shape(weight, {channels}, "weight", "group_norm");
  check_shape(bias, {channels}, "bias", "group_norm");
  Dims dims = x.dims();
  dims.back() = groups;
  dims.push_back(channels / groups);
  Axes axes;  // all but the batch and the group
  for (std::size_t k = 1; k < dims.size(); ++k) {
    if (k + 2 != dims.size()) {
      axes.push_back(static_cast<int>(k));
    }
  }
  return transformed(reshape(normalized(reshape(x, dims), axes, eps), x.dims()), weight, bias);
}

Moments channel_moments(const Tensor& x) {
  require_floats(x, 2, "channel_moments");
  Axes axes;
  for (std::size_t k = 0; k + 1 < x.rank(); ++k) {
    axes.push_back(static_cast<int>(k));
  }
  const Tensor center = mean(x, axes);
  return {center, mean(square(x - center), axes)};
}

Tensor batch_norm(const Tensor& x, const Moments& moments, const Tensor& weight, const Tensor& bias,
                  double eps) {
  require_floats(x, 2, "batch_norm");
  const Dims dims{x.dims().back()};
  detail::require(moments.mean, "batch_norm");
  detail::require(moments.variance, "batch_norm");
  check_shape(moments.mean, dims, "mean", "batch_norm");
  check_shape(moments.variance, dims, "variance", "batch_norm");
  check_shape(weight, dims, "weight", "batch_norm");
  check_shape(bias, dims, "bias", "batch_norm");
  return transformed((x - moments.mean) * rsqrt(moments.variance + eps), weight, bias);
}

}  // namespace yoke
