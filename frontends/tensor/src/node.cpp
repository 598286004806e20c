// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/node.cpp: creation, description and traversal of nodes.
#include "node.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace yoke::detail {

// Nodes that only this expression uses go to a list that is linked through them, because a destructor cannot
// report that memory is short.
Node::~Node() {
  std::shared_ptr<const Node> first;
  const auto drop = [&first](std::vector<Tensor>& tensors) {
    for (Tensor& tensor : tensors) {
      if (tensor.node().use_count() == 1) {
        std::shared_ptr<const Node> last = tensor.node();
        last->next_dropped = std::move(first);
        first = std::move(last);
      }
      tensor = Tensor();
    }
  };
  drop(args);
  while (first != nullptr) {
    const std::shared_ptr<const Node> last = std::exchange(first, std::move(first->next_dropped));
    drop(const_cast<Node&>(*last).args);  // `last` is the only reference
  }
}

std::uint64_t next_order() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void check_dims(const Dims& dims, const std::string& name) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 60U;  // byte counts then fit in 63 bits
  const auto refuse = [&](const char* why) {
    fail((name.empty() ? "a tensor of shape " : "tensor '" + name + "' ") + dims_text(dims) + why);
  };
  std::uint64_t count = 1;
  for (const std::uint64_t dim : dims) {
    if (dim == 0) {
      refuse(": every dimension must be at least 1");
    }
    if (dim > kLimit / count) {
      refuse(" has more elements than a program can address");
    }
    count *= dim;
  }
  if (dims.size() > 8) {
    refuse(": at most 8 dimensions are supported");
  }
}

std::shared_ptr<Node> new_node(Kind kind, Type type, Dims dims) {
  check_dims(dims);
  auto node = std::make_shared<Node>();
  node->kind = kind;
  node->type = type;
  node->dims = std::move(dims);
  node->order = node->draw = next_order();
  node->composite = current_composite();
  return node;
}

std::shared_ptr<const Composite>& current_composite() {
  thread_local std::shared_ptr<const Composite> composite;
  return composite;
}

void fail(const std::string& sentence) {
  throw Error(ErrorCode::kInvalidArgument, sentence);
}

std::string describe(const Tensor& x) {
  const std::string dims = dims_text(x.dims());
  if (const auto number = number_of(x); number && x.dims().empty()) {
    std::string text = std::to_string(*number);
    text.erase(text.find_last_not_of('0') + 1);
    return "the number " + (text.back() == '.' ? text.substr(0, text.size() - 1) : text);
  }
  return x.name().empty() ? dims : "'" + x.name() + "' " + dims;
}

void require(const Tensor& x, const char* operation) {
  if (!x) {
    fail(std::string(operation) + ": an operand is an empty Tensor; assign an expression to it first");
  }
}

std::size_t normal_axis(int axis, std::size_t rank, const char* operation, const Tensor& x) {
  const int size = static_cast<int>(rank);
  const int normal = axis < 0 ? axis + size : axis;
  if (normal < 0 || normal >= size) {
    fail(std::string(operation) + ": axis " + std::to_string(axis) + " is out of range for " + describe(x));
  }
  return static_cast<std::size_t>(normal);
}

std::vector<std::size_t> normal_axes(const std::vector<int>& axes, const Tensor& x, const char* operation) {
  std::vector<std::size_t> normal;
  for (const int axis : axes) {
    const std::size_t at = normal_axis(axis, x.rank(), operation, x);
    if (std::find(normal.begin(), normal.end(), at) != normal.end()) {
      fail(std::string(operation) + ": axis " + std::to_string(axis) + " of " + describe(x) +
           " is listed twice");
    }
    normal.push_back(at);
  }
  if (axes.empty()) {
    normal.resize(x.rank());
    std::iota(normal.begin(), normal.end(), std::size_t{0});
  }
  std::sort(normal.begin(), normal.end());
  return normal;
}

Tensor constant(Type type, double value, bool weak) {
  auto node = new_node(Kind::kConstant, type, {});
  if (program::is_float(type)) {
    node->literal.number =
        type == Type::kF32 && !weak ? static_cast<double>(static_cast<float>(value)) : value;
  } else {
    node->literal.integer = type == Type::kBool ? static_cast<std::int64_t>(value != 0)
                                                : program::Expr::constant(type, value).literal.integer;
  }
  node->weak = weak;
  return finish(std::move(node));
}

Tensor constant_integer(Type type, std::int64_t value, bool weak) {
  auto node = new_node(Kind::kConstant, type, {});
  if (program::is_float(type)) {
    node->literal.number = static_cast<double>(value);
  } else {
    node->literal.integer = type == Type::kBool ? static_cast<std::int64_t>(value != 0) : value;
  }
  node->weak = weak;
  return finish(std::move(node));
}

const Node* constant_of(const Tensor& x) {
  const Node* node = x.node().get();
  while (node != nullptr && node->kind == Kind::kView && !node->is_filled) {
    node = node->args[0].node().get();
  }
  return node != nullptr && node->kind == Kind::kConstant ? node : nullptr;
}

std::optional<double> number_of(const Tensor& x) {
  const Node* node = constant_of(x);
  if (node == nullptr) {
    return std::nullopt;
  }
  return program::is_float(node->type) ? node->literal.number : static_cast<double>(node->literal.integer);
}

namespace {

using Includes = std::function<bool(const Node&)>;
using Arguments = std::unordered_map<const Loop*, std::vector<Tensor>>;

enum class Inputs : std::uint8_t { kAll, kUsed };  // of composites

// `of_loops` holds, for each loop, the arguments of all its results; each result is visited as if it had them
// all.
std::vector<const Node*> in_order(std::span<const Tensor> roots, const Includes& includes, Inputs inputs,
                                  const Arguments& of_loops) {
  std::vector<const Node*> order;
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<const Node*, std::size_t>> stack;  // a node, and the number of arguments visited
  const auto visit = [&](const Tensor& tensor) {
    const Node* node = tensor.node().get();
    if (node != nullptr && includes(*node) && seen.insert(node).second) {
      stack.emplace_back(node, 0);
    }
  };
  for (const Tensor& root : roots) {
    visit(root);
    while (!stack.empty()) {
      const Node* node = stack.back().first;
      const auto of_loop = is_loop_result(*node) ? of_loops.find(node->loop.get()) : of_loops.end();
      const std::vector<Tensor>& args = of_loop != of_loops.end() ? of_loop->second : node->args;
      const bool is_result = node->kind == Kind::kResult && inputs == Inputs::kUsed;
      if (stack.back().second == (is_result ? node->composite->output_count : args.size())) {
        order.push_back(node);
        stack.pop_back();
      } else {
        visit(args[stack.back().second++]);
      }
    }
  }
  return order;
}

std::vector<const Node*> in_order(std::span<const Tensor> roots, const Includes& includes, Inputs inputs) {
  std::vector<const Node*> order = in_order(roots, includes, inputs, {});
  Arguments of_loops;
  for (const Node* node : order) {
    if (is_loop_result(*node)) {
      std::vector<Tensor>& all = of_loops[node->loop.get()];
      all.insert(all.end(), node->args.begin(), node->args.end());
    }
  }
  return of_loops.empty() ? order : in_order(roots, includes, inputs, of_loops);
}

}  // namespace

std::vector<const Node*> topological(std::span<const Tensor> roots, std::uint64_t floor) {
  return topological(roots, [floor](const Node& node) { return node.order >= floor; });
}

std::vector<const Node*> topological(std::span<const Tensor> roots, const Includes& includes) {
  return in_order(roots, includes, Inputs::kAll);
}

std::vector<const Node*> used_nodes(std::span<const Tensor> roots) {
  return in_order(
      roots, [](const Node&) { return true; }, Inputs::kUsed);
}

}  // namespace yoke::detail
