// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/nn.cpp: layers that combine others, activations, linear layers and embeddings.
#include <yoke/losses.h>
#include <yoke/nn.h>

#include <string>
#include <utility>

#include "nn_common.h"
#include "node.h"
#include "shortest.h"

namespace yoke::nn {
namespace {

class Linear final : public Layer {
 public:
  Linear(std::uint64_t out, const LinearOptions& options)
      : out_(out),
        has_bias_init_(options.bias_init.has_value()),
        weight_(parameter("weight", options.weight_init.value_or(uniform_by_fan_in()), options.type)) {
    detail::check_dims({out}, "linear(" + std::to_string(out) + ")");
    if (options.bias) {
      bias_ = parameter("bias", options.bias_init.value_or(Initializer::zeros()), options.type);
      bias_.set_dims({out}, "linear");
    }
  }

  Tensor forward(const Tensor& x) const {
    const std::string layer = "linear(" + std::to_string(out_) + ")";
    detail::require(x, layer.c_str());
    if (x.rank() == 0 || x.type() != weight_.type()) {
      detail::fail(layer + ": the input " + detail::describe(x) + " is " +
                   std::string(program::type_name(x.type())) + "; it must be " +
                   std::string(program::type_name(weight_.type())) + " with at least one axis");
    }
    check_size(weight_, 1, x.dims().back(), x, layer);
    if (!weight_.has_dims()) {
      weight_.set_dims({out_, x.dims().back()}, layer);
      if (bias_ && !has_bias_init_) {
        bias_.set_initializer(uniform_by_fan_in(weight_.dims()));
      }
    }
    const Tensor y = einsum("... i; o i => ... o", x, weight_.tensor());
    return bias_ ? y + bias_.tensor() : y;
  }

 private:
  std::uint64_t out_;
  bool has_bias_init_;
  Parameter weight_;
  Parameter bias_;
};

class Function final : public Layer {
 public:
  explicit Function(std::function<Tensor(const Tensor&)> forward) : forward_(std::move(forward)) {}
  Tensor forward(const Tensor& x) const { return forward_(x); }

 private:
  std::function<Tensor(const Tensor&)> forward_;
};

class Sequential final : public Layer {
 public:
  explicit Sequential(std::vector<Module> members) : members_(std::move(members)) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!members_[i]) {
        detail::fail("sequential: member " + std::to_string(i) + " is an empty module");
      }
      (void)child(members_[i]);
    }
  }

  Tensor forward(const Tensor& x) const {
    Tensor value = x;
    for (const Module& member : members_) {
      value = member(value);
    }
    return value;
  }

 private:
  std::vector<Module> members_;
};

class Residual final : public Layer {
 public:
  Residual(const Module& block, const Module& shortcut)
      : block_(child("block", block)), shortcut_(shortcut ? child("shortcut", shortcut) : Module()) {}

  Tensor forward(const Tensor& x) const { return (shortcut_ ? shortcut_(x) : x) + block_(x); }

 private:
  Module block_, shortcut_;
};

}  // namespace

Module linear(std::uint64_t out, const LinearOptions& options) {
  return make<Linear>(out, options);
}

Module function(std::function<Tensor(const Tensor&)> forward) {
  if (!forward) {
    detail::fail("nn::function: the function is empty");
  }
  return make<Function>(std::move(forward));
}

Module sequential(std::vector<Module> members) {
  return make<Sequential>(std::move(members));
}
Module residual(const Module& block, const Module& shortcut) {
  return make<Residual>(block, shortcut);
}

Module relu() {
  return function([](const Tensor& x) { return yoke::relu(x); });
}
Module tanh() {
  return function([](const Tensor& x) { return yoke::tanh(x); });
}
Module sigmoid() {
  return function([](const Tensor& x) { return yoke::sigmoid(x); });
}
Module gelu() {
  return function([](const Tensor& x) { return yoke::gelu(x); });
}
Module silu() {
  return function([](const Tensor& x) { return yoke::silu(x); });
}
Module softmax(int axis) {
  return function([axis](const Tensor& x) { return yoke::softmax(x, axis); });
}
Module log_softmax(int axis) {
  return function([axis](const Tensor& x) { return yoke::log_softmax(x, axis); });
}
Module flatten() {
  return function([](const Tensor& x) { return yoke::flatten(x); });
}

Module dropout(double rate) {
  if (!(rate >= 0 && rate < 1)) {
    detail::fail("dropout: rate " + detail::shortest(rate) + " is out of range [0, 1)");
  }
  return function([rate](const Tensor& x) {
    detail::require(x, "dropout");
    if (rate == 0) {
      return x;
    }
    const Tensor kept = uniform(x.dims(), RandomKey{std::nullopt, true}) >= rate;
    return by_mode(where(kept, x * (1 / (1 - rate)), detail::constant(x.type(), 0)), x);
  });
}

Embedding::Embedding(std::uint64_t count, std::uint64_t dim, const EmbeddingOptions& options)
    : table_(parameter("weight", options.init, options.type)) {
  table_.set_dims({count, dim}, "embedding");
}
Tensor Embedding::forward(const Tensor& ids) const {
  return take(table_.tensor(), ids);
}
Tensor Embedding::logits(const Tensor& x) const {
  return einsum("... d; v d => ... v", x, table_.tensor());
}
Handle<Embedding> embedding(std::uint64_t count, std::uint64_t dim, const EmbeddingOptions& options) {
  return make<Embedding>(count, dim, options);
}

}  // namespace yoke::nn
