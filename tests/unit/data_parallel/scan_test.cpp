// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/scan_test.cpp: a recurrent layer, which is a scan, trains on a backend as it does
// on the reference executor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 8;
constexpr std::uint64_t kRounds = 12;

struct Trained {
  std::vector<float> losses;
  std::vector<float> values;
};

Trained trained_on(const std::string& backend, const std::vector<Option>& device_options = {}) {
  DataParallelOptions options = options_for(2, 0.5F);
  if (backend == "test0" && std::string(backend_name()) != backend) {
    test::register_backend(*options.runtime, 0);
  }
  options.backend_name = backend;
  options.device_options = device_options;
  // The label is whether the first input of the sequence is positive.
  const std::vector<float> numbers = some_numbers(kRows * kRounds * 3, 5);
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    labels[i] = numbers[i * kRounds * 3] > 0 ? 1 : 0;
  }
  const nn::Module recurrent = nn::named("lstm", nn::lstm(5));
  const nn::Module head = nn::named("head", nn::linear(2));
  Trained trained;
  data_parallel(
      options, tensor(numbers, {kRows, kRounds, 3}), tensor(labels, {kRows}),
      [&](const Tensor& x, const Tensor& y) {
        const Tensor last = slice(recurrent(x), 1, kRounds - 1, kRounds);
        return cross_entropy(head(squeeze(last, 1)), y);
      },
      [&](Trainer& trainer) {
        for (int i = 0; i < 20; ++i) {
          trainer.step();
          trained.losses.push_back(static_cast<float>(trainer.loss_value()));
        }
        trained.values = all_values(trainer);
      });
  return trained;
}

TEST(Scan, RecurrentNetworkTrainsAsOnTheReferenceExecutor) {
  const Trained expected = trained_on("test0");
  const Trained got = trained_on(backend_name());
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    // 20 steps of 12 rounds, each with a relative difference of up to 4 * 2^-24.
    EXPECT_NEAR(got.values[i], expected.values[i], 20 * 12 * 4 * 6e-8 * (1 + std::abs(expected.values[i])))
        << "element " << i;
  }
  EXPECT_TRUE(std::is_sorted(got.losses.rbegin(), got.losses.rend())) << "the loss must fall in every step";
  EXPECT_LT(got.losses.back(), got.losses.front());
}

TEST(Scan, TrainingIsReproducibleOnOneThread) {
  std::vector<Option> device_options;
  if (std::string(backend_name()) == "cc") {
    device_options = {{"threads", std::int64_t{1}}};
  }
  const Trained first = trained_on(backend_name(), device_options);
  const Trained second = trained_on(backend_name(), device_options);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.values, second.values);
}

}  // namespace
}  // namespace yoke::testing
