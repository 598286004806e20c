// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/overlap_test.cpp: gradient programs in parts, between which buckets are merged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/all_reduce.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>

#include "common.h"
#include "error_of.h"
#include "rig.h"

namespace yoke::testing {
namespace {

using namespace std::chrono_literals;

// Counts the compiled gradient programs and their parts, and holds the last one on every shard until a bucket is merged
// and updated.
class Watched {
 public:
  explicit Watched(test::Streams streams = test::Streams::kWorker)
      : control(test::Rig::make_control(streams)) {
    control->device_count = 1;  // each device compiles programs for itself
    control->on_compile = [this](std::string_view text) {
      const std::size_t at = text.find("program gradient_part_");
      if (at != std::string_view::npos) {
        part_count += 1;
        const std::string_view name = text.substr(at + std::string_view("program ").size());
        last_part = std::max(last_part, std::string(name.substr(0, name.find('('))));
      }
      whole_count += text.find("program gradient(") != std::string_view::npos ? 1 : 0;
    };
    control->on_run = [this](std::string_view program) {
      if (is_training && program == "update") {
        update_count += 1;
      } else if (is_training && program == last_part) {
        held_count += 1;
        in_time = test::wait_until([&] { return update_count > 0; }, 10s) && in_time;
      }
    };
  }

  const std::shared_ptr<test::Control> control;
  std::string last_part;  // its name; there are fewer than 10
  std::atomic<int> part_count = 0;
  std::atomic<int> whole_count = 0;
  std::atomic<int> update_count = 0;
  std::atomic<int> held_count = 0;
  std::atomic<bool> is_training = false;
  std::atomic<bool> in_time = true;
};

void train(Watched& watched, DataParallelOptions options, const std::function<void(Trainer&)>& body) {
  RuntimeOptions runtime;
  runtime.worker_threads = 8;  // two of them are held
  options.runtime = test_runtime(runtime);
  test::register_backend(*options.runtime, 0, watched.control);
  options.backend_name = "test0";
  options.bucket_byte_count = 256;
  options.batch_size = 4;  // two steps an epoch, so that the gradient programs have a symbol
  const auto model = nn::sequential(nn::linear(16), nn::tanh(), nn::linear(16), nn::tanh(), nn::linear(2));
  data_parallel(
      options, tensor(some_numbers(24, 1), {8, 3}), tensor(some_numbers(16, 2), {8, 2}),
      [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); }, body);
}

class TrainingWithOverlap : public ::testing::TestWithParam<test::Streams> {};
INSTANTIATE_TEST_SUITE_P(Streams, TrainingWithOverlap,
                         ::testing::Values(test::Streams::kWorker, test::Streams::kNative),
                         test::streams_name);

void expect_overlap(test::Streams streams, std::int64_t accumulate) {
  for (const MergeStrategy strategy : {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kRing}) {
    Watched watched(streams);
    DataParallelOptions options = options_for(2, 0.1F);
    options.merge = strategy;
    options.accumulate = accumulate;
    train(watched, options, [&](Trainer& trainer) {
      EXPECT_TRUE(trainer.overlaps());
      EXPECT_GE(watched.part_count, 3) << "there are three layers";
      EXPECT_LE(watched.part_count, 8);
      watched.is_training = true;
      trainer.step();
      trainer.wait();
    });
    EXPECT_EQ(watched.held_count, 2) << "one per shard";
    EXPECT_TRUE(watched.in_time) << merge_strategy_name(strategy);
  }
}

TEST_P(TrainingWithOverlap, MergesABucketBeforeTheLastPartStarts) {
  expect_overlap(GetParam(), 1);
}

TEST_P(TrainingWithOverlap, MergesABucketBeforeTheLastPartOfTheLastMicroBatchStarts) {
  expect_overlap(GetParam(), 2);
}

TEST(GradientPrograms, RunWholeWithoutOverlap) {
  const auto parts_with = [](const DataParallelOptions& options) {
    Watched watched;
    train(watched, options, [](Trainer& trainer) { trainer.step(); });
    return watched.part_count.load();
  };
  DataParallelOptions options = options_for(2, 0.1F);
  EXPECT_GE(parts_with(options), 4);
  options.overlap = Overlap::kOff;
  EXPECT_EQ(parts_with(options), 0);
  options.merge = MergeStrategy::kOwner;  // has several buckets also without overlap
  EXPECT_EQ(parts_with(options), 0);
  options.merge = MergeStrategy::kAuto;
  options.overlap = Overlap::kOn;
  options.varying_rows = true;
  EXPECT_EQ(parts_with(options), 0) << "rows are computed in pieces";
  options.varying_rows = false;
  options.reproducible = 4;
  EXPECT_EQ(parts_with(options), 0) << "the micro-batches are added up first";
  options.reproducible = 0;
  options.shards = 1;
  EXPECT_EQ(parts_with(options), 0);
}

// Batches of 4 rows in 6 micro-batches: of shard 1's three, only the first has a row.
TEST(GradientPrograms, InPartsAddUpTheSameMicroBatches) {
  const auto values_with = [](Overlap overlap) {
    Watched watched;
    DataParallelOptions options = options_for(2, 0.1F);
    options.accumulate = 3;
    options.overlap = overlap;
    std::vector<float> values;
    train(watched, options, [&](Trainer& trainer) {
      EXPECT_EQ(trainer.overlaps(), overlap == Overlap::kOn);
      trainer.run_epoch();
      values = all_values(trainer);
    });
    return values;
  };
  EXPECT_EQ(values_with(Overlap::kOn), values_with(Overlap::kOff));
}

TEST(GradientPrograms, OfShardsAreEmptyWithAFeedAndWithoutRows) {
  DataParallelOptions options = options_for(3, 0.1F);
  options.overlap = Overlap::kOff;
  const Parameter w("w", {}, Initializer::constant(1));
  const auto loss_of = [&](const Batch& batch) { return mean(batch["x"] * w.tensor()); };
  const auto rows = [](std::int64_t) { return Batch{{"x", tensor<float>({1, 2}, {2})}}; };
  const auto expect_gradients = [](std::size_t count) {
    return [count](Trainer& trainer) {
      for (const Shard& shard : trainer.shard_list()) {
        if (shard.number < count) {
          EXPECT_EQ(shard.gradient.name(), "gradient");
        } else {
          EXPECT_ERROR(ErrorCode::kFailedPrecondition, (void)shard.gradient.name());
        }
      }
    };
  };
  data_parallel(options, rows(0), loss_of, expect_gradients(2));
  data_parallel(options, Feed({{"x", {YOKE_TYPE_F32, {2}}}}, rows), loss_of, expect_gradients(0));
}

TEST(GradientPrograms, PartsMayHandOnNothing) {
  std::vector<std::vector<float>> values;
  for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
    DataParallelOptions options = options_for(2, 0.1F);
    options.overlap = overlap;
    options.bucket_byte_count = 256;
    options.reduction = Reduction::kSum;
    const Parameter v("v", {64}, Initializer::zeros());
    const Parameter w("w", {64}, Initializer::zeros());
    data_parallel(
        options, tensor(some_numbers(256, 1), {4, 64}), tensor(some_numbers(256, 2), {4, 64}),
        [&](const Tensor& x, const Tensor& y) { return sum(x * v.tensor()) + sum(y * w.tensor()); },
        [&](Trainer& trainer) {
          EXPECT_EQ(trainer.overlaps(), overlap == Overlap::kOn);
          trainer.step();
          values.push_back(all_values(trainer));
        });
  }
  EXPECT_EQ(values[0], values[1]);
}

TEST(GradientPrograms, OfShardsAreWhole) {
  Watched watched;
  train(watched, options_for(2, 0.1F), [&](Trainer& trainer) {
    EXPECT_EQ(watched.whole_count, 0) << "shard_list() compiles them";
    for (const Shard& shard : trainer.shard_list()) {
      EXPECT_EQ(shard.gradient.name(), "gradient");
    }
    const std::uint64_t link_count = watched.control->link_count;
    (void)trainer.shard_list();
    EXPECT_EQ(watched.control->link_count, link_count) << "they are linked once";
    EXPECT_EQ(watched.whole_count, 1);
    trainer.launch_gradients();
    const std::string bias = "gradient/" + trainer.owner_params().back().name();
    const std::vector<float> parts = trainer.read_values(bias);
    const std::int64_t row = 0;
    trainer.shard_list()[0].gradient.run(std::span(&row, 1));
    EXPECT_EQ(trainer.read_values(bias), parts);
  });
}

TEST(GradientPrograms, OfFirstMicroBatchesAreLinkedBefore) {
  Watched watched;
  DataParallelOptions options = options_for(2, 0.1F);
  options.accumulate = 2;
  train(watched, options, [&](Trainer& trainer) {
    EXPECT_TRUE(trainer.overlaps());
    const std::uint64_t link_count = watched.control->link_count;
    EXPECT_EQ(trainer.shard_list()[1].gradient.name(), "gradient");
    EXPECT_EQ(watched.control->link_count, link_count);
  });
}

// The last micro-batch's program runs in parts; the first one's needs more memory.
TEST(GradientPrograms, OfMicroBatchesGiveTheSameBitsInParts) {
  std::vector<std::vector<float>> values;
  for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
    DataParallelOptions options = options_for(2, 0.1F);
    options.accumulate = 2;
    options.overlap = overlap;
    options.bucket_byte_count = 256;
    const auto model = nn::sequential(nn::linear(16), nn::tanh(), nn::linear(2));
    data_parallel(
        options, tensor(some_numbers(24, 1), {8, 3}), tensor(some_numbers(16, 2), {8, 2}),
        [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
        [&](Trainer& trainer) {
          trainer.step();
          trainer.step();
          values.push_back(all_values(trainer));
        });
  }
  EXPECT_EQ(values[0], values[1]);
}

// A feed's batches use several tensors in turn, and a loss with all_reduce does not run in one launch.
TEST(GradientPrograms, OfShardsAreEmptyForFeedsAndAllReduce) {
  DataParallelOptions options = options_for(2, 0.1F);
  options.overlap = Overlap::kOn;
  options.bucket_byte_count = 256;
  const Tensor x = tensor(some_numbers(24, 1), {8, 3});
  const Tensor y = tensor(some_numbers(16, 2), {8, 2});
  const auto model = nn::sequential(nn::linear(16), nn::tanh(), nn::linear(2));
  const Feed feed{{YOKE_TYPE_F32, {8, 3}}, {YOKE_TYPE_F32, {8, 2}}, [&](std::int64_t) {
                    return Batch{x, y};
                  }};
  const auto is_empty = [](Trainer& trainer) {
    for (const Shard& shard : trainer.shard_list()) {
      EXPECT_ERROR(ErrorCode::kFailedPrecondition, (void)shard.gradient.name());
    }
  };
  data_parallel(
      options, feed, [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); },
      [&](Trainer& trainer) {
        EXPECT_TRUE(trainer.overlaps());
        is_empty(trainer);
      });
  data_parallel(
      options, x, y,
      [&](const Tensor& a, const Tensor& b) {
        return mse(model(a - all_reduce(mean(a, {0}), Reduction::kSum)), b);
      },
      is_empty);
}

}  // namespace
}  // namespace yoke::testing
