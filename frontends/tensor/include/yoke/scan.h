// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/scan.h: loops that carry values from round to round, and cumulative sums.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace yoke {

// What one round of a scan returns, and what the whole scan returns.
struct Scan {
  std::vector<Tensor> carry;
  std::vector<Tensor> ys;
};
using ScanBody = std::function<Scan(const std::vector<Tensor>& carry, const std::vector<Tensor>& x)>;

// Runs `body` once for each index t of axis 0 of `xs`, in order, as jax.lax.scan does. Each run is a round.
// The body takes the carry of the previous round (`init` in the first round) and the slices xs[k][t]. It
// returns the next carry and any number of values `ys`. The result is the last carry, and each of the ys
// stacked along a new axis 0.
//   const auto [last, hs] = yoke::scan([&](const auto& carry, const auto& x) {
//     const yoke::Tensor h = tanh(x[0] + matmul(carry[0], w));
//     return yoke::Scan{{h}, {h}};
//   }, {h0}, {x});
// scan() calls the body once, to trace it. The body becomes one repeat block, whose number of statements does
// not depend on the number of rounds. Values that depend neither on the carry nor on xs are computed before
// the loop, so random draws in the body are the same in every round. For a new draw in each round, draw
// before the scan, with an axis for the rounds, and pass the draws in xs.
// scan() moves a product that depends only on xs before the loop, and one that only ys need after it, if no
// tensor stored for this has more than 4 times the elements of the xs, carries and ys of all rounds. So a
// scan over blocks of rows, such as the queries of attention, bounds the memory.
//
// The gradient is a second scan, from the last round to the first. The first scan stacks the values of its
// body that the second one reads. The gradient of a weight is one product over all rounds.
//
// `length` is required if xs is empty. Tensors that depend on the body's arguments exist only in the body.
// Error kInvalidArgument: the carry that the body returns differs from `init` in number, shape or type; the
// xs have different sizes along axis 0; a scan in the body depends on the body's carry or xs (unroll the
// inner scan).
Scan scan(const ScanBody& body, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
          std::optional<std::uint64_t> length = {});

// y[i] = x[0] + ... + x[i] along `axis`, as in NumPy, PyTorch and JAX; cumprod multiplies. For bool and u8,
// the result is i64; 16-bit floats are accumulated in f32. The gradient of cumprod is exact where elements
// are 0.
Tensor cumsum(const Tensor& x, int axis = 0);
Tensor cumprod(const Tensor& x, int axis = 0);

}  // namespace yoke
