// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/tensor.h: tensor expressions. Building an expression computes nothing;
// lower() translates it into a program.
//
// Unless stated otherwise, functions may be called from any thread, and invalid arguments are an Error
// kInvalidArgument that names the tensors and shapes.
#pragma once

#include <yoke/program/program.h>
#include <yoke/runtime/error.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace yoke {

using Type = program::Type;
using Dims = std::vector<std::uint64_t>;  // at most 8, each at least 1; empty: a scalar

std::string dims_text(const Dims& dims);        // "[50, 784]"
std::uint64_t element_count(const Dims& dims);  // 1 for a scalar

// A named integer of the program. Its value is given at launch: low, low + step, ..., less than high.
struct Symbol {
  std::string name;
  std::int64_t low = 0;
  std::int64_t high = 1;  // exclusive
  std::int64_t step = 1;
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

// The origin of a tensor's values.
enum class Source : std::uint8_t {
  kPlaceholder,  // bound when the program is linked
  kLiteral,      // host data
  kParameter,    // a Parameter (parameter.h)
  kScalar,       // a Scalar
  kComputed      // constants, symbols and operations
};

namespace detail {
struct Node;
}

// A cheap handle on an immutable node of an expression; copies share the node.
// Accessors of an empty Tensor throw Error kFailedPrecondition.
class Tensor {
 public:
  Tensor() = default;  // empty
  // A scalar constant. It takes the type of the other operand. On its own, a floating-point number is f32, an
  // integer i64, a bool bool.
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  // NOLINTNEXTLINE(google-explicit-constructor): for expressions such as `x * 2.0F`
  Tensor(Number value)
      : Tensor(std::is_floating_point_v<Number>
                   ? scalar(static_cast<double>(value))
                   : integer(static_cast<std::int64_t>(value), std::is_same_v<Number, bool>)) {}

  explicit operator bool() const { return node_ != nullptr; }
  bool is(const Tensor& other) const { return node_ == other.node_; }  // the same node

  Type type() const;
  const Dims& dims() const;
  std::size_t rank() const { return dims().size(); }
  std::uint64_t element_count() const { return yoke::element_count(dims()); }
  std::uint64_t byte_count() const { return element_count() * program::byte_size(type()); }
  const std::string& name() const;  // empty for unnamed tensors
  Source source() const;
  bool is_leaf() const { return source() != Source::kComputed; }
  // The data of a literal, or of a parameter that has values; otherwise empty. Row-major.
  std::span<const std::byte> host_bytes() const;
  // The same value with a name for messages and program texts.
  Tensor named(std::string name) const;

  // Row `symbol` of axis 0, which is removed from the dims. This is an offset in the program, not a copy.
  // Error kInvalidArgument: the symbol's range exceeds the axis.
  Tensor at(const Symbol& symbol) const;
  Tensor operator[](const Symbol& symbol) const { return at(symbol); }

  // For the sources of the frontend only (src/node.h).
  explicit Tensor(std::shared_ptr<const detail::Node> node) : node_(std::move(node)) {}
  const std::shared_ptr<const detail::Node>& node() const { return node_; }

 private:
  static Tensor scalar(double value);
  static Tensor integer(std::int64_t value, bool is_bool);

  std::shared_ptr<const detail::Node> node_;
};

// A leaf that is bound when the program is linked.
Tensor placeholder(std::string name, Type type, Dims dims);

// A leaf with host data, in row-major order. Error kInvalidArgument: the size of `bytes` does not match.
Tensor literal(Type type, Dims dims, std::vector<std::byte> bytes, std::string name = "");

template <class Number>
constexpr Type type_of() {
  if constexpr (std::is_same_v<Number, double>) {
    return Type::kF64;
  } else if constexpr (std::is_same_v<Number, float>) {
    return Type::kF32;
  } else if constexpr (std::is_same_v<Number, std::int64_t>) {
    return Type::kI64;
  } else if constexpr (std::is_same_v<Number, std::int32_t>) {
    return Type::kI32;
  } else if constexpr (std::is_same_v<Number, std::uint32_t>) {
    return Type::kU32;
  } else {
    static_assert(std::is_same_v<Number, std::uint8_t>, "this C++ type has no element type");
    return Type::kU8;
  }
}

// A literal from numbers: tensor<float>({1, 2, 3}, {3}).
template <class Number>
Tensor tensor(const std::vector<Number>& values, Dims dims, std::string name = "") {
  std::vector<std::byte> bytes(values.size() * sizeof(Number));
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return literal(type_of<Number>(), std::move(dims), std::move(bytes), std::move(name));
}

// A scalar that the host sets between launches of a program, such as a learning rate; nothing is compiled
// or linked again. A handle: copies share the value. Functions may be called from any thread. value() and
// set() of an empty Scalar throw Error kFailedPrecondition.
class Scalar {
 public:
  const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }  // NOLINT(google-explicit-constructor): for `lr * x`
  double value() const;
  // A Trainer's programs that are launched afterwards, on all shards, read this value, rounded to the type.
  void set(double value) const;

 private:
  friend Scalar scalar(std::string name, double value, Type type);
  Tensor tensor_;
};
// Error kInvalidArgument: the name is empty, or the type is not f32 or f64.
Scalar scalar(std::string name, double value, Type type = Type::kF32);

// The symbol's value as an i64 scalar.
Tensor symbol_value(const Symbol& symbol);
// Rows start, start + 1, ..., start + count - 1 of axis 0; dynamic_slice (ops.h) does this for any axes. It
// is an offset in the program, not a copy. Error kInvalidArgument: the rows can exceed the axis.
Tensor rows(const Tensor& x, const Symbol& start, std::uint64_t count);

// Symbols that the trainer sets: "seed", the seed of random numbers, and "step",
// the number of the step. Both have the range [0, 2^62). If a program uses
// another Symbol named "step", that one and its range take precedence.
const Symbol& seed_symbol();
const Symbol& step_symbol();
// The trainer also sets these: to options.base_seed, range [0, 2^62), and to the number in the batch of the first row
// of the shard or of its micro-batch, range [0, 2^29).
const Symbol& run_seed_symbol();
const Symbol& batch_row_symbol();

}  // namespace yoke
