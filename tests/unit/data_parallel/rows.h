// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/rows.h: trains on shards with different numbers of rows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common.h"
#include "error_of.h"

namespace yoke::testing::rows {

inline constexpr std::uint64_t kRows = 44;  // three batches of 12 rows, and one of 8
inline constexpr std::uint64_t kWidth = 6;
inline constexpr std::int64_t kBatch = 12;
inline constexpr std::int64_t kBatches = 4;
inline constexpr int kSteps = 9;

using Weights = std::vector<std::int64_t>;

struct Setting {
  std::int64_t shards = 1;
  bool varying = false;
  bool fed = false;
  std::vector<Weights> weights = {};  // set before the steps, in turn; none are set if it is empty
  Weights fixed_weights = {};
  std::int64_t accumulate = 1;
  std::int64_t reproducible = 0;
  MergeStrategy merge = MergeStrategy::kAuto;
  Placement placement = Placement::kAuto;
  Reduction reduction = Reduction::kMean;
  Overlap overlap = Overlap::kOff;
  std::uint32_t delay_us = 0;
  bool in_parts = false;  // calls the functions that make up a step
  double dropout = 0;
};

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;
  double mean_loss = 0;
  std::vector<std::vector<std::int64_t>> rows;  // of each step and shard
  std::uint64_t compiled = 0;                   // programs, by the steps
};

inline std::string text_of(const Setting& setting) {
  return std::to_string(setting.shards) + " shards, " + (setting.varying ? "varying, " : "") +
         (setting.fed ? "fed, " : "") + "accumulate " + std::to_string(setting.accumulate) +
         ", reproducible " + std::to_string(setting.reproducible) + ", merge " +
         merge_strategy_name(setting.merge) + ", placement " + placement_name(setting.placement) +
         (setting.reduction == Reduction::kSum ? ", sum" : "");
}

inline std::vector<std::int32_t> labels() {
  std::vector<std::int32_t> made(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    made[i] = static_cast<std::int32_t>(i * 7 % 3);
  }
  return made;
}

inline Batch batch_of(std::int64_t number) {
  const std::uint64_t begin = static_cast<std::uint64_t>(number % kBatches) * kBatch;
  const std::uint64_t count = std::min<std::uint64_t>(kBatch, kRows - begin);
  const std::vector<float> x = some_numbers(kRows * kWidth, 1);
  const std::vector<std::int32_t> y = labels();
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin * kWidth);
  return {
      tensor(std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count * kWidth)), {count, kWidth}),
      tensor(std::vector<std::int32_t>(y.begin() + static_cast<std::ptrdiff_t>(begin),
                                       y.begin() + static_cast<std::ptrdiff_t>(begin + count)),
             {count})};
}

inline DataParallelOptions options_of(const Setting& setting) {
  RuntimeOptions delayed;
  delayed.injected_delay_us = setting.delay_us;
  DataParallelOptions options = options_for(setting.shards, 0.05F);
  options.runtime = test_runtime(delayed);
  options.batch_size = kBatch;
  options.varying_rows = setting.varying;
  options.row_weights = setting.fixed_weights;
  options.accumulate = setting.accumulate;
  options.reproducible = setting.reproducible;
  options.merge = setting.merge;
  options.placement = setting.placement;
  options.reduction = setting.reduction;
  options.overlap = setting.overlap;
  options.optimizer = Sgd{0.9, 1e-3, true};
  options.check_replicas_every = 1;
  return options;
}

inline void take_step(Trainer& trainer, bool in_parts) {
  if (!in_parts) {
    trainer.step();
    return;
  }
  trainer.launch_gradients();
  trainer.grad_sync();
  trainer.update();
  trainer.advance();
}

inline Outcome run(const Setting& setting, const DataParallelOptions& options,
                   const std::function<void(Trainer&)>& at_end = {}) {
  Outcome result;
  const auto model = setting.dropout == 0
                         ? nn::sequential(nn::linear(16), nn::tanh(), nn::linear(3))
                         : nn::sequential(nn::linear(16), nn::dropout(setting.dropout), nn::linear(3));
  const auto reduce = setting.reduction == Reduction::kMean ? Reduce::kMean : Reduce::kSum;
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y, reduce); };
  const auto body = [&](Trainer& trainer) {
    const std::uint64_t compiled = compile_count(*options.runtime);
    for (std::size_t i = 0; i < kSteps; ++i) {
      if (!setting.weights.empty()) {
        trainer.set_row_weights(setting.weights[i % setting.weights.size()]);
      }
      take_step(trainer, setting.in_parts);
      result.losses.push_back(trainer.loss_value());
      auto& rows = result.rows.emplace_back();
      for (const Shard& shard : trainer.shard_list()) {
        rows.push_back(shard.rows);
      }
    }
    result.compiled = compile_count(*options.runtime) - compiled;
    result.values = all_values(trainer);
    result.mean_loss = trainer.mean_loss();
    EXPECT_EQ(trainer.first_bad_step(), std::nullopt);
    if (at_end) {
      at_end(trainer);
    }
  };
  if (setting.fed) {
    data_parallel(options, {{YOKE_TYPE_F32, {kRows, kWidth}}, {YOKE_TYPE_I32, {kRows}}, batch_of}, loss_of,
                  body);
  } else {
    data_parallel(options, tensor(some_numbers(kRows * kWidth, 1), {kRows, kWidth}),
                  tensor(labels(), {kRows}), loss_of, body);
  }
  return result;
}

inline Outcome run(const Setting& setting) {
  return run(setting, options_of(setting));
}

inline void expect_equal(const Outcome& got, const Outcome& expected, const Setting& setting) {
  EXPECT_EQ(got.values, expected.values) << text_of(setting);
  EXPECT_EQ(got.losses, expected.losses) << text_of(setting);
}

inline void expect_near(const Outcome& got, const Outcome& expected, const Setting& setting) {
  // 9 steps with sums of at most 64 f32 terms: 64 * 9 * 2^-24, relative to values around 1; sums of 12 rows.
  const double tolerance = 64 * 9 * 6e-8 * (setting.reduction == Reduction::kSum ? 12 : 1);
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    ASSERT_NEAR(got.values[i], expected.values[i], tolerance * (1 + std::abs(expected.values[i])))
        << text_of(setting) << ", element " << i;
  }
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    ASSERT_NEAR(got.losses[i], expected.losses[i], tolerance * (1 + expected.losses[i]))
        << text_of(setting) << ", step " << i;
  }
  EXPECT_NEAR(got.mean_loss, expected.mean_loss, tolerance * (1 + expected.mean_loss)) << text_of(setting);
}

}  // namespace yoke::testing::rows
