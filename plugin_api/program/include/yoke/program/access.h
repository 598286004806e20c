// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/access.h: ranges, strides and parallelism of the accesses of a
// verified program, for backends that generate code. Every function is safe to call from any thread.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace yoke::program {

// Both ends are included.
struct Interval {
  std::int64_t low = 0;
  std::int64_t high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// The range of the index over all values of the loops and symbols; empty if any partial sum may exceed 2^61
// in magnitude, which the verifier rejects.
std::optional<Interval> range_of(const Program& program, std::span<const Loop> loops, const Affine& affine);
inline std::optional<Interval> range_of(const Program& program, const Statement& statement,
                                        const Affine& affine) {
  return range_of(program, statement.loops, affine);
}

// An upper bound of the magnitude of every partial sum of the index, in any order of its terms. An integer
// type that holds this bound can compute the index.
std::uint64_t largest_partial_sum(const Program& program, const Statement& statement, const Affine& affine);

// Whether some value of the loops and symbols puts the index outside [0, extent).
// If so, generated code must check it.
bool may_be_out_of_range(const Program& program, std::span<const Loop> loops, const Affine& affine,
                         std::uint64_t extent);
inline bool may_be_out_of_range(const Program& program, const Statement& statement, const Affine& affine,
                                std::uint64_t extent) {
  return may_be_out_of_range(program, statement.loops, affine, extent);
}

// Whether the index may be out of range. True for every element of a tensor and for every divided index; see
// exact_quotient. A divided index is in range if 0 <= affine < divisor * extent, a product below 2^61, and
// affine % divisor is 0.
bool may_be_out_of_range(const Program& program, std::span<const Loop> loops, const Index& index,
                         std::uint64_t extent);
inline bool may_be_out_of_range(const Program& program, const Statement& statement, const Index& index,
                                std::uint64_t extent) {
  return may_be_out_of_range(program, statement.loops, index, extent);
}
// Whether some index of the access may be out of range.
bool may_be_out_of_range(const Program& program, std::span<const Loop> loops, const Access& access);
inline bool may_be_out_of_range(const Program& program, const Statement& statement, const Access& access) {
  return may_be_out_of_range(program, statement.loops, access);
}

// Whether no values of the loops and symbols put the index inside [0, extent). Conservative.
bool is_out_of_range(const Program& program, std::span<const Loop> loops, const Index& index,
                     std::uint64_t extent);

// The undivided index with the same values, if the divisor divides the constant and each coefficient.
// Precondition: the index is not an element of a tensor.
std::optional<Affine> exact_quotient(const Index& index);

// Adds scale * b to a. Returns false on 64-bit overflow; the value of `a` is then unspecified.
[[nodiscard]] bool add_scaled(Affine& a, const Affine& b, std::int64_t scale);

// An expression of type i64 that computes `affine`.
Expr value_of(const Affine& affine);

// Whether the statement writes every element of its target with =, so that the old ones are dead afterwards.
// Its value may still read them.
bool overwrites_target(const Program& program, const Statement& statement);

// Calls `run(number)` for each statement in the order of execution, the rounds of repeat blocks one after
// another. `symbols` has one value per symbol; during a call it holds the values of that round.
template <class Run>
void run_in_order(const Program& program, std::span<std::int64_t> symbols, const Run& run) {
  for (const Block& block : program.blocks()) {
    const auto variable = static_cast<std::size_t>(block.repeat);
    const std::uint64_t rounds = block.repeat < 0 ? 1 : program.symbols[variable].value_count();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (block.repeat >= 0) {
        const Symbol& symbol = program.symbols[variable];
        symbols[variable] = symbol.low + static_cast<std::int64_t>(round) * symbol.step;
      }
      for (std::size_t i = block.first; i < block.last; ++i) {
        run(i);
      }
    }
  }
}

// Distance in elements between neighbors along each dimension; row major.
std::vector<std::uint64_t> strides_of(const Tensor& tensor);

// The row-major number of the element, if all indices are affine and undivided and nothing overflows.
std::optional<Affine> flat_element(const Program& program, const Access& access);

// Whether some index of the access is an element of an integer tensor: a gather or a scatter.
bool has_element_index(const Access& access);

// The element that the access reads, as an index. Returns nothing unless all its indices are affine.
std::optional<Index> element_of(const Access& access);
// The reverse: the access that reads the index. Precondition: the index is an element of a tensor.
Access access_of(const Index& index);

// Whether the expression reads the tensor of `place` only at the indices of `place`, without an `else`, and never
// as an index into another tensor.
bool reads_only_at(const Expr& expr, const Access& place);

// Whether two accesses of one tensor never use the same element in the same round: some index has no loops,
// and differs by a nonzero constant.
bool are_apart(const Access& a, const Access& b);

// For each loop of the statement: whether iterations that differ in it always write different elements,
// whatever values a scatter's index tensor holds. Such iterations may run in parallel; along the other
// loops, writes happen in loop order, as in execute(). Reduction loops and loops of extent 1 count as
// independent. Without a scatter, every loop of a verified statement is independent.
std::vector<bool> independent_loops(const Statement& statement);

// Calls `visit(access)` for the target and for each read of the statement or the expression.
template <class Visit>
void visit_target_and_reads(const Expr& expr, const Visit& visit) {
  if (expr.op == Op::kRead) {
    visit(expr.access);
  }
  for (const Expr& arg : expr.args) {
    visit_target_and_reads(arg, visit);
  }
}
template <class Visit>
void visit_target_and_reads(const Statement& statement, const Visit& visit) {
  visit(statement.target);
  visit_target_and_reads(statement.value, visit);
}

// Calls `visit(tensor number)` for each tensor read by the access or the expression, index tensors included,
// once per read. For the target of a statement use visit_index_tensors: only its index tensors are read.
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
  visit_target_and_reads(expr, [&](const Access& access) {
    visit(access.tensor);
    visit_index_tensors(access, visit);
  });
}

// Calls `visit(read)` for each read without an `else` of its own that is not inside an inner guard. A guard
// around the expression yields its literal if one of them is out of range.
template <class Visit>
void visit_open_reads(const Expr& expr, const Visit& visit) {
  if (expr.op == Op::kRead && !expr.access.otherwise) {
    visit(expr);
  } else if (expr.op != Op::kGuard) {
    for (const Expr& arg : expr.args) {
      visit_open_reads(arg, visit);
    }
  }
}
// Whether one of them may be out of range.
bool may_be_out_of_range(const Program& program, std::span<const Loop> loops, const Expr& expr);

// One use of a tensor: for each dimension, the loop that indexes it by itself, or kNoLoop.
inline constexpr std::uint32_t kNoLoop = ~std::uint32_t{0};
struct Use {
  std::uint32_t tensor = 0;
  std::vector<std::uint32_t> loops;

  std::uint32_t dims_at(std::uint32_t loop) const;  // the dimensions that the loop indexes by itself, as bits
};
Use use_of(const Access& access);
// The target, each read of the statement, and the index tensors of each of them. The target comes first.
std::vector<Use> uses_of(const Statement& statement);

// Calls `visit(affine)` for each affine index of the access, or of every access in the expression, including
// the indices into index tensors.
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
