// SPDX-License-Identifier: Apache-2.0
// plugins/cc/group.cpp: finds statements that run as one kernel and temporaries that need no memory.
#include "group.h"

#include <algorithm>
#include <optional>
#include <span>

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

// True if `statement` reads and writes the tensor of `place` only there.
bool only_at(const Statement& statement, const program::Access& place) {
  return (statement.target.tensor != place.tensor || statement.target == place) &&
         reads_only_at(statement.value, place);
}

// True if the statements access each other's targets only at the same element. Precondition: equal loops
// have equal numbers.
bool share_elements(const Program& program, const std::vector<std::uint32_t>& group, const Statement& next) {
  return std::all_of(group.begin(), group.end(), [&](std::uint32_t id) {
    const Statement& earlier = program.statements[id];
    return only_at(next, earlier.target) && only_at(earlier, next.target);
  });
}

bool same_loops(const Statement& a, const Statement& b) {
  return std::equal(a.loops.begin(), a.loops.end(), b.loops.begin(), b.loops.end(),
                    [](const program::Loop& x, const program::Loop& y) { return x.extent == y.extent; });
}

}  // namespace

std::vector<std::uint32_t> group_from(const Program& program, std::uint32_t first, std::uint32_t last,
                                      const Original& original,
                                      const std::function<bool(std::uint32_t)>& may_join) {
  std::vector<std::uint32_t> group = {first};
  const auto has_role = [&](std::uint32_t id, std::span<const program::Loop> loops) {
    return row_role(program, id, loops, original) != RowRole::kNone;
  };
  // Whether every statement has a row role; otherwise all are elementwise over the same loops.
  bool spans_rows = program.statements[first].reduce.has_value();
  const Statement* longest = &program.statements[first];
  if (spans_rows ? !has_role(first, longest->loops) : !is_elementwise(program, *longest)) {
    return group;
  }
  for (std::uint32_t id = first + 1; id < last && group.size() < kLargestGroup; ++id) {
    const Statement& next = program.statements[id];
    if (!share_elements(program, group, next)) {
      break;
    }
    if (!spans_rows && is_elementwise(program, next) && same_loops(next, *longest)) {
      group.push_back(id);
      continue;
    }
    const Statement* all = next.loops.size() > longest->loops.size() ? &next : longest;
    const auto fits = [&](std::uint32_t one) { return has_role(one, all->loops); };
    if (!may_join(id) || !fits(id) ||
        ((!spans_rows || all != longest) && !std::all_of(group.begin(), group.end(), fits))) {
      break;
    }
    spans_rows = true;
    longest = all;
    group.push_back(id);
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

bool Uses::is_read_after(std::uint32_t tensor, std::uint32_t last) const {
  const auto block = std::upper_bound(blocks_.begin(), blocks_.end(), last,
                                      [](std::size_t id, const auto& one) { return id < one.last; });
  if (block->repeat >= 0) {
    if (const auto in_this_round = read_in(tensor, last + std::size_t{1}, block->last)) {
      return *in_this_round;
    }
    const bool in_next_round = read_in(tensor, block->first, last + std::size_t{1}).value_or(false);
    return in_next_round || read_in(tensor, block->last, SIZE_MAX).value_or(false);
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
