// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/slices.cpp: parts of tensors: slices, padding, windows.
#include <yoke/ops.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "node.h"

namespace yoke {

using detail::fail;
using detail::normal_axis;
using detail::ViewIndex;

namespace {

// Checks that [symbol, symbol + count) is in range of the axis for each value of the symbol.
void check_range(const Tensor& x, std::size_t axis, const Symbol& start, std::uint64_t count,
                 const std::string& call, const std::string& unit) {
  if (start.name.empty()) {
    fail(call + ": the symbol has no name");
  }
  if (start.step < 1 || start.high <= start.low) {
    fail(call + ": the symbol's range [" + std::to_string(start.low) + ", " + std::to_string(start.high) +
         ") with step " + std::to_string(start.step) + " is empty");
  }
  const std::int64_t last = detail::last_value(start);
  if (start.low < 0 || last > static_cast<std::int64_t>(x.dims()[axis] - count)) {
    fail(call + ": the symbol ranges from " + std::to_string(start.low) + " to " + std::to_string(last) +
         ", which selects " + unit + " " + std::to_string(start.low) + " to " +
         std::to_string(last + static_cast<std::int64_t>(count) - 1) + ", but axis " + std::to_string(axis) +
         " has " + std::to_string(x.dims()[axis]) + " " + unit);
  }
}

std::string text_of(std::span<const std::uint64_t> sizes) {
  return dims_text(Dims(sizes.begin(), sizes.end()));
}

}  // namespace

Tensor slice(const Tensor& x, int axis, std::uint64_t begin, std::uint64_t end, std::uint64_t step) {
  detail::require(x, "slice");
  const std::size_t at = normal_axis(axis, x.rank(), "slice", x);
  if (begin >= end || end > x.dims()[at]) {
    fail("slice: [" + std::to_string(begin) + ", " + std::to_string(end) + ") is not a valid range of axis " +
         std::to_string(axis) + " of " + detail::describe(x));
  }
  if (step == 0) {
    fail("slice: the step must be at least 1; use flip to reverse an axis");
  }
  Dims dims = x.dims();
  step = std::min(step, end - begin);
  dims[at] = (end - begin + step - 1) / step;
  std::vector<ViewIndex> indices = detail::same_axes(x.rank());
  indices[at] = ViewIndex::of_axis(at, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(step));
  return detail::view_node(x, std::move(dims), std::move(indices));
}

std::vector<Tensor> split(const Tensor& x, const Dims& sizes, int axis) {
  detail::require(x, "split");
  const std::size_t at = normal_axis(axis, x.rank(), "split", x);
  std::uint64_t rest = x.dims()[at];
  bool fits = true;
  for (const std::uint64_t size : sizes) {
    fits = fits && size >= 1 && size <= rest;
    rest -= fits ? size : 0;
  }
  if (!fits || rest != 0) {
    fail("split: the sizes " + text_of(sizes) + " must be at least 1 and add up to the size of axis " +
         std::to_string(axis) + " of " + detail::describe(x));
  }
  std::vector<Tensor> parts;
  std::uint64_t begin = 0;
  for (const std::uint64_t size : sizes) {
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::uint64_t count, int axis) {
  detail::require(x, "split");
  const std::uint64_t extent = x.dims()[normal_axis(axis, x.rank(), "split", x)];
  if (count == 0 || extent % count != 0) {
    fail("split: axis " + std::to_string(axis) + " of " + detail::describe(x) + " cannot be split into " +
         std::to_string(count) + " equal parts; give the sizes");
  }
  return split(x, Dims(count, extent / count), axis);
}

Tensor flip(const Tensor& x, const Axes& axes) {
  detail::require(x, "flip");
  std::vector<ViewIndex> indices = detail::same_axes(x.rank());
  for (const std::size_t axis : detail::normal_axes(axes, x, "flip")) {
    indices[axis] = ViewIndex::of_axis(axis, static_cast<std::int64_t>(x.dims()[axis]) - 1, -1);
  }
  return detail::view_node(x, x.dims(), std::move(indices));
}

Tensor roll(const Tensor& x, std::int64_t shift, int axis) {
  detail::require(x, "roll");
  const std::size_t at = normal_axis(axis, x.rank(), "roll", x);
  const auto extent = static_cast<std::int64_t>(x.dims()[at]);
  const std::int64_t forward = (shift % extent + extent) % extent;
  if (forward == 0) {
    return x;
  }
  auto node = detail::new_node(detail::Kind::kRoll, x.type(), x.dims());
  node->args = {x};
  node->axis = static_cast<int>(at);
  node->literal.integer = forward;
  return detail::finish(std::move(node));
}

Tensor pad(const Tensor& x, const std::vector<Padding>& widths, double value) {
  detail::require(x, "pad");
  if (widths.size() != x.rank()) {
    fail("pad: expected one pair of widths for each axis of " + detail::describe(x) + ", got " +
         std::to_string(widths.size()));
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60U;
  Dims dims = x.dims();
  std::vector<ViewIndex> indices;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const auto [before, after] = widths[axis];
    if (before > kMost || after > kMost || dims[axis] > kMost) {
      fail("pad: the widths " + std::to_string(before) + " and " + std::to_string(after) + " of axis " +
           std::to_string(axis) + " of " + detail::describe(x) +
           " are too large; was a difference negative?");
    }
    dims[axis] += before + after;
    indices.push_back(ViewIndex::of_axis(axis, -static_cast<std::int64_t>(widths[axis].before)));
  }
  detail::check_dims(dims);
  return detail::view_node(x, std::move(dims), std::move(indices), full(x.type(), {}, value).node()->literal);
}

Tensor windows(const Tensor& x, int axis, std::uint64_t size, std::uint64_t stride, std::uint64_t dilation) {
  detail::require(x, "windows");
  const std::size_t at = normal_axis(axis, x.rank(), "windows", x);
  const std::uint64_t extent = x.dims()[at];
  if (size == 0 || stride == 0 || dilation == 0 || size > extent || (size - 1) > (extent - 1) / dilation) {
    fail("windows: size " + std::to_string(size) + ", stride " + std::to_string(stride) + " and dilation " +
         std::to_string(dilation) + " must be at least 1, and a window must fit into axis " +
         std::to_string(axis) + " of " + detail::describe(x));
  }
  Dims dims = x.dims();
  const std::uint64_t room = extent - 1 - (size - 1) * dilation;
  dims[at] = room / stride + 1;
  stride = dims[at] == 1 ? 1 : stride;
  std::vector<ViewIndex> indices = detail::same_axes(x.rank());
  indices[at] = ViewIndex::of_axis(at, 0, static_cast<std::int64_t>(stride));
  indices[at].terms.push_back({static_cast<int>(dims.size()), static_cast<std::int64_t>(dilation)});
  dims.push_back(size);
  return detail::view_node(x, std::move(dims), std::move(indices));
}

Tensor dynamic_slice(const Tensor& x, const std::vector<Start>& starts, const Dims& sizes) {
  detail::require(x, "dynamic_slice");
  const std::string call = "dynamic_slice of " + detail::describe(x);
  if (starts.size() != x.rank() || sizes.size() != x.rank()) {
    fail(call + ": expected " + detail::counted(x.rank(), "start and size", "starts and sizes") + ", got " +
         std::to_string(starts.size()) + " and " + std::to_string(sizes.size()));
  }
  std::vector<ViewIndex> indices = detail::same_axes(x.rank());
  Dims dims = x.dims();
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    if (sizes[axis] == 0 || sizes[axis] > x.dims()[axis]) {
      fail(call + ": size " + std::to_string(sizes[axis]) + " is out of range for axis " +
           std::to_string(axis));
    }
    const auto room = static_cast<std::int64_t>(x.dims()[axis] - sizes[axis]);
    if (const auto* number = std::get_if<std::int64_t>(&starts[axis].value)) {
      indices[axis].constant = std::clamp<std::int64_t>(*number, 0, room);
      dims[axis] = sizes[axis];
    } else if (const auto* symbol = std::get_if<Symbol>(&starts[axis].value)) {
      check_range(x, axis, *symbol, sizes[axis], call, "elements");
      indices[axis].symbols.push_back({*symbol, 1});
      dims[axis] = sizes[axis];
    }
  }
  Tensor result = detail::view_node(x, std::move(dims), std::move(indices));
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const auto* start = std::get_if<Tensor>(&starts[axis].value);
    if (start == nullptr) {
      continue;
    }
    if (!*start || start->rank() != 0 || !program::is_integer(start->type())) {
      fail(call + ": the start of axis " + std::to_string(axis) + " must be an integer scalar");
    }
    const auto room = static_cast<std::int64_t>(x.dims()[axis] - sizes[axis]);
    const Tensor first = minimum(maximum(cast(*start, Type::kI64), 0), room);
    result = take(result, first + iota({sizes[axis]}, 0), static_cast<int>(axis));
  }
  return result;
}

Tensor rows(const Tensor& x, const Symbol& start, std::uint64_t count) {
  detail::require(x, "rows");
  const std::string call =
      "rows(" + detail::describe(x) + ", " + start.name + ", " + std::to_string(count) + ")";
  if (x.rank() == 0 || count == 0 || count > x.dims()[0]) {
    fail(call + ": cannot take " + detail::counted(count, "row") + " of axis 0");
  }
  check_range(x, 0, start, count, call, "rows");
  std::vector<Start> starts(x.rank(), 0);
  starts[0] = start;
  Dims sizes = x.dims();
  sizes[0] = count;
  return dynamic_slice(x, starts, sizes);
}

Tensor Tensor::at(const Symbol& symbol) const {
  return squeeze(rows(*this, symbol, 1), 0);
}

}  // namespace yoke
