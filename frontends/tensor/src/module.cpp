// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/module.cpp: the tree of layers, and the names of their parameters.
#include <yoke/module.h>

#include <algorithm>

#include "node.h"

namespace yoke::nn {
namespace {

bool contains(const std::vector<Parameter>& parameters, const Parameter& one) {
  return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.is(one); });
}

void prefix(const Parameter& parameter, const std::string& name) {
  parameter.rename(name + "." + parameter.name());
  parameter
      .move_last();  // C++ may create the arguments of a call, and so the members of a model, in any order
}

}  // namespace

void fail_empty() {
  throw Error(ErrorCode::kFailedPrecondition,
              "the module is empty; create one with a function such as nn::linear or nn::make");
}

std::vector<Parameter> Layer::parameters_and_states() const {
  std::vector<Parameter> found = own_;
  for (const Child& child : children_) {
    for (const Parameter& parameter : child.layer->parameters_and_states()) {
      if (!contains(found, parameter)) {
        found.push_back(parameter);
      }
    }
  }
  return found;
}

std::vector<Parameter> Layer::parameters() const {
  std::vector<Parameter> found = parameters_and_states();
  std::erase_if(found, [](const Parameter& parameter) { return parameter.is_state(); });
  return found;
}

std::vector<Parameter> Layer::states() const {
  std::vector<Parameter> found = parameters_and_states();
  std::erase_if(found, [](const Parameter& parameter) { return !parameter.is_state(); });
  return found;
}

void Layer::check_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    detail::fail("'" + name + "' cannot name a child or parameter of a layer; use a name without dots");
  }
  const bool is_taken =
      std::find(own_names_.begin(), own_names_.end(), name) != own_names_.end() ||
      std::any_of(children_.begin(), children_.end(), [&](const Child& child) { return child.name == name; });
  if (is_taken) {
    detail::fail("the layer has two children or parameters named '" + name + "'; give each its own name");
  }
}

Parameter Layer::parameter(const std::string& name, const Initializer& initializer, Type type) {
  check_name(name);
  own_names_.push_back(name);
  return own_.emplace_back(Parameter::deferred(name, initializer, type));
}

Parameter Layer::state(const std::string& name, const Initializer& initializer, Type type) {
  check_name(name);
  own_names_.push_back(name);
  return own_.emplace_back(Parameter::state(name, initializer, type));
}

void Layer::add_child(const std::string& name, std::shared_ptr<Layer> layer) {
  if (layer == nullptr) {
    detail::fail("child '" + name + "' is an empty module; create it with a function such as nn::linear");
  }
  check_name(name);
  const std::vector<Parameter> known = parameters_and_states();
  for (const Parameter& parameter : layer->parameters_and_states()) {
    if (!contains(known, parameter)) {
      prefix(parameter, name);
    }
  }
  children_.push_back({name, std::move(layer)});
}

void add_name(const Layer* layer, const std::string& name) {
  if (layer == nullptr || name.empty()) {
    detail::fail("named: the " + std::string(layer == nullptr ? "module" : "name") + " is empty");
  }
  for (const Parameter& each : layer->parameters_and_states()) {
    prefix(each, name);
  }
}

}  // namespace yoke::nn
