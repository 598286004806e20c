// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/nn_recurrent.cpp: recurrent layers.
#include <yoke/scan.h>

#include "nn_common.h"

namespace yoke::nn {
namespace {

constexpr const char* kForm = "[batch, time, in]";

Initializer initializer(std::uint64_t hidden) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  return Initializer::uniform(-bound, bound);
}

Tensor start_of(const Tensor& given, const Tensor& x, std::uint64_t hidden) {
  return given ? given : zeros(x.type(), {x.dims()[0], hidden});
}

// The steps of all sequences, [batch, time, in], from `start`. The body returns the carries; the first one is the
// output.
RecurrentResult over_time(const ScanBody& body, const std::vector<Tensor>& start, const Tensor& x) {
  Scan done = scan(body, start, {permute(x, {1, 0, 2})});
  done.carry.resize(2);
  return {permute(done.ys[0], {1, 0, 2}), {done.carry[0], done.carry[1]}};
}

}  // namespace

Lstm::Lstm(std::uint64_t hidden, const RecurrentOptions& options)
    : hidden_(hidden),
      input_(parameter("weight_ih", initializer(hidden), options.type)),
      state_(parameter("weight_hh", initializer(hidden), options.type)),
      bias_(parameter("bias", initializer(hidden), options.type)) {
  state_.set_dims({4 * hidden, hidden}, "lstm");
  bias_.set_dims({4 * hidden}, "lstm");
}

RecurrentResult Lstm::run(const Tensor& x, const RecurrentState& start) const {
  const std::string layer = "lstm(" + std::to_string(hidden_) + ")";
  check_input(x, layer, input_.type(), 3, kForm);
  input_.set_dims({4 * hidden_, x.dims()[2]}, layer);
  const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& now) {
    const Tensor sums = einsum("bi,gi->bg", now[0], input_.tensor()) +
                        einsum("bh,gh->bg", carry[0], state_.tensor()) + bias_.tensor();
    const std::vector<Tensor> gates = split(sums, 4, 1);
    const Tensor cell = yoke::sigmoid(gates[1]) * carry[1] + yoke::sigmoid(gates[0]) * yoke::tanh(gates[2]);
    const Tensor output = yoke::sigmoid(gates[3]) * yoke::tanh(cell);
    return Scan{{output, cell}, {output}};
  };
  return over_time(step, {start_of(start.hidden, x, hidden_), start_of(start.cell, x, hidden_)}, x);
}

Handle<Lstm> lstm(std::uint64_t hidden, const RecurrentOptions& options) {
  return make<Lstm>(hidden, options);
}

Gru::Gru(std::uint64_t hidden, const RecurrentOptions& options)
    : hidden_(hidden),
      input_(parameter("weight_ih", initializer(hidden), options.type)),
      state_(parameter("weight_hh", initializer(hidden), options.type)),
      input_bias_(parameter("bias_ih", initializer(hidden), options.type)),
      state_bias_(parameter("bias_hh", initializer(hidden), options.type)) {
  state_.set_dims({3 * hidden, hidden}, "gru");
  input_bias_.set_dims({3 * hidden}, "gru");
  state_bias_.set_dims({3 * hidden}, "gru");
}

RecurrentResult Gru::run(const Tensor& x, const RecurrentState& start) const {
  const std::string layer = "gru(" + std::to_string(hidden_) + ")";
  check_input(x, layer, input_.type(), 3, kForm);
  input_.set_dims({3 * hidden_, x.dims()[2]}, layer);
  const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& now) {
    const auto in = split(einsum("bi,gi->bg", now[0], input_.tensor()) + input_bias_.tensor(), 3, 1);
    const auto old = split(einsum("bh,gh->bg", carry[0], state_.tensor()) + state_bias_.tensor(), 3, 1);
    const Tensor reset = yoke::sigmoid(in[0] + old[0]);
    const Tensor update = yoke::sigmoid(in[1] + old[1]);
    const Tensor fresh = yoke::tanh(in[2] + reset * old[2]);
    const Tensor hidden = fresh + update * (carry[0] - fresh);
    return Scan{{hidden}, {hidden}};
  };
  return over_time(step, {start_of(start.hidden, x, hidden_)}, x);
}

Handle<Gru> gru(std::uint64_t hidden, const RecurrentOptions& options) {
  return make<Gru>(hidden, options);
}

}  // namespace yoke::nn
