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
    dy = permute_node(dy, dims_, labels_of(dy.rank()));  // appends the axes of size 1
    if (conditions_.empty() && free_count() > 0) {
      if (Tensor folded = sum_of_products(*dy.node())) {
        return folded;
      }
    }
    Tensor terms = view_node(dy, all_dims_, axes_of_view());
    for (const std::size_t k : conditions_) {
      const Tensor left = iota(all_dims_, static_cast<int>(k)) * indices_[k].divisor;
      terms = where(equal(left, numerator_of(indices_[k])), terms, constant(dy.type(), 0));
    }
    return contract({terms}, {labels_of(all_dims_.size())}, labels_of(source_.size()), all_dims_);
  }

 private:
  std::size_t free_count() const { return all_dims_.size() - source_.size(); }
  static std::vector<int> labels_of(std::size_t count) {
    std::vector<int> labels(count);
    std::iota(labels.begin(), labels.end(), 0);
    return labels;
  }

  // A source axis that no axis of the view indexes gets an axis of size 1 that does.
  void add_unit_axes() {
    for (std::size_t k = 0; k < source_.size(); ++k) {
      if (indices_[k].terms.empty() && !(source_[k] == 1 && indices_[k] == ViewIndex{})) {
        indices_[k].terms.push_back({static_cast<int>(dims_.size()), 1});
        dims_.push_back(1);
      }
    }
  }

  std::size_t use_count(int axis) const {
    return static_cast<std::size_t>(
        std::count_if(indices_.begin(), indices_.end(), [&](const ViewIndex& index) {
          return std::any_of(index.terms.begin(), index.terms.end(),
                             [&](const auto& term) { return term.axis == axis; });
        }));
  }

  // The term to solve the equation for: the longest axis that no other equation has, or an axis that it
  // equals.
  const ViewIndex::Term* pivot(const ViewIndex& index) const {
    const ViewIndex::Term* best = nullptr;
    for (const auto& term : index.terms) {
      const auto axis = static_cast<std::size_t>(term.axis);
      const bool is_open = !axes_[axis] && !is_free_[axis];
      const bool is_whole = std::abs(term.coefficient) == 1 && index.divisor == 1;
      if (is_open && (use_count(term.axis) == 1 || (is_whole && index.terms.size() == 1)) &&
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
    ViewIndex solved = ViewIndex::of_axis(k, -sign * index.constant, sign * index.divisor);
    solved.divisor = std::abs(chosen->coefficient);
    for (const auto& [symbol, coefficient] : index.symbols) {
      solved.symbols.push_back({symbol, -sign * coefficient});
    }
    for (const auto& term : index.terms) {
      if (&term != chosen) {
        add(solved, term.axis, -sign * term.coefficient);
      }
    }
    axes_[static_cast<std::size_t>(chosen->axis)] = std::move(solved);
  }

  // Adds factor * the axis of the view, which has a solution without a divisor or is free. Until they are
  // numbered, free axes have the numbers from source_.size().
  void add(ViewIndex& sum, int axis, std::int64_t factor) const {
    const auto& known = axes_[static_cast<std::size_t>(axis)];
    const ViewIndex by = known ? *known : ViewIndex::of_axis(source_.size() + static_cast<std::size_t>(axis));
    sum.constant += factor * by.constant;
    for (const auto& term : by.terms) {
      const auto same = std::find_if(sum.terms.begin(), sum.terms.end(),
                                     [&](const auto& own) { return own.axis == term.axis; });
      if (same != sum.terms.end()) {
        same->coefficient += factor * term.coefficient;
      } else {
        sum.terms.push_back({term.axis, factor * term.coefficient});
      }
    }
    std::erase_if(sum.terms, [](const auto& term) { return term.coefficient == 0; });
    for (const auto& [symbol, coefficient] : by.symbols) {
      sum.symbols.push_back({symbol, factor * coefficient});
    }
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

  std::vector<ViewIndex> axes_of_view() const {
    std::vector<ViewIndex> axes;
    for (const auto& index : axes_) {
      axes.push_back(*index);
    }
    return axes;
  }

  // An index of the view before the division, as an i64 tensor over the axes of the solution. The solutions
  // of its axes have no divisor, because other equations have these axes too.
  Tensor numerator_of(const ViewIndex& index) const {
    Tensor sum = constant_integer(Type::kI64, index.constant);
    for (const auto& [axis, coefficient] : index.terms) {
      const ViewIndex& by = *axes_[static_cast<std::size_t>(axis)];
      Tensor value = constant_integer(Type::kI64, by.constant);
      for (const auto& term : by.terms) {
        value = value + iota(all_dims_, term.axis) * term.coefficient;
      }
      for (const auto& term : by.symbols) {
        value = value + symbol_value(term.symbol) * term.coefficient;
      }
      sum = sum + value * coefficient;
    }
    for (const auto& term : index.symbols) {
      sum = sum + symbol_value(term.symbol) * term.coefficient;
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
    return contract(std::move(factors), std::move(labels), labels_of(source_.size()), extents);
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
  std::vector<int> labels(view.dims.size());
  std::iota(labels.begin(), labels.end(), 0);
  std::vector<int> kept;
  std::vector<int> numbers(labels.size(), -1);
  Dims dims;
  for (const int axis : labels) {
    const auto at = static_cast<std::size_t>(axis);
    if (std::any_of(view.view.begin(), view.view.end(), [&](const ViewIndex& index) {
          return std::any_of(index.terms.begin(), index.terms.end(),
                             [&](const auto& term) { return term.axis == axis; });
        })) {
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
