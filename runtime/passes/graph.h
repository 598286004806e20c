// SPDX-License-Identifier: Apache-2.0
// runtime/passes/graph.h: the definitions and uses of a program's tensors, on which all passes work.
#pragma once

#include <yoke/runtime/passes.h>

#include <utility>

#include "rewrite.h"

namespace yoke::passes {

using Place = std::uint32_t;  // the number of a statement; stable until finish()
using Places = std::vector<Place>;

// A program, and for each tensor the statements that write and read it. Building it takes linear time, and
// each query logarithmic time. A read sees the last write before it: a whole write, or a partial or
// accumulating one, which also reads its target.
class Graph {
 public:
  Graph(Program& program, Report& report, Explain explain);

  const Program& program() const { return program_; }
  Report& report() const { return report_; }
  Place size() const { return static_cast<Place>(program_.statements.size()); }

  const Statement& at(Place i) const {
    ++report_.visits;
    return program_.statements[i];
  }
  const Tensor& target_of(Place i) const { return program_.tensors[at(i).target.tensor]; }
  bool is_removed(Place i) const { return removed_[i]; }
  // The group of consecutive statements that statement i belongs to: a repeat block, or a hint; -1: none.
  // Groups keep their statements and their order; only whole groups move.
  std::int32_t group(Place i) const {
    const Statement& statement = at(i);
    const auto hint_count = static_cast<std::int32_t>(program_.hints.size());
    return statement.repeat >= 0 ? hint_count + statement.repeat : statement.hint;
  }
  bool is_grouped(Place i) const { return group(i) >= 0; }
  // Whether statement i is in a repeat block, and so runs again after the statements that follow it in the
  // block.
  bool is_repeated(Place i) const { return at(i).repeat >= 0; }
  // Whether statements i and j are in the same repeat block and the same hint, or in none.
  bool are_together(Place i, Place j) const {
    return at(i).repeat == at(j).repeat && at(i).hint == at(j).hint;
  }
  bool continues_group(Place i) const { return i > 0 && is_grouped(i) && group(i) == group(i - 1); }
  // The tensors that the statement reads; its target too, if it accumulates. Sorted and unique.
  const std::vector<std::uint32_t>& reads(Place i) const { return reads_[i]; }
  bool reads(Place i, std::uint32_t tensor) const { return contains(reads_[i], tensor); }
  // Calls visit(tensor) once for each tensor that the statement reads or writes.
  template <class Visit>
  void for_each_use(Place i, const Visit& visit) const {
    const std::uint32_t target = at(i).target.tensor;
    std::for_each(reads_[i].begin(), reads_[i].end(), visit);
    if (!reads(i, target)) {
      visit(target);
    }
  }

  // Ascending.
  const Places& writers(std::uint32_t tensor) const { return writers_[tensor]; }
  const Places& readers(std::uint32_t tensor) const { return readers_[tensor]; }
  bool is_written_only_by(Place i) const { return writers(at(i).target.tensor).size() == 1; }
  // Whether a statement in [first, last) writes, or uses, the tensor.
  bool is_written(std::uint32_t tensor, Place first, Place last) const;
  bool is_touched(std::uint32_t tensor, Place first, Place last) const;
  // One past the last statement of the group of statement i, or i + 1 if statement i has no group.
  Place end_of_group(Place i) const { return ends_[i]; }
  // Whether a statement in [first, last) may write an element that statement i reads in the same round.
  // Precondition: statement i assigns with =.
  bool is_disturbed(Place i, Place first, Place last) const;
  // One past the last statement that uses the tensor.
  Place end_of(std::uint32_t tensor) const;

  // Records what a pass does with statement i. text() returns the note and is called only if notes are kept.
  template <class Text>
  void note(Place i, const Text& text) const {
    if (explain_ == Explain::kYes) {
      report_.notes.push_back({at(i).at, text()});
    }
  }
  void remove(Place i);
  void replace(Place i, Statement statement) {
    edit(i, [&](Statement& old) { old = std::move(statement); });
  }
  // Calls edit(statement), which changes the statement.
  template <class Edit>
  void edit(Place i, const Edit& edit) {
    const std::uint32_t old_target = at(i).target.tensor;
    edit(program_.statements[i]);
    update(i, old_target);
  }
  // The value, to be changed in place. Call refresh() if it may read other tensors afterwards.
  Expr& value(Place i) { return program_.statements[i].value; }
  void refresh(Place i) { update(i, at(i).target.tensor); }
  // Replaces every use of `from` by one of `to`.
  void rename(std::uint32_t from, std::uint32_t to);
  // Returns the number of a new hint. finish() numbers hints in the order of the statements.
  std::int32_t add_hint(program::Hint hint);
  // Puts the statements into this order. Afterwards only finish() may be called.
  void reorder(const Places& order);
  // Removes the removed statements, hints without statements, and unused temporaries from the program.
  void finish();

 private:
  void enter(Place i);
  // Records what statement i writes and reads now.
  void update(Place i, std::uint32_t old_target);

  Program& program_;
  Report& report_;
  Explain explain_;
  std::vector<bool> removed_;
  Places ends_;                                    // by statement: the end of its group
  std::vector<std::vector<std::uint32_t>> reads_;  // by statement
  std::vector<Places> writers_;                    // by tensor
  std::vector<Places> readers_;
};

// Throws Error kInternal, which names the pass, if the program is invalid.
void verify_result(const Program& program, const char* pass);

// The passes without verification. Each returns whether it changed the program.
bool remove_dead_in(Graph& graph);
bool fold_in(Graph& graph);
bool merge_equal_in(Graph& graph);
bool fuse_in(Graph& graph);
bool schedule_in(Graph& graph);
bool gather_in(Graph& graph);
bool recompute_in(Graph& graph);
bool share_in(Graph& graph);
bool form_regions_in(Graph& graph);

}  // namespace yoke::passes
