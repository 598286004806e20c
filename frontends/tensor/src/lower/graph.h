// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/graph.h: the stages of lowering and their data structures.
//
// In order, each in a file of its name:
//   graph  numbers the expressions, their symbols and their random draws
//   plan   decides which values get memory: all but constants and views
//   emit   emits the statements of those values, one per operation
//   names  chooses identifiers
// Everything that makes a program fast is left to the runtime's passes.
#pragma once

#include <yoke/lower.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "../node.h"

namespace yoke::detail::lowering {

using Id = std::uint32_t;

struct Value {
  const Node* node = nullptr;
  std::vector<Id> args;
  bool storage = false;      // set by plan(): has memory; otherwise it is inlined in its readers' statements
  std::uint32_t tensor = 0;  // of the program, if it has memory

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

  std::unordered_map<const Node*, Id> ids_;
  std::map<std::string, std::uint32_t> symbol_ids_;
  std::map<std::string, bool> implicit_;
  std::map<std::uint64_t, std::int64_t> streams_;  // assigned to draws without a stream, by Node::order
};

// Sets Value::storage. `roots` have memory in any case.
void plan(Graph& graph, const std::vector<Id>& roots);

// The statements that compute a value with memory. Precondition: its arguments have tensors.
std::vector<program::Statement> emit(const Graph& graph, Id value);
program::Statement emit_copy(std::uint32_t target, std::uint32_t source, Type type, const Dims& dims);

// A future tensor of the program.
struct Slot {
  std::string name;
  Type type = Type::kF32;
  Dims dims;
  program::Role role = program::Role::kTemp;
  Tensor leaf;
};

// Give slots and loops unique identifiers.
void name_slots(std::vector<Slot>& slots, const std::vector<program::Symbol>& symbols);
void name_loops(program::Program& program);

}  // namespace yoke::detail::lowering
