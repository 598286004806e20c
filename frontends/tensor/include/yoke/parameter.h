// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/parameter.h: what training changes, and how it starts.
#pragma once

#include <yoke/random.h>
#include <yoke/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace yoke {

// The first values of a parameter, by the name that papers use. fan_in is the product of all dims but the
// first, fan_out the first (times the rest of fan_in's spatial part, which linear layers do not have); of a
// vector both are its length.
class Initializer {
 public:
  enum class Kind : std::uint8_t {
    kKaimingUniform,
    kKaimingNormal,
    kXavierUniform,
    kXavierNormal,
    kUniform,
    kNormal,
    kConstant
  };
  static Initializer kaiming_uniform(
      double gain = 1.4142135623730951);  // U(-b, b), b = gain * sqrt(3 / fan_in)
  static Initializer kaiming_normal(double gain = 1.4142135623730951);  // N(0, gain / sqrt(fan_in))
  static Initializer xavier_uniform(double gain = 1.0);  // U(-b, b), b = gain * sqrt(6 / (fan_in + fan_out))
  static Initializer xavier_normal(double gain = 1.0);   // N(0, gain * sqrt(2 / (fan_in + fan_out)))
  static Initializer uniform(double low, double high);
  static Initializer normal(double mean, double deviation);
  static Initializer constant(double value);
  static Initializer zeros() { return constant(0); }
  // By name with default gains: "kaiming_uniform", ..., "zeros". Error lists the names.
  static Initializer by_name(const std::string& name);

  Kind kind() const { return kind_; }
  // The values as an expression: drawn from the seed symbol and `stream`. f32 and f64; other float types are
  // drawn as f32 and cast.
  Tensor operator()(Type type, const Dims& dims, std::int64_t stream) const;

 private:
  Initializer(Kind kind, double a, double b) : kind_(kind), a_(a), b_(b) {}
  Kind kind_;
  double a_;
  double b_;
};

std::uint64_t fan_in(const Dims& dims);
std::uint64_t fan_out(const Dims& dims);

// A handle on one parameter; copies share it. Its dims may come later, at its first use; its host values,
// where it has any (restored or trained ones), take the place of the initializer. Not for use by several
// threads at once.
class Parameter {
 public:
  Parameter() = default;  // empty
  Parameter(std::string name, const Dims& dims, Initializer initializer, Type type = Type::kF32);
  // Dims to be set by set_dims.
  static Parameter deferred(std::string name, Initializer initializer, Type type = Type::kF32);

  explicit operator bool() const { return node_ != nullptr; }
  bool is(const Parameter& other) const { return node_ == other.node_; }

  const std::string& name() const;
  void rename(std::string name) const;
  Type type() const;
  bool has_dims() const;
  const Dims& dims() const;  // Error kFailedPrecondition while it has none
  // The first call sets them; later ones throw Error unless they agree: `user` ("linear(500)") says who asks.
  void set_dims(const Dims& dims, const std::string& user) const;
  std::uint64_t byte_count() const;
  const Initializer& initializer() const;
  // Grows with every parameter made: creation order. `nn::sequential` moves its members' parameters last, in
  // the order of the members: the compiler, not the text, says in which order the members of a call are made.
  std::uint64_t order() const;
  void move_last() const;

  // The leaf to compute with: always the same node.
  Tensor tensor() const;
  // The starting values as an expression of the seed symbol; `order_number` (its place among the model's
  // parameters) is the stream.
  Tensor init_tensor(std::int64_t order_number) const;

  bool has_values() const;
  std::span<const std::byte> values() const;                // empty without values
  std::span<const float> float_values() const;              // Error unless f32
  void set_values(std::span<const std::byte> bytes) const;  // copies; Error unless the size fits
  void clear_values() const;

  static Parameter of(const Tensor& leaf);  // Error unless source() is kParameter

 private:
  explicit Parameter(std::shared_ptr<const detail::Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const detail::Node> node_;
};

// The parameters that `loss` depends on, in creation order.
std::vector<Parameter> parameters_of(const Tensor& loss);
std::vector<Parameter> parameters_of(std::span<const Tensor> roots);

}  // namespace yoke
