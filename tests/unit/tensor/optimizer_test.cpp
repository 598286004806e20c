// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/optimizer_test.cpp: optimizers, compared with formulas and with PyTorch.
#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <cmath>
#include <sstream>

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

struct Trial {
  std::string name;
  Optimizer optimizer;
  int steps;
  std::vector<double> expected;
};

// From w = (1, -2, 0.5) with the gradient w^3 - w + 0.1 and learning rate 0.01. The numbers are those of torch.optim
// 2.15 in f64; Lion's and LAMB's follow from the formulas alone.
TEST(OptimizerTest, StepsAreThoseOfPyTorch) {
  const Trial trials[] = {
      {"sgd", Sgd{0.9, 0.1, true}, 100, {0.88721664427, -1.003596544073, 0.88840285407}},
      {"adam", Adam{.weight_decay = 0.1}, 100, {0.886771098079, -1.304843677576, 0.884988982907}},
      {"adam without a mean",
       Adam{.beta1 = 0, .beta2 = 0.9, .eps = 1e-3},
       100,
       {0.942756856028, -1.204633157934, 0.945649273924}},
      {"adamw", AdamW{.weight_decay = 0.1}, 100, {0.94484344532, -1.219854079156, 0.934645034635}},
      {"rmsprop", RmsProp{.weight_decay = 0.1}, 100, {0.887298334621, -1.065057948647, 0.887298334621}},
      {"centered rmsprop",
       RmsProp{.momentum = 0.5, .centered = true},
       100,
       {0.945649273924, -1.047064958155, 0.945649273924}},
      {"adagrad", Adagrad{.weight_decay = 0.1}, 100, {0.894579135463, -1.825723730782, 0.68193710873}},
      {"lion", Lion{.weight_decay = 0.1}, 100, {0.945443178224, -0.857505765365, 0.953193823625}},
      {"lamb", Lamb{.weight_decay = 0.1}, 100, {0.936327388649, -0.977282144432, 0.935336778115}},
  };
  for (const Trial& one : trials) {
    const Tensor w = placeholder("w", Type::kF64, {3});
    std::vector<Tensor> states;
    testing::Leaves leaves;
    leaves.bind(w, std::vector<double>{1, -2, 0.5});
    for (const std::string& state : one.optimizer.states()) {
      states.push_back(placeholder(state, Type::kF64, {3}));
      leaves.bind(states.back(), std::vector<double>{0, 0, 0});
    }
    const Lowered lowered =
        lower("update", {}, one.optimizer.update(w, w * square(w) - w + 0.1, states, Tensor(0.01)));
    for (int step = 0; step < one.steps; ++step) {
      testing::run(lowered, leaves, {{"step", step}});
    }
    const auto got = testing::from_bytes<double>(leaves.of(w));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(got[i], one.expected[i], 1e-11) << one.name << ", element " << i;
    }
  }
}

// With a constant gradient, rounding makes the mean square less than the square of the mean after 1200 steps.
TEST(OptimizerTest, CenteredRmsPropStaysFiniteWithAConstantGradient) {
  const Optimizer optimizer = RmsProp{.centered = true};
  const Tensor w = placeholder("w", Type::kF32, {1});
  std::vector<Tensor> states;
  testing::Leaves leaves;
  leaves.bind(w, std::vector<float>{1});
  for (const std::string& state : optimizer.states()) {
    states.push_back(placeholder(state, Type::kF32, {1}));
    leaves.bind(states.back(), std::vector<float>{0});
  }
  const Lowered lowered =
      lower("update", {}, optimizer.update(w, full(Type::kF32, {1}, 0.1), states, Tensor(0.01F)));
  for (int step = 0; step < 1500; ++step) {
    testing::run(lowered, leaves);
  }
  EXPECT_TRUE(std::isfinite(testing::from_bytes<float>(leaves.of(w))[0]));
}

// The number of the step enters a loop over all elements as a scalar that is computed before it.
TEST(OptimizerTest, AdamWIsOnePassOverMemory) {
  const Tensor w = placeholder("w", Type::kF32, {1000});
  const Tensor g = placeholder("g", Type::kF32, {1000});
  const std::vector<Tensor> states{placeholder("m", Type::kF32, {1000}),
                                   placeholder("v", Type::kF32, {1000})};
  const Lowered lowered =
      lower("update", {}, Optimizer(AdamW{}).update(w, g, states, placeholder("rate", Type::kF32, {})));
  const program::Program program = passes::optimize(lowered.program).program;
  const std::string text = program::print(program);
  std::size_t temporaries = 0;  // of 1000 elements
  for (const program::Tensor& tensor : program.tensors) {
    temporaries += tensor.role == program::Role::kTemp && tensor.dims.size() == 1 ? 1U : 0U;
  }
  EXPECT_EQ(temporaries, 0U) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.find("expm1") == std::string::npos || line.find("[i]") == std::string::npos) << text;
  }
}

TEST(OptimizerTest, ClipsTheGradientByValue) {
  const Tensor w = placeholder("w", Type::kF64, {3});
  const Tensor g = tensor<double>({-5, 0.25, 5}, {3});
  testing::Leaves leaves;
  leaves.bind(w, std::vector<double>{0, 0, 0});
  testing::run(lower("update", {}, clip_by_value(Sgd{}, 0.5).update(w, g, {}, Tensor(1.0))), leaves);
  EXPECT_EQ(testing::from_bytes<double>(leaves.of(w)), (std::vector<double>{0.5, -0.25, -0.5}));
}

TEST(OptimizerTest, GroupsAreFoundByPatternsOfNames) {
  const Optimizer grouped = with_groups(Sgd{}, {{"*.bias", Sgd{}}, {"head*norm*", Sgd{}}, {"w", Sgd{}}});
  EXPECT_EQ(grouped.group_of("0.bias"), 1U);
  EXPECT_EQ(grouped.group_of("head.norm.bias"), 1U) << "the first pattern counts";
  EXPECT_EQ(grouped.group_of("head.norm2.scale"), 2U);
  EXPECT_EQ(grouped.group_of("w"), 3U);
  for (const char* name : {"bias", "0.bias2", "norm", "w2", ""}) {
    EXPECT_EQ(grouped.group_of(name), 0U) << name;
  }
}

TEST(OptimizerTest, InvalidArgumentsAreErrors) {
  EXPECT_THROW(Optimizer(Sgd{.nesterov = true}), Error);
  EXPECT_THROW(Optimizer(Sgd{.momentum = -1}), Error);
  EXPECT_THROW(Optimizer(Sgd{.momentum = 1}), Error);
  EXPECT_THROW(Optimizer(RmsProp{.momentum = 1}), Error);
  EXPECT_THROW(Optimizer(Adam{.beta2 = 1}), Error);
  EXPECT_THROW(Optimizer(AdamW{.eps = -1}), Error);
  EXPECT_THROW(clip_by_value(Sgd{}, 0), Error);
  EXPECT_THROW(clip_by_global_norm(Sgd{}, 0), Error);
  const Optimizer clipped = clip_by_global_norm(Sgd{}, 1);
  EXPECT_THROW(clip_by_global_norm(clipped, 1), Error) << "twice";
  EXPECT_THROW(with_groups(clipped, {}), Error) << "groups after clipping";
  EXPECT_THROW(with_groups(Sgd{}, {{"*", Adam{}}}), Error) << "other states";
  EXPECT_THROW(with_groups(Sgd{}, {{"", Sgd{}}}), Error) << "an empty pattern";
  EXPECT_THROW(with_groups(Sgd{}, {{"*", Sgd{}, -1}}), Error) << "a negative factor";
  EXPECT_THROW(moving_average(Sgd{}, 1), Error);
  EXPECT_THROW(moving_average(moving_average(Sgd{})), Error) << "a repeated state";
  EXPECT_THROW(Optimizer(Lamb{.eps = 0}), Error);
  EXPECT_THROW(Optimizer(OptimizerRule{}), Error);
  EXPECT_THROW(Optimizer("mine", {}, nullptr), Error);
  const auto nothing = [](const Tensor&, const Tensor&, const std::vector<Tensor>&, const Tensor&) {
    return std::vector<Update>{};
  };
  for (const std::vector<std::string>& states :
       {std::vector<std::string>{""}, {"value"}, {"parameters"}, {"gradient_0"}, {"a", "b", "a"}}) {
    EXPECT_THROW(Optimizer("mine", states, nothing), Error);
  }
  const Tensor w = placeholder("w", Type::kF32, {3});
  EXPECT_THROW((void)Optimizer(Adam{}).update(w, w, {}, Tensor(0.1F)), Error) << "without states";
  EXPECT_THROW((void)Optimizer(Lion{}).update(w, w, {placeholder("m", Type::kF64, {3})}, Tensor(0.1F)),
               Error);
  EXPECT_THROW((void)clipped.update(w, w, {}, Tensor(0.1F)), Error) << "without the norm";
  EXPECT_THROW((void)Optimizer(Sgd{}).update({w, w, {}, Tensor(0.1F), {}, 1}), Error) << "no such group";
  const Optimizer wrong("wrong", {}, [](const Tensor& value, auto&&...) {
    return std::vector<Update>{{value, sum(value)}};
  });
  EXPECT_THROW((void)wrong.update(w, w, {}, Tensor(0.1F)), Error) << "an update of another shape";
  EXPECT_EQ(optimizer_by_name("rmsprop").name(), "rmsprop");
  EXPECT_MESSAGE(
      "no optimizer is named 'sdg'; the optimizers are sgd, adam, adamw, rmsprop, adagrad, lion, lamb; did "
      "you "
      "mean 'sgd'?",
      optimizer_by_name("sdg"));
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
  const Tensor literal = tensor<float>({1, 2, 3}, {3});
  for (const Tensor& other : {w * 1.5, literal, Tensor(0.5F), scalar("rate", 0.5).tensor()}) {
    EXPECT_THAT(
        test::error_of([&] { (void)sgd_one(other, other, {}, 0.1, {}); }),
        test::is_error(ErrorCode::kInvalidArgument,
                       "is not a parameter; pass the tensor of a Parameter, or a placeholder for it"));
  }
  for (const Tensor& other : {w * 1.5, literal}) {
    EXPECT_THAT(
        test::error_of([&] {
          (void)sgd_one(w, w, other, 0.1, Sgd{0.9, 0, false});
        }),
        test::is_error(ErrorCode::kInvalidArgument, "must be a parameter or placeholder with the shape of"));
  }
  EXPECT_EQ(sgd_one(Parameter("p", {3}, Initializer::zeros()).tensor(), w, {}, 0.1, {}).size(), 1U);
  EXPECT_THROW(sgd_one(w, w, {}, 0.1, Sgd{0.9, 0, false}), Error) << "momentum without a state";
  EXPECT_THROW(sgd_one(w, w, {}, 0.1, Sgd{0, 0, true}), Error) << "Nesterov without momentum";
  EXPECT_THROW(sgd_one(w, w, {}, w, {}), Error) << "a learning rate that is not a scalar";
}

}  // namespace
}  // namespace yoke
