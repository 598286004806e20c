// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/nn.cpp: layers.
#include <yoke/losses.h>
#include <yoke/nn.h>
#include <yoke/scan.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "node.h"

namespace yoke::nn {
namespace {

Mode& mode_of_thread() {
  thread_local Mode mode = Mode::kTrain;
  return mode;
}

std::string path(const std::string& prefix, const char* name) {
  return prefix.empty() ? name : prefix + "." + name;
}

class Linear final : public Layer {
 public:
  Linear(std::uint64_t out, const LinearOptions& options)
      : out_(out),
        weight_(Parameter::deferred(path(options.name, "weight"), options.weight_init, options.type)) {
    if (options.bias) {
      bias_ = Parameter(path(options.name, "bias"), {out}, options.bias_init, options.type);
    }
  }

  Tensor forward(const Tensor& x) override {
    const std::string layer = "linear(" + std::to_string(out_) + ")";
    detail::require(x, layer.c_str());
    if (x.rank() == 0 || x.type() != weight_.type()) {
      detail::fail(layer + ": the input " + detail::describe(x) + " is " +
                   std::string(program::type_name(x.type())) + "; it must be " +
                   std::string(program::type_name(weight_.type())) + " with at least one axis");
    }
    if (weight_.has_dims() && weight_.dims()[1] != x.dims().back()) {
      detail::fail(layer + ": the last axis of the input " + detail::describe(x) + " has size " +
                   std::to_string(x.dims().back()) + ", but parameter '" + weight_.name() + "' " +
                   dims_text(weight_.dims()) + " expects " + std::to_string(weight_.dims()[1]));
    }
    weight_.set_dims({out_, x.dims().back()}, layer);
    const Tensor y = einsum("... i; o i => ... o", x, weight_.tensor());
    return bias_ ? y + bias_.tensor() : y;
  }

  std::vector<Parameter> parameters() const override {
    return bias_ ? std::vector<Parameter>{weight_, bias_} : std::vector<Parameter>{weight_};
  }

 private:
  std::uint64_t out_;
  Parameter weight_;
  Parameter bias_;
};

class Embedding final : public Layer {
 public:
  Embedding(std::uint64_t count, std::uint64_t dim, const EmbeddingOptions& options)
      : table_(path(options.name, "weight"), {count, dim}, options.init, options.type) {}

  Tensor forward(const Tensor& x) override { return take(table_.tensor(), x); }
  std::vector<Parameter> parameters() const override { return {table_}; }

 private:
  Parameter table_;
};

class Lstm final : public Layer {
 public:
  Lstm(std::uint64_t hidden, const LstmOptions& options)
      : hidden_(hidden),
        input_(Parameter::deferred(path(options.name, "weight_ih"), initializer(hidden), options.type)),
        state_(path(options.name, "weight_hh"), {4 * hidden, hidden}, initializer(hidden), options.type),
        bias_(path(options.name, "bias"), {4 * hidden}, initializer(hidden), options.type) {}

  Tensor forward(const Tensor& x) override {
    const std::string layer = "lstm(" + std::to_string(hidden_) + ")";
    detail::require(x, layer.c_str());
    if (x.rank() != 3 || x.type() != input_.type()) {
      detail::fail(layer + ": the input " + detail::describe(x) + " is " +
                   std::string(program::type_name(x.type())) + "; it must be " +
                   std::string(program::type_name(input_.type())) + " [batch, time, in]");
    }
    input_.set_dims({4 * hidden_, x.dims()[2]}, layer);
    const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& now) {
      const Tensor sums = einsum("bi,gi->bg", now[0], input_.tensor()) +
                          einsum("bh,gh->bg", carry[0], state_.tensor()) + bias_.tensor();
      const std::vector<Tensor> gates = split(sums, 4, 1);
      const Tensor cell = yoke::sigmoid(gates[1]) * carry[1] + yoke::sigmoid(gates[0]) * yoke::tanh(gates[2]);
      const Tensor output = yoke::sigmoid(gates[3]) * yoke::tanh(cell);
      return Scan{{output, cell}, {output}};
    };
    const Tensor zero = zeros(x.type(), {x.dims()[0], hidden_});
    return permute(scan(step, {zero, zero}, {permute(x, {1, 0, 2})}).ys[0], {1, 0, 2});
  }

  std::vector<Parameter> parameters() const override { return {input_, state_, bias_}; }

 private:
  static Initializer initializer(std::uint64_t hidden) {
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    return Initializer::uniform(-bound, bound);
  }

  std::uint64_t hidden_;
  Parameter input_;
  Parameter state_;
  Parameter bias_;
};

// A layer without parameters.
template <class Function>
class Stateless final : public Layer {
 public:
  explicit Stateless(Function function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  Function function_;
};

template <class Function>
Module stateless(Function function) {
  return Module(std::make_shared<Stateless<Function>>(std::move(function)));
}

class Sequential final : public Layer {
 public:
  explicit Sequential(std::vector<Module> members) : members_(std::move(members)) {
    std::vector<Parameter> named;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!members_[i]) {
        detail::fail("sequential: member " + std::to_string(i) + " is an empty Module");
      }
      for (const Parameter& parameter : members_[i].layer()->parameters()) {
        if (std::none_of(named.begin(), named.end(), [&](const Parameter& p) { return p.is(parameter); })) {
          parameter.rename(std::to_string(i) + "." + parameter.name());
          parameter.move_last();
          named.push_back(parameter);
        }
      }
    }
  }

  Tensor forward(const Tensor& x) override {
    Tensor value = x;
    for (const Module& member : members_) {
      value = member(value);
    }
    return value;
  }

  std::vector<Parameter> parameters() const override {
    std::vector<Parameter> all;
    for (const Module& member : members_) {
      for (const Parameter& parameter : member.layer()->parameters()) {
        if (std::none_of(all.begin(), all.end(), [&](const Parameter& p) { return p.is(parameter); })) {
          all.push_back(parameter);
        }
      }
    }
    return all;
  }

 private:
  std::vector<Module> members_;
};

}  // namespace

Mode mode() {
  return mode_of_thread();
}

ModeScope::ModeScope(Mode mode) : before_(std::exchange(mode_of_thread(), mode)) {}
ModeScope::~ModeScope() {
  mode_of_thread() = before_;
}

Tensor Module::operator()(const Tensor& x) const {
  if (!layer_) {
    throw Error(ErrorCode::kFailedPrecondition,
                "cannot apply an empty Module; create one with a function such as nn::linear");
  }
  return layer_->forward(x);
}

Module linear(std::uint64_t out, const LinearOptions& options) {
  return Module(std::make_shared<Linear>(out, options));
}

Module embedding(std::uint64_t count, std::uint64_t dim, const EmbeddingOptions& options) {
  return Module(std::make_shared<Embedding>(count, dim, options));
}

Module lstm(std::uint64_t hidden, const LstmOptions& options) {
  return Module(std::make_shared<Lstm>(hidden, options));
}

Module relu() {
  return stateless([](const Tensor& x) { return yoke::relu(x); });
}
Module tanh() {
  return stateless([](const Tensor& x) { return yoke::tanh(x); });
}
Module sigmoid() {
  return stateless([](const Tensor& x) { return yoke::sigmoid(x); });
}
Module gelu() {
  return stateless([](const Tensor& x) { return yoke::gelu(x); });
}
Module softmax(int axis) {
  return stateless([axis](const Tensor& x) { return yoke::softmax(x, axis); });
}
Module log_softmax(int axis) {
  return stateless([axis](const Tensor& x) { return yoke::log_softmax(x, axis); });
}
Module flatten() {
  return stateless([](const Tensor& x) { return yoke::flatten(x); });
}

Module dropout(double rate) {
  if (!(rate >= 0 && rate < 1)) {
    detail::fail("dropout: rate " + std::to_string(rate) + " is out of range [0, 1)");
  }
  return stateless([rate](const Tensor& x) {
    if (mode() == Mode::kEval || rate == 0) {
      return x;
    }
    const Tensor kept = uniform(x.dims(), RandomKey{std::nullopt, true}) >= rate;
    return where(kept, x * (1 / (1 - rate)), detail::constant(x.type(), 0));
  });
}

Module sequential(std::vector<Module> members) {
  return Module(std::make_shared<Sequential>(std::move(members)));
}

std::vector<Parameter> parameters(const Module& module) {
  return module ? module.layer()->parameters() : std::vector<Parameter>{};
}

}  // namespace yoke::nn
