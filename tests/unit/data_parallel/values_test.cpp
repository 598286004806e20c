// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/values_test.cpp: values that a trainer reads and returns, given batches, and learning rates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

const Tensor kInputs = tensor<float>({1, 2, 3, 4}, {4});

// y = 2x with one weight that starts at 0.5; the loss is a sum of squares.
struct Line {
  Line() {
    const float start = 0.5F;
    w.set_values(std::as_bytes(std::span(&start, 1)));
  }
  std::function<Tensor(const Tensor&, const Tensor&)> loss() {
    return [this](const Tensor& x, const Tensor& y) {
      prediction = x * w.tensor();
      const Tensor error = prediction - y;
      return sum(error * error);
    };
  }
  Parameter w{"w", {}, Initializer::zeros()};
  Tensor prediction;  // of the latest call
};

TEST(DataParallel, ReturnsWhatTheBodyReturns) {
  Line line;
  DataParallelOptions options = options_for(2, 0.05F);
  options.reduction = Reduction::kSum;
  struct Trained {
    explicit Trained(float w) : weight(w) {}
    float weight;
  };
  const Trained trained =
      data_parallel(options, kInputs, tensor<float>({2, 4, 6, 8}, {4}), line.loss(), [&](Trainer& trainer) {
        trainer.step();
        return Trained(trainer.read_values("w")[0]);
      });
  EXPECT_EQ(trained.weight, 5.0F);
  Feed feed{{YOKE_TYPE_F32, {4}}, {YOKE_TYPE_F32, {4}}, [](std::int64_t) {
              return Batch{kInputs, tensor<float>({2, 4, 6, 8}, {4})};
            }};
  EXPECT_EQ(data_parallel(options, feed, Line().loss(), [](Trainer& trainer) { return trainer.shards(); }),
            2U);
}

TEST(SetBatch, TwoStepsHaveTheKnownWeights) {
  Line line;
  const DataParallelOptions options = options_for(2, 0.02F);
  data_parallel(options, kInputs, tensor<float>({2, 4, 6, 8}, {4}), line.loss(), [&](Trainer& trainer) {
    trainer.step();
    EXPECT_EQ(trainer.owner_loss_value(), 11.25F);
    EXPECT_NEAR(trainer.read_values("w")[0], 1.4F, 1e-6);
    trainer.set_batch(tensor<float>({5, 6, 7, 8}, {4}), tensor<float>({10, 12, 14, 16}, {4}));
    trainer.step();
    EXPECT_NEAR(trainer.owner_loss_value(), 21.96F, 1e-4);
    EXPECT_NEAR(trainer.read_values("w")[0], 3.488F, 1e-5);
  });
}

// Batches of 2 rows, whose losses are the first row's number and a half.
TEST(SetBatch, KeepsThePlaceInTheEpochIfTheNumberOfRowsIsTheSame) {
  for (const bool varying : {false, true}) {
    DataParallelOptions options = options_for(2, 0);
    options.batch_size = 2;
    options.varying_rows = varying;
    const Parameter w("w", {}, Initializer::constant(1));
    const auto loss_of = [&](const Batch& batch) { return mean(batch["x"] * w.tensor()); };
    const auto rows = [](std::vector<float> numbers) {
      const std::uint64_t count = numbers.size();
      return Batch{{"x", tensor(numbers, {count})}};
    };
    data_parallel(options, rows({0, 1, 2, 3, 4, 5}), loss_of, [&](Trainer& trainer) {
      const auto next_loss = [&] {
        trainer.step();
        return trainer.loss_value();
      };
      EXPECT_EQ(next_loss(), 0.5);
      trainer.set_batch(rows({10, 11, 12, 13, 14, 15}));
      EXPECT_EQ(next_loss(), 12.5) << "varying: " << varying;
      if (varying) {
        trainer.set_batch(rows({20, 21, 22, 23}));
        EXPECT_EQ(next_loss(), 20.5);
      }
    });
  }
}

// The devices are still busy when it returns, and the data may end before the copies do.
TEST(SetBatch, OnlyQueuesItsCopies) {
  for (const bool varying : {false, true}) {
    Line line;
    RuntimeOptions impatient;
    impatient.wait_timeout = std::chrono::seconds(10);
    DataParallelOptions options = options_for(2, 0.02F);
    options.runtime = test_runtime(impatient);
    options.varying_rows = varying;
    data_parallel(options, kInputs, tensor<float>({2, 4, 6, 8}, {4}), line.loss(), [&](Trainer& trainer) {
      trainer.step();
      Gate gate;
      for (const Shard& shard : trainer.shard_list()) {
        gate.hold(*shard.stream);
      }
      trainer.set_batch(tensor<float>({5, 6, 7, 8}, {4}), tensor<float>({10, 12, 14, 16}, {4}));
      EXPECT_FALSE(trainer.shard_list()[1].stream->is_idle());
      gate.open();
      trainer.step();
      EXPECT_NEAR(trainer.owner_loss_value(), 21.96F, 1e-4);
      EXPECT_NEAR(trainer.read_values("w")[0], 3.488F, 1e-5);
    });
  }
}

TEST(ReadValues, ComputesAnyTensorOfTheModel) {
  for (const std::int64_t shards : {1, 2}) {
    Line line;
    DataParallelOptions options = options_for(shards, 0.0F);
    options.batch_size = 2;
    Tensor of_owner;  // what loss_of computes from the owner's rows
    const auto loss_of = [&](const Tensor& x, const Tensor& y) {
      const Tensor loss = line.loss()(x, y);
      of_owner = of_owner ? of_owner : line.prediction;
      return loss;
    };
    data_parallel(options, kInputs, tensor<float>({2, 4, 6, 8}, {4}), loss_of, [&](Trainer& trainer) {
      EXPECT_EQ(trainer.read_values(line.w.tensor()), std::vector<float>{0.5F});
      EXPECT_EQ(trainer.read_values(line.w), std::vector<float>{0.5F});
      EXPECT_EQ(trainer.read_values(line.w.tensor() * 4.0F), std::vector<float>{2.0F});
      // Rows 0 and 1 are the first batch, rows 2 and 3 the second; the owner has all or the first of them.
      trainer.step();
      EXPECT_EQ(trainer.read_values(of_owner),
                shards == 1 ? (std::vector<float>{0.5F, 1.0F}) : std::vector<float>{0.5F});
      trainer.step();
      EXPECT_EQ(trainer.read_values(of_owner),
                shards == 1 ? (std::vector<float>{1.5F, 2.0F}) : std::vector<float>{1.5F});
      // Host data may differ from read to read.
      EXPECT_EQ(trainer.read_values(tensor<float>({1, 2}, {2}) * line.w.tensor()),
                (std::vector<float>{0.5F, 1}));
      EXPECT_EQ(trainer.read_values(tensor<float>({4, 6}, {2}) * line.w.tensor()),
                (std::vector<float>{2, 3}));
      EXPECT_THAT(
          test::error_of([&] { (void)trainer.read_values(placeholder("other", Type::kF32, {}) + 1.0F); }),
          test::is_error(ErrorCode::kNotFound, "it needs the tensors 'other', which the context lacks"));
      const Parameter foreign("foreign", {}, Initializer::zeros());
      EXPECT_THAT(test::error_of([&] { (void)trainer.read_values(foreign.tensor()); }),
                  test::is_error(ErrorCode::kNotFound, "no tensor 'foreign'"));
    });
  }
}

TEST(ReadValues, UsesTheLatestBatchOfAFeed) {
  for (const std::int64_t shards : {1, 2}) {
    Line line;
    DataParallelOptions options = options_for(shards, 0.0F);
    options.batch_size = 2;
    Tensor of_owner;
    const auto loss_of = [&](const Tensor& x, const Tensor& y) {
      const Tensor loss = line.loss()(x, y);
      of_owner = of_owner ? of_owner : line.prediction;
      return loss;
    };
    const Feed feed{{YOKE_TYPE_F32, {4}}, {YOKE_TYPE_F32, {4}}, [](std::int64_t number) {
                      const auto first = static_cast<float>(10 * number);
                      return Batch{tensor<float>({first, first + 1}, {2}), tensor<float>({0, 0}, {2})};
                    }};
    data_parallel(options, feed, loss_of, [&](Trainer& trainer) {
      EXPECT_THAT(test::error_of([&] { (void)trainer.read_values(of_owner); }),
                  test::is_error(ErrorCode::kFailedPrecondition, "no step has run yet"));
      EXPECT_EQ(trainer.read_values(line.w.tensor() * 4.0F), std::vector<float>{2.0F});
      for (int number = 0; number < 7; ++number) {
        trainer.step();
        const float first = 5.0F * static_cast<float>(number);
        EXPECT_EQ(trainer.read_values(of_owner),
                  shards == 1 ? (std::vector<float>{first, first + 0.5F}) : std::vector<float>{first});
      }
    });
  }
}

TEST(ReadValues, OfNothingAndOfGradientsOutsideOfTheirStepAreErrors) {
  for (const std::int64_t shards : {1, 2}) {
    Line line;
    data_parallel(options_for(shards, 0.0F), kInputs, kInputs, line.loss(), [&](Trainer& trainer) {
      EXPECT_THAT(test::error_of([&] { (void)trainer.read_values(Tensor()); }),
                  test::is_error(ErrorCode::kInvalidArgument, "read_values: an operand is an empty Tensor"));
      const auto has_no_gradient = [&] {
        EXPECT_THAT(test::error_of([&] { (void)trainer.read_values("gradient/w"); }),
                    test::is_error(ErrorCode::kFailedPrecondition, "a step may keep no gradients"));
      };
      has_no_gradient();
      trainer.step();
      has_no_gradient();
      trainer.launch_gradients();
      EXPECT_EQ(trainer.read_values("gradient/w").size(), 1U);
      trainer.grad_sync();
      trainer.update();
      has_no_gradient();
    });
  }
}

TEST(LearningRate, MayReadData) {
  const Tensor rates = tensor<float>({0.01F, 0.03F, 0.02F}, {3}, "rates");
  const Symbol turn{"turn", 0, 3, 1};
  const std::vector<float> expected = {0.01F, 0.03F, 0.02F, 0.01F};
  for (const std::int64_t shards : {1, 2, 3}) {
    for (const Placement placement : {Placement::kOwner, Placement::kEverywhere, Placement::kSharded}) {
      Line line;
      DataParallelOptions options = options_for(shards, 0);
      options.learning_rate = rates[turn];
      options.bindings = {turn};
      options.placement = placement;
      options.reduction = Reduction::kSum;
      data_parallel(options, kInputs, tensor<float>({2, 4, 6, 8}, {4}), line.loss(), [&](Trainer& trainer) {
        double w = 0.5;
        for (const float rate : expected) {
          trainer.step();
          EXPECT_EQ(trainer.learning_rate_value(), static_cast<double>(rate));
          w -= static_cast<double>(rate) * 2 * (w - 2) * 30;  // the sum of squares of the inputs is 30
          EXPECT_NEAR(trainer.read_values("w")[0], w, 1e-5);
        }
      });
    }
  }
  DataParallelOptions refused = options_for(1, 0);
  Line line;
  refused.learning_rate = line.w.tensor() * 0.1F;
  EXPECT_THAT(
      test::error_of([&] { data_parallel(refused, kInputs, kInputs, line.loss(), [](Trainer&) {}); }),
      test::is_error(ErrorCode::kInvalidArgument, "learning_rate uses 'w'; it may use numbers, host data"));
}

TEST(SyncParamsToHost, CopiesTheOwnersParametersIntoTheModel) {
  for (const std::int64_t shards : {1, 2}) {
    Line line;
    DataParallelOptions options = options_for(shards, 0.05F);
    options.reduction = Reduction::kSum;
    data_parallel(options, kInputs, tensor<float>({2, 4, 6, 8}, {4}), line.loss(), [&](Trainer& trainer) {
      trainer.step();
      EXPECT_EQ(line.w.float_values()[0], 0.5F);  // a step copies nothing to the host
      trainer.sync_params_to_host();
      EXPECT_EQ(line.w.float_values()[0], 5.0F);
      trainer.step();
    });
    EXPECT_EQ(line.w.float_values()[0], -4.0F);  // 5 - 0.05 * 2 * (5 - 2) * 30, by data_parallel itself
  }
}

TEST(TwoTrainers, ShareNothing) {
  const Tensor targets = tensor<float>({2, 4, 6, 8}, {4});
  DataParallelOptions options = options_for(2, 0.05F);
  options.reduction = Reduction::kSum;
  Line outer;
  Line inner;
  data_parallel(options, kInputs, targets, outer.loss(), [&](Trainer& first) {
    data_parallel(options, kInputs, targets, inner.loss(), [&](Trainer& second) {
      second.step();
      EXPECT_EQ(second.read_values("w")[0], 5.0F);
      EXPECT_EQ(first.read_values("w")[0], 0.5F);
    });
    EXPECT_EQ(inner.w.float_values()[0], 5.0F);
    first.step();
    EXPECT_EQ(first.read_values("w")[0], 5.0F);
  });
}

TEST(StreamUseTest, ChangesTheNumberOfStreams) {
  // The default of the trainer and of hand-written loops is the most.
  const auto backend = test_runtime()->backend(backend_name());
  EXPECT_EQ(DataParallelOptions().stream_use, StreamUse::kMostParallelStreams);
  EXPECT_EQ(get_all_suggested_streams(backend).size(),
            get_all_suggested_streams(backend, 1U << 20, StreamUse::kMostParallelStreams).size());
  EXPECT_EQ(get_all_suggested_streams(backend, 100, StreamUse::kOnlyDevicesParallel).size(),
            backend->device_count());
  for (const StreamUse use : {StreamUse::kOnlyDevicesParallel, StreamUse::kMostParallelStreams}) {
    DataParallelOptions options = options_for(1, 0.1F);
    options.shards.reset();
    options.stream_use = use;
    Line line;
    const std::uint32_t shards = data_parallel(options, kInputs, kInputs, line.loss(),
                                               [](Trainer& trainer) { return trainer.shards(); });
    std::uint32_t expected = 0;
    for (std::uint32_t i = 0; i < backend->device_count(); ++i) {
      expected += suggested_stream_count(backend->device_info(i), use);
    }
    EXPECT_EQ(shards, expected);
  }
}

TEST(OwnerLoss, IsThatOfTheOwnersRows) {
  std::vector<float> x(8, HUGE_VALF);
  x[0] = 2;
  const Parameter w("w", {}, Initializer::constant(1));
  data_parallel(
      options_for(8, 0.0F), tensor(x, {8}), tensor(x, {8}),
      [&](const Tensor& a, const Tensor&) { return w.tensor() + mean(a); },
      [&](Trainer& trainer) {
        trainer.step();
        EXPECT_EQ(trainer.owner_loss_value(), 3);
      });
}

}  // namespace
}  // namespace yoke::testing
