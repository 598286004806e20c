// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/builder_loops.cpp: the loops of a kernel, and which statements can share them.
#include <algorithm>

#include "builder.h"

namespace yoke::cc {

using program::Access;
using program::Expr;
using program::Loop;
using program::Op;
using program::Program;
using program::Statement;

bool is_bounded(const Program& program, const Statement& statement, const Access& access, bool is_target) {
  return may_be_out_of_range(program, statement, access) ||
         (is_target && !is_injective(linear_form(program, statement, access), statement.loops));
}

namespace {

// Collects the forms of a statement's accesses and loop values.
struct Collector {
  const Program& program;
  const Statement& statement;
  ScheduleInput& input;

  Form form(const program::Affine& affine) const {
    return padded(form_of(affine, statement.loops.size(), program.symbols.size()));
  }
  Form padded(Form form) const {
    form.loops.resize(input.loops.size());
    return form;
  }

  void add(const Access& access, bool is_target) const {
    const Form linear = padded(linear_form(program, statement, access));
    input.streams.push_back(linear);
    if (!is_bounded(program, statement, access, is_target)) {
      input.all.push_back(linear);
      return;
    }
    input.ordered = input.ordered || is_target;
    for (const program::Index& index : access.indices) {
      if (index.element_of) {
        add(access_of(index), false);
      } else {
        input.all.push_back(form(index.affine));
      }
    }
  }

  void add(const Expr& expr) const {
    if (expr.op == Op::kRead) {
      add(expr.access, false);
    } else if (expr.op == Op::kIndex) {
      input.all.push_back(form(expr.affine));
    }
    for (const Expr& arg : expr.args) {
      add(arg);
    }
  }
};

void collect(const Program& program, const Statement& statement, bool is_stored, ScheduleInput& input) {
  const Collector collector{program, statement, input};
  if (input.loops.empty()) {
    input.loops = statement.loops;
    for (std::uint32_t i = 0; i < input.loops.size(); ++i) {
      input.reduce.push_back(statement.reduces(i));
    }
  }
  if (is_stored) {
    collector.add(statement.target, true);
  }
  collector.add(statement.value);
}

bool is_carried(const Original& original, std::uint32_t id) {
  return original.carried != nullptr && (*original.carried)[id];
}

// The schedule of a kernel that runs one statement.
Schedule schedule_alone(const Program& program, std::uint32_t id, const Original& original,
                        bool& is_ordered) {
  ScheduleInput input;
  collect(program, program.statements[id], true, input);
  is_ordered = input.ordered;
  if (!program.statements[id].reduce || original.program == nullptr) {
    return make_schedule(input);
  }
  if (is_carried(original, id)) {
    input.reduces_columns = false;
    return make_schedule(input);
  }
  ScheduleInput whole;
  collect(*original.program, original.program->statements[original.first + id], true, whole);
  return make_schedule(input, &whole);
}

// The loops of a kernel whose tiles hold whole rows, without accesses.
ScheduleInput row_input(std::span<const Loop> loops) {
  ScheduleInput input;
  input.loops.assign(loops.begin(), loops.end());
  input.reduce.assign(loops.size(), false);
  Form columns_only{0, std::vector<std::int64_t>(loops.size()), {}};
  columns_only.loops.back() = 1;
  input.all.push_back(std::move(columns_only));  // keeps other loops from being merged with the last one
  return input;
}

}  // namespace

bool reduces_rows(const Program& program, const Statement& statement) {
  ScheduleInput input;
  collect(program, statement, true, input);
  return statement.reduce && !input.ordered && !make_schedule(input).columns_reduced();
}

RowRole row_role(const Program& program, std::uint32_t id, std::span<const Loop> loops,
                 const Original& original) {
  const Statement& statement = program.statements[id];
  const std::size_t own = statement.loops.size();
  const auto same_extent = [](const Loop& a, const Loop& b) { return a.extent == b.extent; };
  if (loops.empty() || loops.back().extent > kTileElements || own > loops.size() || own + 1 < loops.size() ||
      !std::equal(statement.loops.begin(), statement.loops.end(), loops.begin(), same_extent) ||
      has_element_index(statement.target) || is_bounded(program, statement, statement.target, true)) {
    return RowRole::kNone;
  }
  const auto last = static_cast<std::uint32_t>(loops.size() - 1);
  if (statement.reduce) {
    if (is_carried(original, id)) {
      const bool sums_rows = own == 2 && loops.size() == 2 && statement.reduce_loops[0] == 0;
      return sums_rows ? RowRole::kCarriedSum : RowRole::kNone;
    }
    bool is_ordered = false;
    const bool reduces_row = own == loops.size() && statement.reduce_loops == std::vector{last} &&
                             *statement.reduce != program::Reduce::kArgMax &&
                             *statement.reduce != program::Reduce::kArgMin &&
                             schedule_alone(program, id, original, is_ordered).columns_reduced();
    return reduces_row ? RowRole::kReduction : RowRole::kNone;
  }
  if (own < loops.size()) {
    return RowRole::kRowValues;
  }
  ScheduleInput input = row_input(loops);
  collect(program, statement, true, input);
  const Schedule schedule = make_schedule(input);
  const bool has_row = schedule.columns >= 0 &&
                       schedule.source[static_cast<std::size_t>(schedule.columns)] == static_cast<int>(last);
  return has_row ? RowRole::kElements : RowRole::kNone;
}

void KernelBuilder::schedule() {
  bool is_ordered = false;
  if (statements_.size() == 1) {
    kernel_.schedule = schedule_alone(program_, statements_[0], original_, is_ordered);
  } else {
    ScheduleInput input;
    const auto statement_of = [&](std::uint32_t id) -> const Statement& { return program_.statements[id]; };
    const Statement* longest = &statement_of(statements_[0]);
    for (const std::uint32_t id : statements_) {
      const Statement& one = statement_of(id);
      spans_rows_ = spans_rows_ || one.reduce || one.loops.size() != longest->loops.size();
      longest = one.loops.size() > longest->loops.size() ? &one : longest;
    }
    loop_count_ = longest->loops.size();
    if (spans_rows_) {
      input = row_input(longest->loops);
      input.columns = static_cast<std::int32_t>(loop_count_) - 1;
    }
    for (const std::uint32_t id : statements_) {
      collect(program_, statement_of(id),
              statement_of(id).reduce || stores_[statement_of(id).target.tensor] != Store::kNever, input);
    }
    kernel_.schedule = make_schedule(input);
    is_ordered = input.ordered;
  }
  kernel_.parallel = !is_ordered;
  const Schedule& schedule = kernel_.schedule;
  present_ =
      static_cast<std::uint8_t>((schedule.rows >= 0 ? kRows : 0) | (schedule.columns >= 0 ? kColumns : 0));
  row_mask_ = schedule.rows >= 0 && !schedule.rows_reduced() ? kRows : std::uint8_t{0};
  target_mask_ = static_cast<std::uint8_t>(
      row_mask_ | (schedule.columns >= 0 && !schedule.columns_reduced() ? kColumns : 0));
  for (const TileLoop& loop : schedule.loops) {
    kernel_.element_count *= loop.extent;
    kernel_.tile_count *= loop.reduce ? 1 : (loop.extent + loop.chunk - 1) / loop.chunk;
  }
}

Form KernelBuilder::to_kernel(const Form& form) const {
  Form result{form.constant, {}, form.symbols};
  for (const std::int32_t source : kernel_.schedule.source) {
    const auto loop = static_cast<std::size_t>(source);
    result.loops.push_back(loop < form.loops.size() ? form.loops[loop] : 0);
  }
  return result;
}

std::uint8_t KernelBuilder::mask_of(const Form& form) const {
  return static_cast<std::uint8_t>((kernel_.schedule.row_step(form) != 0 ? kRows : 0) |
                                   (kernel_.schedule.column_step(form) != 0 ? kColumns : 0));
}

// True if a tile's elements are contiguous in memory, in register order.
bool KernelBuilder::in_place(const Form& form, std::uint8_t mask) const {
  if (mask != mask_of(form)) {
    return false;
  }
  const Schedule& schedule = kernel_.schedule;
  if (mask == (kRows | kColumns)) {
    return schedule.column_step(form) == 1 &&
           schedule.row_step(form) == schedule.loops[static_cast<std::size_t>(schedule.columns)].extent;
  }
  return mask == 0 || (mask == kRows ? schedule.row_step(form) : schedule.column_step(form)) == 1;
}

}  // namespace yoke::cc
