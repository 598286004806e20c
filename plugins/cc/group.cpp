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
  const std::int32_t repeat = program.statements[first].repeat;
  for (std::uint32_t next = first + 1; next < program.statements.size() && group.size() < kLargestGroup;
       ++next) {
    if (program.statements[next].repeat != repeat || !joins(program, group, program.statements[next])) {
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
  // Whether a statement in [from, to) reads the value; empty if it survives them unread.
  const auto read_in = [&](std::size_t from, std::size_t to) -> std::optional<bool> {
    for (std::size_t i = from; i < to; ++i) {
      const Statement& statement = program.statements[i];
      if (reads(statement, tensor)) {
        return true;
      }
      if (statement.target.tensor == tensor && overwrites_target(program, statement)) {
        return false;
      }
    }
    return std::nullopt;
  };
  std::size_t end = last + 1;
  const std::int32_t repeat = program.statements[last].repeat;
  if (repeat >= 0) {
    std::size_t begin = last;
    for (; begin > 0 && program.statements[begin - 1].repeat == repeat; --begin) {
    }
    for (; end < program.statements.size() && program.statements[end].repeat == repeat; ++end) {
    }
    const auto in_this_round = read_in(last + 1, end);
    if (in_this_round) {
      return *in_this_round;
    }
    if (read_in(begin, last + 1).value_or(false)) {
      return true;  // in the next round
    }
  }
  return read_in(end, program.statements.size()).value_or(false);
}

}  // namespace yoke::cc
