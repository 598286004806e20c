// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/lower.cpp: checks the arguments of lower() and runs its stages.
#include <yoke/lower.h>
#include <yoke/ops.h>

#include <algorithm>
#include <set>
#include <utility>

#include "graph.h"

namespace yoke {
namespace {

using namespace detail::lowering;  // NOLINT(google-build-using-namespace): lower() is its entry point
using program::Role;

std::vector<Update> checked(std::span<const Output> outputs, std::span<const Update> updates) {
  std::set<std::string> names;
  for (const Output& output : outputs) {
    if (!output.value) {
      detail::fail("lower: output '" + output.name + "' is an empty Tensor");
    }
    if (!names.insert(output.name).second) {
      detail::fail("lower: two outputs are named '" + output.name + "'");
    }
  }
  std::set<const detail::Node*> leaves;
  std::vector<Update> fitted;
  for (const Update& update : updates) {
    detail::require(update.leaf, "lower: an update");
    detail::require(update.value, "lower: an update");
    Tensor value = update.value;
    if (update.leaf.source() != Source::kPlaceholder && update.leaf.source() != Source::kParameter) {
      detail::fail("lower: " + detail::describe(update.leaf) +
                   " cannot be updated; only placeholders and parameters can");
    }
    if (!leaves.insert(update.leaf.node().get()).second) {
      detail::fail("lower: " + detail::describe(update.leaf) + " is updated twice");
    }
    if (detail::constant_of(value) != nullptr) {
      value = cast(value, update.leaf.type());
    }
    if (value.rank() == 0 && update.leaf.rank() != 0) {
      value = broadcast_to(value, update.leaf.dims());
    }
    if (value.dims() != update.leaf.dims() || value.type() != update.leaf.type()) {
      detail::fail("lower: the new value " + detail::describe(value) + " " +
                   std::string(program::type_name(value.type())) + " does not match " +
                   detail::describe(update.leaf) + " " + std::string(program::type_name(update.leaf.type())));
    }
    fitted.push_back({update.leaf, value});
  }
  return fitted;
}

// Assigns slots to leaves and outputs and emits the units. A value with several slots is computed in the
// first one and copied to the others.
class Assembly {
 public:
  Assembly(const std::vector<Tensor>& roots, std::span<const Output> outputs,
           const std::vector<Update>& updates)
      : graph_(roots) {
    for (const Output& output : outputs) {
      graph_.values[graph_.of(output.value)].required = true;
    }
    for (const Update& update : updates) {
      graph_.values[graph_.of(update.value)].required = true;
    }
    plan(graph_);
    layout_.next_target = static_cast<Id>(graph_.values.size());
    add_leaves();
    for (const Output& output : outputs) {
      const std::size_t slot =
          layout_.add({output.name, output.value.type(), output.value.dims(), Role::kOut, {}});
      place(graph_.of(output.value), slot);
    }
    for (const Update& update : updates) {
      const std::size_t slot = layout_.slot_of.at(graph_.of(update.leaf));
      layout_.slots[slot].role = Role::kInOut;
      if (graph_.of(update.value) != graph_.of(update.leaf)) {
        place(graph_.of(update.value), slot);
      }
    }
    add_units();
  }

  Lowered finish(const std::string& program_name) {
    std::vector<Unit> units = schedule(graph_, std::move(units_), layout_);
    share_in_place(units, layout_);
    Lowered lowered;
    lowered.program.name = program_identifier(program_name);
    lowered.program.symbols = graph_.symbols;
    const std::vector<std::uint32_t> tensors = number_slots(units);
    name_slots(slots_, graph_.symbols);
    for (const Slot& slot : slots_) {
      lowered.program.tensors.push_back({slot.name, slot.type, slot.dims, slot.role, {}});
      if (slot.role != Role::kTemp) {
        lowered.arguments.push_back({slot.name, slot.role, kind_of(slot), slot.leaf});
      }
    }
    for (Unit& unit : units) {
      rename_tensors(unit, [&](Id id) { return tensors[layout_.slot_of.at(id)]; });
      for (auto& statement : unit.statements) {
        lowered.program.statements.push_back(std::move(statement));
      }
    }
    name_loops(lowered.program);
    return lowered;
  }

 private:
  void add_leaves() {
    std::vector<Id> leaves;
    for (Id id = 0; id < graph_.values.size(); ++id) {
      if (graph_.is_leaf(id)) {
        leaves.push_back(id);
      }
    }
    std::sort(leaves.begin(), leaves.end(), [&](Id a, Id b) {
      return detail::order_of(*graph_.values[a].node) < detail::order_of(*graph_.values[b].node);
    });
    for (const Id id : leaves) {
      const Tensor leaf(graph_.values[id].node->shared_from_this());
      layout_.slot_of[id] = layout_.add({leaf.name(), leaf.type(), leaf.dims(), Role::kIn, leaf});
    }
  }

  void place(Id id, std::size_t slot) {
    if (layout_.slot_of.try_emplace(id, slot).second) {
      return;
    }
    const Id copy = layout_.next_target++;
    layout_.slot_of[copy] = slot;
    copies_.push_back(emit_copy(copy, id, layout_.slots[slot].type, layout_.slots[slot].dims));
  }

  void add_units() {
    for (Id id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_.values[id];
      if (!value.storage || graph_.is_leaf(id)) {
        continue;
      }
      if (!layout_.slot_of.contains(id)) {
        layout_.slot_of[id] =
            layout_.add({value.node->name, value.node->type, value.dims(), Role::kTemp, {}});
      }
      units_.push_back(emit(graph_, id));
    }
    units_.insert(units_.end(), copies_.begin(), copies_.end());
  }

  // The tensor number of each slot: arguments first, then temporaries in the order of their first statement.
  // Unused slots keep the number ~0.
  std::vector<std::uint32_t> number_slots(const std::vector<Unit>& units) {
    std::vector<std::uint32_t> numbers(layout_.slots.size(), ~std::uint32_t{0});
    const auto take = [&](std::size_t slot) {
      if (numbers[slot] == ~std::uint32_t{0}) {
        numbers[slot] = static_cast<std::uint32_t>(slots_.size());
        slots_.push_back(layout_.slots[slot]);
      }
    };
    for (std::size_t slot = 0; slot < layout_.slots.size(); ++slot) {
      if (layout_.slots[slot].role != Role::kTemp) {
        take(slot);
      }
    }
    for (const Unit& unit : units) {
      take(layout_.slot_of.at(unit.target));
    }
    return numbers;
  }

  static LoweredArgument::Kind kind_of(const Slot& slot) {
    if (!slot.leaf) {
      return LoweredArgument::Kind::kOutput;
    }
    switch (slot.leaf.source()) {
      case Source::kLiteral:
        return LoweredArgument::Kind::kLiteral;
      case Source::kParameter:
        return LoweredArgument::Kind::kParameter;
      default:
        return LoweredArgument::Kind::kPlaceholder;
    }
  }

  Graph graph_;
  Layout layout_;
  std::vector<Unit> units_;
  std::vector<Unit> copies_;
  std::vector<Slot> slots_;  // in the program's order
};

}  // namespace

std::size_t Lowered::find(const Tensor& leaf) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].leaf && leaf && arguments[i].leaf.is(leaf)) {
      return i;
    }
  }
  throw Error(ErrorCode::kNotFound, "program '" + program.name + "' does not use " +
                                        (leaf ? detail::describe(leaf) : "an empty Tensor"));
}

Lowered lower(const std::string& program_name, std::span<const Output> outputs,
              std::span<const Update> updates) {
  const std::vector<Update> fitted = checked(outputs, updates);
  std::vector<Tensor> roots;
  for (const Output& output : outputs) {
    roots.push_back(output.value);
  }
  for (const Update& update : fitted) {
    roots.push_back(update.leaf);
    roots.push_back(update.value);
  }
  return Assembly(roots, outputs, fitted).finish(program_name);
}

Lowered lower(const std::string& program_name, const std::vector<Output>& outputs,
              const std::vector<Update>& updates) {
  return lower(program_name, std::span<const Output>(outputs), std::span<const Update>(updates));
}

}  // namespace yoke
