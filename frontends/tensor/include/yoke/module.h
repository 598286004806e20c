// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/module.h: what layers and models are made of.
//
// A custom layer derives from Layer and registers its children and parameters where it creates them:
//   class Block : public yoke::nn::Layer {
//    public:
//     explicit Block(std::uint64_t width) : attention_(child("attention", nn::multi_head_attention(width, 4))) {}
//     Tensor forward(const Tensor& x) const { return x + attention_(norm_(x)); }
//
//    private:
//     nn::Handle<nn::MultiHeadAttention> attention_;
//     nn::Module norm_ = child("norm", nn::layer_norm());
//   };
//   const auto block = nn::make<Block>(32);
//   const Tensor y = block(x);
// forward() may take and return anything. Layers whose forward takes and returns one Tensor convert to Module, of which
// nn::sequential and the like are made.
//
// Parameter names are paths of the names given to child() or, without names, of positions: "0.attention.query.weight".
// Layers that depend on training or evaluation use by_mode and report_state (mode.h), as dropout and batch norm do.
//
// Layers infer sizes when they are first applied; later inputs must have the same sizes, except for the batch. Invalid
// shapes and types are an Error kInvalidArgument that names the layer and the tensors. Layers may not be applied by
// several threads at once.
#pragma once

#include <yoke/parameter.h>
#include <yoke/tensor.h>

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace yoke::nn {

class Module;
template <class L>
class Handle;

// The base class of layers.
class Layer {
 public:
  Layer() = default;
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  Layer(Layer&&) = delete;
  Layer& operator=(Layer&&) = delete;

  // Those of the layer itself, then those of its children, in the order of registration. Shared ones are listed once.
  std::vector<Parameter> parameters() const;  // without running states
  std::vector<Parameter> states() const;      // running states
  std::vector<Parameter> parameters_and_states() const;

  struct Child {
    std::string name;
    std::shared_ptr<Layer> layer;
  };
  const std::vector<Child>& children() const { return children_; }

 protected:
  // Registers a parameter or a running state. Layers set their dims at the first use, with Parameter::set_dims.
  // Error kInvalidArgument: the layer has another child or parameter of this name, or the name is empty or has a dot.
  Parameter parameter(const std::string& name, const Initializer& initializer, Type type = Type::kF32);
  Parameter state(const std::string& name, const Initializer& initializer, Type type = Type::kF32);
  // Registers a child, and returns it. Without a name, the name is the number of children before it. A child that is
  // registered twice keeps its first name. Errors as above; kInvalidArgument: the child is empty.
  template <class M>
  M child(const std::string& name, M module) {
    add_child(name, module.layer());
    return module;
  }
  template <class M>
  M child(M module) {
    return child(std::to_string(children_.size()), std::move(module));
  }

 private:
  void add_child(const std::string& name, std::shared_ptr<Layer> layer);
  void check_name(const std::string& name) const;

  std::vector<Parameter> own_;
  std::vector<std::string> own_names_;
  std::vector<Child> children_;
};

[[noreturn]] void fail_empty();  // throws Error kFailedPrecondition

// A cheap handle on a layer; copies share it. Calling an empty one throws Error kFailedPrecondition.
template <class L>
class Handle {
 public:
  Handle() = default;  // empty
  explicit Handle(std::shared_ptr<L> layer) : layer_(std::move(layer)) {}
  explicit operator bool() const { return layer_ != nullptr; }
  template <class... Inputs>
  requires requires(L& layer, Inputs&&... inputs) { layer.forward(std::forward<Inputs>(inputs)...); }
  decltype(auto) operator()(Inputs&&... inputs) const {
    return (*this)->forward(std::forward<Inputs>(inputs)...);
  }
  L* operator->() const {
    if (layer_ == nullptr) {
      fail_empty();
    }
    return layer_.get();
  }
  const std::shared_ptr<L>& layer() const { return layer_; }

 private:
  std::shared_ptr<L> layer_;
};

template <std::derived_from<Layer> L, class... Arguments>
Handle<L> make(Arguments&&... arguments) {
  return Handle<L>(std::make_shared<L>(std::forward<Arguments>(arguments)...));
}

// A handle on a layer from one Tensor to one Tensor.
class Module {
 public:
  Module() = default;  // empty
  template <class L>
  requires requires(L& layer, const Tensor& x) {
    { layer.forward(x) } -> std::convertible_to<Tensor>;
  }
  Module(const Handle<L>& handle)  // NOLINT(google-explicit-constructor): for sequential(make<Custom>())
      : layer_(handle.layer()) {
    if (handle) {
      forward_ = [layer = handle.layer().get()](const Tensor& x) -> Tensor { return layer->forward(x); };
    }
  }
  explicit operator bool() const { return layer_ != nullptr; }
  // Error kFailedPrecondition: the module is empty.
  Tensor operator()(const Tensor& x) const {
    if (layer_ == nullptr) {
      fail_empty();
    }
    return forward_(x);
  }
  const std::shared_ptr<Layer>& layer() const { return layer_; }

 private:
  std::shared_ptr<Layer> layer_;
  std::function<Tensor(const Tensor&)> forward_;
};

// Puts `name` and a dot before the names of the module's parameters, as child() does, for modules that are no other
// layer's children. Error kInvalidArgument: the module or the name is empty.
void add_name(const Layer* layer, const std::string& name);
template <class M>
M named(const std::string& name, M module) {
  add_name(module.layer().get(), name);
  return module;
}

// Empty for an empty module.
template <class M>
std::vector<Parameter> parameters(const M& module) {
  return module ? module.layer()->parameters() : std::vector<Parameter>{};
}
template <class M>
std::vector<Parameter> states(const M& module) {
  return module ? module.layer()->states() : std::vector<Parameter>{};
}
template <class M>
std::vector<Parameter> parameters_and_states(const M& module) {
  return module ? module.layer()->parameters_and_states() : std::vector<Parameter>{};
}

}  // namespace yoke::nn
