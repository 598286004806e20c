// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/indexing.cpp: elements selected by integer tensors.
#include <yoke/ops.h>

#include <string>
#include <utility>

#include "node.h"

namespace yoke {

namespace detail {

Tensor scatter_node(const Tensor& ids, const Tensor& value, Dims dims, int axis) {
  auto node = new_node(Kind::kScatter, value.type(), std::move(dims));
  node->args = {ids, value};
  node->axis = axis;
  return finish(std::move(node));
}

}  // namespace detail

using detail::fail;
using detail::Kind;
using detail::normal_axis;

namespace {

void require_ids(const Tensor& ids, const char* operation) {
  detail::require(ids, operation);
  if (!program::is_integer(ids.type())) {
    fail(std::string(operation) + ": the indices " + detail::describe(ids) + " are " +
         std::string(program::type_name(ids.type())) + "; they must be integers");
  }
}

Tensor gather_node(const Tensor& x, const Tensor& ids, Dims dims, int axis) {
  auto node = detail::new_node(Kind::kGather, x.type(), std::move(dims));
  node->args = {x, ids};
  node->axis = axis;
  return detail::finish(std::move(node));
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& ids, int axis) {
  detail::require(x, "take");
  require_ids(ids, "take");
  const std::size_t at = normal_axis(axis, x.rank(), "take", x);
  if (x.rank() - 1 + ids.rank() > 8) {
    fail("take: " + detail::describe(x) + " at the indices " + detail::describe(ids) +
         " would have more than 8 axes");
  }
  Axes first = {static_cast<int>(at)};  // `axis`, then the others
  for (std::size_t k = 0; k < x.rank(); ++k) {
    if (k != at) {
      first.push_back(static_cast<int>(k));
    }
  }
  const Tensor table = permute(x, first);
  Dims dims = ids.dims();
  dims.insert(dims.end(), table.dims().begin() + 1, table.dims().end());
  const Tensor rows = gather_node(table, ids, dims, -1);
  Axes order;  // moves the axes of ids after those that precede `axis`
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const std::size_t from = k < at ? ids.rank() + k : k < at + ids.rank() ? k - at : k;
    order.push_back(static_cast<int>(from));
  }
  return permute(rows, order);
}

Tensor take_along_axis(const Tensor& x, const Tensor& ids, int axis) {
  detail::require(x, "take_along_axis");
  require_ids(ids, "take_along_axis");
  const std::size_t at = normal_axis(axis, x.rank(), "take_along_axis", x);
  Dims like = ids.dims();
  if (like.size() == x.rank()) {
    like[at] = x.dims()[at];
  }
  if (like != x.dims()) {
    fail("take_along_axis: the indices " + detail::describe(ids) + " must have the shape of " +
         detail::describe(x) + " except for the size of axis " + std::to_string(axis));
  }
  return gather_node(x, ids, ids.dims(), static_cast<int>(at));
}

Tensor one_hot(const Tensor& ids, std::uint64_t count, Type type) {
  require_ids(ids, "one_hot");
  Dims dims = ids.dims();
  dims.push_back(count);
  const Tensor hit = equal(cast(unsqueeze(ids, -1), Type::kI64), iota(dims, -1));
  return where(hit, detail::constant(type, 1), detail::constant(type, 0));
}

}  // namespace yoke
