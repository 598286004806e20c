// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/node.h: what a Tensor points to, and the few ways to make one.
#pragma once

#include <yoke/parameter.h>
#include <yoke/program/program.h>
#include <yoke/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace yoke::detail {

enum class Kind : std::uint8_t {
  kPlaceholder,
  kLiteral,
  kParameter,
  kConstant,  // a scalar; broadcast by kPermute
  kSymbol,    // i64 scalar
  kIota,      // the position along `axis`
  kRandom,    // random bits
  kMap,       // `op` on every element; arguments broadcast as numpy does
  // Views: out[...] = args[0][indices computed from out's]
  kPermute,  // source dimension k is indexed by out's axis axes[k], or by 0 where that is -1
  kSlice,    // out index + starts[k] (+ symbol on symbol_axis)
  kPad,      // out index - starts[k] (- symbol on symbol_axis), 0 outside
  kStop,     // the same, without gradient
  kGather,   // args[0][args[1][ids' axes], the rest], 0 outside
  kTake,     // args[0][all axes of ids, args[1][them]], 0 outside
  kReshape,
  // Need memory of their own
  kReduce,  // `reduce` over the product of args, each indexed by labels; labels 0..rank-1 are out's axes
  kConcat,  // along `axis`
  kScatter  // zeros, then out[args[0][ids' axes], the rest] += args[1]
};

struct ParameterState {
  std::string name;
  std::uint64_t order = 0;  // among parameters and nodes; a container puts its members' in order
  bool has_dims = false;
  Dims dims;
  Initializer initializer;
  std::vector<std::byte> values;
  bool has_values = false;
};

struct Node : std::enable_shared_from_this<Node> {
  Node() = default;
  Node(const Node&) = default;
  Node(Node&&) = delete;
  Node& operator=(const Node&) = delete;
  Node& operator=(Node&&) = delete;
  ~Node();  // without recursion: chains may be longer than a stack is deep

  Kind kind = Kind::kConstant;
  Type type = Type::kF32;
  Dims dims;  // of a parameter: in its state
  std::string name;
  std::uint64_t order = 0;  // grows with every node made by this process; only comparisons mean anything
  std::vector<Tensor> args;

  program::Op op = program::Op::kConst;
  program::Literal literal;
  bool weak = false;  // a constant from a plain number: takes the type of what it meets
  std::vector<int> axes;
  std::vector<std::int64_t> starts;
  int axis = 0;
  std::optional<Symbol> symbol;
  int symbol_axis = 0;
  program::Reduce reduce = program::Reduce::kSum;
  std::vector<std::vector<int>> labels;  // of kReduce: one label per dimension of each argument
  Dims reduced;                          // extents of labels rank, rank + 1, ...

  RandomKey key;
  int lane = 0;  // draws of one element are numbered element * lanes + lane
  int lanes = 1;

  std::vector<std::byte> bytes;               // of a literal
  std::shared_ptr<ParameterState> parameter;  // mutable, shared by the handles
};

// Error where no program can hold a tensor of that shape; `name` is for the message.
void check_dims(const Dims& dims, const std::string& name = {});
std::shared_ptr<Node> new_node(Kind kind, Type type, Dims dims);  // checks them
std::uint64_t next_order();
inline std::uint64_t order_of(const Node& node) {
  return node.parameter ? node.parameter->order : node.order;
}
inline Tensor finish(std::shared_ptr<Node> node) {
  return Tensor(std::shared_ptr<const Node>(std::move(node)));
}

[[noreturn]] void fail(const std::string& sentence);   // Error kInvalidArgument
std::string describe(const Tensor& x);                 // "'x' [50, 784]"
void require(const Tensor& x, const char* operation);  // Error when empty

// 0 <= axis < rank, or Error.
std::size_t normal_axis(int axis, std::size_t rank, const char* operation, const Tensor& x);

// Constants.
Tensor constant(Type type, double value, bool weak = false);
Tensor constant_integer(Type type, std::int64_t value, bool weak = false);
// The node of a constant, also below broadcasts; null for anything else.
const Node* constant_of(const Tensor& x);
std::optional<double> number_of(const Tensor& x);  // its value

// Elementwise, with checks, broadcasting, folding of constants and of x * 1, x + 0.
Tensor map(program::Op op, std::vector<Tensor> args);

// dy times the derivative of `op` at x, where op(x) is y; empty where that is 0 everywhere.
Tensor unary_gradient(program::Op op, const Tensor& x, const Tensor& y, const Tensor& dy);

// Views.
Tensor permute_node(const Tensor& x, Dims dims, std::vector<int> axes);
Tensor slice_node(const Tensor& x, Dims dims, std::vector<std::int64_t> starts, std::optional<Symbol> symbol,
                  int symbol_axis);
Tensor pad_node(const Tensor& x, Dims dims, std::vector<std::int64_t> starts, std::optional<Symbol> symbol,
                int symbol_axis);
Tensor scatter_node(const Tensor& ids, const Tensor& value, Dims dims);

// Takes the axes for which `is_dropped(axis)` holds, of extent 1 each, out of `arg` and its labels.
template <class IsDropped>
void drop_axes(Tensor& arg, std::vector<int>& labels, const IsDropped& is_dropped) {
  std::vector<int> kept;
  std::vector<int> axes;
  Dims dims;
  for (std::size_t k = 0; k < labels.size(); ++k) {
    if (is_dropped(k)) {
      axes.push_back(-1);
      continue;
    }
    axes.push_back(static_cast<int>(kept.size()));
    kept.push_back(labels[k]);
    dims.push_back(arg.dims()[k]);
  }
  if (kept.size() != labels.size()) {
    arg = permute_node(arg, std::move(dims), std::move(axes));
    labels = std::move(kept);
  }
}

// Sum over the product of `args`. `extents` holds one extent per label; labels are any small numbers. Labels
// that `out` lacks are summed, labels that only `out` has are broadcast. Constants and single operands become
// what is cheapest.
Tensor contract(std::vector<Tensor> args, std::vector<std::vector<int>> labels, const std::vector<int>& out,
                const Dims& extents);
// Adjoint of broadcasting: sums `x` down to `dims`.
Tensor sum_to(const Tensor& x, const Dims& dims);
// One operand, sorted axes; result without the axes.
Tensor reduce_node(program::Reduce reduce, Type type, const Tensor& x, const std::vector<std::size_t>& axes);
// Puts back axes of extent 1 where a reduction took them.
Tensor keep_axes(const Tensor& reduced, const Dims& before, const std::vector<std::size_t>& axes);
std::vector<std::size_t> normal_axes(const std::vector<int>& axes, const Tensor& x, const char* operation);

// Nodes below `roots`, arguments before users, in a fixed order.
std::vector<const Node*> topological(std::span<const Tensor> roots);

}  // namespace yoke::detail
