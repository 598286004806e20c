// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/failing_test.cpp: trainers on devices that block or fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "common.h"
#include "error_of.h"
#include "expected_leak.h"
#include "rig.h"

namespace yoke::testing {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::is_error;
using ::testing::HasSubstr;

class FailingDevice : public ::testing::TestWithParam<test::Streams> {
 protected:
  void train(std::int64_t shards, const std::function<void(Trainer&)>& body) {
    RuntimeOptions runtime_options;
    runtime_options.wait_timeout = timeout;
    runtime_options.log_level = LogLevel::kOff;
    options.runtime = test_runtime(runtime_options);
    test::register_backend(*options.runtime, 0, control);
    options.backend_name = "test0";
    options.shards = shards;
    const auto model = nn::linear(1);
    data_parallel(
        options, tensor(some_numbers(24, 1), {8, 3}), tensor(some_numbers(8, 2), {8, 1}),
        [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); }, body);
  }

  const std::shared_ptr<test::Control> control = test::Rig::make_control(GetParam());
  std::chrono::milliseconds timeout = 10s;
  DataParallelOptions options = options_for(2, 0.1F);
};
INSTANTIATE_TEST_SUITE_P(Streams, FailingDevice,
                         ::testing::Values(test::Streams::kWorker, test::Streams::kNative),
                         test::streams_name);

TEST_P(FailingDevice, ErrorNamesTheStepOfTheFailedWork) {
  EXPECT_THAT(error_of([&] {
                train(2, [&](Trainer& trainer) {
                  for (int i = 0; i < 3; ++i) {
                    trainer.step();
                  }
                  trainer.wait();
                  control->fail_after = 0;
                  for (int i = 0; i < 10; ++i) {
                    trainer.step();
                  }
                });
              }),
              is_error(ErrorCode::kInternal, "'shard ", ", step 3", "injected"));
}

// Each call of a step fails once: the error names the call, nothing hangs, and everything is closed.
TEST_P(FailingDevice, EveryCallOfAStepFailsOnce) {
  for (const auto& [strategy, placement] : strategies_and_placements()) {
    options.merge = strategy;
    options.placement = placement;
    std::int64_t call_count = 1;
    for (std::int64_t good = 0; good < call_count; ++good) {
      SCOPED_TRACE(std::string(merge_strategy_name(strategy)) + ", " + placement_name(placement) + ", call " +
                   std::to_string(good));
      const Error error = error_of([&] {
        train(2, [&](Trainer& trainer) {
          const auto step = [&] {
            trainer.step();
            trainer.wait();
          };
          step();
          const std::uint64_t before = control->call_count;
          step();
          call_count = static_cast<std::int64_t>(control->call_count - before);
          control->fail_after = good;
          step();
        });
      });
      EXPECT_THAT(error, is_error(ErrorCode::kInternal, "'shard ", " on test0:", ", step 2", " of ",
                                  "injected this failure"))
          << "as in \"launch of 'gradient'\"";
      const yoke_live_counts live = options.runtime->backend("test0")->live_counts();
      EXPECT_EQ(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines, 0U);
    }
    EXPECT_GE(call_count, 4);  // a gradient and an update on each shard
  }
}

// The other shards fail, too, because they wait for the results of the lost device.
TEST_P(FailingDevice, ErrorNamesTheWorkThatLostTheDevice) {
  control->fail_code = YOKE_STATUS_DEVICE_LOST;
  control->delay_us = 300;
  control->delay_seed = 1;
  std::set<std::string> all_lost;
  std::int64_t call_count = 1;
  for (std::int64_t good = 0; good < 2 * call_count; ++good) {
    std::set<std::string> lost;
    const Error error = error_of([&] {
      train(4, [&](Trainer& trainer) {
        Evaluation evaluation =
            trainer.evaluation(tensor(some_numbers(8, 1), {8, 1}), tensor(some_numbers(8, 2), {8, 1}),
                               [](const Tensor& x, const Tensor&) { return std::vector<Tensor>{mean(x)}; });
        trainer.step();
        trainer.wait();
        const std::uint64_t before = control->call_count;
        trainer.step();
        trainer.wait();
        call_count = static_cast<std::int64_t>(control->call_count - before);
        control->fail_after = good;
        const Error failed = error_of([&] {
          for (int i = 0; i < 4; ++i) {
            trainer.step();
            if (good % 2 != 0) {
              evaluation.run();
            }
          }
          trainer.wait();
        });
        for (const Shard& shard : trainer.shard_list()) {
          if (shard.stream->device()->is_lost()) {
            lost.insert(shard.stream->device()->name());
          }
        }
        throw Error(failed);
      });
    });
    ASSERT_EQ(lost.size(), 1U) << "call " << good;
    EXPECT_THAT(error, is_error(ErrorCode::kDeviceLost, " on " + *lost.begin(), "injected this failure"))
        << "call " << good;
    all_lost.merge(lost);
  }
  EXPECT_EQ(all_lost.size(), 2U) << "each device is lost in some call";
}

TEST_P(FailingDevice, ReasonOfALostShardNamesItsOwnWork) {
  options.on_device_lost = OnDeviceLost::kRedistribute;
  control->fail_code = YOKE_STATUS_DEVICE_LOST;
  control->delay_us = 300;
  control->delay_seed = 1;
  std::set<std::string> all_lost;
  std::int64_t call_count = 1;
  for (std::int64_t good = 0; good < call_count; ++good) {
    SCOPED_TRACE("call " + std::to_string(good));
    train(2, [&](Trainer& trainer) {
      trainer.step();
      const std::uint64_t before = control->call_count;
      trainer.step();
      call_count = static_cast<std::int64_t>(control->call_count - before);
      control->fail_after = good;
      trainer.step();
      ASSERT_EQ(trainer.lost_shards().size(), 1U);
      const LostShard& lost = trainer.lost_shards()[0];
      EXPECT_THAT(lost.reason,
                  ::testing::AllOf(HasSubstr("on " + lost.device), HasSubstr("injected this failure"),
                                   ::testing::Not(HasSubstr("it waited"))));
      all_lost.insert(lost.device);
    });
  }
  EXPECT_EQ(all_lost.size(), 2U) << "each device is lost in some call";
}

// Three shards on devices of their own. Shard 0 merges the gradients.
class FailingShard : public ::testing::Test {
 protected:
  void train(const std::function<void(Trainer&)>& body) {
    RuntimeOptions runtime_options;
    runtime_options.wait_timeout = timeout;
    runtime_options.log_level = LogLevel::kOff;
    DataParallelOptions options = options_for(3, 0.1F);
    options.runtime = test_runtime(runtime_options);
    options.backend_name = "test0:1,test1:1,test2:1";
    options.merge = MergeStrategy::kOwner;
    options.placement = Placement::kEverywhere;
    options.check_replicas_every = check_every;
    for (int k = 0; k < 3; ++k) {
      controls.push_back(test::register_backend(*options.runtime, k));
    }
    const Parameter w("w", {2}, Initializer::zeros());
    data_parallel(
        options, tensor(some_numbers(12, 1), {6, 2}), tensor(some_numbers(6, 2), {6}),
        [&](const Tensor& x, const Tensor& y) {
          return mean(einsum("ni,i->n", {x, w.tensor()}) * y);
        },
        body);
  }
  void fail_next(std::size_t shard, std::int32_t code) {
    controls[shard]->fail_code = code;
    controls[shard]->fail_after = 0;
  }

  std::vector<std::shared_ptr<test::Control>> controls;
  std::chrono::milliseconds timeout = 10s;
  std::uint64_t check_every = 0;
};

// The others fail because they wait for its results.
TEST_F(FailingShard, ErrorIsOfTheShardThatFailedFirst) {
  for (const std::int32_t code : {YOKE_STATUS_INTERNAL, YOKE_STATUS_DEVICE_LOST}) {
    for (std::size_t failing = 0; failing < 3; ++failing) {
      const Error error = error_of([&] {
        train([&](Trainer& trainer) {
          fail_next(failing, code);
          trainer.step();
          trainer.wait();
        });
      });
      EXPECT_THAT(error, is_error(static_cast<ErrorCode>(code),
                                  "(): stream 'shard " + std::to_string(failing), "injected this failure"));
      controls.clear();
    }
  }
}

TEST_F(FailingShard, ErrorIsOfALostDeviceIfThereIsOne) {
  const Error error = error_of([&] {
    train([&](Trainer& trainer) {
      controls[2]->is_blocked = true;
      fail_next(1, YOKE_STATUS_INTERNAL);
      trainer.launch_gradients();
      EXPECT_ERROR(ErrorCode::kInternal, trainer.shard_list()[1].stream->wait());
      fail_next(2, YOKE_STATUS_DEVICE_LOST);
      controls[2]->is_blocked = false;
      EXPECT_ERROR(ErrorCode::kDeviceLost, trainer.shard_list()[2].stream->wait());
      trainer.wait();
    });
  });
  EXPECT_THAT(error, is_error(ErrorCode::kDeviceLost, "'shard 2", "injected this failure"));
}

TEST_F(FailingShard, ErrorIsNotOfAShardThatHasNotFailed) {
  const Error error = error_of([&] {
    train([&](Trainer& trainer) {
      const std::span<const Shard> shards = trainer.shard_list();
      fail_next(2, YOKE_STATUS_INTERNAL);
      trainer.launch_gradients();
      shards[1].stream->wait_for(shards[2].stream->record());
      trainer.wait();
    });
  });
  EXPECT_THAT(error, is_error(ErrorCode::kInternal, "wait(): stream 'shard 2", "injected this failure"));
}

TEST_F(FailingShard, MissedDeadlineIsTheErrorEvenIfAnotherShardHasFailed) {
  timeout = 1s;
  EXPECT_ERROR(ErrorCode::kInternal, train([&](Trainer& trainer) {
                 controls[0]->is_blocked = true;
                 fail_next(1, YOKE_STATUS_INTERNAL);
                 trainer.launch_gradients();
                 EXPECT_ERROR(ErrorCode::kDeadlineExceeded, trainer.wait());
                 controls[0]->is_blocked = false;
                 trainer.shard_list()[0].stream->wait(30s);
                 trainer.wait();
               }));
}

TEST_F(FailingShard, ReplicasAreComparedAfterEveryThirdStep) {
  check_every = 3;
  train([&](Trainer& trainer) {
    trainer.step();
    const float other = 7;
    BufferView second = trainer.replica(1, trainer.owner_params()[0]).assume_resolved().view;
    second.offset += sizeof(other);
    second.byte_count = sizeof(other);
    trainer.shard_list()[1].stream->fill(second, &other, sizeof(other));
    EXPECT_NO_THROW(trainer.step());
    EXPECT_THAT(error_of([&] { trainer.step(); }),
                is_error(ErrorCode::kDataLoss, "comparison of the replicas",
                         "shard 1 and the owner differ in parameter 'w', first at element 1"));
  });
}

TEST_P(FailingDevice, AtMostStepsAheadStepsAreQueued) {
  timeout = 300ms;
  options.steps_ahead = 3;
  if (GetParam() == test::Streams::kWorker) {
    options.overlap =
        Overlap::kOff;  // a worker thread that merges would wait for gradients, with the same deadline
  }
  train(2, [&](Trainer& trainer) {
    control->is_blocked = true;
    for (int i = 0; i < 3; ++i) {
      trainer.step();
    }
    EXPECT_ERROR(ErrorCode::kDeadlineExceeded, trainer.step());
    EXPECT_EQ(trainer.step_count(), 3);
    control->is_blocked = false;
    trainer.step();
    EXPECT_EQ(trainer.step_count(), 4);
  });
}

TEST_P(FailingDevice, ReadThatMissesItsDeadlineCanBeRepeated) {
  timeout = 200ms;
  train(2, [&](Trainer& trainer) {
    trainer.step();
    const double loss = trainer.loss_value();
    trainer.wait();  // also for the merging streams, which would wait for each other while blocked
    control->is_blocked = true;
    EXPECT_ERROR(ErrorCode::kDeadlineExceeded, trainer.loss_value());
    control->is_blocked = false;
    EXPECT_EQ(trainer.loss_value(), loss);
    trainer.step();
    EXPECT_LT(trainer.loss_value(), loss);
  });
}

TEST_P(FailingDevice, HungShardsEndByOneDeadline) {
  const test::ExpectedLeak leak;  // of memory that the hanging calls may still use
  timeout = 3s;
  auto missed = std::chrono::steady_clock::now();
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, train(6, [&](Trainer& trainer) {
                 trainer.step();
                 trainer.wait();
                 control->is_blocked = true;
                 trainer.step();
                 try {
                   trainer.wait();
                 } catch (const Error&) {
                   missed = std::chrono::steady_clock::now();
                   throw;
                 }
               }));
  EXPECT_LT(std::chrono::steady_clock::now() - missed, timeout) << "destructors must not wait as long again";
  control->is_blocked = false;
}

TEST_P(FailingDevice, BadOptionsAreRefusedBeforeADeviceIsOpened) {
  bool is_open = false;
  control->on_open = [&](const sdk::Options&) { is_open = true; };
  const auto message = [&](const Tensor& rate) {
    options.learning_rate = rate;
    return std::string(error_of([&] { train(2, [](Trainer&) { FAIL() << "training started"; }); }).what());
  };
  EXPECT_THAT(message(Tensor(std::nanf(""))), HasSubstr("learning_rate is nan; it must be a finite number"));
  EXPECT_THAT(message(Tensor(-0.5F)), HasSubstr("learning_rate is -0.5"));
  EXPECT_THAT(message(Tensor(INFINITY)), HasSubstr("learning_rate is inf"));
  EXPECT_THAT(message(cast(symbol_value({"epoch", 0, 4, 1}), Type::kF32)),
              HasSubstr("the symbol 'epoch' has no value; add it to options.bindings"));
  options.steps_ahead = 0;
  EXPECT_THAT(message(Tensor(0.1F)), HasSubstr("steps_ahead is 0; choose 1 to 64"));
  EXPECT_FALSE(is_open);
}

class EveryStrategy : public ::testing::TestWithParam<std::pair<std::int64_t, MergeStrategy>> {};
INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategy,
                         ::testing::Values(std::pair{1, MergeStrategy::kAuto},
                                           std::pair{2, MergeStrategy::kOwner},
                                           std::pair{3, MergeStrategy::kTree},
                                           std::pair{3, MergeStrategy::kRing},
                                           std::pair{2, MergeStrategy::kDirect}));

TEST_P(EveryStrategy, KeepsGradientsFromLaunchToUpdate) {
  DataParallelOptions options = options_for(GetParam().first, 0.1F);
  options.merge = GetParam().second;
  const auto model = nn::linear(1);
  data_parallel(
      options, tensor(some_numbers(24, 1), {8, 3}), tensor(some_numbers(8, 2), {8, 1}),
      [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
      [&](Trainer& trainer) {
        const std::string gradient = "gradient/" + trainer.owner_params()[0].name();
        trainer.step();
        EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.read_values(gradient));
        trainer.launch_gradients();
        trainer.grad_sync();
        EXPECT_EQ(trainer.read_values(gradient).size(), 3U);
        trainer.update();
        const std::vector<float> updated = all_values(trainer);
        EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.update());
        EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.read_values(gradient));
        EXPECT_EQ(all_values(trainer), updated);
      });
}

}  // namespace
}  // namespace yoke::testing
