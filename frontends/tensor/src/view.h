// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/view.h: views of a tensor by index arithmetic, and their adjoints.
//
// A view is out[o] = x[(sum of coefficient * o[axis] + constant + symbols) / divisor, ...], with one such
// index per axis of x. Where a division leaves a remainder or an index is out of range, out[o] is a number,
// mostly 0. The adjoint of a view solves these equations for o: it is a view again, summed over the axes that
// remain.
#pragma once

#include <yoke/program/program.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <vector>

namespace yoke::detail {

struct Node;

struct ViewIndex {
  struct Term {
    int axis = 0;  // of the view
    std::int64_t coefficient = 1;
    friend bool operator==(const Term&, const Term&) = default;
  };
  struct SymbolTerm {
    Symbol symbol;
    std::int64_t coefficient = 1;
    friend bool operator==(const SymbolTerm&, const SymbolTerm&) = default;
  };
  std::vector<Term> terms;  // each axis at most once
  std::int64_t constant = 0;
  std::vector<SymbolTerm> symbols;
  std::int64_t divisor = 1;

  static ViewIndex of_axis(std::size_t axis, std::int64_t constant = 0, std::int64_t coefficient = 1) {
    return {{{static_cast<int>(axis), coefficient}}, constant, {}, 1};
  }
  bool is_axis() const {  // exactly one axis of the view, unchanged
    return terms.size() == 1 && terms[0].coefficient == 1 && constant == 0 && symbols.empty() && divisor == 1;
  }
  friend bool operator==(const ViewIndex&, const ViewIndex&) = default;
};

// Adds scale * other, without its divisor. Returns false on overflow; the value of `sum` is then unspecified.
[[nodiscard]] bool add_scaled(ViewIndex& sum, const ViewIndex& other, std::int64_t scale);
// How many of the indices have the axis.
std::size_t use_count(const std::vector<ViewIndex>& indices, int axis);

// The symbol's highest value.
std::int64_t last_value(const Symbol& symbol);

// Each axis of x by the axis of the same number.
std::vector<ViewIndex> same_axes(std::size_t rank);

// A view of x. `fill` is the value outside of x. Views of views become one view where that is possible.
Tensor view_node(const Tensor& x, Dims dims, std::vector<ViewIndex> indices, program::Literal fill = {});
// Axis k of x is indexed by axis axes[k] of the result, or by 0 if that is -1.
Tensor permute_node(const Tensor& x, Dims dims, const std::vector<int>& axes);
// Whether each index is 0 or a whole axis of both, and each axis of the view occurs exactly once. Such a view
// is out of range exactly where its source is.
bool is_permutation(const Node& view);

// The gradient of args[0] of the view, given the gradient `dy` of the view.
Tensor view_adjoint(const Node& view, const Tensor& dy);

}  // namespace yoke::detail
