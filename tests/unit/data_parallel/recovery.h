// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/recovery.h: trainers whose devices fail, and runs to compare them to.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common.h"
#include "error_of.h"
#include "rig.h"
#include "rounds.h"

namespace yoke::testing {

inline constexpr std::uint64_t kRows = 10;
inline constexpr std::uint64_t kWidth = 3;

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;
};

template <class T>
void expect_near(const std::vector<T>& values, const std::vector<T>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 1e-5) << "element " << i;  // sums of 10 rows, over 7 steps
  }
}

class Recovery : public ::testing::TestWithParam<test::Streams> {
 protected:
  Recovery() {
    options.on_device_lost = OnDeviceLost::kRedistribute;
    options.check_replicas_every = 1;
  }

  void make_runtime(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    RuntimeOptions runtime_options;
    runtime_options.wait_timeout = timeout;
    runtime_options.log_level = LogLevel::kWarn;
    runtime_options.log_sink = log.sink();
    options.runtime = test_runtime(runtime_options);
    control = test::Rig::make_control(GetParam());
    control->device_count = device_count;
    test::register_backend(*options.runtime, 0, control);
    options.backend_name = "test0";
  }

  void train(std::int64_t shards, const nn::Module& model, const std::function<void(Trainer&)>& body) {
    make_runtime();
    options.shards = shards;
    const auto loss_of = [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); };
    if (next) {
      data_parallel(options, Feed{{YOKE_TYPE_F32, {kRows, kWidth}}, {YOKE_TYPE_F32, {kRows, 1}}, next},
                    loss_of, body);
    } else {
      data_parallel(options, tensor(some_numbers(kRows * kWidth, 1), {kRows, kWidth}),
                    tensor(some_numbers(kRows, 2), {kRows, 1}), loss_of, body);
    }
    const yoke_live_counts live = options.runtime->backend("test0")->live_counts();
    EXPECT_EQ(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines, 0U);
  }

  static nn::Module two_layers() { return nn::sequential(nn::linear(2), nn::linear(1)); }

  // Makes one call fail, after `good` calls.
  void arm(std::int64_t good, std::int32_t code = YOKE_STATUS_INTERNAL) {
    control->fail_code = code;
    control->fail_after = good;
  }

  // The parameters of a run with `before` shards for some steps, and then with `after` shards.
  std::vector<float> values_of(std::int64_t before, int steps_before, std::int64_t after, int steps_after) {
    const DataParallelOptions kept = options;
    options.on_device_lost = OnDeviceLost::kFail;
    const auto model = two_layers();
    std::vector<float> values;
    for (const auto& [shards, steps] : {std::pair(before, steps_before), std::pair(after, steps_after)}) {
      if (steps > 0) {
        train(shards, model, [&, count = steps](Trainer& trainer) {
          for (int i = 0; i < count; ++i) {
            trainer.step();
          }
          values = all_values(trainer);
        });
      }
    }
    options = kept;
    return values;
  }

  // Seven steps. In step `lose_at`, the call after `good` ones fails.
  Outcome run(std::int64_t shards, std::int64_t lose_at, std::int64_t good, std::int32_t code) {
    Outcome result;
    const auto model = nn::sequential(nn::linear(4), nn::tanh(), nn::linear(1));
    train(shards, model, [&](Trainer& trainer) {
      Evaluation evaluation = trainer.evaluation(
          tensor(some_numbers(7 * kWidth, 3), {7, kWidth}), tensor(some_numbers(7, 4), {7, 1}),
          [&](const Tensor& x, const Tensor& y) { return std::vector<Tensor>{mse(model(x), y)}; }, 2);
      for (std::int64_t i = 0; i < 7; ++i) {
        if (i == lose_at) {
          arm(good, code);
        }
        trainer.step();
        result.losses.push_back(trainer.loss_value());
        result.losses.push_back(evaluation.run().at(0));
      }
      result.losses.push_back(trainer.mean_loss());
      result.values = all_values(trainer);
      EXPECT_EQ(trainer.step_count(), 7);
      EXPECT_EQ(trainer.lost_shards().empty(), lose_at < 0);
      EXPECT_EQ(trainer.first_bad_step(), std::nullopt);
    });
    return result;
  }

  // A loss changes only rounding. Returns the number of runs. Builds other than release check every fifth case.
  std::int64_t expect_like_without_loss(std::int64_t shards) {
    constexpr int kStride = test::rounds(6) == 6 ? 1 : 5;
    const Outcome expected = run(shards, -1, 0, YOKE_STATUS_INTERNAL);
    std::int64_t run_count = 1;
    int number = 0;
    for (const std::int64_t step : {0, 3, 6}) {
      for (const std::int32_t code : {YOKE_STATUS_INTERNAL, YOKE_STATUS_DEVICE_LOST}) {
        for (const std::int64_t good : {0, 4, 9}) {
          if (number++ % kStride != 0) {
            continue;
          }
          SCOPED_TRACE("step " + std::to_string(step) + ", code " + std::to_string(code) + ", call " +
                       std::to_string(good));
          const Outcome outcome = run(shards, step, good, code);
          ++run_count;
          expect_near(outcome.losses, expected.losses);
          expect_near(outcome.values, expected.values);
        }
      }
    }
    return run_count;
  }

  std::shared_ptr<test::Control> control;
  test::LogLines log;
  std::uint32_t device_count = 2;
  std::function<Batch(std::int64_t)> next;  // empty: the data is in memory
  DataParallelOptions options = options_for(2, 0.1F);
};

}  // namespace yoke::testing
