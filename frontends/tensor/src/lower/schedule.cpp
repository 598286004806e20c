// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/schedule.cpp: orders the statements, and shares memory in place.
#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "graph.h"

namespace yoke::detail::lowering {
namespace {

using program::Access;

class Scheduler {
 public:
  Scheduler(const Graph& graph, std::vector<Unit> units, Layout& layout)
      : graph_(graph), units_(std::move(units)), layout_(layout) {
    for (const auto& [id, slot] : layout_.slot_of) {
      if (id < graph_.values.size() && graph_.is_leaf(id)) {
        leaf_of_slot_[slot] = id;
      }
    }
    for (std::size_t i = 0; i < units_.size(); ++i) {
      note_reads(i);
      pending_.insert(i);
    }
    for (std::size_t i = 0, count = units_.size(); i < count; ++i) {
      if (const auto leaf = overwrites(i); leaf && !can_overwrite(units_[i], *leaf)) {
        divert(i);
      }
    }
  }

  std::vector<Unit> run() {
    std::vector<Unit> ordered;
    while (!pending_.empty()) {
      auto next = std::find_if(pending_.begin(), pending_.end(),
                               [&](std::size_t i) { return inputs_done(i) && no_reader_left(i); });
      if (next == pending_.end()) {  // leaves read each other in a cycle; break it with a temporary
        next = std::find_if(pending_.begin(), pending_.end(), [&](std::size_t i) { return inputs_done(i); });
        divert(*next);
      }
      const std::size_t i = *next;
      pending_.erase(next);
      for (const Id id : reads_[i]) {
        --readers_[id];
      }
      done_.insert(units_[i].target);
      ordered.push_back(units_[i]);
    }
    return ordered;
  }

 private:
  void note_reads(std::size_t i) {
    reads_.emplace_back();
    for_each_read(units_[i], [&](const Access& access) { reads_[i].insert(access.tensor); });
    for (const Id id : reads_[i]) {
      ++readers_[id];
    }
  }

  std::optional<Id> overwrites(std::size_t i) const {
    const auto found = leaf_of_slot_.find(layout_.slot_of.at(units_[i].target));
    return found == leaf_of_slot_.end() ? std::nullopt : std::optional<Id>(found->second);
  }

  bool inputs_done(std::size_t i) const {
    return std::all_of(reads_[i].begin(), reads_[i].end(), [&](Id id) {
      return done_.contains(id) || (id < graph_.values.size() && graph_.is_leaf(id));
    });
  }

  // Whether unit i may overwrite its leaf: no other pending unit reads it.
  bool no_reader_left(std::size_t i) const {
    const auto leaf = overwrites(i);
    if (!leaf) {
      return true;
    }
    const auto found = readers_.find(*leaf);
    const int others = (found == readers_.end() ? 0 : found->second) - (reads_[i].contains(*leaf) ? 1 : 0);
    return others == 0;
  }

  // A unit may read the leaf that it overwrites only at the element that it writes.
  static bool can_overwrite(const Unit& unit, Id leaf) {
    bool reads = false;
    bool elementwise = unit.statements.size() == 1 && !unit.statements[0].reduce;
    const auto& target = unit.statements[0].target.indices;
    for_each_read(unit, [&](const Access& access) {
      if (access.tensor == leaf) {
        reads = true;
        elementwise = elementwise && access.indices == target && !access.otherwise;
      }
    });
    return !reads || elementwise;
  }

  // Makes unit i compute its leaf's new value in a temporary, and adds a unit that copies it.
  void divert(std::size_t i) {
    const Id target = units_[i].target;
    const std::size_t leaf_slot = layout_.slot_of.at(target);
    Slot temp = layout_.slots[leaf_slot];
    temp.name.clear();
    temp.role = program::Role::kTemp;
    temp.leaf = Tensor();
    const Type type = temp.type;
    const Dims dims = temp.dims;
    layout_.slot_of[target] = layout_.add(std::move(temp));
    const Id copy = layout_.next_target++;
    layout_.slot_of[copy] = leaf_slot;
    units_.push_back(emit_copy(copy, target, type, dims));
    note_reads(units_.size() - 1);
    pending_.insert(units_.size() - 1);
  }

  const Graph& graph_;
  std::vector<Unit> units_;
  Layout& layout_;
  std::unordered_map<std::size_t, Id> leaf_of_slot_;
  std::vector<std::set<Id>> reads_;
  std::unordered_map<Id, int> readers_;  // number of pending units that read the value
  std::set<std::size_t> pending_;
  std::unordered_set<Id> done_;
};

}  // namespace

std::vector<Unit> schedule(const Graph& graph, std::vector<Unit> units, Layout& layout) {
  return Scheduler(graph, std::move(units), layout).run();
}

void share_in_place(const std::vector<Unit>& units, Layout& layout) {
  std::unordered_map<Id, int> accesses;
  for (const Unit& unit : units) {
    for_each_read(unit, [&](const Access& access) { ++accesses[access.tensor]; });
  }
  for (const Unit& unit : units) {
    const std::size_t slot = layout.slot_of.at(unit.target);
    if (unit.statements.size() != 1 || unit.statements[0].reduce || layout.slots[slot].leaf) {
      continue;
    }
    std::optional<std::size_t> shared;
    for_each_read(unit, [&](const Access& access) {
      const std::size_t own = layout.slot_of.at(access.tensor);
      const Slot& from = layout.slots[own];
      const Slot& to = layout.slots[slot];
      const bool fits =
          from.role == program::Role::kTemp && from.type == to.type && from.dims == to.dims && own != slot;
      if (fits && !shared && accesses[access.tensor] == 1 && !access.otherwise &&
          access.indices == unit.statements[0].target.indices) {
        shared = own;
      }
    });
    if (shared) {
      for (auto& [id, own] : layout.slot_of) {
        own = own == *shared ? slot : own;
      }
    }
  }
}

}  // namespace yoke::detail::lowering
