// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/optimizer_test.cpp: two steps of SGD, compared with the formulas.
#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include "evaluate.h"

namespace yoke {
namespace {

struct State {
  double value = 2;
  double momentum = 0;
};

// Two steps with gradients 0.5 and -1, learning rate 0.1.
State expected_state(const Sgd& options) {
  State state;
  for (const double gradient : {0.5, -1.0}) {
    double delta = gradient + options.weight_decay * state.value;
    if (options.momentum != 0) {
      state.momentum = options.momentum * state.momentum + delta;
      delta = options.nesterov ? delta + options.momentum * state.momentum : state.momentum;
    }
    state.value -= 0.1 * delta;
  }
  return state;
}

State computed_state(const Sgd& options) {
  const Tensor w = placeholder("w", Type::kF64, {3});
  const Tensor g = placeholder("g", Type::kF64, {3});
  const Tensor m = options.needs_state() ? placeholder("m", Type::kF64, {3}) : Tensor();
  const Lowered lowered = lower("update", {}, sgd_one(w, g, m, 0.1, options));
  testing::Leaves leaves;
  leaves.bind(w, std::vector<double>{0, 2, 0}).bind(g, std::vector<double>{0, 0, 0});
  if (m) {
    leaves.bind(m, std::vector<double>{0, 0, 0});
  }
  for (const double gradient : {0.5, -1.0}) {
    leaves.of(g) = testing::to_bytes(std::vector<double>{0, gradient, 0});
    testing::run(lowered, leaves);
  }
  return {testing::from_bytes<double>(leaves.of(w))[1], m ? testing::from_bytes<double>(leaves.of(m))[1] : 0};
}

TEST(SgdTest, FollowsTheFormulas) {
  for (const Sgd& options :
       {Sgd{}, Sgd{0, 0.01, false}, Sgd{0.9, 0, false}, Sgd{0.9, 0.01, false}, Sgd{0.9, 0.01, true}}) {
    const State expected = expected_state(options);
    const State got = computed_state(options);
    EXPECT_NEAR(got.value, expected.value, 1e-15);
    EXPECT_NEAR(got.momentum, expected.momentum, 1e-15);
  }
}

TEST(SgdTest, OverwritesInPlaceWithoutCopies) {
  const Tensor w = placeholder("w", Type::kF32, {3});
  const Tensor g = placeholder("g", Type::kF32, {3});
  const Tensor m = placeholder("m", Type::kF32, {3});
  const Lowered lowered = lower("update", {}, sgd_one(w, g, m, 0.1, Sgd{0.9, 0.01, false}));
  const program::Program program = passes::optimize(lowered.program).program;
  EXPECT_EQ(program.statements.size(), 2U) << program::print(program);
  EXPECT_EQ(program.tensors.size(), 3U) << program::print(program);
}

TEST(SgdTest, LearningRateCanDependOnTheStep) {
  const Tensor w = placeholder("w", Type::kF32, {1});
  const Tensor g = tensor<float>({1}, {1});
  const Tensor rate = 0.5 - cast(symbol_value(Symbol{"step", 0, 100, 1}), Type::kF32) * 0.125;
  const Lowered lowered = lower("update", {}, sgd_one(w, g, {}, rate, {}));
  testing::Leaves leaves;
  leaves.bind(w, std::vector<float>{1});
  testing::run(lowered, leaves, {{"step", 2}});
  EXPECT_EQ(testing::from_bytes<float>(leaves.of(w))[0], 0.75F);
}

TEST(SgdTest, InvalidArgumentsAreErrors) {
  const Tensor w = placeholder("w", Type::kF32, {3});
  EXPECT_THROW(sgd_one(w, placeholder("g", Type::kF32, {2}), {}, 0.1, {}), Error);
  EXPECT_THROW(sgd_one(w * 1.5, w, {}, 0.1, {}), Error);
  EXPECT_THROW(sgd_one(w, w, {}, 0.1, Sgd{0.9, 0, false}), Error) << "momentum without a state";
  EXPECT_THROW(sgd_one(w, w, {}, 0.1, Sgd{0, 0, true}), Error) << "Nesterov without momentum";
  EXPECT_THROW(sgd_one(w, w, {}, w, {}), Error) << "a learning rate that is not a scalar";
}

}  // namespace
}  // namespace yoke
