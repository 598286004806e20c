// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/graph.h: the stages of lowering and what they hand on.
//
// canonical: equal expressions become one value. plan: which values get memory. emit: statements for those.
// schedule: their order, so that leaves are overwritten in place only after their last reader. names:
// identifiers. lower.cpp puts the stages together.
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
  // By plan():
  bool required = false;  // must have memory: a root, or read as a whole by somebody
  bool expanded = false;  // somebody computes it more often than it has elements
  bool storage = false;   // has memory; else its expression stands in its readers' statements
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
  std::map<std::uint64_t, std::int64_t> streams_;  // of draws without a stream of their own, by creation
};

// Sets storage. `roots` must have been marked required.
void plan(Graph& graph);

// The statements that fill one tensor. Accesses name values (an Id) until lower() knows the program's
// tensors.
struct Unit {
  Id target = 0;  // a value, or a further number for a copy
  std::vector<program::Statement> statements;
  bool copies = false;  // target = a value, element by element
};

Unit emit(const Graph& graph, Id value);
Unit emit_copy(Id target, Id source, Type type, const Dims& dims);
// Every access of a unit but the targets: reads, and elements used as indices.
void for_each_read(const Unit& unit, const std::function<void(const program::Access&)>& visit);
// Names in `unit` by `rename`.
void rename_tensors(Unit& unit, const std::function<std::uint32_t(Id)>& rename);

// Where tensors live: slots become the program's tensors.
struct Slot {
  std::string name;
  Type type = Type::kF32;
  Dims dims;
  program::Role role = program::Role::kTemp;
  Tensor leaf;
};

struct Layout {
  std::vector<Slot> slots;
  std::unordered_map<Id, std::size_t> slot_of;  // of values with storage and of copies' targets
  Id next_target = 0;                           // numbers for copies

  std::size_t add(Slot slot) {
    slots.push_back(std::move(slot));
    return slots.size() - 1;
  }
};

// Orders units so that whoever reads a leaf comes before the unit that overwrites it; where that cannot be,
// the new value goes through a temporary.
std::vector<Unit> schedule(const Graph& graph, std::vector<Unit> units, Layout& layout);
// A temporary that only the next elementwise statement reads, at its own element, lives in that statement's
// target.
void share_in_place(const std::vector<Unit>& units, Layout& layout);

// Gives every slot a distinct identifier, and loops names that are none of them.
void name_slots(std::vector<Slot>& slots, const std::vector<program::Symbol>& symbols);
void name_loops(program::Program& program);

}  // namespace yoke::detail::lowering
