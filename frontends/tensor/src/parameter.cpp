// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/parameter.cpp: parameters and their initial values.
#include <yoke/ops.h>
#include <yoke/parameter.h>
#include <yoke/runtime/closest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "node.h"

namespace yoke {

std::uint64_t fan_in(const Dims& dims) {
  if (dims.empty()) {
    return 1;
  }
  return dims.size() == 1 ? dims[0] : element_count(dims) / dims[0];
}

std::uint64_t fan_out(const Dims& dims) {
  return dims.empty() ? 1 : dims[0];
}

Initializer Initializer::kaiming_uniform(double gain) {
  return {Kind::kKaimingUniform, gain, 0};
}
Initializer Initializer::kaiming_normal(double gain) {
  return {Kind::kKaimingNormal, gain, 0};
}
Initializer Initializer::xavier_uniform(double gain) {
  return {Kind::kXavierUniform, gain, 0};
}
Initializer Initializer::xavier_normal(double gain) {
  return {Kind::kXavierNormal, gain, 0};
}
Initializer Initializer::uniform(double low, double high) {
  return {Kind::kUniform, low, high};
}
Initializer Initializer::normal(double mean, double deviation) {
  return {Kind::kNormal, mean, deviation};
}
Initializer Initializer::constant(double value) {
  return {Kind::kConstant, value, 0};
}

Initializer Initializer::by_name(const std::string& name) {
  const std::pair<const char*, Initializer> known[] = {{"kaiming_uniform", kaiming_uniform()},
                                                       {"kaiming_normal", kaiming_normal()},
                                                       {"xavier_uniform", xavier_uniform()},
                                                       {"xavier_normal", xavier_normal()},
                                                       {"uniform", uniform(-0.25, 0.25)},
                                                       {"normal", normal(0, 1)},
                                                       {"ones", constant(1)},
                                                       {"zeros", zeros()}};
  std::string listed;
  std::vector<std::string> names;
  for (const auto& [known_name, initializer] : known) {
    if (name == known_name) {
      return initializer;
    }
    listed += std::string(listed.empty() ? "" : ", ") + known_name;
    names.emplace_back(known_name);
  }
  throw Error(ErrorCode::kNotFound,
              "unknown initializer '" + name + "'; choose one of " + listed + did_you_mean(name, names));
}

Tensor Initializer::operator()(Type type, const Dims& dims, std::int64_t stream) const {
  const auto in = static_cast<double>(fan_in(dims));
  const auto both = in + static_cast<double>(fan_out(dims));
  const Type drawn = type == Type::kF64 ? Type::kF64 : Type::kF32;
  const RandomKey key{stream, false};
  const auto between = [&](double low, double high) {
    return cast(yoke::uniform(dims, key, drawn) * (high - low) + low, type);
  };
  const auto around = [&](double mean, double deviation) {
    return cast(yoke::normal(dims, key, drawn) * deviation + mean, type);
  };
  switch (kind_) {
    case Kind::kKaimingUniform:
      return between(-a_ * std::sqrt(3 / in), a_ * std::sqrt(3 / in));
    case Kind::kKaimingNormal:
      return around(0, a_ / std::sqrt(in));
    case Kind::kXavierUniform:
      return between(-a_ * std::sqrt(6 / both), a_ * std::sqrt(6 / both));
    case Kind::kXavierNormal:
      return around(0, a_ * std::sqrt(2 / both));
    case Kind::kUniform:
      return between(a_, b_);
    case Kind::kNormal:
      return around(a_, b_);
    default:
      return full(type, dims, a_);
  }
}

namespace {

detail::ParameterState& state_of(const std::shared_ptr<const detail::Node>& node) {
  if (!node) {
    throw Error(ErrorCode::kFailedPrecondition,
                "cannot use an empty Parameter; create it with a name and dims first");
  }
  return *node->parameter;
}

std::shared_ptr<const detail::Node> parameter_node(std::string name, const Initializer& initializer,
                                                   Type type) {
  if (name.empty()) {
    detail::fail("a parameter needs a name");
  }
  if (!program::is_float(type)) {
    detail::fail("parameter '" + name + "' is " + std::string(program::type_name(type)) +
                 ", but parameters must be of floating-point type");
  }
  auto node = detail::new_node(detail::Kind::kParameter, type, {});
  node->parameter = std::make_shared<detail::ParameterState>(
      detail::ParameterState{std::move(name), node->order, false, {}, initializer, false, nullptr});
  return node;
}

}  // namespace

Parameter::Parameter(std::string name, const Dims& dims, Initializer initializer, Type type)
    : node_(parameter_node(std::move(name), initializer, type)) {
  set_dims(dims, "the caller");
}

Parameter Parameter::deferred(std::string name, Initializer initializer, Type type) {
  return Parameter(parameter_node(std::move(name), initializer, type));
}

Parameter Parameter::state(std::string name, Initializer initializer, Type type) {
  Parameter made = deferred(std::move(name), initializer, type);
  made.node_->parameter->is_state = true;
  return made;
}

bool Parameter::is_state() const {
  return state_of(node_).is_state;
}
const std::string& Parameter::name() const {
  return state_of(node_).name;
}
void Parameter::rename(std::string name) const {
  if (name.empty()) {
    detail::fail("parameter '" + this->name() + "': the new name is empty");
  }
  state_of(node_).name = std::move(name);
}
void Parameter::move_last() const {
  state_of(node_).order = detail::next_order();
}
Type Parameter::type() const {
  return state_of(node_), node_->type;
}
bool Parameter::has_dims() const {
  return state_of(node_).has_dims;
}

const Dims& Parameter::dims() const {
  const auto& state = state_of(node_);
  if (!state.has_dims) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        "parameter '" + state.name + "' has no dims yet; its layer infers them when it is first applied");
  }
  return state.dims;
}

void Parameter::set_dims(const Dims& dims, const std::string& user) const {
  auto& state = state_of(node_);
  if (state.has_dims) {
    if (state.dims != dims) {
      detail::fail(user + ": parameter '" + state.name + "' has dims " + dims_text(state.dims) +
                   " from its first use, but this use needs " + dims_text(dims));
    }
    return;
  }
  detail::check_dims(dims, state.name);
  state.dims = dims;
  state.has_dims = true;
}

std::uint64_t Parameter::byte_count() const {
  return element_count(dims()) * program::byte_size(type());
}
const Initializer& Parameter::initializer() const {
  return state_of(node_).initializer;
}
void Parameter::set_initializer(const Initializer& initializer) const {
  state_of(node_).initializer = initializer;
}
std::uint64_t Parameter::order() const {
  return state_of(node_).order;
}

Tensor Parameter::tensor() const {
  (void)dims();
  return Tensor(node_);
}

Tensor Parameter::init_tensor(std::int64_t order_number) const {
  return initializer()(type(), dims(), order_number);
}

bool Parameter::has_values() const {
  return state_of(node_).values != nullptr;
}
std::span<const std::byte> Parameter::values() const {
  const auto& values = state_of(node_).values;
  return values ? std::span<const std::byte>(*values) : std::span<const std::byte>();
}

std::span<const float> Parameter::float_values() const {
  if (node_ && node_->type != Type::kF32) {
    detail::fail("parameter '" + name() + "' is " + std::string(program::type_name(node_->type)) +
                 ", not f32");
  }
  const std::span<const std::byte> bytes = values();
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

void Parameter::set_values(std::span<const std::byte> bytes) const {
  auto& state = state_of(node_);
  if (bytes.size() != byte_count()) {
    detail::fail("parameter '" + state.name + "' " + dims_text(dims()) + " needs " +
                 detail::counted(byte_count(), "byte") + ", but got " + std::to_string(bytes.size()));
  }
  state.values = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

void Parameter::clear_values() const {
  state_of(node_).values.reset();
}

detail::HostMemory detail::host_memory(const Tensor& leaf) {
  if (leaf && leaf.node()->parameter) {
    const auto values = leaf.node()->parameter->values;
    return {values ? std::span<const std::byte>(*values) : std::span<const std::byte>(), values};
  }
  return {leaf.host_bytes(), leaf.node()};
}

Parameter Parameter::of(const Tensor& leaf) {
  if (!leaf || leaf.source() != Source::kParameter) {
    detail::fail((leaf ? detail::describe(leaf) : "an empty Tensor") + " is not a parameter");
  }
  return Parameter(leaf.node());
}

std::vector<Parameter> parameters_of(std::span<const Tensor> roots) {
  std::vector<Parameter> parameters;
  std::vector<const detail::Node*> nodes = detail::topological(roots);
  std::erase_if(nodes, [](const detail::Node* node) { return node->kind != detail::Kind::kParameter; });
  std::sort(nodes.begin(), nodes.end(),
            [](const auto* a, const auto* b) { return detail::order_of(*a) < detail::order_of(*b); });
  parameters.reserve(nodes.size());
  for (const detail::Node* node : nodes) {
    parameters.push_back(Parameter::of(Tensor(node->shared_from_this())));
  }
  return parameters;
}

std::vector<Parameter> parameters_of(const Tensor& loss) {
  return parameters_of(std::span<const Tensor>(&loss, 1));
}

}  // namespace yoke
