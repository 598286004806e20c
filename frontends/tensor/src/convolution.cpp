// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/convolution.cpp: convolution and pooling, as sums and maxima of windows.
#include <yoke/convolution.h>
#include <yoke/gradients.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "node.h"

namespace yoke {
namespace {

using Numbers = std::vector<std::uint64_t>;

// The number of spatial axes of x. Checks the rank and the type.
std::size_t spatial_count(const Tensor& x, const std::string& function) {
  detail::require(x, function.c_str());
  if ((x.rank() != 3 && x.rank() != 4) || !program::is_float(x.type())) {
    detail::fail(function + ": the input " + detail::describe(x) + " is " +
                 std::string(program::type_name(x.type())) +
                 "; it must be [batch, length, channels] or [batch, height, width, channels] of floats");
  }
  return x.rank() - 2;
}

Numbers expand(const PerAxis& given, std::size_t count, std::uint64_t least, const std::string& function,
               const char* what) {
  Numbers numbers = given.numbers();
  if (numbers.size() == 1) {
    numbers.resize(count, numbers[0]);
  }
  if (numbers.size() != count) {
    detail::fail(function + ": " + what + " has " + detail::counted(numbers.size(), "number") +
                 "; give one, or one for each of the " + std::to_string(count) + " spatial axes");
  }
  if (std::any_of(numbers.begin(), numbers.end(), [&](std::uint64_t number) { return number < least; })) {
    detail::fail(function + ": " + what + " must be at least " + std::to_string(least));
  }
  return numbers;
}

// Windows over the spatial axes, and the widths of the padding around these.
struct Windows {
  Numbers size, stride, dilation;
  std::vector<Padding> padding;

  // The distance between the first and the last element of a window.
  std::uint64_t reach(std::size_t axis) const { return dilation[axis] * (size[axis] - 1); }
  std::uint64_t count(const Tensor& x, std::size_t axis, const std::string& function) const {
    const std::uint64_t padded = x.dims()[1 + axis] + padding[axis].before + padding[axis].after;
    if (padded <= reach(axis)) {
      detail::fail(function + ": a window of " + detail::counted(reach(axis) + 1, "element") +
                   " exceeds axis " + std::to_string(1 + axis) + " of the input " + detail::describe(x) +
                   ", which has " + std::to_string(padded) + " with its padding");
    }
    return (padded - reach(axis) - 1) / stride[axis] + 1;
  }
  // [batch, windows.., channels, elements of a window..]
  Tensor of(const Tensor& x, double filling, const std::string& function) const {
    std::vector<Padding> widths(x.rank());
    std::copy(padding.begin(), padding.end(), widths.begin() + 1);
    Tensor result = pad(x, widths, filling);
    for (std::size_t k = 0; k < size.size(); ++k) {
      (void)count(x, k, function);  // a clearer message than that of windows()
      result = windows(result, static_cast<int>(1 + k), size[k], stride[k], dilation[k]);
    }
    return result;
  }
};

Windows conv_windows(const Tensor& x, const Tensor& weight, const PerAxis& stride, const PerAxis& dilation,
                     const ConvPadding& padding, const std::string& function) {
  const std::size_t axes = spatial_count(x, function);
  detail::require(weight, function.c_str());
  if (weight.rank() != axes + 2 || weight.type() != x.type()) {
    detail::fail(function + ": the weight " + detail::describe(weight) + " is " +
                 std::string(program::type_name(weight.type())) + "; for the input " + detail::describe(x) +
                 " it must be " + std::string(program::type_name(x.type())) + " with " +
                 std::to_string(axes + 2) + " axes");
  }
  Windows made{{weight.dims().begin() + 1, weight.dims().end() - 1},
               expand(stride, axes, 1, function, "stride"),
               expand(dilation, axes, 1, function, "dilation"),
               {}};
  const Numbers widths = expand(padding.numbers(), axes, 0, function, "padding");
  for (std::size_t k = 0; k < axes; ++k) {
    Padding around{widths[k], widths[k]};
    if (padding.is_same()) {
      const std::uint64_t size = x.dims()[1 + k];
      const std::uint64_t needed =
          (size + made.stride[k] - 1) / made.stride[k] * made.stride[k] - made.stride[k] + made.reach(k) + 1;
      const std::uint64_t total = needed > size ? needed - size : 0;
      around = {total / 2, total - total / 2};
    }
    made.padding.push_back(around);
  }
  return made;
}

void check_groups(const Tensor& x, const Tensor& weight, std::uint64_t groups, std::uint64_t in,
                  const std::string& function) {
  if (groups == 0 || x.dims().back() % groups != 0 || weight.dims()[0] % groups != 0 ||
      x.dims().back() != in) {
    detail::fail(function + ": with " + detail::counted(groups, "group") + ", the weight " +
                 detail::describe(weight) + " does not match the channels of the input " +
                 detail::describe(x) + "; groups must divide both numbers of channels");
  }
}

// Splits the axis into [count, size / count].
Tensor split_axis(const Tensor& x, std::size_t axis, std::uint64_t count) {
  Dims dims = x.dims();
  dims[axis] /= count;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), count);
  return reshape(x, dims);
}

Tensor conv_of(const Tensor& x, const Tensor& weight, const Windows& windows, std::uint64_t groups,
               const std::string& function) {
  const Tensor read = windows.of(x, 0, function);
  const bool is_plane = windows.size.size() == 2;
  if (groups == 1) {
    return einsum(is_plane ? "bhwikl,okli->bhwo" : "bhik,oki->bho", read, weight);
  }
  const Tensor result =
      einsum(is_plane ? "bhwgikl,gokli->bhwgo" : "bhgik,goki->bhgo",
             split_axis(read, 1 + windows.size.size(), groups), split_axis(weight, 0, groups));
  Dims dims(result.dims().begin(), result.dims().end() - 1);
  dims.back() = weight.dims()[0];
  return reshape(result, dims);
}

Windows pool_windows(const Tensor& x, const PerAxis& window, const PerAxis& stride, const PerAxis& padding,
                     const PerAxis& dilation, bool ceil_mode, const std::string& function) {
  const std::size_t axes = spatial_count(x, function);
  Windows made{expand(window, axes, 1, function, "window"),
               expand(stride, axes, 0, function, "stride"),
               expand(dilation, axes, 1, function, "dilation"),
               {}};
  const Numbers widths = expand(padding, axes, 0, function, "padding");
  for (std::size_t k = 0; k < axes; ++k) {
    made.stride[k] = made.stride[k] == 0 ? made.size[k] : made.stride[k];
    if (widths[k] > made.size[k] / 2) {
      detail::fail(function + ": padding " + std::to_string(widths[k]) + " is more than half of the window " +
                   std::to_string(made.size[k]));
    }
    made.padding.push_back({widths[k], widths[k]});
  }
  for (std::size_t k = 0; ceil_mode && k < axes; ++k) {
    const std::uint64_t last =
        made.count(x, k, function) * made.stride[k];  // where one more window would start
    const std::uint64_t padded = x.dims()[1 + k] + 2 * widths[k];
    const bool is_left = padded > made.reach(k) + 1 && (padded - made.reach(k) - 1) % made.stride[k] != 0;
    if (is_left && last < x.dims()[1 + k] + widths[k]) {
      made.padding[k].after += last + made.reach(k) + 1 - padded;
    }
  }
  return made;
}

// The windows as [batch, windows.., elements of a window.., channels], and the axes of the elements. Channels are last,
// so that the values that gradients keep for each element are contiguous.
std::pair<Tensor, Axes> pooled(const Windows& windows, const Tensor& x, double filling,
                               const std::string& function) {
  const int count = static_cast<int>(windows.size.size());
  Axes order(static_cast<std::size_t>(2 * count + 2));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1 + count, order.begin() + 2 + count, order.end());
  Axes elements;
  for (int k = 0; k < count; ++k) {
    elements.push_back(1 + count + k);
  }
  return {permute(windows.of(x, filling, function), order), elements};
}

Axes spatial_axes(const Tensor& x, const std::string& function) {
  Axes axes;
  for (std::size_t k = 0; k < spatial_count(x, function); ++k) {
    axes.push_back(static_cast<int>(1 + k));
  }
  return axes;
}

// A literal of this type that lies along axis 1 + k of x.
Tensor along(const std::vector<double>& values, const Tensor& x, std::size_t k) {
  Dims dims(x.rank(), 1);
  dims[1 + k] = values.size();
  return cast(tensor<double>(values, dims), x.type());
}

}  // namespace

Tensor conv(const Tensor& x, const Tensor& weight, const ConvOptions& options) {
  const Windows windows = conv_windows(x, weight, options.stride, options.dilation, options.padding, "conv");
  check_groups(x, weight, options.groups, weight.dims().back() * options.groups, "conv");
  return conv_of(x, weight, windows, options.groups, "conv");
}

Tensor conv_transpose(const Tensor& x, const Tensor& weight, const ConvTransposeOptions& options) {
  const std::string function = "conv_transpose";
  Windows windows = conv_windows(x, weight, options.stride, options.dilation, ConvPadding(0), function);
  check_groups(x, weight, options.groups, weight.dims()[0], function);
  const std::size_t axes = windows.size.size();
  const Numbers padding = expand(options.padding, axes, 0, function, "padding");
  const Numbers more = expand(options.output_padding, axes, 0, function, "output_padding");
  Dims dims = x.dims();
  dims.back() = weight.dims().back() * options.groups;
  for (std::size_t k = 0; k < axes; ++k) {
    if (more[k] >= std::max(windows.stride[k], windows.dilation[k])) {
      detail::fail(function + ": output_padding " + std::to_string(more[k]) +
                   " must be less than the stride or the dilation");
    }
    const std::uint64_t whole = (dims[1 + k] - 1) * windows.stride[k] + windows.reach(k) + more[k] + 1;
    if (whole <= 2 * padding[k]) {
      detail::fail(function + ": padding " + std::to_string(padding[k]) + " leaves nothing of axis " +
                   std::to_string(1 + k) + " of the input " + detail::describe(x));
    }
    dims[1 + k] = whole - 2 * padding[k];
    windows.padding[k] = {padding[k], padding[k]};
  }
  // conv() is linear in its input, so its gradient does not depend on the values of the input.
  const Tensor input = placeholder("conv_transpose", x.type(), dims);
  Tensor output = conv_of(input, weight, windows, options.groups, function);
  for (std::size_t k = 0; k < axes; ++k) {
    output = slice(output, static_cast<int>(1 + k), 0, x.dims()[1 + k]);
  }
  return gradients(sum(output * x), {input})[0];
}

Tensor max_pool(const Tensor& x, const PerAxis& window, const PoolOptions& options) {
  const Windows windows = pool_windows(x, window, options.stride, options.padding, options.dilation,
                                       options.ceil_mode, "max_pool");
  const auto [read, elements] = pooled(windows, x, -std::numeric_limits<double>::infinity(), "max_pool");
  return max(read, elements);
}

Tensor average_pool(const Tensor& x, const PerAxis& window, const AveragePoolOptions& options) {
  const std::string function = "average_pool";
  const Windows windows =
      pool_windows(x, window, options.stride, options.padding, 1, options.ceil_mode, function);
  const auto [read, elements] = pooled(windows, x, 0, function);
  Tensor result = sum(read, elements);
  for (std::size_t k = 0; k < windows.size.size(); ++k) {
    const std::uint64_t before = windows.padding[k].before;
    const std::uint64_t size = x.dims()[1 + k];
    const std::uint64_t low = options.count_padding ? 0 : before;
    const std::uint64_t high = size + before + (options.count_padding ? before : 0);
    std::vector<double> factors(windows.count(x, k, function));
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const std::uint64_t begin = i * windows.stride[k];
      const std::uint64_t counted = std::min(begin + windows.size[k], high) - std::max(begin, low);
      factors[i] = 1 / static_cast<double>(counted);
    }
    const bool is_constant =
        std::all_of(factors.begin(), factors.end(), [&](double factor) { return factor == factors[0]; });
    result = is_constant ? result * factors[0] : result * along(factors, x, k);
  }
  return result;
}

Tensor adaptive_average_pool(const Tensor& x, const PerAxis& count) {
  const std::string function = "adaptive_average_pool";
  const std::size_t axes = spatial_count(x, function);
  const Numbers counts = expand(count, axes, 1, function, "count");
  std::vector<Tensor> shares;  // [windows, elements]: the share of an element in the mean of a window
  for (std::size_t k = 0; k < axes; ++k) {
    const std::uint64_t size = x.dims()[1 + k];
    std::vector<double> share(counts[k] * size);
    for (std::uint64_t i = 0; i < counts[k]; ++i) {
      const std::uint64_t begin = i * size / counts[k];
      const std::uint64_t end = ((i + 1) * size + counts[k] - 1) / counts[k];
      std::fill_n(share.begin() + static_cast<std::ptrdiff_t>(i * size + begin), end - begin,
                  1 / static_cast<double>(end - begin));
    }
    shares.push_back(cast(tensor<double>(share, {counts[k], size}), x.type()));
  }
  return axes == 1 ? einsum("bic,oi->boc", x, shares[0])
                   : einsum("bijc,oi,pj->bopc", x, shares[0], shares[1]);
}

Tensor global_average_pool(const Tensor& x) {
  return mean(x, spatial_axes(x, "global_average_pool"));
}

Tensor global_max_pool(const Tensor& x) {
  return max(x, spatial_axes(x, "global_max_pool"));
}

}  // namespace yoke
