// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/node.h: the nodes of expressions, and functions that create them.
#pragma once

#include <yoke/parameter.h>
#include <yoke/program/program.h>
#include <yoke/runtime/counted.h>
#include <yoke/tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "view.h"

namespace yoke {
class Optimizer;
struct OptimizerRule;
}  // namespace yoke

namespace yoke::detail {

enum class Kind : std::uint8_t {
  kPlaceholder,
  kLiteral,
  kParameter,
  kScalar,    // a Scalar, which the host sets
  kConstant,  // a scalar; a view broadcasts it
  kSymbol,    // i64 scalar
  kIota,      // the index along `axis`
  kRandom,    // random bits
  kCarry,     // carry `axis` at the start of a round of `loop`
  kMap,       // `op` on every element; the arguments are broadcast
  // Computed from other elements, by index arithmetic
  kView,    // see view.h
  kRoll,    // element i of `axis` moves to (i + literal.integer) % size; the number is in [1, size)
  kStop,    // args[0], without a gradient
  kByMode,  // args[0] in training, args[1] in evaluation; in_mode() replaces it
  kReport,  // args[0]; args[2] is the next value of the running state args[1]; in_mode() replaces it
  kEntry,   // args[0], as input `axis` of `composite`
  kResult,  // args[axis], as an output of `composite`; args: what its body returns, then its inputs
  kGather,  // with ids = args[1], i the axes of ids and j the other axes: args[0][ids[i], j], 0 outside;
            // with `axis` >= 0: args[0][i], except that axis is indexed by ids[i]
  kReshape,
  // Nodes that need memory
  kReduce,   // `reduce` over the product of the args, indexed by `labels`; labels 0..rank-1 are out's axes
  kConcat,   // along `axis`
  kScatter,  // zeros, then with ids = args[0]: out[ids[i], j] += args[1][i, j]; with `axis` as kGather
  // Results of `loop`; args: its first carries, its next carries, and (kStacked, kSummed) a value of its body
  kHistory,  // carry `axis` before each round and after the last one: [rounds + 1, ...]
  kStacked,  // the value in each round: [rounds, ...]; if `axis` is 1, from the last round to the first
  kSummed    // the sum of the value over the rounds
};

// A scan. Its body consists of the expressions that use its variable or its carries; all other expressions
// are computed before the loop.
inline constexpr std::string_view kVariablePrefix = "round of scan ";
struct Loop {
  Symbol variable;          // 0, 1, ...; the name is the prefix and a number
  std::uint64_t order = 0;  // less than that of all nodes that depend on the variable and the carries
  std::size_t carry_count = 0;
  std::uint64_t rounds() const { return static_cast<std::uint64_t>(variable.high); }
};

// One call of composite(), or the gradient of one. Its body is the nodes that `forward`, `backward` or the
// derived gradient creates.
struct Composite {
  std::string name;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                                    const std::vector<Tensor>& gradients)>
      backward;                             // empty: derived
  std::shared_ptr<const Composite> parent;  // the composite whose body contains this one, or null
  std::size_t output_count = 0;
};

struct ParameterState {
  std::string name;
  std::uint64_t order = 0;  // replaces Node::order; nn::Layer::child changes it
  bool has_dims = false;
  Dims dims;
  Initializer initializer;
  bool is_state = false;
  std::shared_ptr<const std::vector<std::byte>> values;  // null: none; immutable, because copies may read it
};

struct ScalarState {
  std::atomic<double> value{0};
};

struct Node : std::enable_shared_from_this<Node> {
  Node() = default;
  Node(const Node&) = default;
  Node(Node&&) = delete;
  Node& operator=(const Node&) = delete;
  Node& operator=(Node&&) = delete;
  ~Node();  // not recursive: a long chain of nodes would overflow the stack

  Kind kind = Kind::kConstant;
  Type type = Type::kF32;
  Dims dims;  // parameters have theirs in ParameterState
  std::string name;
  std::uint64_t order = 0;  // grows with every node of the process; only comparisons are meaningful
  std::vector<Tensor> args;

  program::Op op = program::Op::kConst;
  program::Literal literal;     // of a constant, or what a view yields outside of its source
  bool weak = false;            // a constant from a plain number; takes the type of the other operand
  std::vector<ViewIndex> view;  // one per axis of args[0]
  bool is_filled = false;       // whether the view may read outside of its source
  int axis = 0;
  std::optional<Symbol> symbol;
  program::Reduce reduce = program::Reduce::kSum;
  std::vector<std::vector<int>> labels;  // of kReduce: one label per axis of each argument
  Dims reduced;                          // sizes of the labels rank, rank + 1, ...

  RandomKey key;           // of kRandom
  std::uint64_t draw = 0;  // of kRandom: equal draws have equal streams; copies keep the number
  int lane = 0;            // the counter of an element's draw is element * lanes + lane
  int lanes = 1;

  std::vector<std::byte> bytes;               // of a literal
  std::shared_ptr<ParameterState> parameter;  // mutable; shared by all handles
  std::shared_ptr<ScalarState> scalar;        // the same
  std::shared_ptr<const Loop> loop;           // of kCarry and the results of loops
  // The composite whose body contains the node; of kResult, the composite whose output it is.
  std::shared_ptr<const Composite> composite;
  mutable std::shared_ptr<const Node> next_dropped;  // of ~Node()
};

// Error kInvalidArgument: programs cannot hold a tensor of this shape. `name` appears in the message.
void check_dims(const Dims& dims, const std::string& name = {});
std::shared_ptr<Node> new_node(Kind kind, Type type, Dims dims);  // calls check_dims
// The composite that new nodes of this thread join.
std::shared_ptr<const Composite>& current_composite();
// Sets current_composite() until it is destroyed.
class InComposite {
 public:
  explicit InComposite(std::shared_ptr<const Composite> composite)
      : before_(std::exchange(current_composite(), std::move(composite))) {}
  ~InComposite() { current_composite() = std::move(before_); }
  InComposite(const InComposite&) = delete;
  InComposite& operator=(const InComposite&) = delete;
  InComposite(InComposite&&) = delete;
  InComposite& operator=(InComposite&&) = delete;

 private:
  std::shared_ptr<const Composite> before_;
};
std::uint64_t next_order();
inline std::uint64_t order_of(const Node& node) {
  return node.parameter ? node.parameter->order : node.order;
}
inline Tensor finish(std::shared_ptr<Node> node) {
  return Tensor(std::shared_ptr<const Node>(std::move(node)));
}

[[noreturn]] void fail(const std::string& message);  // throws Error kInvalidArgument
// Error kInvalidArgument: the node differs between training and evaluation. `call` appears in the message.
void require_mode(const Node& node, const char* call);
std::string describe(const Tensor& x);  // "'x' [50, 784]", or "[50, 784]" without a name
// A draw by row uses the streams stream + row * kStreamsOfARow.
inline constexpr std::int64_t kStreamsOfARow = std::int64_t{1} << 34U;
void require(const Tensor& x, const char* operation);  // fails if x is empty
// The rule of an optimizer; throws Error kFailedPrecondition if it is moved from.
const OptimizerRule& rule_of(const Optimizer& optimizer);

// The host data of a leaf, and the owner that keeps it in memory if the leaf gets other values.
struct HostMemory {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
HostMemory host_memory(const Tensor& leaf);

// `axis` in [0, rank), counted from the last axis if negative. Fails if it is out of range.
std::size_t normal_axis(int axis, std::size_t rank, const char* operation, const Tensor& x);
// The same for distinct axes, sorted; all axes if there are none.
std::vector<std::size_t> normal_axes(const std::vector<int>& axes, const Tensor& x, const char* operation);

// Constants.
Tensor constant(Type type, double value, bool weak = false);
Tensor constant_integer(Type type, std::int64_t value, bool weak = false);
// The node of a constant, which may be broadcast; null if x is not a constant.
const Node* constant_of(const Tensor& x);
std::optional<double> number_of(const Tensor& x);  // its value

// An elementwise operation: checks and broadcasts the operands, and folds constants.
Tensor map(program::Op op, std::vector<Tensor> args);

// Error kInvalidArgument: the operation of the node has no derivative.
[[noreturn]] void fail_without_derivative(const std::string& operation, const Node& node);
// For each operand of the elementwise node whose value is y: dy times the derivative, with the shape of y or,
// already summed, of the operand. Empty where the derivative is 0 everywhere, and if not needed.
std::vector<Tensor> map_gradients(const Node& node, const Tensor& y, const Tensor& dy,
                                  const std::vector<bool>& needed);

// zeros(dims), then out[ids[i], j] += value[i, j]; with `axis` >= 0, that axis is indexed by ids.
Tensor scatter_node(const Tensor& ids, const Tensor& value, Dims dims, int axis);

std::vector<int> labels_up_to(std::size_t count);  // 0, 1, ..., count - 1
// Removes the axes for which `is_dropped(axis)` holds from `arg` and its labels. Precondition: their size
// is 1.
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
    arg = permute_node(arg, std::move(dims), axes);
    labels = std::move(kept);
  }
}

// The sum over the product of `args`. labels[i] has one label per axis of args[i]; extents[label] is the size
// of a label. Labels missing in `out` are summed over; labels that only `out` has are broadcast. Constant
// factors are taken out of the sum, and a sum over nothing becomes a view or an elementwise product.
Tensor contract(std::vector<Tensor> args, std::vector<std::vector<int>> labels, const std::vector<int>& out,
                const Dims& extents);
// The adjoint of broadcasting: sums `x` so that it has shape `dims`.
Tensor sum_to(const Tensor& x, const Dims& dims);
// Reduces x over `axes`, which are sorted; the result does not have them.
Tensor reduce_node(program::Reduce reduce, Type type, const Tensor& x, const std::vector<std::size_t>& axes);
// Inserts axes of size 1 where a reduction over `axes` removed them; `before` is the shape before it.
Tensor keep_axes(const Tensor& reduced, const Dims& before, const std::vector<std::size_t>& axes);

// All nodes of the expressions `roots`, arguments before users, in a deterministic order. The arguments of
// all results of a loop come before the first of these results. Leaves out nodes whose `order` is below
// `floor`.
std::vector<const Node*> topological(std::span<const Tensor> roots, std::uint64_t floor = 0);
// The same; leaves out nodes for which `includes` returns false.
std::vector<const Node*> topological(std::span<const Tensor> roots,
                                     const std::function<bool(const Node&)>& includes);
// Like topological(), but skips inputs that a composite's body does not use.
std::vector<const Node*> used_nodes(std::span<const Tensor> roots);
inline bool is_loop_result(const Node& node) {
  return node.kind == Kind::kHistory || node.kind == Kind::kStacked || node.kind == Kind::kSummed;
}

}  // namespace yoke::detail
