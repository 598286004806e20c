// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/view_adjoint.cpp: the gradient of a view's source.
//
// For x[2 * o + k], the gradient of x[i] is the sum over k of dy[(i - k) / 2, k], where that exists: the
// equation i = 2 * o + k is solved for o, the longest axis, and the others are summed over.
#include <yoke/ops.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "node.h"

namespace yoke::detail {
namespace {

// Solves the equations i[k] = index k of the view, for all k. The axes of the solution are i, then the axes
// of the view that remain free.
class Solution {
 public:
  Solution(const Node& view, std::vector<ViewIndex> indices, Dims dims)
      : source_(view.args[0].dims()), indices_(std::move(indices)), dims_(std::move(dims)) {
    add_unit_axes();
    axes_.resize(dims_.size());
    is_free_.resize(dims_.size(), false);
    std::vector<std::size_t> order(source_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return indices_[a].terms.size() < indices_[b].terms.size();
    });
    for (const std::size_t k : order) {
      solve(k);
    }
    number_free_axes();
  }

  // The gradient, as a sum of terms over the free axes.
  Tensor sum_of(Tensor dy) const {
    dy = permute_node(dy, dims_, labels_up_to(dy.rank()));  // appends the axes of size 1
    if (conditions_.empty() && free_count() > 0) {
      if (Tensor folded = sum_of_products(*dy.node())) {
        return folded;
      }
    }
    if (Tensor joined = joined_windows(dy)) {
      return joined;
    }
    std::vector<ViewIndex> axes;
    std::transform(axes_.begin(), axes_.end(), std::back_inserter(axes),
                   [](const auto& axis) { return *axis; });
    Tensor terms = view_node(dy, all_dims_, std::move(axes));
    for (const std::size_t k : conditions_) {
      const Tensor left = iota(all_dims_, static_cast<int>(k)) * indices_[k].divisor;
      terms = where(equal(left, numerator_of(indices_[k])), terms, constant(dy.type(), 0));
    }
    return contract({terms}, {labels_up_to(all_dims_.size())}, labels_up_to(source_.size()), all_dims_);
  }

 private:
  std::size_t free_count() const { return all_dims_.size() - source_.size(); }

  // A source axis that no axis of the view indexes gets an axis of size 1 that does.
  void add_unit_axes() {
    for (std::size_t k = 0; k < source_.size(); ++k) {
      if (indices_[k].terms.empty() && !(source_[k] == 1 && indices_[k] == ViewIndex{})) {
        indices_[k].terms.push_back({static_cast<int>(dims_.size()), 1});
        dims_.push_back(1);
      }
    }
  }

  // The term to solve the equation for: the longest axis that no other equation has, or an axis that it
  // equals.
  const ViewIndex::Term* pivot(const ViewIndex& index) const {
    const ViewIndex::Term* best = nullptr;
    for (const auto& term : index.terms) {
      const auto axis = static_cast<std::size_t>(term.axis);
      const bool is_open = !axes_[axis] && !is_free_[axis];
      const bool is_whole = std::abs(term.coefficient) == 1 && index.divisor == 1;
      if (is_open && (use_count(indices_, term.axis) == 1 || (is_whole && index.terms.size() == 1)) &&
          (best == nullptr || dims_[axis] > dims_[static_cast<std::size_t>(best->axis)])) {
        best = &term;
      }
    }
    return best;
  }

  void solve(std::size_t k) {
    const ViewIndex& index = indices_[k];
    if (index.terms.empty()) {
      return;
    }
    const ViewIndex::Term* chosen = pivot(index);
    for (const auto& term : index.terms) {
      const auto axis = static_cast<std::size_t>(term.axis);
      is_free_[axis] = is_free_[axis] || (&term != chosen && !axes_[axis]);
    }
    if (chosen == nullptr) {
      conditions_.push_back(k);
      return;
    }
    const std::int64_t sign = chosen->coefficient > 0 ? 1 : -1;
    ViewIndex solved = ViewIndex::of_axis(k, 0, sign * index.divisor);
    solved.divisor = std::abs(chosen->coefficient);
    bool fits = add_scaled(solved, {{}, index.constant, index.symbols, 1}, -sign);
    for (const auto& term : index.terms) {
      fits =
          fits && (&term == chosen || add_scaled(solved, solution_of(term.axis), -sign * term.coefficient));
    }
    if (!fits) {
      fail("gradients: an index of a view does not fit in 64 bits");
    }
    axes_[static_cast<std::size_t>(chosen->axis)] = std::move(solved);
  }

  // The axis of the view, which has a solution without a divisor or is free. Until they are numbered, free
  // axes have the numbers from source_.size().
  ViewIndex solution_of(int axis) const {
    const auto at = static_cast<std::size_t>(axis);
    return axes_[at] ? *axes_[at] : ViewIndex::of_axis(source_.size() + at);
  }

  void number_free_axes() {
    all_dims_ = source_;
    std::vector<int> numbers(dims_.size(), -1);
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) {
      if (is_free_[axis]) {
        numbers[axis] = static_cast<int>(all_dims_.size());
        all_dims_.push_back(dims_[axis]);
        axes_[axis] = ViewIndex::of_axis(source_.size() + axis);
      }
    }
    for (auto& index : axes_) {
      for (auto& term : index->terms) {
        if (const auto free = term.axis - static_cast<int>(source_.size()); free >= 0) {
          term.axis = numbers[static_cast<std::size_t>(free)];
        }
      }
    }
  }

  // The gradient of windows that do not overlap, such as x[2 * o + k] with k < 2. Each element of the source is in at
  // most one window, so the gradient is a reshape of dy. Returns an empty Tensor for other views.
  Tensor joined_windows(const Tensor& dy) const {
    Axes order;
    Dims joined;
    std::vector<Padding> rest;
    bool has_windows = false;
    for (std::size_t k = 0; k < source_.size(); ++k) {
      std::vector<ViewIndex::Term> terms = indices_[k].terms;
      std::sort(terms.begin(), terms.end(),
                [](const auto& a, const auto& b) { return a.coefficient > b.coefficient; });
      std::uint64_t size = 1;
      for (std::size_t i = terms.size(); i-- > 0;) {
        if (terms[i].coefficient != static_cast<std::int64_t>(size) ||
            use_count(indices_, terms[i].axis) != 1) {
          return {};
        }
        size *= dims_[static_cast<std::size_t>(terms[i].axis)];
      }
      const ViewIndex& index = indices_[k];
      if (index.constant != 0 || !index.symbols.empty() || index.divisor != 1 || size > source_[k]) {
        return {};
      }
      std::transform(terms.begin(), terms.end(), std::back_inserter(order),
                     [](const auto& term) { return term.axis; });
      has_windows = has_windows || terms.size() > 1;
      joined.push_back(size);
      rest.push_back({0, source_[k] - size});
    }
    return has_windows ? pad(reshape(permute(dy, order), joined), rest) : Tensor();
  }

  // An index of the view before the division, as an i64 tensor over the axes of the solution. The solutions
  // of its axes have no divisor, because other equations have these axes too.
  Tensor numerator_of(const ViewIndex& index) const {
    ViewIndex total = {{}, index.constant, index.symbols, 1};
    bool fits = true;
    for (const auto& [axis, coefficient] : index.terms) {
      fits = fits && add_scaled(total, *axes_[static_cast<std::size_t>(axis)], coefficient);
    }
    if (!fits) {
      fail("gradients: an index of a view does not fit in 64 bits");
    }
    Tensor sum = constant_integer(Type::kI64, total.constant);
    for (const auto& [axis, coefficient] : total.terms) {
      sum = sum + iota(all_dims_, axis) * coefficient;
    }
    for (const auto& [symbol, coefficient] : total.symbols) {
      sum = sum + symbol_value(symbol) * coefficient;
    }
    return sum;
  }

  // If dy is itself a sum of products, as that of a convolution's windows, the factors are read through the
  // view, and one sum remains. Otherwise empty.
  Tensor sum_of_products(const Node& dy) const {
    if (dy.kind != Kind::kReduce || dy.reduce != program::Reduce::kSum || dy.args.size() < 2) {
      return {};
    }
    Dims extents = all_dims_;
    extents.insert(extents.end(), dy.reduced.begin(), dy.reduced.end());
    std::vector<Tensor> factors;
    std::vector<std::vector<int>> labels;
    for (std::size_t i = 0; i < dy.args.size(); ++i) {
      std::vector<ViewIndex> indices;
      std::vector<int> used;
      for (const int label : dy.labels[i]) {
        const auto axis = static_cast<std::size_t>(label);
        indices.push_back(axis < axes_.size() ? *axes_[axis]
                                              : ViewIndex::of_axis(all_dims_.size() + axis - axes_.size()));
        for (const auto& term : indices.back().terms) {
          used.push_back(term.axis);
        }
      }
      std::sort(used.begin(), used.end());
      used.erase(std::unique(used.begin(), used.end()), used.end());
      Dims dims;
      for (const int axis : used) {
        dims.push_back(extents[static_cast<std::size_t>(axis)]);
      }
      for (ViewIndex& index : indices) {
        for (auto& term : index.terms) {
          term.axis = static_cast<int>(std::find(used.begin(), used.end(), term.axis) - used.begin());
        }
      }
      if (dims.size() > 8) {
        return {};
      }
      factors.push_back(view_node(dy.args[i], std::move(dims), std::move(indices)));
      labels.push_back(std::move(used));
    }
    return contract(std::move(factors), std::move(labels), labels_up_to(source_.size()), extents);
  }

  Dims source_;
  std::vector<ViewIndex> indices_;              // the equations
  Dims dims_;                                   // of the view
  std::vector<std::optional<ViewIndex>> axes_;  // of the view, as functions of the axes of the solution
  std::vector<bool> is_free_;                   // of the view's axes
  std::vector<std::size_t> conditions_;         // equations that are compared instead of solved
  Dims all_dims_;                               // of the solution
};

}  // namespace

Tensor view_adjoint(const Node& view, const Tensor& dy) {
  // Sums over the axes that are repeated.
  const std::vector<int> labels = labels_up_to(view.dims.size());
  std::vector<int> kept;
  std::vector<int> numbers(labels.size(), -1);
  Dims dims;
  for (const int axis : labels) {
    const auto at = static_cast<std::size_t>(axis);
    if (use_count(view.view, axis) != 0) {
      numbers[at] = static_cast<int>(kept.size());
      kept.push_back(axis);
      dims.push_back(view.dims[at]);
    }
  }
  std::vector<ViewIndex> indices = view.view;
  for (ViewIndex& index : indices) {
    for (auto& term : index.terms) {
      term.axis = numbers[static_cast<std::size_t>(term.axis)];
    }
  }
  return Solution(view, std::move(indices), std::move(dims))
      .sum_of(contract({dy}, {labels}, kept, view.dims));
}

}  // namespace yoke::detail
