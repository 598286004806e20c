// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/row_weights_test.cpp: shards that get more rows than others.
#include <functional>
#include <tuple>

#include "rows.h"
#include "test_paths.h"

namespace yoke::testing::rows {
namespace {

using test::error_of;
using test::is_error;

TEST(RowWeights, DivideEachBatch) {
  const auto rows = [](const Weights& weights, bool varying) {
    Setting setting;
    setting.shards = static_cast<std::int64_t>(weights.size());
    setting.fixed_weights = weights;
    setting.varying = varying;
    const Outcome got = run(setting);
    return std::vector<std::vector<std::int64_t>>{got.rows[0], got.rows[3]};  // of 12 rows, and of 8
  };
  using Expected = std::vector<std::vector<std::int64_t>>;
  for (const bool varying : {false, true}) {
    EXPECT_EQ(rows({2, 2, 1}, varying), (Expected{{5, 5, 2}, {3, 3, 2}}));
    EXPECT_EQ(rows({1, 5}, varying), (Expected{{2, 10}, {1, 7}}));
    EXPECT_EQ(rows({1, 1'000'000}, varying), (Expected{{1, 11}, {1, 7}}));
    EXPECT_EQ(rows({1'000'000, 1, 1}, varying), (Expected{{10, 1, 1}, {6, 1, 1}}));
    EXPECT_EQ(rows({1, 1, 1, 1, 1, 1, 1, 1, 9}, varying),
              (Expected{{1, 1, 1, 1, 1, 1, 1, 1, 4}, {1, 1, 1, 1, 1, 1, 1, 1, 0}}));
  }
}

TEST(RowWeights, MatchOneShard) {
  Setting setting;
  const Outcome one = run(setting);
  for (const Weights& weights : {Weights{3, 1}, Weights{1, 5, 2}, Weights{2, 2, 1, 9}}) {
    setting.fixed_weights = weights;
    setting.shards = static_cast<std::int64_t>(weights.size());
    for (const bool fed : {false, true}) {
      setting.fed = fed;
      for (const std::int64_t accumulate : {1, 2}) {
        setting.accumulate = accumulate;
        expect_near(run(setting), one, setting);
      }
    }
  }
}

// Backend "test1" takes much longer than "test0" for each call.
class MixedShards : public ::testing::Test {
 protected:
  MixedShards() {
    RuntimeOptions with_log;
    with_log.plugin_dirs = {test::plugin_folder()};
    with_log.search_environment = false;
    with_log.log_level = LogLevel::kInfo;
    with_log.log_sink = [this](LogLevel, std::string_view line) { log_ += std::string(line) + "\n"; };
    options.runtime = std::make_shared<Runtime>(with_log);
    test::register_backend(*options.runtime, 0);
    slow_ = test::register_backend(*options.runtime, 1);
    slow_->delay_us = 3000;
    options.backend_name = "test0:2,test1:1";
  }
  Outcome train(bool fed = false) {
    Setting setting;
    setting.fed = fed;
    return run(setting, options, [this](Trainer& trainer) { used_ = trainer.row_weights(); });
  }

  DataParallelOptions options = options_of({.shards = 3});
  std::string log_;
  std::shared_ptr<test::Control> slow_;
  Weights used_;
};

TEST_F(MixedShards, MatchOneShardWithGivenWeights) {
  Setting one;
  one.shards = 1;
  options.row_weights = {4, 4, 1};
  for (const bool fed : {false, true}) {
    const Outcome mixed = train(fed);
    expect_near(mixed, run(one), one);
    EXPECT_EQ(mixed.rows[0], (std::vector<std::int64_t>{6, 5, 1}));
    EXPECT_EQ(used_, options.row_weights);
    expect_equal(train(fed), mixed, one);
  }
}

TEST_F(MixedShards, GetRowsByMeasuredSpeed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer slows down the fast device only";
#endif
  options.measure_row_weights = true;
  for (const bool varying : {false, true}) {
    for (const bool fed : {false, true}) {
      options.varying_rows = varying;
      log_.clear();
      const Outcome measured = train(fed);
      const Weights weights = used_;
      EXPECT_EQ(weights.at(0), 1000);
      EXPECT_EQ(weights.at(1), 1000);  // the same kind of device
      EXPECT_LT(weights.at(2), 500);
      EXPECT_GT(measured.rows[0][0], measured.rows[0][2]);
      EXPECT_THAT(log_, ::testing::HasSubstr("train.row_weights measured=1000,1000," +
                                             std::to_string(weights.at(2))));
      options.measure_row_weights = false;
      options.row_weights = weights;
      expect_equal(train(fed), measured, {});  // measuring leaves no trace
      options.measure_row_weights = true;
      options.row_weights.clear();
    }
  }
}

// Where the loss reduces tensors over the shards, each still runs at its own speed while it is measured.
TEST_F(MixedShards, AreMeasuredWithoutWaitingForEachOther) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer slows down the fast device only";
#endif
  slow_->delay_us = 10000;
  options.measure_row_weights = true;
  const auto model = nn::sequential(nn::batch_norm({.synchronized = true}), nn::linear(1));
  data_parallel(
      options, tensor(some_numbers(24, 1), {12, 2}), tensor(some_numbers(12, 2), {12, 1}),
      [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
      [](Trainer& trainer) { EXPECT_LT(trainer.row_weights().at(2), 500); });
}

// If one computation takes long by chance, the others are still repeated until a round is long enough. On a busy machine
// all may take long, so the test tries again.
TEST_F(MixedShards, AreMeasuredRepeatedlyAlthoughOneComputationIsInterrupted) {
  constexpr int kRunsWithoutRepeats = 11;
  std::atomic<int> runs = 0;
  slow_->delay_us = 0;
  slow_->on_run = [&](std::string_view) {
    if (++runs == 2) {  // the first that is timed
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
  options.measure_row_weights = true;
  const auto model = nn::linear(1);
  for (int attempt = 0; attempt < 20 && runs <= kRunsWithoutRepeats; ++attempt) {
    runs = 0;
    data_parallel(
        options, tensor(some_numbers(24, 1), {12, 2}), tensor(some_numbers(12, 2), {12, 1}),
        [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); }, [](Trainer&) {});
  }
  EXPECT_GT(runs, kRunsWithoutRepeats);
  slow_->on_run = nullptr;
}

// Of 15 micro-batches, three have no rows.
TEST_F(MixedShards, AreMeasuredWithEveryKindOfData) {
  slow_->delay_us = 0;
  options.measure_row_weights = true;
  for (const auto& [varying, fed, accumulate] :
       {std::tuple{true, false, 1}, std::tuple{true, true, 2}, std::tuple{false, true, 5}}) {
    options.varying_rows = varying;
    options.accumulate = accumulate;
    used_.clear();
    train(fed);
    EXPECT_EQ(used_.size(), 3U);
  }
}

TEST_F(MixedShards, WithoutARowForEachAreNotMeasured) {
  options.measure_row_weights = true;
  options.batch_size = 0;
  const Parameter w("w", {}, Initializer::constant(1));
  const Tensor x = tensor<float>({1, 2}, {2});
  const auto loss_of = [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); };
  const auto body = [](Trainer& trainer) { EXPECT_TRUE(trainer.row_weights().empty()); };
  data_parallel(options, x, x, loss_of, body);
  const Feed feed{{YOKE_TYPE_F32, {2}}, {YOKE_TYPE_F32, {2}}, [&](std::int64_t) { return Batch{x, x}; }};
  data_parallel(options, feed, loss_of, body);
}

TEST_F(MixedShards, ThatHangWhileTheyAreMeasuredMissTheDeadline) {
  RuntimeOptions impatient;
  impatient.wait_timeout = std::chrono::milliseconds(500);
  options.runtime = test_runtime(impatient);
  test::register_backend(*options.runtime, 0);
  const auto hanging = test::register_backend(*options.runtime, 1);
  hanging->on_run = [](std::string_view) { std::this_thread::sleep_for(std::chrono::milliseconds(700)); };
  options.measure_row_weights = true;
  EXPECT_THAT(error_of([&] { train(); }),
              is_error(ErrorCode::kDeadlineExceeded, "measuring the shards' speed missed the deadline"));
}

TEST_F(MixedShards, OfOneKindAreNotMeasured) {
  options.measure_row_weights = true;
  options.backend_name = "test0:3";
  train();
  EXPECT_TRUE(used_.empty());
  options.row_weights = {1, 1, 1};
  EXPECT_THAT(error_of([&] { train(); }),
              is_error(ErrorCode::kInvalidArgument, "measure_row_weights and row_weights are set"));
}

TEST(RowWeights, InvalidWeightsAreRefused) {
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  const auto error_with = [](const std::function<void(Setting&)>& change) {
    Setting setting;
    setting.shards = 2;
    change(setting);
    return error_of([&] { run(setting); });
  };
  EXPECT_THAT(error_with([](Setting& setting) { setting.fixed_weights = {1}; }),
              is_error(kInvalid, "row_weights: 1 weight for 2 shards", "give one per shard"));
  EXPECT_THAT(error_with([](Setting& setting) {
                setting.fixed_weights = {1, 0};
              }),
              is_error(kInvalid, "the weight of shard 1 is 0", "choose 1 to 1000000"));
  EXPECT_THAT(error_with([](Setting& setting) {
                setting.fixed_weights = {1'000'001, 1};
              }),
              is_error(kInvalid, "the weight of shard 0 is 1000001", "choose 1 to 1000000"));
  EXPECT_THAT(error_with([](Setting& setting) {
                setting.fixed_weights = {1, 1};
                setting.reproducible = 4;
              }),
              is_error(kInvalid, "needs equal parts of a batch", "leave out row_weights"));
  EXPECT_THAT(error_with([](Setting& setting) {
                setting.weights = {{1, 1}};
              }),
              is_error(ErrorCode::kFailedPrecondition, "the rows of the shards are fixed",
                       "set options.varying_rows"));
  const auto error_of_weights = [&](const Weights& weights) {
    return error_with([&](Setting& setting) {
      setting.varying = true;
      setting.weights = {weights};
    });
  };
  EXPECT_THAT(error_of_weights({1, 1, 1}), is_error(kInvalid, "3 weights for 2 shards"));
  EXPECT_THAT(error_of_weights({1, -1}),
              is_error(kInvalid, "the weight of shard 1 is -1", "choose 0 to 1000000"));
  EXPECT_THAT(error_of_weights({0, 0}), is_error(kInvalid, "all weights are 0"));
  EXPECT_THAT(error_with([](Setting& setting) {
                setting.varying = true;
                setting.reproducible = 4;
                setting.weights = {{1, 1}};
              }),
              is_error(ErrorCode::kFailedPrecondition, "options.reproducible needs equal parts"));
}

}  // namespace
}  // namespace yoke::testing::rows
