// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/access.h: what the indices of a verified program mean as numbers;
// for backends that generate code.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace yoke::program {

// Both ends belong to it.
struct Interval {
  std::int64_t low = 0;
  std::int64_t high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// The values of an index over all loops and symbols; nothing when a part of the sum passes 2^61, which the
// verifier refuses.
std::optional<Interval> range_of(const Program& program, std::span<const Loop> loops, const Affine& affine);
inline std::optional<Interval> range_of(const Program& program, const Statement& statement,
                                        const Affine& affine) {
  return range_of(program, statement.loops, affine);
}

// The largest magnitude that any partial sum of the index can have, whatever the order of its terms: an
// integer type that holds it can compute the index. The program is verified.
std::uint64_t largest_partial_sum(const Program& program, const Statement& statement, const Affine& affine);

// May the affine index leave 0 ... extent - 1 for some value of loops and symbols? Then code must test it.
bool may_leave(const Program& program, std::span<const Loop> loops, const Affine& affine,
               std::uint64_t extent);
inline bool may_leave(const Program& program, const Statement& statement, const Affine& affine,
                      std::uint64_t extent) {
  return may_leave(program, statement.loops, affine, extent);
}

// Adds scale * b to a. False: a number leaves 64 bits, and `a` is of no use any more.
[[nodiscard]] bool add_scaled(Affine& a, const Affine& b, std::int64_t scale);

// The affine expression as a value of type i64.
Expr value_of(const Affine& affine);

// Elements between neighbours of each dimension, row major.
std::vector<std::uint64_t> strides_of(const Tensor& tensor);

bool has_element_index(const Access& access);

// Per loop of the statement: do two values of it always write different elements, whatever a scatter's
// indices hold? Iterations that differ in such a loop may run at the same time. The others write in the order
// of the loops, which is what the reference executor does. Loops of a reduction and of extent 1 count as
// independent. Without a scatter all loops of a verified statement are.
std::vector<bool> independent_loops(const Statement& statement);

// Hands each tensor that the access or expression reads to `visit(tensor number)`, index tensors included, as
// often as it is read. An access as a target: only its index tensors are read.
template <class Visit>
void visit_index_tensors(const Access& access, const Visit& visit) {
  for (const Index& index : access.indices) {
    if (index.element_of) {
      visit(*index.element_of);
    }
  }
}
template <class Visit>
void visit_read_tensors(const Expr& expr, const Visit& visit) {
  if (expr.op == Op::kRead) {
    visit(expr.access.tensor);
    visit_index_tensors(expr.access, visit);
  }
  for (const Expr& arg : expr.args) {
    visit_read_tensors(arg, visit);
  }
}

// Hands each affine index of the access, or of the accesses in an expression, to `visit(affine)`, those of
// index tensors included.
template <class Visit>
void visit_affines(const Access& access, const Visit& visit) {
  for (const Index& index : access.indices) {
    if (!index.element_of) {
      visit(index.affine);
    }
    for (const Affine& affine : index.element_indices) {
      visit(affine);
    }
  }
}
template <class Visit>
void visit_affines(const Expr& expr, const Visit& visit) {
  if (expr.op == Op::kRead) {
    visit_affines(expr.access, visit);
  } else if (expr.op == Op::kIndex) {
    visit(expr.affine);
  }
  for (const Expr& arg : expr.args) {
    visit_affines(arg, visit);
  }
}

}  // namespace yoke::program
