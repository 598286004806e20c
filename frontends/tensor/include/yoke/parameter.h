// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/parameter.h: trainable parameters and their initializers.
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

// The distribution of a parameter's initial values. fan_in is the product of all dims except the first; for a
// vector it is the length. fan_out is the first dim. In the formulas, U(a, b) is the uniform distribution and
// N(mean, deviation) the normal distribution.
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
  // U(-b, b) with b = gain * sqrt(3 / fan_in)
  static Initializer kaiming_uniform(double gain = 1.4142135623730951);
  // N(0, gain / sqrt(fan_in))
  static Initializer kaiming_normal(double gain = 1.4142135623730951);
  // U(-b, b) with b = gain * sqrt(6 / (fan_in + fan_out))
  static Initializer xavier_uniform(double gain = 1.0);
  // N(0, gain * sqrt(2 / (fan_in + fan_out)))
  static Initializer xavier_normal(double gain = 1.0);
  static Initializer uniform(double low, double high);
  static Initializer normal(double mean, double deviation);
  static Initializer constant(double value);
  static Initializer zeros() { return constant(0); }
  // An initializer with default arguments: "kaiming_uniform", ..., "zeros". Error kNotFound lists the names.
  static Initializer by_name(const std::string& name);

  Kind kind() const { return kind_; }
  // Returns the initial values as an expression of the seed symbol; `stream` selects the random numbers.
  // 16-bit floats are drawn as f32 and cast.
  Tensor operator()(Type type, const Dims& dims, std::int64_t stream) const;

 private:
  Initializer(Kind kind, double a, double b) : kind_(kind), a_(a), b_(b) {}
  Kind kind_;
  double a_;
  double b_;
};

std::uint64_t fan_in(const Dims& dims);
std::uint64_t fan_out(const Dims& dims);

// A handle on one parameter, or on running state; copies share it. The dims may be set later, at the first use. Host
// values, set by restoring or training, replace the initializer. Parameters are of floating-point type. Not
// thread-safe.
//
// Every member function except is() and the conversion to bool
// throws Error kFailedPrecondition if the handle is empty.
class Parameter {
 public:
  Parameter() = default;  // empty
  // Error kInvalidArgument: the name is empty, or the type is not a floating-point type.
  Parameter(std::string name, const Dims& dims, Initializer initializer, Type type = Type::kF32);
  // Creates a parameter without dims; set_dims sets them.
  static Parameter deferred(std::string name, Initializer initializer, Type type = Type::kF32);
  // Creates running state without dims: it is kept, saved and equal on all shards as a parameter is, but changes only
  // by what the model reports (report_state in mode.h), not by the optimizer.
  static Parameter state(std::string name, Initializer initializer, Type type = Type::kF32);

  explicit operator bool() const { return node_ != nullptr; }
  bool is(const Parameter& other) const { return node_ == other.node_; }
  bool is_state() const;

  const std::string& name() const;
  void rename(std::string name) const;
  Type type() const;
  bool has_dims() const;
  const Dims& dims() const;  // Error kFailedPrecondition: the dims are not set yet
  // Sets the dims. If they are set, they must be equal, else Error kInvalidArgument; `user`, such as
  // "linear(500)", appears in the message.
  void set_dims(const Dims& dims, const std::string& user) const;
  std::uint64_t byte_count() const;
  const Initializer& initializer() const;
  void set_initializer(const Initializer& initializer) const;
  // A number that increases with every new parameter, which defines the creation order. move_last() makes
  // this parameter the latest. Layers use it to sort their children's parameters by position,
  // because C++ does not specify the order in which the arguments of a call are evaluated.
  std::uint64_t order() const;
  void move_last() const;

  // The leaf of expressions; the same node on every call. Error
  // kFailedPrecondition: the dims are not set yet.
  Tensor tensor() const;
  // The initial values as an expression of the seed symbol. `order_number`, the parameter's index in the
  // model, selects the random numbers.
  Tensor init_tensor(std::int64_t order_number) const;

  bool has_values() const;
  std::span<const std::byte> values() const;    // row-major; empty if there are no values
  std::span<const float> float_values() const;  // Error kInvalidArgument: the type is not f32
  // Copies `bytes`. Error kInvalidArgument: the size is not byte_count().
  void set_values(std::span<const std::byte> bytes) const;
  void clear_values() const;

  // The parameter that `leaf` stands for. Error kInvalidArgument: the tensor is not a parameter.
  static Parameter of(const Tensor& leaf);

 private:
  explicit Parameter(std::shared_ptr<const detail::Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const detail::Node> node_;
};

// The parameters and running states that the expressions depend on, in creation order.
std::vector<Parameter> parameters_of(const Tensor& loss);
std::vector<Parameter> parameters_of(std::span<const Tensor> roots);

}  // namespace yoke
