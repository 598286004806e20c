// SPDX-License-Identifier: Apache-2.0
// tests/support/exact_attention.h: programs of attention, and their exact results.
#pragma once

#include <string>

#include "evaluate.h"

namespace yoke::test {

// Attention with a scale of 1 / 4.
struct AttentionShape {
  const char* type = "bf16";
  int batch = 2;
  int heads = 3;
  int queries = 24;
  int keys = 24;
  int size = 16;
  int value_size = 16;
  bool is_causal = true;
  bool has_gradient = true;
};

// The body of a program, as the tensor frontend writes attention. Its arguments are g, dq, dk and dv if it has a
// gradient, then q, k, v and o.
std::string body_of(const AttentionShape& shape);

// Compares the results with exact ones. Empty, or the first element that is further away than a library that rounds
// weights, gradients of scores and results to 16 bits may be.
std::string compare_attention(const AttentionShape& shape, const conformance::Contents& arguments,
                              const conformance::Contents& results);

}  // namespace yoke::test
