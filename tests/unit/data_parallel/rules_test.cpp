// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/rules_test.cpp: numbers over all gradients, and groups of parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

// A rule whose `number` is the sum of `term` over all elements, which its update adds to them.
Optimizer adding(const std::function<Tensor(const Tensor&)>& term) {
  OptimizerRule rule;
  rule.name = "adding";
  rule.update = [](const UpdateOperands& of) {
    return std::vector<Update>{{of.value, of.value + cast(of.number, of.value.type())}};
  };
  rule.term = term;
  rule.number = [](const Tensor& total) { return total; };
  return Optimizer(rule);
}

TEST(NumbersOverAllGradients, DoNotCountRunningState) {
  for (const std::int64_t shards : {1, 2}) {
    DataParallelOptions options = options_for(shards, 0.1F);
    options.optimizer = adding([](const Tensor& gradient) { return gradient * 0 + 1; });
    const auto norm = nn::batch_norm();
    data_parallel(
        options, tensor(some_numbers(8, 1), {4, 2}), tensor(some_numbers(4, 2), {4}),
        [&](const Tensor& x, const Tensor&) { return mean(norm(x)); },
        [&](Trainer& trainer) {
          ASSERT_EQ(trainer.owner_params().size(), 4U);  // weight, bias, and the running mean and variance
          trainer.step();
          for (const Parameter& parameter : trainer.owner_params()) {
            if (parameter.name().find("bias") != std::string::npos) {
              EXPECT_EQ(trainer.read_values(parameter.name()), (std::vector<float>{4, 4}));
            }
          }
        });
  }
}

// 64 elements need no padding, so the terms of padding, here infinite, need not be subtracted.
TEST(NumbersOverAllGradients, NeedNoTermOfZeroWithoutPadding) {
  DataParallelOptions options = options_for(2, 0.1F);
  options.optimizer = adding([](const Tensor& gradient) { return 1.0F / gradient; });
  const Parameter w("w", {64}, Initializer::zeros());
  const Tensor x = tensor<float>({1, 1}, {2});
  data_parallel(
      options, x, x, [&](const Tensor& a, const Tensor&) { return sum(w.tensor()) * mean(a); },
      [&](Trainer& trainer) {
        trainer.step();
        EXPECT_EQ(trainer.read_values("w"), std::vector<float>(64, 64));
      });
}

TEST(UpdatePrograms, AreSharedByShards) {
  const auto calls_with = [](std::int64_t shards) {
    DataParallelOptions options = options_for(shards, 0.1F);
    options.placement = Placement::kEverywhere;
    options.merge = MergeStrategy::kDirect;
    int calls = 0;
    options.optimizer = Optimizer("counting", {}, [&](const Tensor& value, auto&, auto&, auto&) {
      ++calls;
      return std::vector<Update>{{value, value}};
    });
    const Parameter w("w", {64}, Initializer::zeros());
    const Tensor x = tensor(some_numbers(8, 1), {8});
    data_parallel(
        options, x, x, [&](const Tensor& a, const Tensor&) { return mean(a) * sum(w.tensor()); },
        [](Trainer& trainer) { trainer.step(); });
    return calls;
  };
  EXPECT_EQ(calls_with(4), calls_with(2));
}

// Trains so many linear layers with one output.
std::vector<float> train(const Optimizer& optimizer, std::size_t layer_count) {
  std::vector<nn::Module> layers;
  for (std::size_t i = 0; i < layer_count; ++i) {
    layers.push_back(nn::linear(1));
  }
  const auto model = nn::sequential(layers);
  DataParallelOptions options = options_for(2, 0.05F);
  options.optimizer = optimizer;
  return data_parallel(
      options, tensor(some_numbers(8, 1), {4, 2}), tensor(some_numbers(4, 2), {4, 1}),
      [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
      [](Trainer& trainer) {
        trainer.step();
        return all_values(trainer);
      });
}

TEST(Groups, ThatMatchNoParameterAreErrorsWithTheFirstTwelveNames) {
  EXPECT_THAT(error_of([] {
                train(with_groups(Sgd{}, {{"x", Sgd{}}}), 7);
              }),
              is_error(ErrorCode::kInvalidArgument, "no parameter is in the group 'x'",
                       "the parameters are 0.weight, 0.bias, ", ", 5.weight, 5.bias and 2 more"));
}

TEST(Groups, OfRunningStateAreErrors) {
  DataParallelOptions options = options_for(2, 0.05F);
  options.optimizer = with_groups(Sgd{}, {{"running_*", Sgd{}}});
  const auto norm = nn::batch_norm();
  EXPECT_THAT(error_of([&] {
                data_parallel(
                    options, tensor(some_numbers(8, 1), {4, 2}), tensor(some_numbers(4, 2), {4}),
                    [&](const Tensor& x, const Tensor&) { return mean(norm(x)); }, [](Trainer&) {});
              }),
              is_error(ErrorCode::kInvalidArgument, "no parameter is in the group 'running_*'",
                       "the parameters are weight, bias"));
}

TEST(Groups, MayMatchOnlyTheFirstParameter) {
  EXPECT_NE(train(with_groups(Sgd{}, {{"0.weight", Sgd{}, 0.5}}), 1), train(Sgd{}, 1));
}

}  // namespace
}  // namespace yoke::testing
