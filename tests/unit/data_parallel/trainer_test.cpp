// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/trainer_test.cpp: uses of a trainer: stopped epochs, restored parameters, replicas
// that differ, calls in the wrong order, symbols of a step, mean losses, evaluations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <yoke/program/text.h>

#include <cstring>
#include <filesystem>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;
using ::testing::HasSubstr;

// Calls body(trainer) for a linear layer with momentum and 8 rows of data, in batches of 2 rows.
void train(std::int64_t shards, MergeStrategy strategy, const std::function<void(Trainer&)>& body) {
  DataParallelOptions options = options_for(shards, 0.1F);
  options.merge = strategy;
  options.optimizer = Sgd{.momentum = 0.9};
  options.batch_size = 2;
  options.check_replicas_every = 1;
  const auto model = nn::linear(2);
  data_parallel(
      options, tensor(some_numbers(24, 1), {8, 3}), tensor(some_numbers(16, 2), {8, 2}),
      [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); }, body);
}

TEST(RestoredParameters, ReachAllShardsUnderEveryStrategy) {
  const auto path =
      std::filesystem::temp_directory_path() / ("yoke_trainer_" + std::to_string(::getpid()) + ".npz");
  for (const MergeStrategy strategy : kStrategies) {
    train(2, strategy, [&](Trainer& trainer) {
      trainer.step();
      const std::vector<float> saved = all_values(trainer);
      trainer.save_params(path);
      trainer.step();
      EXPECT_NE(all_values(trainer), saved);

      trainer.restore_params(path);

      EXPECT_EQ(all_values(trainer), saved);
      for (const Shard& shard : trainer.shard_list()) {
        for (const Parameter& parameter : trainer.owner_params()) {
          std::vector<std::byte> replica(parameter.byte_count());
          shard.context.to_host(parameter.name(), replica);
          shard.context.stream()->wait();
          const std::vector<float> owner = trainer.read_values(parameter.name());
          EXPECT_EQ(std::memcmp(replica.data(), owner.data(), replica.size()), 0)
              << parameter.name() << " of shard " << shard.number << ", " << merge_strategy_name(strategy);
        }
      }
      trainer.step();
    });
  }
  std::filesystem::remove(path);
}

TEST(CheckReplicas, NamesTheShardTheParameterAndTheElementThatDiffer) {
  train(3, MergeStrategy::kOwner, [](Trainer& trainer) {
    trainer.step();
    const std::string name = trainer.owner_params()[0].name();
    const Shard& shard = trainer.shard_list()[1];
    std::vector<float> values = trainer.read_values(name);
    values[4] += 1.0F;
    shard.context.from_host(name, std::as_bytes(std::span(values)));
    shard.context.stream()->wait();
    EXPECT_THAT(error_of([&] { trainer.advance(); }),
                is_error(ErrorCode::kDataLoss, "shard 1 and the owner differ", name, "first at element 4"));
  });
}

TEST(RunEpoch, StopsWhenToldAndThenRunsTheRest) {
  train(2, MergeStrategy::kAuto, [](Trainer& trainer) {
    ASSERT_EQ(trainer.steps_per_epoch(), 4);
    std::vector<std::int64_t> seen;
    const auto note = [&](std::int64_t step) {
      seen.push_back(step);
      return step != 1;
    };
    EXPECT_FALSE(trainer.run_epoch(note));
    EXPECT_EQ(trainer.step_count(), 2);
    EXPECT_TRUE(trainer.run_epoch(note));
    EXPECT_EQ(trainer.step_count(), 4);
    EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3}));
    EXPECT_TRUE(trainer.run_epoch());
    EXPECT_EQ(trainer.step_count(), 8);
  });
}

TEST(Losses, NeedAStep) {
  train(2, MergeStrategy::kAuto, [](Trainer& trainer) {
    EXPECT_THAT(error_of([&] { (void)trainer.owner_loss_value(); }),
                is_error(ErrorCode::kFailedPrecondition, "no step has run yet"));
    EXPECT_THAT(error_of([&] { (void)trainer.loss_value(); }),
                is_error(ErrorCode::kFailedPrecondition, "no step has run yet"));
    EXPECT_THAT(error_of([&] { (void)trainer.mean_loss(); }),
                is_error(ErrorCode::kFailedPrecondition, "no step has run"));
  });
}

TEST(GradSync, MergesOncePerStep) {
  for (const MergeStrategy strategy : kStrategies) {
    train(2, strategy, [](Trainer& trainer) {
      trainer.launch_gradients();
      trainer.grad_sync();
      EXPECT_THAT(error_of([&] { trainer.grad_sync(); }),
                  is_error(ErrorCode::kFailedPrecondition, "already merged"));
      trainer.update();
      trainer.advance();
      trainer.launch_gradients();
      trainer.grad_sync();
    });
  }
}

TEST(SetBatch, RejectsOtherTypesAndTensorsWithoutData) {
  train(2, MergeStrategy::kAuto, [](Trainer& trainer) {
    const Tensor inputs = tensor(some_numbers(24, 3), {8, 3});
    const Tensor targets = tensor(some_numbers(16, 4), {8, 2});
    const Tensor invalid[] = {Tensor(), placeholder("y", Type::kF32, {8, 2}),
                              tensor(std::vector<double>(16), {8, 2}), tensor(some_numbers(16, 4), {2, 8})};
    const std::vector<float> before = trainer.read_values("targets");
    for (const Tensor& one : invalid) {
      EXPECT_THAT(error_of([&] { trainer.set_batch(inputs, one); }),
                  is_error(ErrorCode::kInvalidArgument, "targets must be host data of shape [8, 2]"));
    }
    EXPECT_EQ(trainer.read_values("targets"), before);
    trainer.set_batch(inputs, targets);
    EXPECT_NE(trainer.read_values("targets"), before);
  });
}

TEST(Devices, AreOpenedOnceForAllTheirShards) {
  DataParallelOptions options = options_for(5, 0.1F);
  int opened = 0;
  const auto control = std::make_shared<test::Control>();
  control->device_count = 2;
  control->on_open = [&](const sdk::Options&) { ++opened; };
  test::register_backend(*options.runtime, 0, control);
  options.backend_name = "test0";
  const Parameter w("w", {}, Initializer::constant(1));
  const auto run = [&] {
    data_parallel(
        options, Batch{{"x", tensor<float>({1, 2, 3, 4, 5}, {5})}},
        [&](const Batch& batch) { return mean(batch["x"] * w.tensor()); },
        [](Trainer& trainer) { trainer.step(); });
  };
  run();
  EXPECT_EQ(opened, 2);
  const auto device = options.runtime->backend("test0")->open_device(0);
  options.prior_contexts = {Context(Stream::create(device)), Context(Stream::create(device))};
  options.shards.reset();
  run();
  EXPECT_EQ(opened, 3) << "the device of prior contexts was opened again";
}

TEST(InitialValues, AreNotComputedIfAllParametersHaveValues) {
  DataParallelOptions options = options_for(2, 0.1F);
  int start_count = 0;
  const auto control = std::make_shared<test::Control>();
  control->on_compile = [&](std::string_view text) {
    start_count += text.find("program start") != std::string_view::npos ? 1 : 0;
  };
  test::register_backend(*options.runtime, 0, control);
  options.backend_name = "test0";
  const Parameter w("w", {}, Initializer::constant(1));
  for (int run = 0; run < 2; ++run) {  // the second run continues from the values of the first one
    data_parallel(
        options, Batch{{"x", tensor<float>({1, 2}, {2})}},
        [&](const Batch& batch) { return mean(batch["x"] * w.tensor()); }, [](Trainer&) {});
    EXPECT_EQ(start_count, 1) << "run " << run;
  }
}

TEST(CollectiveTensors, OfATrainerOrderOtherStreamsWithoutBlockingTheHost) {
  for (const MergeStrategy strategy : kStrategies) {
    train(2, strategy, [&](Trainer& trainer) {
      const Parameter& w = trainer.owner_params()[0];
      const auto shards = trainer.shard_list();
      const auto consumer = Stream::create(shards[0].stream->device(), "consumer");
      std::vector<float> values(w.byte_count() / sizeof(float));
      const auto expect_ordered = [&](Gate& gate, const CollectiveTensor& result, const std::string& name) {
        EXPECT_FALSE(result.is_done()) << name;
        const ContextTensor& tensor = result.resolve(*consumer);
        EXPECT_TRUE(gate.was_open_for(*consumer)) << name << ", " << merge_strategy_name(strategy);
        EXPECT_TRUE(result.is_done()) << name;
        consumer->to_host(values.data(), tensor.view);
        consumer->wait();
        EXPECT_EQ(values, trainer.read_values(name));
      };
      {
        Gate gate;
        gate.hold(*shards[1].stream);
        trainer.launch_gradients();
        trainer.grad_sync();
        expect_ordered(gate, trainer.merged_gradient(w), "gradient/" + w.name());
      }
      {
        Gate gate;
        gate.hold(*shards[0].stream);
        gate.hold(*shards[1].stream);
        trainer.update();
        expect_ordered(gate, trainer.replica(1, w), w.name());
      }
      trainer.advance();
      EXPECT_THAT(error_of([&] { (void)trainer.merged_gradient(w); }),
                  is_error(ErrorCode::kFailedPrecondition, "call grad_sync() first"));
      EXPECT_THAT(error_of([&] { (void)trainer.replica(2, w); }),
                  is_error(ErrorCode::kOutOfRange, "no shard 2 of 2"));
      const Parameter foreign("foreign", {}, Initializer::zeros());
      EXPECT_THAT(error_of([&] { (void)trainer.replica(0, foreign); }),
                  is_error(ErrorCode::kNotFound, "'foreign' is not a parameter of the model"));
    });
  }
}

TEST(SyncRun, BindsEachSymbolByItsName) {
  const auto runtime = test_runtime();
  Context context(Stream::create(runtime->backend(backend_name())->open_device(0)));
  const Symbol outer{"m", 0, 3, 1};
  const Symbol inner{"a", 10, 12, 1};
  const Tensor value = cast(symbol_value(outer), Type::kF32) * 100.0F + cast(symbol_value(inner), Type::kF32);
  const Lowered lowered = lower("number", {{"y", value}});
  allocate_missing(context, lowered);
  const auto routine = context.link(compile(context.stream()->device(), program::print(lowered.program)),
                                    "number", context_names(lowered));
  std::vector<float> seen;
  const auto note = [&] {
    float y = 0;
    context.to_host("y", std::as_writable_bytes(std::span(&y, 1)));
    context.stream()->wait();
    seen.push_back(y);
  };
  std::vector<Binding> loop = {{outer, 0, true}, {inner, 10, true}};
  sync_run(context, routine, lowered, loop, note);
  EXPECT_EQ(seen, (std::vector<float>{10, 11, 110, 111, 210, 211}));

  std::vector<Binding> without_inner = {{outer, 0, true}};
  EXPECT_THAT(error_of([&] { sync_run(context, routine, lowered, without_inner, note); }).what(),
              HasSubstr("symbol 'a' has no binding"));
}

TEST(Bindings, AdvanceEveryStepWithTheLastFastest) {
  const Symbol outer{"outer", 0, 2, 1};
  const Symbol inner{"inner", 0, 3, 1};
  DataParallelOptions options = options_for(2, 1.0F);
  options.bindings = {outer, inner};
  const Tensor number = cast(symbol_value(outer) * 10 + symbol_value(inner), Type::kF32);
  const Parameter w("w", {}, Initializer::zeros());
  std::vector<double> seen;
  data_parallel(
      options, tensor<float>({1, 1}, {2}), tensor<float>({0, 0}, {2}),
      [&](const Tensor& x, const Tensor& y) { return mean(x * w.tensor()) * 0.0F + number + mean(y); },
      [&](Trainer& trainer) {
        for (int i = 0; i < 7; ++i) {
          trainer.step();
          seen.push_back(trainer.loss_value());
        }
      });
  EXPECT_EQ(seen, (std::vector<double>{0, 1, 2, 10, 11, 12, 0}));
}

TEST(MeanLoss, UsesTheGivenReductionOrTheOneOfTheOptions) {
  // Three batches, with row losses of 1 2 3, 4 5 6 and 7.
  const Parameter w("w", {}, Initializer::constant(1));
  for (const int shards : {2, 4}) {
    const double sum_of_shards = shards == 2 ? (4.5 + 10.5 + 7) / 3 : 28.0 / 3;
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
      DataParallelOptions options = options_for(shards, 0.0F);
      options.reduction = reduction;
      options.batch_size = 3;
      const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6, 7}, {7});
      data_parallel(
          options, x, x, [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); },
          [&](Trainer& trainer) {
            const double expected[] = {14.0 / 3, sum_of_shards};
            for (const Reduction shown : {Reduction::kMean, Reduction::kSum}) {
              trainer.run_epoch();
              EXPECT_DOUBLE_EQ(trainer.mean_loss(shown), expected[shown == Reduction::kSum]) << shards;
            }
            trainer.run_epoch();
            EXPECT_DOUBLE_EQ(trainer.mean_loss(), expected[reduction == Reduction::kSum]) << shards;
            EXPECT_THROW(trainer.mean_loss(), Error);
          });
    }
  }
}

TEST(Evaluation, UsesTheSymbolsOfTheLatestStep) {
  const Symbol phase{"phase", 5, 8, 1};
  const Symbol step{"step", 100, 200, 10};
  DataParallelOptions options = options_for(2, 0.0F);
  options.bindings = {phase, step};
  const Parameter w("w", {}, Initializer::constant(1));
  const Tensor x = tensor<float>({1, 1}, {2});
  Evaluation evaluation;
  data_parallel(
      options, x, x, [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); },
      [&](Trainer& trainer) {
        evaluation = trainer.evaluation(x, x, [&](const Tensor&, const Tensor&) {
          return std::vector<Tensor>{cast(symbol_value(phase), Type::kF32),
                                     cast(symbol_value(step), Type::kF32)};
        });
        EXPECT_EQ(evaluation.run(), (std::vector<double>{5, 100}));  // those of the first step
        trainer.step();
        EXPECT_EQ(evaluation.run(), (std::vector<double>{5, 100}));
        trainer.step();
        trainer.step();
        EXPECT_EQ(evaluation.run(), (std::vector<double>{7, 120}));
      });
  EXPECT_EQ(evaluation.run(), (std::vector<double>{7, 120}));  // outlives the trainer
}

TEST(Evaluation, AveragesOverAllRowsForAnyBatchSize) {
  DataParallelOptions options = options_for(3, 0.0F);
  const Parameter w("w", {}, Initializer::constant(2));
  std::vector<float> x(10);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
  }
  data_parallel(
      options, tensor(x, {10}), tensor(x, {10}),
      [&](const Tensor& a, const Tensor& b) { return mse(a * w.tensor(), b); },
      [&](Trainer& trainer) {
        auto evaluation = trainer.evaluation(
            tensor(x, {10}), tensor(x, {10}),
            [&](const Tensor& a, const Tensor& b) {
              return std::vector<Tensor>{mean(a * w.tensor()), mean(b)};
            },
            4);
        EXPECT_EQ(evaluation.run(), (std::vector<double>{9.0, 4.5}));
        EXPECT_EQ(evaluation.run(), (std::vector<double>{9.0, 4.5}));
      });
}

}  // namespace
}  // namespace yoke::testing
