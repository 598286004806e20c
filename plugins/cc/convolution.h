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

// A dimension that is not a window, and its strides in elements.
struct Channels {
  std::int64_t extent = 1;
  std::int64_t x = 0;
  std::int64_t w = 0;
  std::int64_t y = 0;
};

// A spatial dimension: y at o uses x at stride * o + dilation * k - before.
struct Window {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;
  std::int64_t x = 0;  // strides in elements
  std::int64_t w = 0;
  std::int64_t y = 0;
};

// y[batch, group, out, o] = sum over in and k of x[batch, group, in, window at o and k] * w[group, out, in,
// k], or one of its gradients. The sum leaves out terms whose x is in the padding.
struct Convolution {
  enum class Kind : std::uint8_t { kForward, kInputGradient, kWeightGradient };
  Kind kind = Kind::kForward;
  Operand a;  // x, or dy in kInputGradient
  Operand b;  // w, or dy in kWeightGradient
  Operand t;
  program::Assign assign = program::Assign::kSet;
  Channels batch;
  Channels group;
  Channels in;
  Channels out;
  std::vector<Window> windows;  // one to three

  std::int64_t multiplications() const;
};

// Returns nothing and sets `why_not` if the statement is not a convolution.
std::optional<Convolution> recognize_convolution(const program::Program& program,
                                                 const program::Statement& statement, std::string& why_not);

}  // namespace yoke::cc
