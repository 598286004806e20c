// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/tensor.h: tensor expressions. Building one computes nothing: lower.h turns it
// into a program.
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
using Dims = std::vector<std::uint64_t>;  // every dimension > 0; empty: a scalar

std::string dims_text(const Dims& dims);  // "[50, 784]"
std::uint64_t element_count(const Dims& dims);

// A named integer of the program, given at launch: low, low + step, ... below high.
struct Symbol {
  std::string name;
  std::int64_t low = 0;
  std::int64_t high = 1;  // excluded
  std::int64_t step = 1;
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

// Where a tensor's values come from.
enum class Source : std::uint8_t {
  kPlaceholder,  // bound by whoever links the program
  kLiteral,      // host data given when it was made
  kParameter,    // a Parameter (parameter.h)
  kComputed      // everything else: constants, symbols, operations
};

namespace detail {
struct Node;
}

// A cheap handle on an immutable node. Copies share the node. Safe to read from several threads.
class Tensor {
 public:
  Tensor() = default;  // empty
  // A scalar constant. It takes the type of what it is combined with; alone, floats are f32, integers i64,
  // bool is bool.
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  // NOLINTNEXTLINE(google-explicit-constructor): `x * 2.0F` is the point
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
  const std::string& name() const;  // "" when it has none
  Source source() const;
  bool is_leaf() const { return source() != Source::kComputed; }
  // Host data of a literal; of a parameter that holds values; else empty.
  std::span<const std::byte> host_bytes() const;
  // The same value under a name that messages and program texts use.
  Tensor named(std::string name) const;

  // Row `symbol` of axis 0: dims without the first. An offset in the program, never a copy. Error when the
  // symbol can leave the axis.
  Tensor at(const Symbol& symbol) const;
  Tensor operator[](const Symbol& symbol) const { return at(symbol); }

  // For the frontend's own sources (src/node.h).
  explicit Tensor(std::shared_ptr<const detail::Node> node) : node_(std::move(node)) {}
  const std::shared_ptr<const detail::Node>& node() const { return node_; }

 private:
  static Tensor scalar(double value);
  static Tensor integer(std::int64_t value, bool is_bool);

  std::shared_ptr<const detail::Node> node_;
};

// Bound when the program is linked.
Tensor placeholder(std::string name, Type type, Dims dims);

// Host data, kept and shared by every copy. Throws Error when the bytes do not fit type and dims.
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
    static_assert(std::is_same_v<Number, std::uint8_t>, "no element type for this number");
    return Type::kU8;
  }
}

// tensor<float>({1, 2, 3}, {3})
template <class Number>
Tensor tensor(const std::vector<Number>& values, Dims dims, std::string name = "") {
  std::vector<std::byte> bytes(values.size() * sizeof(Number));
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return literal(type_of<Number>(), std::move(dims), std::move(bytes), std::move(name));
}

// The symbol's value: an i64 scalar.
Tensor symbol_value(const Symbol& symbol);
// Rows start, start + 1, ... start + count - 1 of axis 0. An offset in the program, never a copy. Error when
// they can leave the axis.
Tensor rows(const Tensor& x, const Symbol& start, std::uint64_t count);

// Symbols that yoke gives itself, in every program that uses them: the seed of random numbers, and the number
// of the step.
const Symbol& seed_symbol();  // "seed" in 0..2^62
const Symbol&
step_symbol();  // "step" in 0..2^62; a Symbol of the caller's named "step" takes its place, range included

}  // namespace yoke
