// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/shape.cpp: operations on shapes and indices. Most are views.
#include <yoke/ops.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "node.h"
#include "refine.h"

namespace yoke {

using detail::fail;
using detail::Kind;
using detail::normal_axis;

Tensor reshape(const Tensor& x, const Dims& dims) {
  detail::require(x, "reshape");
  detail::check_dims(dims);
  if (element_count(dims) != x.element_count()) {
    fail("reshape: " + detail::describe(x) + " has " + detail::counted(x.element_count(), "element") +
         ", but " + dims_text(dims) + " has " + std::to_string(element_count(dims)));
  }
  if (dims == x.dims()) {
    return x;
  }
  if (detail::constant_of(x) != nullptr) {
    return detail::view_node(Tensor(detail::constant_of(x)->shared_from_this()), dims, {});
  }
  // If only axes of size 1 are added or removed, the reshape is a permutation.
  std::vector<int> axes;
  std::size_t next = 0;
  bool units_only = true;
  for (const std::uint64_t dim : x.dims()) {
    if (dim == 1) {
      axes.push_back(-1);
      continue;
    }
    while (next < dims.size() && dims[next] == 1) {
      ++next;
    }
    units_only = units_only && next < dims.size() && dims[next] == dim;
    axes.push_back(static_cast<int>(next++));
  }
  if (units_only) {
    return detail::permute_node(x, dims, axes);
  }
  if (x.node()->kind == Kind::kReshape && detail::refine(x.node()->args[0].dims(), dims)) {
    return reshape(x.node()->args[0], dims);
  }
  if (!detail::refine(x.dims(), dims)) {
    return reshape(reshape(x, {x.element_count()}), dims);  // the shapes have no common loops
  }
  auto node = detail::new_node(Kind::kReshape, x.type(), dims);
  node->args = {x};
  return detail::finish(std::move(node));
}

Tensor flatten(const Tensor& x) {
  detail::require(x, "flatten");
  return x.rank() == 0 ? reshape(x, {1}) : reshape(x, {x.dims()[0], x.element_count() / x.dims()[0]});
}

Tensor permute(const Tensor& x, const Axes& order) {
  detail::require(x, "permute");
  Dims dims;
  std::vector<int> axes(x.rank(), -1);
  for (std::size_t out = 0; out < order.size(); ++out) {
    const std::size_t from = normal_axis(order[out], x.rank(), "permute", x);
    if (axes[from] >= 0) {
      fail("permute: axis " + std::to_string(order[out]) + " of " + detail::describe(x) + " is listed twice");
    }
    axes[from] = static_cast<int>(out);
    dims.push_back(x.dims()[from]);
  }
  if (order.size() != x.rank()) {
    fail("permute: " + detail::describe(x) + " has " + detail::counted(x.rank(), "axis", "axes") +
         ", but the order lists " + std::to_string(order.size()));
  }
  return detail::permute_node(x, std::move(dims), axes);
}

Tensor transpose(const Tensor& x) {
  detail::require(x, "transpose");
  if (x.rank() < 2) {
    fail("transpose: " + detail::describe(x) + " must have at least 2 axes");
  }
  Axes order;
  for (int axis = 0; axis < static_cast<int>(x.rank()); ++axis) {
    order.push_back(axis);
  }
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permute(x, order);
}

Tensor squeeze(const Tensor& x, int axis) {
  detail::require(x, "squeeze");
  const std::size_t at = normal_axis(axis, x.rank(), "squeeze", x);
  if (x.dims()[at] != 1) {
    fail("squeeze: axis " + std::to_string(axis) + " of " + detail::describe(x) + " does not have size 1");
  }
  Dims dims = x.dims();
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at));
  return reshape(x, dims);
}

Tensor unsqueeze(const Tensor& x, int axis) {
  detail::require(x, "unsqueeze");
  const int rank = static_cast<int>(x.rank());
  const int at = axis < 0 ? axis + rank + 1 : axis;
  if (at < 0 || at > rank) {
    fail("unsqueeze: axis " + std::to_string(axis) + " is out of range for " + detail::describe(x));
  }
  Dims dims = x.dims();
  dims.insert(dims.begin() + at, 1);
  std::vector<int> axes;
  axes.reserve(x.rank());
  for (int k = 0; k < rank; ++k) {
    axes.push_back(k < at ? k : k + 1);
  }
  return detail::permute_node(x, std::move(dims), axes);
}

Tensor broadcast_to(const Tensor& x, const Dims& dims) {
  detail::require(x, "broadcast_to");
  bool fits = dims.size() >= x.rank() && dims.size() <= 8;
  std::vector<int> axes;
  for (std::size_t k = 0; fits && k < x.rank(); ++k) {
    const std::size_t out = dims.size() - x.rank() + k;
    fits = x.dims()[k] == dims[out] || x.dims()[k] == 1;
    axes.push_back(x.dims()[k] == 1 && dims[out] != 1 ? -1 : static_cast<int>(out));
  }
  if (!fits) {
    fail("broadcast_to: cannot broadcast " + detail::describe(x) + " to " + dims_text(dims));
  }
  return detail::permute_node(x, dims, axes);
}

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  if (parts.empty()) {
    fail("concat: expected at least one tensor");
  }
  for (const Tensor& part : parts) {
    detail::require(part, "concat");
  }
  const Tensor& first = parts[0];
  const std::size_t at = normal_axis(axis, first.rank(), "concat", first);
  Dims dims = first.dims();
  dims[at] = 0;
  for (const Tensor& part : parts) {
    Dims like = part.dims();
    if (like.size() == dims.size()) {
      like[at] = first.dims()[at];
    }
    if (like != first.dims() || part.type() != first.type()) {
      fail("concat along axis " + std::to_string(axis) + ": " + detail::describe(first) + " " +
           std::string(program::type_name(first.type())) + " and " + detail::describe(part) + " " +
           std::string(program::type_name(part.type())) + " must be equal except for the size of that axis");
    }
    dims[at] += part.dims()[at];
  }
  if (parts.size() == 1) {
    return first;
  }
  auto node = detail::new_node(Kind::kConcat, first.type(), std::move(dims));
  node->args = parts;
  node->axis = static_cast<int>(at);
  return detail::finish(std::move(node));
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  std::vector<Tensor> wider;
  for (const Tensor& part : parts) {
    detail::require(part, "stack");
    wider.push_back(unsqueeze(part, axis));
  }
  if (parts.empty()) {
    fail("stack: expected at least one tensor");
  }
  return concat(wider, axis);
}

Tensor iota(const Dims& dims, int axis) {
  auto node = detail::new_node(Kind::kIota, Type::kI64, dims);
  const int rank = static_cast<int>(dims.size());
  node->axis = axis < 0 ? axis + rank : axis;
  if (node->axis < 0 || node->axis >= rank) {
    fail("iota: axis " + std::to_string(axis) + " is out of range for shape " + dims_text(dims));
  }
  return detail::finish(std::move(node));
}

Tensor full(Type type, const Dims& dims, double value) {
  if (program::is_integer(type)) {
    const std::int64_t held = program::Expr::constant(type, value).literal.integer;
    if (static_cast<double>(held) != std::trunc(value)) {
      fail("full: " + std::to_string(value) + " cannot be represented as " +
           std::string(program::type_name(type)));
    }
  }
  const Tensor number = detail::constant(type, value);
  return dims.empty() ? number : detail::permute_node(number, dims, {});
}

Tensor zeros(Type type, const Dims& dims) {
  return full(type, dims, 0);
}

Tensor stop_gradient(const Tensor& x) {
  detail::require(x, "stop_gradient");
  auto node = detail::new_node(Kind::kStop, x.type(), x.dims());
  node->args = {x};
  return detail::finish(std::move(node));
}

}  // namespace yoke
