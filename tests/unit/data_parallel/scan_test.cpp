// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/scan_test.cpp: recurrent networks, written with scan, train on a backend as on the
// reference executor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 8;
constexpr std::uint64_t kRounds = 12;
constexpr std::uint64_t kSize = 5;

// The logits of an LSTM's last state. x: [rows, rounds, 3].
struct Recurrent {
  Parameter input{"input", {4, kSize, 3}, Initializer::normal(0, 0.5)};
  Parameter state{"state", {4, kSize, kSize}, Initializer::normal(0, 0.4)};
  Parameter bias{"bias", {4, kSize}, Initializer::zeros()};
  Parameter head{"head", {2, kSize}, Initializer::normal(0, 0.5)};

  Tensor operator()(const Tensor& x) const {
    const Tensor zero = zeros(Type::kF32, {x.dims()[0], kSize});
    const Scan steps = scan(
        [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& now) {
          const Tensor z = einsum("bj,gij->bgi", now[0], input.tensor()) +
                           einsum("bk,gik->bgi", carry[0], state.tensor()) + bias.tensor();
          const std::vector<Tensor> gates = split(z, 4, 1);
          const auto gate = [&](std::size_t g) { return squeeze(gates[g], 1); };
          const Tensor c = sigmoid(gate(1)) * carry[1] + sigmoid(gate(0)) * tanh(gate(2));
          return Scan{{sigmoid(gate(3)) * tanh(c), c}, {}};
        },
        {zero, zero}, {permute(x, {1, 0, 2})});
    return einsum("bi,oi->bo", steps.carry[0], head.tensor());
  }
};

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
  const Recurrent network;
  Trained trained;
  data_parallel(
      options, tensor(numbers, {kRows, kRounds, 3}), tensor(labels, {kRows}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(network(x), y); },
      [&](Trainer& trainer) {
        for (int i = 0; i < 20; ++i) {
          trainer.step();
          trained.losses.push_back(static_cast<float>(trainer.loss_value()));
        }
        trained.values = all_values(trainer);
      });
  return trained;
}

TEST(Scan, ARecurrentNetworkTrainsAsOnTheReferenceExecutor) {
  const Trained expected = trained_on("test0");
  const Trained got = trained_on(backend_name());
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    // 20 steps of 12 rounds, whose differences of a few units in the last place add up.
    EXPECT_NEAR(got.values[i], expected.values[i], 20 * 12 * 4 * 6e-8 * (1 + std::abs(expected.values[i])))
        << "element " << i;
  }
  EXPECT_TRUE(std::is_sorted(got.losses.rbegin(), got.losses.rend())) << "the loss falls in every step";
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
