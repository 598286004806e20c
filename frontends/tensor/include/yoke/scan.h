// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/scan.h: loops that carry values from round to round, and cumulative sums.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace yoke {

// What a round takes or returns, and the result of all rounds.
struct Scan {
  std::vector<Tensor> carry;
  std::vector<Tensor> ys;
};
using ScanBody = std::function<Scan(const std::vector<Tensor>& carry, const std::vector<Tensor>& x)>;

// Runs `body` once for each index t of axis 0 of `xs`, in order, as jax.lax.scan. A round gets the carry of
// the round before, first `init`, and the slices xs[k][t]; it returns the next carry and any values `ys`. The
// result is the last carry, and each of the ys stacked along a new axis 0.
//   const auto [last, hs] = yoke::scan([&](const auto& carry, const auto& x) {
//     const yoke::Tensor h = tanh(x[0] + matmul(carry[0], w));
//     return yoke::Scan{{h}, {h}};
//   }, {h0}, {x});
// The body is called once, to trace it, and becomes one repeat block, whose length does not depend on the
// number of rounds. What does not depend on the carry and xs is computed before the loop; so random draws are
// equal in all rounds. For draws that differ, draw outside, with an axis for the rounds, and pass them in xs.
//
// The gradient is a scan from the last round to the first. Values of the body that it reads are stacked over
// the rounds; gradients of weights are one product over all rounds.
//
// `length` is required if there are no xs. Tensors that depend on the body's arguments exist only in the
// body. Error kInvalidArgument: the body's carry differs from `init` in number, shape or type; the xs have
// different sizes along axis 0; a scan in the body depends on the body's carry or xs (unroll the inner one).
Scan scan(const ScanBody& body, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
          std::optional<std::uint64_t> length = {});

// y[i] = x[0] + ... + x[i] along `axis`, as in numpy, torch and JAX; cumprod multiplies. bool and u8 return
// i64; 16-bit floats are accumulated in f32. The gradient of cumprod is exact where elements are 0.
Tensor cumsum(const Tensor& x, int axis = 0);
Tensor cumprod(const Tensor& x, int axis = 0);

}  // namespace yoke
