// SPDX-License-Identifier: Apache-2.0
// plugins/cc/convolution.h: recognizes convolutions and their gradients.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contraction.h"

namespace yoke::cc {

// A spatial dimension: y at o uses x at stride * o + dilation * k - before.
struct Window {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;
  Axis axis{};  // only its strides count
};

// y[batch, group, out, o] = sum over in and k of x[batch, group, in, window at o and k] * w[group, out, in,
// k], or one of its gradients. The sum leaves out terms whose x is in the padding.
struct Convolution : SumOfProducts {
  enum class Kind : std::uint8_t {
    kForward,        // a is x, b is w, t is y
    kInputGradient,  // a is dy, b is w, t is dx
    kWeightGradient  // a is x, b is dy, t is dw
  };
  Kind kind = Kind::kForward;
  Axis batch{};
  Axis group{};
  Axis in{};
  Axis out{};
  std::vector<Window> windows{};  // one to three

  std::int64_t multiplications() const;
};

// Returns nothing and sets `why_not` if the statement is not a convolution.
std::optional<Convolution> recognize_convolution(const program::Program& program,
                                                 const program::Statement& statement, std::string& why_not);

// Whether the statement is a convolution, or a product of matrices that is worth a call of a library.
bool is_product(const program::Program& program, const program::Statement& statement);

}  // namespace yoke::cc
