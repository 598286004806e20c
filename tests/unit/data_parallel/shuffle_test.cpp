// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/shuffle_test.cpp: permutations as functions of the seed, and training in their order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

std::vector<std::uint64_t> order_of(std::uint64_t count, std::int64_t seed, std::int64_t number) {
  const Permutation permutation(count, seed, number);
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < count; ++i) {
    order.push_back(permutation(i));
  }
  return order;
}

TEST(Shuffle, EveryCountGivesAPermutation) {
  for (std::uint64_t count = 1; count < 300; ++count) {
    std::vector<std::uint64_t> order = order_of(count, 5, 2);
    std::sort(order.begin(), order.end());
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(order[i], i) << count;
    }
  }
  const Permutation large(std::uint64_t{1} << 62U, 1, 1);
  EXPECT_LT(large(12345), std::uint64_t{1} << 62U);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, Permutation(0, 1, 1));
}

TEST(Shuffle, SeedAndEpochChangeTheOrder) {
  EXPECT_EQ(order_of(100, 1, 0), order_of(100, 1, 0));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 1, 1));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 2, 0));
}

// Each of the 120 permutations of 5 is as likely as the others: chi-square with 119 degrees of freedom.
TEST(Shuffle, PermutationsOfFiveAreEquallyLikely) {
  constexpr int kDraws = 60000;
  std::map<std::vector<std::uint64_t>, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[order_of(5, 7, i)];
  }
  ASSERT_EQ(counts.size(), 120U);
  double chi_square = 0;
  for (const auto& [order, count] : counts) {
    const double expected = kDraws / 120.0;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 119 + 5 * 15.4);  // mean 119, deviation sqrt(2 * 119)
  EXPECT_GT(chi_square, 119 - 5 * 15.4);
}

TEST(Shuffle, FeedGivesEveryRowOncePerEpochWithItsTarget) {
  std::vector<float> rows(11);
  std::vector<std::int32_t> labels(11);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<float>(i);
    labels[i] = static_cast<std::int32_t>(10 * i);
  }
  const Feed feed = shuffled(tensor(rows, {11, 1}), tensor(labels, {11}), 4, 3);
  std::vector<std::vector<float>> epochs(2);
  for (std::int64_t number = 0; number < 6; ++number) {
    const Batch batch = feed.next(number);
    const std::uint64_t count = batch["inputs"].dims()[0];
    EXPECT_EQ(count, number % 3 == 2 ? 3U : 4U);
    for (std::uint64_t i = 0; i < count; ++i) {
      float value = 0;
      std::int32_t label = 0;
      std::memcpy(&value, batch["inputs"].host_bytes().data() + i * sizeof(float), sizeof(float));
      std::memcpy(&label, batch["targets"].host_bytes().data() + i * sizeof(label), sizeof(label));
      EXPECT_EQ(label, static_cast<std::int32_t>(10 * value));
      epochs[static_cast<std::size_t>(number / 3)].push_back(value);
    }
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, rows);
  }
  EXPECT_ERROR(ErrorCode::kInvalidArgument, shuffled(tensor(rows, {11, 1}), tensor(labels, {11}), 12, 3));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, shuffled(Tensor(), Tensor(), 1, 3));
}

TEST(Shuffle, OrderDoesNotDependOnTheShards) {
  const auto train = [](std::int64_t shards) {
    const Tensor x = tensor(some_numbers(22 * 3, 1), {22, 3});
    const Tensor y = tensor(some_numbers(22, 2), {22});
    const nn::Module model = nn::linear(1);
    DataParallelOptions options = options_for(shards, 0.1F);
    options.batch_size = 8;
    options.reproducible = 4;
    return data_parallel(
        options, shuffled(x, y, 8, 9), [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); },
        [](Trainer& trainer) {
          for (int epoch = 0; epoch < 3; ++epoch) {
            trainer.run_epoch();
          }
          return all_values(trainer);
        });
  };
  const std::vector<float> one = train(1);
  EXPECT_EQ(train(2), one);
  EXPECT_EQ(train(4), one);
}

}  // namespace
}  // namespace yoke::testing
