// SPDX-License-Identifier: Apache-2.0
// plugins/cc/group.cpp: finds statements that run as one kernel and temporaries that need no memory.
#include "group.h"

#include <algorithm>
#include <optional>

#include "access.h"

namespace yoke::cc {

using program::Program;
using program::Statement;

namespace {

// Limits the registers of a kernel, at most 2^15, and the time to find common values.
constexpr std::size_t kLargestGroup = 64;

bool is_elementwise(const Program& program, const Statement& statement) {
  return !statement.reduce && !has_element_index(statement.target) &&
         is_injective(linear_form(program, statement, statement.target), statement.loops);
}

// True if `expr` reads `tensor` only at `indices` and never uses it as an index into another tensor.
bool reads_only_at(const program::Expr& expr, std::uint32_t tensor,
                   const std::vector<program::Index>& indices) {
  if (expr.op == program::Op::kRead) {
    bool finds_elements = false;
    visit_index_tensors(expr.access,
                        [&](std::uint32_t index) { finds_elements = finds_elements || index == tensor; });
    return !finds_elements && (expr.access.tensor != tensor || expr.access.indices == indices);
  }
  return std::all_of(expr.args.begin(), expr.args.end(),
                     [&](const program::Expr& arg) { return reads_only_at(arg, tensor, indices); });
}

// True if `statement` reads and writes `tensor` only at `indices`.
bool only_at(const Statement& statement, std::uint32_t tensor, const std::vector<program::Index>& indices) {
  return (statement.target.tensor != tensor || statement.target.indices == indices) &&
         reads_only_at(statement.value, tensor, indices);
}

bool joins(const Program& program, const std::vector<std::uint32_t>& group, const Statement& next) {
  const Statement& first = program.statements[group[0]];
  if (!is_elementwise(program, next) || next.loops.size() != first.loops.size()) {
    return false;
  }
  for (std::size_t i = 0; i < next.loops.size(); ++i) {
    if (next.loops[i].extent != first.loops[i].extent) {
      return false;
    }
  }
  return std::all_of(group.begin(), group.end(), [&](std::uint32_t id) {
    const Statement& earlier = program.statements[id];
    return only_at(next, earlier.target.tensor, earlier.target.indices) &&
           only_at(earlier, next.target.tensor, next.target.indices);
  });
}

}  // namespace

std::vector<std::uint32_t> group_from(const Program& program, std::uint32_t first, std::uint32_t last) {
  std::vector<std::uint32_t> group = {first};
  if (is_elementwise(program, program.statements[first])) {
    for (std::uint32_t next = first + 1;
         next < last && group.size() < kLargestGroup && joins(program, group, program.statements[next]);
         ++next) {
      group.push_back(next);
    }
  }
  return group;
}

Uses::Uses(const Program& program) : blocks_(program.blocks()), uses_(program.tensors.size()) {
  for (const program::Tensor& tensor : program.tensors) {
    is_argument_.push_back(tensor.role != program::Role::kTemp);
  }
  for (std::size_t id = 0; id < program.statements.size(); ++id) {
    const Statement& statement = program.statements[id];
    const auto read = [&](std::uint32_t tensor) { uses_[tensor].push_back({id, true}); };
    visit_read_tensors(statement.value, read);
    visit_index_tensors(statement.target, read);
    if (statement.assign != program::Assign::kSet) {
      read(statement.target.tensor);
    } else if (overwrites_target(program, statement)) {
      uses_[statement.target.tensor].push_back({id, false});  // after a read by the same statement
    }
  }
}

bool Uses::is_needed_after(std::uint32_t tensor, std::uint32_t last) const {
  if (is_argument_[tensor]) {
    return true;
  }
  const auto block = std::upper_bound(blocks_.begin(), blocks_.end(), last,
                                      [](std::size_t id, const auto& one) { return id < one.last; });
  if (block->repeat >= 0) {
    const auto in_this_round = read_in(tensor, last + std::size_t{1}, block->last);
    if (in_this_round) {
      return *in_this_round;
    }
    if (read_in(tensor, block->first, last + std::size_t{1}).value_or(false)) {
      return true;  // in the next round
    }
    return read_in(tensor, block->last, SIZE_MAX).value_or(false);
  }
  return read_in(tensor, last + std::size_t{1}, SIZE_MAX).value_or(false);
}

std::optional<bool> Uses::read_in(std::uint32_t tensor, std::size_t from, std::size_t to) const {
  const std::vector<Use>& uses = uses_[tensor];
  const auto use = std::lower_bound(uses.begin(), uses.end(), from,
                                    [](const Use& one, std::size_t id) { return one.statement < id; });
  return use == uses.end() || use->statement >= to ? std::nullopt : std::optional(use->reads);
}

}  // namespace yoke::cc
