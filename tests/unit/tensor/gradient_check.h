// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/gradient_check.h: compares gradients with central finite differences in f64 on random
// shapes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "evaluate.h"

namespace yoke::testing {

using Inputs = const std::vector<Tensor>&;

// `shapes` describes the inputs, as in "a b; b": a to d stand for random sizes from 1 to 4. The input
// values are distinct, in [low, high] and not near 0.
struct Case {
  std::string name;
  std::string shapes;
  std::function<Tensor(Inputs)> function;
  double low = -2;
  double high = 2;
};

void PrintTo(const Case& one, std::ostream* out);

// Several rounds of random shapes and values; YOKE_TEST_SEED changes them.
void check_gradients(const Case& one);

class GradientTest : public ::testing::TestWithParam<Case> {};

}  // namespace yoke::testing
