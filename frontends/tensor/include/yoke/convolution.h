// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/convolution.h: convolution and pooling, channels last.
//
// Inputs are [batch, length, channels] or [batch, height, width, channels]: one or two spatial axes.
//
// Invalid shapes, types and options are an Error kInvalidArgument that names the function and the tensors.
#pragma once

#include <yoke/ops.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace yoke {

// One number for all spatial axes, or one number per axis.
class PerAxis {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): for options such as {.stride = 2}
  PerAxis(std::uint64_t all) : numbers_{all} {}
  PerAxis(std::initializer_list<std::uint64_t> each) : numbers_(each) {}
  const std::vector<std::uint64_t>& numbers() const { return numbers_; }

 private:
  std::vector<std::uint64_t> numbers_;
};

// Zeros around the input of a convolution.
class ConvPadding {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): for options such as {.padding = 1}
  ConvPadding(std::uint64_t both_sides) : numbers_(both_sides) {}
  ConvPadding(std::initializer_list<std::uint64_t> each) : numbers_(each) {}
  // The output has ceil(size / stride) elements, as with XLA's SAME and, for stride 1, PyTorch's "same". If the number
  // of zeros is odd, the larger part is after the input.
  static ConvPadding same() {
    ConvPadding padding(0);
    padding.is_same_ = true;
    return padding;
  }
  static ConvPadding valid() { return {0}; }
  bool is_same() const { return is_same_; }
  const PerAxis& numbers() const { return numbers_; }

 private:
  PerAxis numbers_;
  bool is_same_ = false;
};

struct ConvOptions {
  PerAxis stride = 1;
  PerAxis dilation = 1;
  ConvPadding padding = 0;
  std::uint64_t groups = 1;
};
// Cross-correlation, as torch.nn.functional.conv1d and conv2d:
//   y[b, o.., c] = sum over k.., i of x[b, o * stride + k * dilation - padding.., i] * weight[c, k.., i]
// weight: [out, kernel sizes.., in / groups]; group g of the output channels reads group g of the input channels.
// An output axis has floor((size + padding on both sides - dilation * (kernel - 1) - 1) / stride) + 1 elements.
Tensor conv(const Tensor& x, const Tensor& weight, const ConvOptions& options = {});

struct ConvTransposeOptions {
  PerAxis stride = 1;
  PerAxis dilation = 1;
  PerAxis padding = 0;
  PerAxis output_padding = 0;  // extra elements at the end of the output; less than stride or dilation
  std::uint64_t groups = 1;
};
// The gradient of conv() with respect to its input, as torch.nn.functional.conv_transpose2d:
//   y[b, i * stride + k * dilation - padding.., c] is the sum of x[b, i.., j] * weight[j, k.., c]
// weight: [in, kernel sizes.., out / groups]. An output axis has
// (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 elements.
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const ConvTransposeOptions& options = {});

struct PoolOptions {
  PerAxis stride = 0;   // 0: the size of the window
  PerAxis padding = 0;  // on both sides, at most half of the window
  PerAxis dilation = 1;
  // Whether the last window may extend beyond the padded input. A window must start in the input or in the padding
  // before it.
  bool ceil_mode = false;
};
// The largest element of each window, never padding. Equal elements share the gradient evenly; PyTorch gives it
// to the first one.
Tensor max_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options = {});

struct AveragePoolOptions {
  PerAxis stride = 0;
  PerAxis padding = 0;
  bool ceil_mode = false;
  bool count_padding = true;  // whether padding counts as zeros; otherwise it is left out of the mean
};
// The mean of each window. Elements beyond the padding, with ceil_mode, never count.
Tensor average_pool(const Tensor& x, const PerAxis& window, const AveragePoolOptions& options = {});
// Divides each spatial axis into this many windows of about equal size, as torch.nn.AdaptiveAvgPool2d: window i
// begins at floor(i * size / count) and ends before ceil((i + 1) * size / count).
Tensor adaptive_average_pool(const Tensor& x, const PerAxis& count);
// The mean or the maximum over all spatial axes: [batch, channels].
Tensor global_average_pool(const Tensor& x);
Tensor global_max_pool(const Tensor& x);

}  // namespace yoke
