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

// Assigns tensors to values and emits their statements. If a value cannot be computed in its argument, which
// holds another value or is still read, it is copied there at the end.
class Assembly {
 public:
  Assembly(const std::vector<Tensor>& roots, std::span<const Output> outputs,
           const std::vector<Update>& updates)
      : graph_(roots) {
    std::vector<Id> stored;
    for (const Output& output : outputs) {
      stored.push_back(graph_.of(output.value));
    }
    for (const Update& update : updates) {
      stored.push_back(graph_.of(update.value));
    }
    plan(graph_, stored);
    add_leaves();
    for (const Output& output : outputs) {
      const auto tensor = add({output.name, output.value.type(), output.value.dims(), Role::kOut, {}});
      const Id id = graph_.of(output.value);
      if (!placed_.insert(id).second) {
        copies_.push_back({tensor, id});
      } else {
        graph_.values[id].tensor = tensor;
      }
    }
    add_statements();
    for (const Copy& copy : copies_) {
      statements_.push_back(copy_of(copy.target, graph_.values[copy.source].tensor));
    }
    add_updates(updates);
  }

  Lowered finish(const std::string& program_name) {
    Lowered lowered;
    lowered.program.name = program_identifier(program_name);
    lowered.program.symbols = graph_.symbols;
    lowered.program.statements = std::move(statements_);
    name_slots(slots_, graph_.symbols);
    for (const Slot& slot : slots_) {
      lowered.program.tensors.push_back({slot.name, slot.type, slot.dims, slot.role, {}});
      if (slot.role != Role::kTemp) {
        lowered.arguments.push_back({slot.name, slot.role, kind_of(slot), slot.leaf});
      }
    }
    name_loops(lowered.program);
    return lowered;
  }

 private:
  struct Copy {
    std::uint32_t target = 0;
    Id source = 0;
  };

  std::uint32_t add(Slot slot) {
    slots_.push_back(std::move(slot));
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }

  program::Statement copy_of(std::uint32_t target, std::uint32_t source) const {
    return emit_copy(target, source, slots_[target].type, slots_[target].dims);
  }

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
      graph_.values[id].tensor = add({leaf.name(), leaf.type(), leaf.dims(), Role::kIn, leaf});
      placed_.insert(id);
    }
  }

  void add_statements() {
    for (Id id = 0; id < graph_.values.size(); ++id) {
      Value& value = graph_.values[id];
      if (!value.storage || graph_.is_leaf(id)) {
        continue;
      }
      if (!placed_.contains(id)) {
        value.tensor = add({value.node->name, value.node->type, value.dims(), Role::kTemp, {}});
      }
      for (program::Statement& statement : emit(graph_, id)) {
        statements_.push_back(std::move(statement));
      }
    }
  }

  // Leaves are overwritten last. A new value that is another leaf's old value is saved before that.
  void add_updates(const std::vector<Update>& updates) {
    std::vector<program::Statement> last;
    for (const Update& update : updates) {
      const std::uint32_t leaf = graph_.values[graph_.of(update.leaf)].tensor;
      const Id id = graph_.of(update.value);
      std::uint32_t source = graph_.values[id].tensor;
      slots_[leaf].role = Role::kInOut;
      if (source == leaf) {
        continue;
      }
      if (graph_.is_leaf(id)) {
        const std::uint32_t saved = add({"", slots_[leaf].type, slots_[leaf].dims, Role::kTemp, {}});
        statements_.push_back(copy_of(saved, source));
        source = saved;
      }
      last.push_back(copy_of(leaf, source));
    }
    statements_.insert(statements_.end(), last.begin(), last.end());
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
      case Source::kScalar:
        return LoweredArgument::Kind::kScalar;
      default:
        return LoweredArgument::Kind::kPlaceholder;
    }
  }

  Graph graph_;
  std::set<Id> placed_;      // values that have an argument as their tensor
  std::vector<Slot> slots_;  // the program's tensors
  std::vector<Copy> copies_;
  std::vector<program::Statement> statements_;
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
