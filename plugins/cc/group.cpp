// SPDX-License-Identifier: Apache-2.0
// plugins/cc/group.cpp: finds statements that run as one kernel and temporaries that need no memory.
#include "group.h"

#include <algorithm>

#include "access.h"

namespace yoke::cc {

using program::Program;
using program::Statement;

namespace {

constexpr std::size_t kLargestGroup = 64;

bool is_elementwise(const Program& program, const Statement& statement) {
  return !statement.reduce && !has_element_index(statement.target) &&
         is_injective(linear_form(program, statement, statement.target), statement.loops);
}

bool reads(const Statement& statement, std::uint32_t tensor) {
  bool found = statement.target.tensor == tensor && statement.assign != program::Assign::kSet;
  const auto visit = [&](std::uint32_t read) { found = found || read == tensor; };
  visit_read_tensors(statement.value, visit);
  visit_index_tensors(statement.target, visit);
  return found;
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

std::vector<std::uint32_t> group_from(const Program& program, std::uint32_t first) {
  std::vector<std::uint32_t> group = {first};
  if (!is_elementwise(program, program.statements[first])) {
    return group;
  }
  for (std::uint32_t next = first + 1; next < program.statements.size() && group.size() < kLargestGroup;
       ++next) {
    if (!joins(program, group, program.statements[next])) {
      break;
    }
    group.push_back(next);
  }
  return group;
}

bool is_needed_after(const Program& program, std::uint32_t tensor, std::uint32_t last) {
  if (program.tensors[tensor].role != program::Role::kTemp) {
    return true;
  }
  for (std::size_t i = last + 1; i < program.statements.size(); ++i) {
    const Statement& statement = program.statements[i];
    if (reads(statement, tensor)) {
      return true;
    }
    if (statement.target.tensor != tensor || has_element_index(statement.target)) {
      continue;
    }
    // The statement overwrites the whole tensor before any read: the old value is dead.
    const Form form = linear_form(program, statement, statement.target);
    std::uint64_t written = 1;
    for (std::size_t loop = 0; loop < statement.loops.size(); ++loop) {
      written *= form.loops[loop] != 0 ? statement.loops[loop].extent : 1;
    }
    if (written == program.tensors[tensor].element_count() && is_injective(form, statement.loops)) {
      return false;
    }
  }
  return false;
}

}  // namespace yoke::cc
