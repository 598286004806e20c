// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/argument_test.cpp: every bad argument is one sentence, before anything is
// allocated on a device.
#include <gtest/gtest.h>

#include "common.h"

namespace yoke::testing {
namespace {

struct Given {
  DataParallelOptions options = options_for(2, 0.1F);
  Tensor inputs = tensor(some_numbers(12, 1), {4, 3});
  Tensor targets = tensor(some_numbers(4, 2), {4, 1});
  std::function<Tensor(const Tensor&, const Tensor&)> loss_of;
  Given() {
    const auto model = nn::linear(1);
    loss_of = [model](const Tensor& x, const Tensor& y) { return mse(model(x), y); };
  }
};

void expect_refused(const Given& given, ErrorCode code, const std::string& sentence) {
  try {
    data_parallel(given.options, given.inputs, given.targets, given.loss_of,
                  [](Trainer&) { FAIL() << "it ran"; });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(sentence), std::string::npos) << error.what();
    EXPECT_EQ(code_name(error.code()), std::string(code_name(code))) << error.what();
  }
}

TEST(Arguments, ThatFitRun) {
  const Given given;
  data_parallel(given.options, given.inputs, given.targets, given.loss_of,
                [](Trainer& trainer) { trainer.step(); });
}

TEST(Arguments, NoShards) {
  Given given;
  given.options.shards = 0;
  expect_refused(given, ErrorCode::kInvalidArgument, "data_parallel: 0 shards; choose 1 to 4096");
}

TEST(Arguments, NoLearningRate) {
  Given given;
  given.options.learning_rate = Tensor();
  expect_refused(given, ErrorCode::kInvalidArgument, "learning_rate is missing; set options.learning_rate");
}

TEST(Arguments, LearningRateThatIsNoScalar) {
  Given given;
  given.options.learning_rate = tensor<float>({1, 2}, {2});
  expect_refused(given, ErrorCode::kInvalidArgument, "learning_rate has shape [2]; it must be a scalar");
}

TEST(Arguments, BatchLargerThanTheData) {
  Given given;
  given.options.batch_size = 5;
  expect_refused(given, ErrorCode::kInvalidArgument,
                 "a batch of 5 rows does not fit data of 4 rows; choose 1 to 4");
}

TEST(Arguments, RowsOfInputsAndTargetsDiffer) {
  Given given;
  given.targets = tensor(some_numbers(3, 2), {3, 1});
  expect_refused(given, ErrorCode::kInvalidArgument, "inputs have 4 rows, targets 3");
}

TEST(Arguments, LossThatIsNoScalar) {
  Given given;
  given.loss_of = [](const Tensor& x, const Tensor&) { return x * x; };
  expect_refused(given, ErrorCode::kInvalidArgument,
                 "loss_of gave a tensor of shape [2, 3]; it must give one float");
}

TEST(Arguments, LossWithoutParameters) {
  Given given;
  given.loss_of = [](const Tensor& x, const Tensor&) { return sum(x); };
  expect_refused(given, ErrorCode::kInvalidArgument, "depends on no Parameter, so there is nothing to train");
}

TEST(Arguments, LayersMadeInsideOfLossOf) {
  Given given;
  given.options.batch_size = 3;  // 2 + 1 rows, then 1 + 0: loss_of is called for several shapes
  given.loss_of = [](const Tensor& x, const Tensor& y) { return mse(nn::linear(1)(x), y); };
  expect_refused(given, ErrorCode::kInvalidArgument, "make the layers outside of it");
}

TEST(Arguments, UnknownBackendListsThoseFound) {
  Given given;
  given.options.backend_name = "cudaa";
  expect_refused(given, ErrorCode::kNotFound, "cudaa");
  expect_refused(given, ErrorCode::kNotFound, "cc");
}

TEST(Arguments, BackendListsNeedCounts) {
  Given given;
  given.options.backend_name = "cc:1,null";
  expect_refused(given, ErrorCode::kInvalidArgument, "in a list every backend needs its number of shards");
  given.options.backend_name = "cc:x";
  expect_refused(given, ErrorCode::kInvalidArgument, "behind the colon stands a number of shards");
  given.options.backend_name = "cc:3";
  expect_refused(given, ErrorCode::kInvalidArgument, "asks for 3 shards, options.shards for 2");
}

TEST(Arguments, NesterovWithoutMomentum) {
  Given given;
  given.options.optimizer.nesterov = true;
  expect_refused(given, ErrorCode::kInvalidArgument, "nesterov needs a momentum above 0");
}

TEST(Arguments, SeedOutOfRange) {
  Given given;
  given.options.base_seed = -1;
  expect_refused(given, ErrorCode::kInvalidArgument, "base_seed -1 is outside");
}

TEST(Arguments, SymbolWithoutABinding) {
  Given given;
  given.loss_of = [inner = given.loss_of](const Tensor& x, const Tensor& y) {
    return inner(x, y) + cast(symbol_value({"batch", 0, 4, 1}), Type::kF32);
  };
  expect_refused(given, ErrorCode::kInvalidArgument, "uses the symbol 'batch'");
}

TEST(Arguments, InputsThatAreNoHostData) {
  Given given;
  given.inputs = placeholder("x", Type::kF32, {4, 3});
  expect_refused(given, ErrorCode::kInvalidArgument, "inputs must be host data (a literal)");
}

TEST(SetBatch, OfAnotherShapeIsRefusedAndTheRunGoesOn) {
  const Given given;
  data_parallel(given.options, given.inputs, given.targets, given.loss_of, [&](Trainer& trainer) {
    try {
      trainer.set_batch(tensor(some_numbers(15, 1), {5, 3}), tensor(some_numbers(5, 1), {5, 1}));
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("inputs must be host data of shape [4, 3]"), std::string::npos)
          << error.what();
    }
    trainer.step();
  });
}

TEST(ReadValues, OfATensorThatIsNotThereNamesIt) {
  const Given given;
  data_parallel(given.options, given.inputs, given.targets, given.loss_of, [](Trainer& trainer) {
    try {
      trainer.read_values("gradient/nothing");
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("gradient/nothing"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace yoke::testing
