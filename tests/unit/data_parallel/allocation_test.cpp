// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/allocation_test.cpp: training steps allocate and compile nothing.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <thread>

#include "common.h"
#include "count_allocations.h"
#include "thread_count.h"

namespace yoke::testing {
namespace {

// Trains with batches of 12 rows, and one of 8.
void expect_no_allocations(DataParallelOptions options, const Optimizer& optimizer = Sgd{0.9, 1e-4, false}) {
  if (std::string(backend_name()) != "cc") {
    GTEST_SKIP() << "only cc runs without allocation; the reference executor allocates";
  }
  options.batch_size = 12;
  options.optimizer = optimizer;
  const auto model = nn::sequential(nn::linear(64), nn::relu(), nn::dropout(0.1), nn::linear(10));
  std::vector<std::int32_t> labels(44);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int32_t>(i % 10);
  }
  data_parallel(
      options, tensor(some_numbers(44 * 32, 1), {44, 32}), tensor(labels, {44}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        for (int i = 0; i < 12; ++i) {  // three epochs, so that every size of batch has run
          trainer.step();
        }
        trainer.wait();
        const std::uint64_t compiled = compile_count(*options.runtime);
        // oneDNN's execute() builds a map of its arguments in every call.
        const test::IgnoreVendorAllocations ignore;
        // The lists of pending work grow when the shards' work overlaps more than before, and then stay large.
        constexpr int kTries = 5;
        std::uint64_t allocated = 1;
        for (int i = 0; i < kTries && allocated != 0; ++i) {
          const std::uint64_t before = test::allocation_count();
          for (int step = 0; step < 100; ++step) {
            trainer.step();
          }
          trainer.wait();
          allocated = test::allocation_count() - before;
        }
        EXPECT_EQ(allocated, 0U) << "in the last 100 steps";
        EXPECT_EQ(compile_count(*options.runtime), compiled);
      });
}

class Steps : public ::testing::TestWithParam<std::tuple<std::int64_t, MergeStrategy, MergeUse>> {};

TEST_P(Steps, AllocateNothingAndCompileNothing) {
  DataParallelOptions options = options_for(std::get<0>(GetParam()), 0.05F);
  options.merge = std::get<1>(GetParam());
  options.merge_use = std::get<2>(GetParam());
  expect_no_allocations(std::move(options));
}

INSTANTIATE_TEST_SUITE_P(SingleShard, Steps,
                         ::testing::Values(std::tuple(1, MergeStrategy::kAuto, MergeUse::kStreaming)));
INSTANTIATE_TEST_SUITE_P(Strategies, Steps,
                         ::testing::Combine(::testing::Values(3),
                                            ::testing::Values(MergeStrategy::kOwner, MergeStrategy::kTree,
                                                              MergeStrategy::kDirect, MergeStrategy::kRing),
                                            ::testing::Values(MergeUse::kCopy, MergeUse::kStreaming)));

TEST(StepsWithOverlap, AllocateNothingAndCompileNothing) {
  DataParallelOptions options = options_for(3, 0.05F);
  options.overlap = Overlap::kOn;
  options.bucket_byte_count = 1024;
  expect_no_allocations(options);
}

TEST(StepsThatClip, AllocateNothingAndCompileNothing) {
  const Optimizer clipped =
      clip_by_global_norm(with_groups(AdamW{}, {{"*bias", AdamW{.weight_decay = 0}}}), 0.1);
  for (const Placement placement : {Placement::kOwner, Placement::kEverywhere, Placement::kSharded}) {
    DataParallelOptions options = options_for(3, 0.05F);
    options.merge = MergeStrategy::kRing;
    options.placement = placement;
    expect_no_allocations(options, clipped);
  }
  expect_no_allocations(options_for(1, 0.05F), clipped);
}

TEST(StepsOfMicroBatches, AllocateNothingAndCompileNothing) {
  DataParallelOptions options = options_for(2, 0.05F);
  options.accumulate = 3;
  expect_no_allocations(options);
  options.accumulate = 1;
  options.reproducible = 8;
  expect_no_allocations(options);
}

TEST(LongRun, MemoryDoesNotGrow) {
  if (mallinfo2().uordblks == 0) {
    GTEST_SKIP() << "a sanitizer's heap has no statistics";
  }
  const auto model = nn::linear(1);
  DataParallelOptions options = options_for(8, 0.01F);
  options.batch_size = 12;  // some shards have no rows in the last batch
  data_parallel(
      options, tensor(some_numbers(28 * 3, 1), {28, 3}), tensor(some_numbers(28, 2), {28, 1}),
      [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
      [&](Trainer& trainer) {
        const auto heap_after = [&](int steps) {
          while (trainer.step_count() < steps) {
            trainer.step();
          }
          trainer.wait();
          return mallinfo2().uordblks;
        };
        const std::size_t before = heap_after(100);
        EXPECT_LE(heap_after(10000), before + 16384)
            << "bytes in use";  // lists of pending work may grow once
      });
}

TEST(AllocationCount, IncludesAllocationsOfTheFrontend) {
  const test::IgnoreVendorAllocations ignore;
  const std::uint64_t before = test::allocation_count();
  const Tensor t = placeholder("x", Type::kF32, {2});
  EXPECT_GT(test::allocation_count(), before);
}

TEST(Threads, AreNoMoreThanCoresForManyShards) {
  if (std::string(backend_name()) != "cc") {
    GTEST_SKIP() << "counts the runtime's threads; other backends may have their own";
  }
  DataParallelOptions options = options_for(64, 0.05F);
  options.batch_size = 128;
  const auto model = nn::sequential(nn::linear(16), nn::relu(), nn::linear(10));
  const std::size_t before = test::thread_count();
  data_parallel(
      options, tensor(some_numbers(128 * 32, 1), {128, 32}), tensor(std::vector<std::int32_t>(128, 1), {128}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        std::size_t most = 0;
        for (int i = 0; i < 20; ++i) {
          trainer.step();
          most = std::max(most, test::thread_count());
        }
        trainer.wait();
        EXPECT_GT(most, before);
        EXPECT_LE(most, before + std::max(1U, std::thread::hardware_concurrency()));
      });
}

}  // namespace
}  // namespace yoke::testing
