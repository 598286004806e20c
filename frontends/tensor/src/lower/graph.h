// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/graph.h: the stages of lowering and their data structures.
//
// In order, each in a file of its name:
//   canonical  merges equal expressions into one value
//   plan       decides which values get memory
//   emit       emits the statements of those values
//   schedule   orders the statements, so that a leaf is overwritten only after it has been read
//   names      chooses identifiers
#pragma once

#include <yoke/lower.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "../node.h"

namespace yoke::detail::lowering {

using Id = std::uint32_t;

// One distinct expression.
struct Value {
  const Node* node = nullptr;
  std::vector<Id> args;
  // Set by plan():
  bool required = false;  // must have memory: it is a root, or an operand that must be a plain read
  bool expanded = false;  // a reader would compute it more often than it has elements
  bool storage = false;   // has memory; otherwise it is inlined in its readers' statements
  std::uint64_t uses = 0;

  const Dims& dims() const { return node->parameter ? node->parameter->dims : node->dims; }
};

class Graph {
 public:
  explicit Graph(std::span<const Tensor> roots);

  Id of(const Tensor& tensor) const { return ids_.at(tensor.node().get()); }
  std::int64_t stream_of(const Node& random) const;
  std::uint32_t symbol(const Symbol& symbol) const { return symbol_ids_.at(symbol.name); }
  bool is_leaf(Id id) const;

  std::vector<Value> values;  // arguments before users
  std::vector<program::Symbol> symbols;

 private:
  void add_symbol(const Symbol& symbol, bool is_implicit);
  void number_draws(const std::vector<const Node*>& nodes);
  Id canonical(const Node& node);
  std::string key_of(const Node& node, const std::vector<Id>& args) const;

  std::unordered_map<const Node*, Id> ids_;
  std::unordered_map<std::string, Id> keys_;
  std::map<std::string, std::uint32_t> symbol_ids_;
  std::map<std::string, bool> implicit_;
  std::map<std::uint64_t, std::int64_t> streams_;  // assigned to draws without a stream, by Node::order
};

// Sets Value::storage. Precondition: roots are marked as required.
void plan(Graph& graph);

// The statements that compute one tensor. Their accesses refer to values by Id;
// rename_tensors() replaces the Ids by tensor numbers.
struct Unit {
  Id target = 0;  // a value, or an additional Id for a copy
  std::vector<program::Statement> statements;
  bool copies = false;  // whether the unit only copies a value
};

Unit emit(const Graph& graph, Id value);
Unit emit_copy(Id target, Id source, Type type, const Dims& dims);
// Visits every read access of a unit, including elements that are used as indices.
void for_each_read(const Unit& unit, const std::function<void(const program::Access&)>& visit);
// Replaces every Id in the unit's accesses by rename(Id).
void rename_tensors(Unit& unit, const std::function<std::uint32_t(Id)>& rename);

// A future tensor of the program. Several values may share a slot.
struct Slot {
  std::string name;
  Type type = Type::kF32;
  Dims dims;
  program::Role role = program::Role::kTemp;
  Tensor leaf;
};

struct Layout {
  std::vector<Slot> slots;
  std::unordered_map<Id, std::size_t> slot_of;  // of values with storage, and of targets of copies
  Id next_target = 0;                           // the next Id for a copy

  std::size_t add(Slot slot) {
    slots.push_back(std::move(slot));
    return slots.size() - 1;
  }
};

// Orders units so that all readers of a leaf precede the unit that overwrites it. If that is impossible,
// the new value is computed in a temporary and copied.
std::vector<Unit> schedule(const Graph& graph, std::vector<Unit> units, Layout& layout);
// Lets an elementwise statement reuse the memory of a temporary for
// its result, if no other statement reads the temporary.
void share_in_place(const std::vector<Unit>& units, Layout& layout);

// Give slots and loops unique identifiers.
void name_slots(std::vector<Slot>& slots, const std::vector<program::Symbol>& symbols);
void name_loops(program::Program& program);

}  // namespace yoke::detail::lowering
