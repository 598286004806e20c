// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/graph.h: the stages of lowering and their data structures.
//
// In order, each in a file of its name:
//   graph  numbers the expressions, their symbols and their random draws
//   plan   decides which values get memory: all but constants and views
//   emit   emits the statements of those values, one per operation; the body of a scan is one repeat block
//   names  chooses identifiers
// Everything that makes a program fast is left to the runtime's passes.
#pragma once

#include <yoke/lower.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "../node.h"

namespace yoke::detail::lowering {

using Id = std::uint32_t;

// The row of a tensor that a round of a loop writes: first + step * variable.
struct Row {
  std::int64_t first = 0;
  std::int64_t step = 1;
};

struct Value {
  const Node* node = nullptr;
  std::vector<Id> args;
  bool storage = false;      // set by plan(): has memory; otherwise it is inlined in its readers' statements
  std::uint32_t tensor = 0;  // of the program, if it has memory
  std::int32_t loop = -1;    // index into Graph::loops if the value varies from round to round
  std::int32_t group = -1;   // index into Graph::groups
  std::optional<Row> row = {};  // if set, the value is tensor[row, ...]

  const Dims& dims() const { return node->parameter ? node->parameter->dims : node->dims; }
};

struct LoopResults {
  const Loop* loop = nullptr;
  std::vector<Id> results;
};

// The values of a composite's body. Their statements are one hint.
struct Group {
  std::string name;
  std::int32_t loop = -1;   // as in Value
  std::vector<Id> members;  // ascending
  std::vector<Id> outputs;
};

class Graph {
 public:
  explicit Graph(std::span<const Tensor> roots);

  Id of(const Tensor& tensor) const { return ids_.at(tensor.node().get()); }
  std::int64_t stream_of(const Node& random) const;
  std::uint32_t symbol(const Symbol& symbol) const { return symbol_ids_.at(symbol.name); }
  std::uint32_t variable(std::int32_t loop) const {
    return symbol(loops[static_cast<std::size_t>(loop)].loop->variable);
  }
  bool is_leaf(Id id) const;

  std::vector<Value> values;             // arguments before users
  std::vector<program::Symbol> symbols;  // the variables of the loops come last
  std::vector<LoopResults> loops;        // in order of their first results
  std::vector<Group> groups;

 private:
  void add_loops(const std::vector<const Node*>& nodes);
  void add_symbol(const Symbol& symbol, bool is_implicit);
  std::int32_t loop_of(const Value& value) const;
  // Makes the group of the composite that `result` belongs to, unless it exists or is empty. Precondition:
  // all values of the body exist.
  void add_group(const Node& result);
  void refuse_escaped(std::span<const Tensor> roots, const std::vector<const Node*>& nodes) const;
  void number_draws(const std::vector<const Node*>& nodes);

  std::unordered_map<const Node*, Id> ids_;
  std::map<std::string, std::uint32_t> symbol_ids_;
  std::map<std::string, std::int32_t> variables_;  // the loop of each variable
  std::map<std::string, bool> implicit_;
  std::map<const Composite*, std::vector<Id>> members_;
  std::map<std::uint64_t, std::int64_t> streams_;  // assigned to draws without a stream, by Node::draw
};

// Sets Value::storage. `roots` have memory in any case.
void plan(Graph& graph, const std::vector<Id>& roots);

// The statements that compute a value with memory. Precondition: its arguments have tensors.
std::vector<program::Statement> emit(const Graph& graph, Id value);
// Copies a value of a body to tensor[row, ...], or to tensor[...] if `row` is empty. If `loop` is -1,
// copies a value to tensor[row->first, ...].
program::Statement emit_round(const Graph& graph, Id value, std::uint32_t tensor, std::int32_t loop,
                              std::optional<Row> row);
program::Statement emit_zero(std::uint32_t target, Type type, const Dims& dims);
program::Statement emit_copy(std::uint32_t target, std::uint32_t source, Type type, const Dims& dims);

// A future tensor of the program.
struct Slot {
  std::string name;
  Type type = Type::kF32;
  Dims dims;
  program::Role role = program::Role::kTemp;
  Tensor leaf;
};

// Gives unique names to slots, to the variables of repeat blocks, and to loops.
void choose_names(std::vector<Slot>& slots, program::Program& program);

}  // namespace yoke::detail::lowering
