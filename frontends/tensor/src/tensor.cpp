// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/tensor.cpp: tensor handles, and leaves.
#include <yoke/tensor.h>

#include <utility>

#include "node.h"

namespace yoke {

using detail::Kind;
using detail::Node;

std::string dims_text(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  }
  return text + "]";
}

std::uint64_t element_count(const Dims& dims) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : dims) {
    count *= dim;
  }
  return count;
}

namespace {

const Node& node_of(const Tensor& x) {
  if (!x) {
    throw Error(ErrorCode::kFailedPrecondition,
                "an empty Tensor has no type, dims or values; assign an expression to it first");
  }
  return *x.node();
}

}  // namespace

Type Tensor::type() const {
  return node_of(*this).type;
}

const Dims& Tensor::dims() const {
  const Node& node = node_of(*this);
  return node.parameter ? node.parameter->dims : node.dims;
}

const std::string& Tensor::name() const {
  const Node& node = node_of(*this);
  return node.parameter ? node.parameter->name : node.name;
}

Source Tensor::source() const {
  switch (node_of(*this).kind) {
    case Kind::kPlaceholder:
      return Source::kPlaceholder;
    case Kind::kLiteral:
      return Source::kLiteral;
    case Kind::kParameter:
      return Source::kParameter;
    case Kind::kScalar:
      return Source::kScalar;
    default:
      return Source::kComputed;
  }
}

std::span<const std::byte> Tensor::host_bytes() const {
  const Node& node = node_of(*this);
  if (node.parameter) {
    return node.parameter->values ? std::span<const std::byte>(*node.parameter->values)
                                  : std::span<const std::byte>();
  }
  return std::span<const std::byte>(node.bytes);
}

Tensor Tensor::named(std::string name) const {
  const Node& node = node_of(*this);
  std::shared_ptr<Node> copy;
  if (is_leaf() || node.kind == Kind::kCarry) {
    // A copy of the node would be a different leaf or carry, so this creates a view of the node.
    copy = detail::new_node(Kind::kView, node.type, dims());
    copy->args = {*this};
    copy->view = detail::same_axes(rank());
  } else {
    copy = std::make_shared<Node>(node);
  }
  copy->name = std::move(name);
  return detail::finish(std::move(copy));
}

Tensor Tensor::scalar(double value) {
  return detail::constant(Type::kF32, value, true);
}

Tensor Tensor::integer(std::int64_t value, bool is_bool) {
  return detail::constant_integer(is_bool ? Type::kBool : Type::kI64, value, true);
}

Tensor placeholder(std::string name, Type type, Dims dims) {
  detail::check_dims(dims, name);
  auto node = detail::new_node(Kind::kPlaceholder, type, std::move(dims));
  node->name = std::move(name);
  return detail::finish(std::move(node));
}

Tensor literal(Type type, Dims dims, std::vector<std::byte> bytes, std::string name) {
  detail::check_dims(dims, name);
  const std::uint64_t expected = element_count(dims) * program::byte_size(type);
  if (bytes.size() != expected) {
    detail::fail((name.empty() ? "a literal of " : "literal '" + name + "': ") +
                 std::string(program::type_name(type)) + dims_text(dims) + " needs " +
                 detail::counted(expected, "byte") + ", but got " + std::to_string(bytes.size()));
  }
  auto node = detail::new_node(Kind::kLiteral, type, std::move(dims));
  node->bytes = std::move(bytes);
  node->name = std::move(name);
  return detail::finish(std::move(node));
}

Tensor symbol_value(const Symbol& symbol) {
  if (symbol.name.empty()) {
    detail::fail("symbol_value: the symbol has no name");
  }
  auto node = detail::new_node(Kind::kSymbol, Type::kI64, {});
  node->symbol = symbol;
  return detail::finish(std::move(node));
}

const Symbol& seed_symbol() {
  static const Symbol symbol{"seed", 0, std::int64_t{1} << 62U, 1};
  return symbol;
}

const Symbol& step_symbol() {
  static const Symbol symbol{"step", 0, std::int64_t{1} << 62U, 1};
  return symbol;
}

const Symbol& run_seed_symbol() {
  static const Symbol symbol{"run_seed", 0, std::int64_t{1} << 62U, 1};
  return symbol;
}

const Symbol& batch_row_symbol() {
  static const Symbol symbol{"batch_row", 0, std::int64_t{1} << 29U, 1};
  return symbol;
}

}  // namespace yoke
