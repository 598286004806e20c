// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/feed_test.cpp: training on data that the caller supplies batch by batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "common.h"
#include "error_of.h"
#include "rig.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

constexpr std::uint64_t kRows = 44;  // three batches of 12 rows, and one of 8
constexpr std::uint64_t kBatch = 12;
constexpr std::uint64_t kWidth = 6;
constexpr std::int64_t kBatches = 4;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

const std::vector<float>& all_inputs() {
  static const std::vector<float> inputs = some_numbers(kRows * kWidth, 1);
  return inputs;
}

std::vector<std::int32_t> all_labels() {
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    labels[i] = static_cast<std::int32_t>(i * 7 % 3);
  }
  return labels;
}

Batch batch_of(std::int64_t number) {
  const std::uint64_t begin = static_cast<std::uint64_t>(number % kBatches) * kBatch;
  const std::uint64_t count = std::min(kBatch, kRows - begin);
  const std::span x = std::span(all_inputs()).subspan(begin * kWidth, count * kWidth);
  const std::vector<std::int32_t> labels = all_labels();
  const std::span y = std::span(labels).subspan(begin, count);
  return {tensor(std::vector<float>(x.begin(), x.end()), {count, kWidth}),
          tensor(std::vector<std::int32_t>(y.begin(), y.end()), {count})};
}

Feed feed_from(std::function<Batch(std::int64_t)> next) {
  return {{YOKE_TYPE_F32, {kRows, kWidth}}, {YOKE_TYPE_I32, {kRows}}, std::move(next)};
}

DataParallelOptions fed_options(std::int64_t shards, std::uint32_t delay_us = 0) {
  RuntimeOptions delayed;
  delayed.injected_delay_us = delay_us;
  DataParallelOptions options = options_for(shards, 0.05F);
  options.runtime = test_runtime(delayed);
  options.batch_size = kBatch;
  options.optimizer = Sgd{0.9, 1e-3, false};
  options.check_replicas_every = 1;
  return options;
}

// Trains with a feed, or with data in memory if `next` is empty.
void train(const DataParallelOptions& options, const std::function<Batch(std::int64_t)>& next,
           const std::function<void(Trainer&)>& body) {
  const auto model = nn::sequential(nn::linear(16), nn::tanh(), nn::dropout(0.1), nn::linear(3));
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); };
  if (next) {
    data_parallel(options, feed_from(next), loss_of, body);
  } else {
    data_parallel(options, tensor(all_inputs(), {kRows, kWidth}), tensor(all_labels(), {kRows}), loss_of,
                  body);
  }
}

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const DataParallelOptions& options, const std::function<Batch(std::int64_t)>& next,
            bool in_parts = false) {
  Outcome result;
  train(options, next, [&](Trainer& trainer) {
    EXPECT_EQ(trainer.steps_per_epoch(), kBatches);
    for (std::int64_t i = 0; i < 3 * kBatches; ++i) {
      if (in_parts) {
        trainer.launch_gradients();
        trainer.update();
        trainer.advance();
      } else {
        trainer.step();
      }
      if (i % 5 == 0) {
        result.losses.push_back(trainer.loss_value());
      }
    }
    result.losses.push_back(trainer.mean_loss());
    result.values = all_values(trainer);
    EXPECT_EQ(trainer.first_bad_step(), std::nullopt);
  });
  return result;
}

TEST(Feed, GivesTheBitsOfDataInMemory) {
  for (const std::int64_t shards : kTriesAll ? Counts{1, 2, 3} : Counts{2}) {
    const Outcome resident = run(fed_options(shards), {});
    EXPECT_EQ(run(fed_options(shards), batch_of), resident) << shards << " shards";
    EXPECT_EQ(run(fed_options(shards, 300), batch_of), resident) << shards << " shards, with delays";
    EXPECT_EQ(run(fed_options(shards), batch_of, true), run(fed_options(shards), {}, true))
        << shards << " shards";
  }
}

TEST(Feed, GivesTheBitsOfDataInMemoryInMicroBatches) {
  for (const bool is_reproducible : {false, true}) {
    DataParallelOptions options = fed_options(2);
    is_reproducible ? options.reproducible = 8 : options.accumulate = 3;
    EXPECT_EQ(run(options, batch_of), run(options, {})) << "reproducible " << options.reproducible;
  }
}

TEST(Feed, GivesTheBitsOfDataInMemoryWithOverlap) {
  DataParallelOptions options = fed_options(2);
  options.overlap = Overlap::kOn;
  options.bucket_byte_count = 256;
  EXPECT_EQ(run(options, batch_of), run(options, {}));
}

// Batches of 2 rows, and one of 1 row, on 3 shards.
TEST(Feed, GivesNoRowsToShardsWithoutRows) {
  const auto next = [](std::int64_t number) {
    const auto first = static_cast<float>(number % 3 * 2 + 1);
    const Tensor two = tensor<float>({first, first + 1}, {2});
    return Batch{{"x", number % 3 < 2 ? two : tensor<float>({5}, {1})}};
  };
  DataParallelOptions options = options_for(3, 0);
  options.batch_size = 2;
  const Parameter w("w", {}, Initializer::constant(1));
  const auto loss_of = [&](const Batch& batch) { return mean(batch["x"] * w.tensor()); };
  data_parallel(options, Feed({{"x", {YOKE_TYPE_F32, {5}}}}, next), loss_of, [](Trainer& trainer) {
    for (const double mean : {1.5, 3.5, 5.0, 1.5, 3.5, 5.0}) {
      trainer.step();
      EXPECT_DOUBLE_EQ(trainer.loss_value(), mean);
    }
  });
}

TEST(Feed, CopiesOnItsOwnStreams) {
  const auto stream_count = [](const std::function<Batch(std::int64_t)>& next) {
    DataParallelOptions options = fed_options(2);
    test::register_backend(*options.runtime, 0, test::Rig::make_control(test::Streams::kNative));
    options.backend_name = "test0";
    std::uint64_t count = 0;
    train(options, next, [&](Trainer&) { count = options.runtime->backend("test0")->live_counts().streams; });
    return count;
  };
  EXPECT_EQ(stream_count(batch_of), stream_count({}) + 2);
}

// A run that redistributes keeps the batches of steps that may be repeated.
TEST(Feed, BatchesAreReleasedWhenTheyAreNoLongerNeeded) {
  for (const OnDeviceLost policy : {OnDeviceLost::kFail, OnDeviceLost::kRedistribute}) {
    std::vector<std::weak_ptr<const void>> given;
    const auto next = [&](std::int64_t number) {
      Batch batch = batch_of(number);
      given.emplace_back(batch["inputs"].node());
      return batch;
    };
    DataParallelOptions options = fed_options(2);
    options.on_device_lost = policy;
    train(options, next, [&](Trainer& trainer) {
      trainer.run_epoch();
      trainer.wait();
      ASSERT_EQ(given.size(), 6U);
      const std::size_t kept = policy == OnDeviceLost::kFail ? 0 : 2;
      for (std::size_t i = 0; i < given.size(); ++i) {
        EXPECT_EQ(given[i].expired(), i + kept < given.size()) << "batch " << i;
      }
    });
  }
}

TEST(Feed, IsAskedInOrderTwoStepsAheadOnTheCallersThread) {
  std::vector<std::int64_t> asked;
  const auto next = [&, caller = std::this_thread::get_id()](std::int64_t number) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    asked.push_back(number);
    return batch_of(number);
  };
  train(fed_options(2), next, [&](Trainer& trainer) {
    EXPECT_TRUE(asked.empty());
    trainer.step();
    EXPECT_EQ(asked, (std::vector<std::int64_t>{0, 1, 2}));
    trainer.step();
    EXPECT_EQ(asked, (std::vector<std::int64_t>{0, 1, 2, 3}));
    trainer.run_epoch();
    EXPECT_EQ(asked.size(), 6U);
  });
}

TEST(Feed, FailsInTheStepThatNeedsTheBatchAndIsAskedAgain) {
  constexpr std::int64_t kFailing = 6;
  for (const std::int64_t shards : {1, 2}) {
    std::vector<float> expected;
    std::vector<float> after;
    train(fed_options(shards), batch_of, [&](Trainer& trainer) {
      for (std::int64_t i = 0; i < kFailing; ++i) {
        trainer.step();
      }
      expected = all_values(trainer);
      trainer.step();
      after = all_values(trainer);
    });
    bool fails = true;
    const auto next = [&](std::int64_t number) {
      if (number == kFailing && fails) {
        throw std::runtime_error("the disk is on fire");
      }
      return batch_of(number);
    };
    train(fed_options(shards), next, [&](Trainer& trainer) {
      for (std::int64_t i = 0; i < kFailing; ++i) {
        trainer.step();
      }
      for (int i = 0; i < 2; ++i) {
        EXPECT_THAT(error_of([&] { trainer.step(); }),
                    is_error(ErrorCode::kUnknown, "step(): step 6 needs batch 2 of 4 of an epoch",
                             "the feed failed: the disk is on fire"));
        EXPECT_EQ(trainer.step_count(), kFailing);
        EXPECT_EQ(all_values(trainer), expected);
      }
      fails = false;
      trainer.step();
      EXPECT_EQ(all_values(trainer), after);
    });
  }
}

// The batch is asked for two steps ahead. Its failure is reported once, in the step that needs it.
TEST(Feed, ReportsAFailureThatDoesNotRepeat) {
  bool fails = true;
  const auto next = [&](std::int64_t number) {
    if (number == 3 && std::exchange(fails, false)) {
      throw std::runtime_error("the disk is busy");
    }
    return batch_of(number);
  };
  train(fed_options(2), next, [](Trainer& trainer) {
    for (int i = 0; i < 3; ++i) {
      trainer.step();
    }
    EXPECT_THAT(error_of([&] { trainer.step(); }), is_error(ErrorCode::kUnknown, "the disk is busy"));
    trainer.step();
    EXPECT_EQ(trainer.step_count(), 4);
  });
}

TEST(Feed, RefusalNamesBatchSizeIfItIsNotSet) {
  DataParallelOptions options = fed_options(2);
  options.batch_size = 0;
  const auto part = [](std::int64_t) { return batch_of(3); };
  EXPECT_THAT(
      error_of([&] { train(options, part, [](Trainer& trainer) { trainer.step(); }); }),
      is_error(kInvalid, "as inputs; it must be host data of shape [", "; options.batch_size sets the "));
}

TEST(Feed, RefusesBatchesOfAnotherTypeOrShape) {
  const auto error_at_step_1 = [](const std::function<Batch(Batch)>& change) {
    Error error(ErrorCode::kOk, "");
    const auto next = [&](std::int64_t number) {
      return number == 1 ? change(batch_of(1)) : batch_of(number);
    };
    train(fed_options(2), next, [&](Trainer& trainer) {
      trainer.step();
      error = error_of([&] { trainer.step(); });
    });
    return error;
  };
  EXPECT_THAT(error_at_step_1([](const Batch& b) {
                return Batch{b["inputs"], Tensor()};
              }),
              is_error(kInvalid, "step 1 needs batch 1", "returned an empty Tensor as targets",
                       "host data of shape [12] and type i32"));
  EXPECT_THAT(error_at_step_1([](const Batch& b) {
                return Batch{batch_of(3)["inputs"], b["targets"]};
              }),
              is_error(kInvalid, "as inputs; it must be host data of shape [12, 6] and type f32"));
  EXPECT_THAT(error_at_step_1([](const Batch& b) {
                return Batch{b["targets"], b["targets"]};
              }),
              is_error(kInvalid, "as inputs"));
  EXPECT_THAT(
      error_at_step_1([](const Batch& b) {
        return Batch{tensor(std::vector<std::int32_t>(kBatch * kWidth), {kBatch, kWidth}), b["targets"]};
      }),
      is_error(kInvalid, "as inputs; it must be host data of shape [12, 6] and type f32"));
  EXPECT_THAT(error_at_step_1([](const Batch& b) {
                return Batch{placeholder("x", Type::kF32, {kBatch, kWidth}), b["targets"]};
              }),
              is_error(kInvalid, "as inputs"));
  EXPECT_THAT(error_at_step_1([](const Batch&) -> Batch { throw 7; }),
              is_error(ErrorCode::kUnknown, "unknown type"));
  EXPECT_THAT(
      error_at_step_1([](const Batch&) -> Batch { throw Error(ErrorCode::kOutOfRange, "no more data"); }),
      is_error(ErrorCode::kOutOfRange, "no more data"));
}

TEST(Feed, RefusesInvalidArguments) {
  const auto error = [](const Feed& feed) {
    const Parameter w("w", {}, Initializer::constant(1));
    return error_of([&] {
      data_parallel(
          fed_options(2), feed, [&](const Tensor& x, const Tensor&) { return mean(x * w.tensor()); },
          [](Trainer&) {});
    });
  };
  EXPECT_THAT(error(feed_from({})), is_error(kInvalid, "feed.next is an empty function"));
  Feed feed = feed_from(batch_of);
  feed.fields[0].spec.dims = {};
  EXPECT_THAT(error(feed), is_error(kInvalid, "the feed's field 'inputs' has type", "at least one axis"));
  feed.fields[0].spec.dims = {0, kWidth};
  EXPECT_THAT(error(feed), is_error(kInvalid, "no axis may be 0"));
  feed.fields[0].spec = {99, {kRows, kWidth}};
  EXPECT_THAT(error(feed), is_error(kInvalid, "the feed's field 'inputs' has type 99"));
  feed.fields[0].spec = {0, {kRows, kWidth}};
  EXPECT_THAT(error(feed), is_error(kInvalid, "the feed's field 'inputs' has type 0"));
  feed = feed_from(batch_of);
  feed.fields[1].spec.dims = {kRows - 1};
  EXPECT_THAT(error(feed), is_error(kInvalid, "inputs has 44 rows, but targets has 43"));
  train(fed_options(2), batch_of, [](Trainer& trainer) {
    EXPECT_THAT(error_of([&] { trainer.set_batch(batch_of(0)["inputs"], batch_of(0)["targets"]); }),
                is_error(ErrorCode::kFailedPrecondition, "the data comes from a feed"));
  });
}

// 4096 rows of 4 KiB, in batches of 64: the data has 16 MiB, three batches 768 KiB.
TEST(Feed, TrainsOnMoreDataThanTheDeviceHasMemoryFor) {
  constexpr std::uint64_t kMany = 4096;
  constexpr std::uint64_t kWide = 1024;
  for (const std::int64_t shards : {1, 2}) {
    DataParallelOptions options = options_for(shards, 0.01F);
    if (std::string(backend_name()) != "cc") {
      GTEST_SKIP() << "only cc has the option memory_limit";
    }
    options.batch_size = 64;
    options.device_options = {{"memory_limit", std::int64_t{2} << 20U}};
    std::uint64_t need = 0;
    options.check_memory = [&](std::span<const MemoryNeed> needs) { need = needs[0].total(); };
    const auto model = nn::linear(1);
    const auto loss_of = [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); };
    const auto rows_of = [](std::uint64_t count, std::uint32_t seed) {
      return Batch{tensor(some_numbers(count * kWide, seed), {count, kWide}),
                   tensor(some_numbers(count, seed), {count, 1})};
    };
    const Batch all = rows_of(kMany, 1);
    EXPECT_THAT(
        error_of([&] { data_parallel(options, all["inputs"], all["targets"], loss_of, [](Trainer&) {}); }),
        is_error(ErrorCode::kOutOfDeviceMemory));
    const Feed feed = {{YOKE_TYPE_F32, {kMany, kWide}},
                       {YOKE_TYPE_F32, {kMany, 1}},
                       [&](std::int64_t number) { return rows_of(64, static_cast<std::uint32_t>(number)); }};
    data_parallel(options, feed, loss_of, [&](Trainer& trainer) {
      EXPECT_TRUE(trainer.run_epoch());
      EXPECT_EQ(trainer.step_count(), 64);
      EXPECT_GT(trainer.mean_loss(), 0);
      const auto used = trainer.shard_list()[0].stream->device()->memory().used_bytes;
      EXPECT_NEAR(static_cast<double>(used), static_cast<double>(need),
                  80e3);  // gradients, if there is one shard
    });
  }
}

TEST(Feed, EvaluatesOnOtherData) {
  train(fed_options(2), batch_of, [](Trainer& trainer) {
    Evaluation evaluation =
        trainer.evaluation(batch_of(0)["inputs"], batch_of(0)["targets"],
                           [](const Tensor& x, const Tensor&) { return std::vector<Tensor>{mean(x)}; });
    const double before = evaluation.run().at(0);
    trainer.run_epoch();
    EXPECT_EQ(evaluation.run().at(0), before);
  });
}

}  // namespace
}  // namespace yoke::testing
