// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/lower.cpp: checks the arguments of lower() and runs its stages.
#include <yoke/lower.h>
#include <yoke/ops.h>

#include <algorithm>
#include <map>
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
    lowered.program.hints = std::move(hints_);
    choose_names(slots_, lowered.program);
    for (const Slot& slot : slots_) {
      lowered.program.tensors.push_back({slot.name, slot.type, slot.dims, slot.role, {}});
      if (slot.role != Role::kTemp) {
        lowered.arguments.push_back({slot.name, slot.role, kind_of(slot), slot.leaf});
      }
    }
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

  std::uint32_t add_temporary(const detail::Node& node, const Dims& dims) {
    return add({node.name, node.type, dims, Role::kTemp, {}});
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
      if (detail::is_loop_result(*value.node)) {
        if (next_loop_ < graph_.loops.size() && graph_.loops[next_loop_].results[0] == id) {
          add_loop(graph_.loops[next_loop_], static_cast<std::int32_t>(next_loop_));
          ++next_loop_;
        }
      } else if (value.loop < 0 && !graph_.is_leaf(id)) {
        add_computed(id);
      }
    }
  }

  // Adds the statements of a value that has memory. Those of a composite are added together, after all values
  // that they read.
  void add_computed(Id id) {
    const Value& value = graph_.values[id];
    if (value.group < 0) {
      if (value.storage) {
        add_value(id);
      }
      return;
    }
    const Group& group = graph_.groups[static_cast<std::size_t>(value.group)];
    if (id != group.members.back()) {
      return;
    }
    const std::size_t before = statements_.size();
    for (const Id member : group.members) {
      if (graph_.values[member].storage) {
        add_value(member);
      }
    }
    if (statements_.size() != before) {
      hints_.push_back({group.name, {}});
    }
    for (std::size_t i = before; i < statements_.size(); ++i) {
      statements_[i].hint = static_cast<std::int32_t>(hints_.size()) - 1;
    }
  }

  void add_value(Id id) {
    Value& value = graph_.values[id];
    if (placed_.insert(id).second) {
      value.tensor = add_temporary(*value.node, value.dims());
    }
    for (program::Statement& statement : emit(graph_, id)) {
      statements_.push_back(std::move(statement));
    }
  }

  // Assigns tensors to the results of a loop; equal results share one. Returns the tensors of the carries'
  // histories.
  std::vector<std::uint32_t> add_results(const LoopResults& one) {
    std::map<std::pair<detail::Kind, Id>, std::uint32_t> known;
    for (const Id id : one.results) {
      Value& value = graph_.values[id];
      const bool is_history = value.node->kind == detail::Kind::kHistory;
      const Id key = is_history ? static_cast<Id>(value.node->axis) : value.args.back();
      const auto [found, is_new] = known.try_emplace({value.node->kind, key}, value.tensor);
      if (placed_.insert(id).second) {
        found->second = is_new ? add_temporary(*value.node, value.dims()) : found->second;
      } else if (!is_new) {
        copies_.push_back({value.tensor, id});
      }
      value.tensor = found->second;
    }
    std::vector<std::uint32_t> histories;
    for (std::size_t k = 0; k < one.loop->carry_count; ++k) {
      const auto found = known.find({detail::Kind::kHistory, static_cast<Id>(k)});
      const Value& first = graph_.values[graph_.values[one.results[0]].args[k]];
      Dims dims = first.dims();
      dims.insert(dims.begin(), one.loop->rounds() + 1);
      histories.push_back(found != known.end() ? found->second : add_temporary(*first.node, dims));
    }
    return histories;
  }

  // Adds the copies of the first carries, and then a repeat block. The block computes the values that the
  // loop returns directly in the tensors of the results, unless a value has another tensor already.
  void add_loop(const LoopResults& one, std::int32_t loop) {
    const std::vector<std::uint32_t> histories = add_results(one);
    const std::vector<Id>& args = graph_.values[one.results[0]].args;
    std::vector<std::pair<Id, std::pair<std::uint32_t, Row>>> moved;
    const auto place = [&](Id id, std::uint32_t tensor, Row row) {
      Value& value = graph_.values[id];
      if (value.loop == loop && value.node->kind != detail::Kind::kCarry && placed_.insert(id).second) {
        value.tensor = tensor;
        value.row = row;
      } else {
        moved.push_back({id, {tensor, row}});
      }
    };
    for (std::size_t k = 0; k < histories.size(); ++k) {
      statements_.push_back(emit_round(graph_, args[k], histories[k], -1, Row{0}));
      place(args[histories.size() + k], histories[k], {1});
    }
    for (const Id id : one.results) {
      const Value& result = graph_.values[id];
      if (result.node->kind == detail::Kind::kStacked) {
        const auto last = static_cast<std::int64_t>(one.loop->rounds()) - 1;
        place(result.args.back(), result.tensor, result.node->axis == 0 ? Row{0} : Row{last, -1});
      } else if (result.node->kind == detail::Kind::kSummed) {
        statements_.push_back(emit_zero(result.tensor, result.node->type, result.dims()));
      }
    }
    add_body(loop, histories);
    for (const auto& [id, to] : moved) {
      statements_.push_back(emit_round(graph_, id, to.first, loop, to.second));
    }
    for (const Id id : one.results) {
      const Value& result = graph_.values[id];
      if (result.node->kind == detail::Kind::kSummed) {
        statements_.push_back(emit_round(graph_, result.args.back(), result.tensor, loop, std::nullopt));
        statements_.back().assign = program::Assign::kAdd;
      }
    }
  }

  void add_body(std::int32_t loop, const std::vector<std::uint32_t>& histories) {
    for (Id id = 0; id < graph_.values.size(); ++id) {
      Value& value = graph_.values[id];
      if (value.loop != loop) {
        continue;
      }
      if (value.node->kind == detail::Kind::kCarry) {
        value.tensor = histories[static_cast<std::size_t>(value.node->axis)];
        value.row = Row{0};
      } else {
        add_computed(id);
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
  std::size_t next_loop_ = 0;
  std::vector<program::Statement> statements_;
  std::vector<program::Hint> hints_;
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
