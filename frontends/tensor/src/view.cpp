// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/view.cpp: creates views, and composes a view of a view.
#include "view.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "node.h"

namespace yoke::detail {
namespace {

// Returns false on overflow.
bool add_product(std::int64_t& sum, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum);
}

// Whether the index may leave [0, extent), or its division a remainder, for indices of a view of shape
// `dims`.
bool may_be_outside(const ViewIndex& index, const Dims& dims, std::uint64_t extent) {
  if (index.divisor != 1) {
    return true;
  }
  std::int64_t low = index.constant;
  std::int64_t high = index.constant;
  bool fits = true;
  const auto add = [&](std::int64_t first, std::int64_t last, std::int64_t coefficient) {
    fits = fits && add_product(low, coefficient > 0 ? first : last, coefficient) &&
           add_product(high, coefficient > 0 ? last : first, coefficient);
  };
  for (const auto& term : index.terms) {
    add(0, static_cast<std::int64_t>(dims[static_cast<std::size_t>(term.axis)]) - 1, term.coefficient);
  }
  for (const auto& [symbol, coefficient] : index.symbols) {
    add(symbol.low, last_value(symbol), coefficient);
  }
  return !fits || low < 0 || high >= static_cast<std::int64_t>(extent);
}

bool may_be_outside(const std::vector<ViewIndex>& indices, const Dims& dims, const Dims& source) {
  for (std::size_t k = 0; k < source.size(); ++k) {
    if (may_be_outside(indices[k], dims, source[k])) {
      return true;
    }
  }
  return false;
}

// Divides the index by the common factors of its numbers.
void reduce_fraction(ViewIndex& index) {
  std::int64_t common = std::gcd(index.divisor, index.constant);
  for (const auto& term : index.terms) {
    common = std::gcd(common, term.coefficient);
  }
  for (const auto& term : index.symbols) {
    common = std::gcd(common, term.coefficient);
  }
  if (index.divisor == 1 || common <= 1) {
    return;
  }
  for (auto& term : index.terms) {
    term.coefficient /= common;
  }
  for (auto& term : index.symbols) {
    term.coefficient /= common;
  }
  index.constant /= common;
  index.divisor /= common;
}

template <class Terms, class Key>
bool add_term(Terms& terms, const Key& key, std::int64_t a, std::int64_t b) {
  auto found = std::find_if(terms.begin(), terms.end(), [&](const auto& term) {
    const auto& [own, coefficient] = term;
    return own == key;
  });
  if (found == terms.end()) {
    terms.push_back({key, 0});
    found = terms.end() - 1;
  }
  if (!add_product(found->coefficient, a, b)) {
    return false;
  }
  if (found->coefficient == 0) {
    terms.erase(found);
  }
  return true;
}

// `inner` with `outer` in place of its axes. Returns nullopt if that is not an index of this form.
std::optional<ViewIndex> substituted(const ViewIndex& inner, const std::vector<ViewIndex>& outer) {
  ViewIndex result = inner;
  result.terms.clear();
  for (const auto& [axis, coefficient] : inner.terms) {
    const ViewIndex& by = outer[static_cast<std::size_t>(axis)];
    if (by.divisor != 1) {
      // (c * (a / d) + b) / e is (c * a + d * b) / (d * e) if no factor of c hides a remainder of a / d.
      if (inner.terms.size() != 1 || std::gcd(coefficient, by.divisor) != 1 ||
          __builtin_mul_overflow(result.constant, by.divisor, &result.constant) ||
          __builtin_mul_overflow(result.divisor, by.divisor, &result.divisor)) {
        return std::nullopt;
      }
      for (auto& term : result.symbols) {
        term.coefficient *= by.divisor;
      }
    }
    if (!add_scaled(result, by, coefficient)) {
      return std::nullopt;
    }
  }
  reduce_fraction(result);
  return result;
}

// Whether `inner` is outside of its source wherever `axis` of the inner view is out of range.
bool leaves_with(const Node& inner, int axis) {
  const Dims& source = inner.args[0].dims();
  const auto extent = static_cast<std::int64_t>(inner.dims[static_cast<std::size_t>(axis)]);
  for (std::size_t k = 0; k < source.size(); ++k) {
    const ViewIndex& index = inner.view[k];
    if (index.terms.size() != 1 || index.terms[0].axis != axis || !index.symbols.empty()) {
      continue;
    }
    const std::int64_t step = index.terms[0].coefficient;
    const std::int64_t end = static_cast<std::int64_t>(source[k]) * index.divisor;
    const std::int64_t before = index.constant - step;
    const std::int64_t after = index.constant + step * extent;
    if (step > 0 ? before < 0 && after >= end : before >= end && after < 0) {
      return true;
    }
  }
  return false;
}

// If only a part of an elementwise value is read, the part is computed, once for all of its views
// (lower/plan.cpp).
bool is_part_of_map(const Node& view) {
  const Node* base = &view;
  while (base->kind == Kind::kView || base->kind == Kind::kStop) {
    base = base->args[0].node().get();
  }
  return base->kind == Kind::kMap && element_count(view.dims) < view.args[0].element_count();
}

// The indices of `inner`'s source, if a view by `outer` of the view `inner` is one view.
std::optional<std::vector<ViewIndex>> composed(const std::vector<ViewIndex>& outer, const Dims& dims,
                                               const program::Literal& fill, const Node& inner) {
  bool is_filled = false;
  for (std::size_t axis = 0; axis < outer.size(); ++axis) {
    if (may_be_outside(outer[axis], dims, inner.dims[axis])) {
      is_filled = true;
      if (!leaves_with(inner, static_cast<int>(axis))) {
        return std::nullopt;
      }
    }
  }
  if ((is_filled && inner.is_filled && !program::same(inner.type, fill, inner.literal)) ||
      is_part_of_map(inner)) {
    return std::nullopt;
  }
  std::vector<ViewIndex> indices;
  for (const ViewIndex& index : inner.view) {
    auto one = substituted(index, outer);
    if (!one) {
      return std::nullopt;
    }
    indices.push_back(std::move(*one));
  }
  return indices;
}

bool is_identity(const Tensor& x, const Dims& dims, const std::vector<ViewIndex>& indices) {
  if (dims != x.dims()) {
    return false;
  }
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const bool is_unit = dims[k] == 1 && indices[k] == ViewIndex{};
    if (!is_unit && indices[k] != ViewIndex::of_axis(k)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool add_scaled(ViewIndex& sum, const ViewIndex& other, std::int64_t scale) {
  bool fits = add_product(sum.constant, other.constant, scale);
  for (const auto& [axis, coefficient] : other.terms) {
    fits = fits && add_term(sum.terms, axis, coefficient, scale);
  }
  for (const auto& [symbol, coefficient] : other.symbols) {
    fits = fits && add_term(sum.symbols, symbol, coefficient, scale);
  }
  return fits;
}

std::size_t use_count(const std::vector<ViewIndex>& indices, int axis) {
  return static_cast<std::size_t>(std::count_if(indices.begin(), indices.end(), [&](const ViewIndex& index) {
    return std::any_of(index.terms.begin(), index.terms.end(),
                       [&](const auto& term) { return term.axis == axis; });
  }));
}

std::int64_t last_value(const Symbol& symbol) {
  return symbol.low + (symbol.high - 1 - symbol.low) / symbol.step * symbol.step;
}

std::vector<ViewIndex> same_axes(std::size_t rank) {
  std::vector<ViewIndex> indices;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    indices.push_back(ViewIndex::of_axis(axis));
  }
  return indices;
}

Tensor view_node(const Tensor& x, Dims dims, std::vector<ViewIndex> indices, program::Literal fill) {
  for (ViewIndex& index : indices) {
    reduce_fraction(index);
  }
  const Node& source = *x.node();
  if (source.kind == Kind::kView) {
    if (auto direct = composed(indices, dims, fill, source)) {
      const bool is_filled = may_be_outside(indices, dims, x.dims());
      return view_node(source.args[0], std::move(dims), std::move(*direct),
                       is_filled ? fill : source.literal);
    }
  }
  if (is_identity(x, dims, indices)) {
    return x;
  }
  auto node = new_node(Kind::kView, x.type(), std::move(dims));
  node->is_filled = may_be_outside(indices, node->dims, x.dims());
  node->args = {x};
  node->view = std::move(indices);
  node->literal = fill;
  if (const Node* number = constant_of(x); number != nullptr && !node->is_filled) {
    node->args = {Tensor(number->shared_from_this())};
    node->view.clear();
  }
  return finish(std::move(node));
}

Tensor permute_node(const Tensor& x, Dims dims, const std::vector<int>& axes) {
  std::vector<ViewIndex> indices;
  indices.reserve(axes.size());
  for (const int axis : axes) {
    indices.push_back(axis < 0 ? ViewIndex{} : ViewIndex::of_axis(static_cast<std::size_t>(axis)));
  }
  return view_node(x, std::move(dims), std::move(indices));
}

bool is_permutation(const Node& view) {
  std::vector<bool> used(view.dims.size(), false);
  for (std::size_t k = 0; k < view.view.size(); ++k) {
    const ViewIndex& index = view.view[k];
    if (index == ViewIndex{}) {
      continue;
    }
    if (!index.is_axis()) {
      return false;
    }
    const auto axis = static_cast<std::size_t>(index.terms[0].axis);
    if (used[axis] || view.dims[axis] != view.args[0].dims()[k]) {
      return false;
    }
    used[axis] = true;
  }
  return !view.is_filled && std::find(used.begin(), used.end(), false) == used.end();
}

}  // namespace yoke::detail
