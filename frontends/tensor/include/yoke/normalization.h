// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/normalization.h: normalizations over features, groups of channels, and batches.
//
// The variance is the mean of the squared differences from the mean. `weight` and `bias` may be empty tensors: no
// scaling, no shift. Invalid shapes and types are an Error kInvalidArgument that names the function and the tensors.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>

namespace yoke {

// (x - mean) / sqrt(variance + eps) * weight + bias over the last `axis_count` axes; weight and bias have their
// shape.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                  std::size_t axis_count = 1);
// x / sqrt(mean of x^2 + eps) * weight over the last axis.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);
// x: [batch, .., channels]. As layer_norm over all axes but the first, for `groups` groups of consecutive
// channels. weight and bias: [channels].
Tensor group_norm(const Tensor& x, std::uint64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

// The mean and the variance of each channel, the last axis, over all other axes.
struct Moments {
  Tensor mean;
  Tensor variance;
};
Moments channel_moments(const Tensor& x);
// (x - mean) / sqrt(variance + eps) * weight + bias, per channel; all others have shape [channels]. With the
// moments of x, this is batch normalization in training; with running ones, that of inference.
Tensor batch_norm(const Tensor& x, const Moments& moments, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

}  // namespace yoke
