// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/axes.cpp: merges loops, and finds accesses to neighboring elements.
#include "axes.h"

#include <algorithm>
#include <set>

#include "printer.h"

namespace yoke::codegen {

using program::Affine;
using program::Program;

namespace {

void add_loops(const Affine& affine, std::set<std::uint32_t>& loops) {
  for (const Affine::Term& term : affine.terms) {
    if (!term.is_symbol) {
      loops.insert(term.id);
    }
  }
}

void add_index_values(const program::Expr& expr, std::set<std::uint32_t>& loops) {
  if (expr.op == program::Op::kIndex) {
    add_loops(expr.affine, loops);
  }
  for (const program::Expr& arg : expr.args) {
    add_index_values(arg, loops);
  }
}

// As many elements of the smallest type as fit in 16 bytes, but at most 32 bytes of the largest type.
std::uint32_t most_lanes(const Program& program, const Axes& axes) {
  std::uint64_t smallest = 64;
  std::uint64_t largest = 0;
  for (const Linear& one : axes.linear) {
    if (axes.is_vector(one)) {
      const std::uint64_t size = program::byte_size(program.tensors[one.touch->access.tensor].type);
      smallest = std::min(smallest, size);
      largest = std::max(largest, size);
    }
  }
  return largest == 0 ? 1 : static_cast<std::uint32_t>(std::min(16 / smallest, 32 / largest));
}

// Whether vectors start at multiples of `lanes` elements after the first element of the access.
bool keeps_alignment(const Axes& axes, std::int64_t lanes) {
  return std::all_of(axes.linear.begin(), axes.linear.end(), [&](const Linear& one) {
    return !axes.is_vector(one) || std::all_of(axes.axes.begin(), axes.axes.end() - 1, [&](const Axis& axis) {
      return one.coefficients[axis.loops.back()] % lanes == 0;
    });
  });
}

}  // namespace

bool Axes::is_vector(const Linear& one) const {
  return !axes.empty() && one.coefficients[axes.back().loops.back()] == 1;
}

Axes axes_of(const Program& program, const Group& group, std::optional<std::size_t> boundary) {
  Axes result;
  std::set<std::uint32_t> used;  // loops whose own value is needed
  for (const std::size_t number : group.statements) {
    add_index_values(program.statements[number].value, used);
  }
  for (const Touch& touch : group.touches) {
    const std::optional<Affine> element = program::flat_element(program, touch.access);
    if (!element ||
        program::may_be_out_of_range(program, program.statements[touch.statement], touch.access)) {
      program::visit_affines(touch.access, [&](const Affine& affine) { add_loops(affine, used); });
      continue;
    }
    Linear one = {&touch, std::vector<std::int64_t>(group.extents.size())};
    for (const Affine::Term& term : element->terms) {
      if (!term.is_symbol) {
        one.coefficients[term.id] = term.coefficient;
      }
    }
    result.linear.push_back(std::move(one));
  }
  for (std::uint32_t loop = 0; loop < group.extents.size(); ++loop) {
    const std::uint64_t extent = group.extents[loop];
    if (extent == 1) {
      continue;
    }
    const auto merges = [&](const Linear& one) {
      return one.coefficients[result.axes.back().loops.back()] ==
             one.coefficients[loop] * static_cast<std::int64_t>(extent);
    };
    if (!result.axes.empty() && loop != boundary && !used.contains(loop) &&
        !used.contains(result.axes.back().loops.back()) &&
        std::all_of(result.linear.begin(), result.linear.end(), merges)) {
      result.axes.back().loops.push_back(loop);
      result.axes.back().extent *= extent;
    } else {
      result.axes.push_back({{loop}, extent});
    }
  }
  result.lanes = most_lanes(program, result);
  const bool must_divide = boundary.has_value() || result.axes.size() > 1;
  while (result.lanes > 1 && ((must_divide && result.axes.back().extent % result.lanes != 0) ||
                              !keeps_alignment(result, result.lanes))) {
    result.lanes /= 2;
  }
  return result;
}

}  // namespace yoke::codegen
