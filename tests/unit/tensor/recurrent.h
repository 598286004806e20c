// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/recurrent.h: an LSTM over a sequence, as PyTorch defines it.
#pragma once

#include "evaluate.h"
#include "node.h"

namespace yoke::testing {

struct Lstm {
  Lstm(std::uint64_t rounds, std::uint64_t batch, std::uint64_t in, std::uint64_t hidden,
       Type type = Type::kF32)
      : x(placeholder("x", type, {rounds, batch, in})),
        wx(placeholder("wx", type, {4, hidden, in})),
        wh(placeholder("wh", type, {4, hidden, hidden})),
        bias(placeholder("bias", type, {4, hidden})) {
    const Tensor zero = zeros(type, {batch, hidden});
    ys = scan(
             [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& slice) {
               const Tensor z =
                   einsum("bj,gij->bgi", slice[0], wx) + einsum("bk,gik->bgi", carry[0], wh) + bias;
               const auto gate = [&](std::uint64_t g) { return squeeze(yoke::slice(z, 1, g, g + 1), 1); };
               const Tensor c = sigmoid(gate(1)) * carry[1] + sigmoid(gate(0)) * tanh(gate(2));
               const Tensor h = sigmoid(gate(3)) * tanh(c);
               return Scan{{h, c}, {h}};
             },
             {zero, zero}, {x})
             .ys[0];
  }
  Lowered lowered_gradients() const {
    const auto slopes = gradients(sum(ys * ys), {x, wx, wh, bias});
    return lower(
        "lstm", {{"y", ys}, {"dx", slopes[0]}, {"dwx", slopes[1]}, {"dwh", slopes[2]}, {"dbias", slopes[3]}});
  }

  Tensor x, wx, wh, bias, ys;
};

}  // namespace yoke::testing
