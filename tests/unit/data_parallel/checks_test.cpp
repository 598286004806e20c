// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/checks_test.cpp: the memory that a run needs, and the first bad loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "common.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 1010;
constexpr std::uint64_t kWidth = 3;

struct Problem {
  Tensor inputs = tensor(some_numbers(kRows * kWidth, 1), {kRows, kWidth});
  Tensor targets = tensor(some_numbers(kRows, 2), {kRows, 1});
  nn::Module model = nn::sequential(nn::linear(10000), nn::relu(), nn::linear(1));

  void run(const DataParallelOptions& options, const std::function<void(Trainer&)>& body) const {
    data_parallel(options, inputs, targets, loss(), body);
  }
  std::function<Tensor(const Tensor&, const Tensor&)> loss() const {
    return [this](const Tensor& x, const Tensor& y) { return mean(square(model(x) - y)); };
  }
};

using Needs = std::vector<MemoryNeed>;

std::uint64_t on_devices(const Needs& needs) {
  std::uint64_t sum = 0;
  for (const MemoryNeed& need : needs) {
    sum += need.device == "host" ? 0 : need.total();
  }
  return sum;
}

std::uint64_t used_by(const Trainer& trainer) {
  std::uint64_t sum = 0;
  std::set<const Device*> seen;
  for (const Shard& shard : trainer.shard_list()) {
    const auto& device = shard.stream->device();
    sum += seen.insert(device.get()).second ? device->memory().used_bytes : 0;
  }
  return sum;
}

class MemoryNeeds : public ::testing::TestWithParam<std::tuple<MergeStrategy, MergeUse>> {};
INSTANTIATE_TEST_SUITE_P(Strategies, MemoryNeeds,
                         ::testing::Combine(::testing::Values(MergeStrategy::kDirect, MergeStrategy::kOwner,
                                                              MergeStrategy::kTree, MergeStrategy::kRing),
                                            ::testing::Values(MergeUse::kStreaming, MergeUse::kCopy)));

TEST(MemoryOfTheOptimizer, IsAllocatedOnlyIfItHasState) {
  const Problem problem;
  std::map<double, std::uint64_t> used;
  for (const double momentum : {0.0, 0.9}) {
    DataParallelOptions options = options_for(2, 0.01F);
    options.optimizer = Sgd{.momentum = momentum};
    problem.run(options, [&](Trainer& trainer) { used[momentum] = used_by(trainer); });
  }
  EXPECT_GE(used[0.9], used[0.0] + 190'000) << "the parameters have 200 KB";
}

TEST_P(MemoryNeeds, AreWhatTheRunAllocates) {
  const Problem problem;
  DataParallelOptions options = options_for(5, 0.01F);
  options.merge = std::get<0>(GetParam());
  options.merge_use = std::get<1>(GetParam());
  options.batch_size = 100;
  options.optimizer = Sgd{.momentum = 0.9};
  std::vector<Needs> calls;
  bool refuses = false;
  options.check_memory = [&](std::span<const MemoryNeed> needs) {
    calls.emplace_back(needs.begin(), needs.end());
    if (refuses) {
      throw std::runtime_error("too little");
    }
  };
  // Each of the 5 shards has some one-element tensors of 256 bytes, and merges gradients with a tile of less
  // than 5 KiB for each size of batch. The parameters have 200 KB.
  constexpr double kSmall = 5 * (16 * 256 + 2 * 5120);
  problem.run(options, [&](Trainer& trainer) {
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_NEAR(static_cast<double>(on_devices(calls[0])), static_cast<double>(used_by(trainer)), kSmall);
    EXPECT_GT(calls[0][0].parameters, 0U);
    EXPECT_GT(calls[0][0].gradients, 0U);
    EXPECT_GT(calls[0][0].state, 0U);
    EXPECT_GT(calls[0][0].activations, 0U);
    EXPECT_GT(calls[0][0].data, 0U);
    const auto evaluate = [&] {
      return trainer.evaluation(problem.inputs, problem.targets, [&](const Tensor& x, const Tensor& y) {
        return std::vector<Tensor>{problem.loss()(x, y)};
      });
    };
    const Evaluation evaluation = evaluate();
    ASSERT_EQ(calls.size(), 2U);
    EXPECT_GT(on_devices(calls[1]), on_devices(calls[0]));
    EXPECT_NEAR(static_cast<double>(on_devices(calls[1])), static_cast<double>(used_by(trainer)), kSmall);
    refuses = true;
    EXPECT_THROW(evaluate(), std::runtime_error);
    EXPECT_THROW(evaluate(), std::runtime_error);
    EXPECT_EQ(on_devices(calls.at(3)), on_devices(calls.at(2))) << "a refused evaluation was counted";
  });
}

TEST(MemoryNeeds, IncludeWhatThePartsOfGradientProgramsHandOn) {
  const Problem problem;
  std::map<Overlap, Needs> needs;
  std::uint64_t used = 0;
  for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
    DataParallelOptions options = options_for(2, 0.01F);
    options.overlap = overlap;
    options.merge = MergeStrategy::kDirect;
    options.bucket_byte_count = 20000;
    options.check_memory = [&](std::span<const MemoryNeed> all) {
      needs[overlap].assign(all.begin(), all.end());
    };
    problem.run(options, [&](Trainer& trainer) { used = used_by(trainer); });
  }
  const auto activations = [&](Overlap overlap) {
    std::uint64_t sum = 0;
    for (const MemoryNeed& need : needs[overlap]) {
      sum += need.activations;
    }
    return sum;
  };
  EXPECT_NE(activations(Overlap::kOn), activations(Overlap::kOff)) << "the programs are cut";
  // used_by() asks for the shards, and so also links the whole programs.
  const std::uint64_t expected = on_devices(needs[Overlap::kOn]) + activations(Overlap::kOff);
  constexpr double kSmall = 2 * (16 * 256 + 2 * 5120);  // as above
  EXPECT_NEAR(static_cast<double>(used), static_cast<double>(expected), kSmall);
}

TEST(MemoryNeeds, IncludeWhatIsSentAsBf16AndTrainingStillConverges) {
  const Problem problem;
  std::map<Wire, std::uint64_t> gradients;
  std::map<Wire, double> losses;
  for (const Wire wire : {Wire::kFull, Wire::kBF16}) {
    DataParallelOptions options = options_for(3, 0.01F);
    options.merge = MergeStrategy::kTree;
    options.wire = wire;
    options.batch_size = 100;
    options.check_memory = [&](std::span<const MemoryNeed> needs) {
      for (const MemoryNeed& need : needs) {
        gradients[wire] += need.gradients;
      }
    };
    const auto model = nn::sequential(nn::linear(10000), nn::relu(), nn::linear(1));
    data_parallel(
        options, problem.inputs, problem.targets,
        [&](const Tensor& x, const Tensor& y) { return mean(square(model(x) - y)); },
        [&](Trainer& trainer) {
          trainer.run_epoch();
          (void)trainer.mean_loss();
          trainer.run_epoch();
          losses[wire] = trainer.mean_loss();
          EXPECT_EQ(trainer.merge_reason(), "given");
        });
  }
  EXPECT_NEAR(losses[Wire::kBF16], losses[Wire::kFull], 0.01 * losses[Wire::kFull]);
  // Two of the three shards send: 2 bytes that travel, and 4 of error, for each of 50,001 parameters.
  const auto more = static_cast<double>(gradients[Wire::kBF16] - gradients[Wire::kFull]);
  EXPECT_NEAR(more, 2 * 6 * 50001, 6 * 256 * 4);
  DataParallelOptions options = options_for(2, 0.01F);
  options.wire = Wire::kBF16;
  options.reproducible = 2;
  EXPECT_THROW(problem.run(options, [](Trainer&) {}), Error) << "bits would depend on the number of shards";
}

TEST(MemoryNeeds, OfASingleShardHaveNoGradients) {
  const Problem problem;
  DataParallelOptions options = options_for(1, 0.01F);
  options.check_memory = [&](std::span<const MemoryNeed> needs) {
    ASSERT_EQ(needs.size(), 2U);
    EXPECT_EQ(needs[0].gradients, 0U);
    EXPECT_EQ(needs[0].data, kRows * (kWidth + 1) * sizeof(float));
    EXPECT_TRUE(needs[0].in_host_memory);
    EXPECT_EQ(needs[1].device, "host");
    EXPECT_EQ(needs[1].parameters, 50001 * sizeof(float));
    EXPECT_EQ(needs[1].data, 0U) << "only a feed stages batches";
  };
  problem.run(options, [](Trainer&) {});
}

TEST(MemoryNeeds, AvailableIsTheLimitOfTheDevice) {
  const Problem problem;
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{1} << 30U}) {
    DataParallelOptions options = options_for(2, 0.01F);
    options.device_options = {{"memory_limit", limit}};
    options.check_memory = [&](std::span<const MemoryNeed> needs) {
      EXPECT_EQ(needs[0].available, static_cast<std::uint64_t>(limit)) << "0: only host memory limits it";
    };
    problem.run(options, [](Trainer&) {});
  }
}

// Host data that the loss and the learning rate use is on a device once.
TEST(MemoryNeeds, CountTheHostDataOfProgramsOnce) {
  const Tensor rates = tensor<float>({0.01F, 0.03F, 0.02F}, {3}, "rates");
  const Tensor scales = tensor(some_numbers(100, 3), {100}, "scales");
  const Symbol turn{"turn", 0, 3, 1};
  const Parameter w("w", {100}, Initializer::zeros());
  const Tensor x = tensor(some_numbers(8, 1), {8});
  for (const std::int64_t accumulate : {1, 2}) {
    DataParallelOptions options = options_for(1, 0);
    options.accumulate = accumulate;
    options.learning_rate = rates[turn];
    options.bindings = {turn};
    options.check_memory = [&](std::span<const MemoryNeed> needs) {
      EXPECT_EQ(needs[0].data, (2 * 8 + 100 + 3) * sizeof(float)) << accumulate;
    };
    data_parallel(
        options, x, x, [&](const Tensor& a, const Tensor&) { return mean(a) * sum(w.tensor() * scales); },
        [](Trainer&) {});
  }
}

TEST(MemoryNeeds, AvailableIsTheMemoryOfADeviceThatHasItsOwn) {
  struct Case {
    std::int32_t kind;
    bool host_visible;
    std::uint64_t limit;
    bool in_host_memory;
    std::uint64_t available;
  };
  for (const Case& one :
       {Case{YOKE_DEVICE_GPU, false, 0, false, 1U << 30U},
        Case{YOKE_DEVICE_GPU, false, 1U << 20U, false, 1U << 20U}, Case{YOKE_DEVICE_GPU, true, 0, true, 0},
        Case{YOKE_DEVICE_CPU, false, 0, true, 0}}) {
    const auto control = std::make_shared<test::Control>();
    control->device_info.kind = one.kind;
    control->device_info.host_visible = one.host_visible;
    control->device_info.memory_bytes = 1U << 30U;
    control->memory_limit = one.limit;
    DataParallelOptions options = options_for(1, 0.01F);
    test::register_backend(*options.runtime, 0, control);
    options.backend_name = "test0";
    options.check_memory = [&](std::span<const MemoryNeed> needs) {
      EXPECT_EQ(needs[0].in_host_memory, one.in_host_memory);
      EXPECT_EQ(needs[0].available, one.available);
      throw std::runtime_error("seen");
    };
    EXPECT_THROW(Problem().run(options, [](Trainer&) {}), std::runtime_error);
  }
}

TEST(MemoryNeeds, CheckRunsBeforeAnythingIsAllocatedAndMayRefuse) {
  const Problem problem;
  DataParallelOptions options = options_for(2, 0.01F);
  const auto backend = options.runtime->backend(options.backend_name);
  bool ran = false;
  options.check_memory = [&](std::span<const MemoryNeed>) {
    EXPECT_EQ(backend->live_counts().buffers, 0U);
    throw std::runtime_error("too little");
  };
  EXPECT_THROW(problem.run(options, [&](Trainer&) { ran = true; }), std::runtime_error);
  EXPECT_FALSE(ran);
}

TEST(FirstBadStep, IsEmptyWhileLossesAreFinite) {
  const Problem problem;
  DataParallelOptions options = options_for(2, 0.01F);
  problem.run(options, [](Trainer& trainer) {
    EXPECT_EQ(trainer.first_bad_step(), std::nullopt);
    trainer.step();
    EXPECT_EQ(trainer.first_bad_step(), std::nullopt);
  });
}

// Ten rows in batches of 4, 4 and 2 on three shards: the third shard has no row in the last batch, and row 7
// is its row of the second batch. Row 0 is the first shard's, which has rows in every batch.
TEST(FirstBadStep, CountsStepsInWhichTheShardHasNoRows) {
  for (const auto& [row, step, bad] : {std::tuple{7U, 4, std::numeric_limits<float>::infinity()},
                                       std::tuple{7U, 4, std::numeric_limits<float>::quiet_NaN()},
                                       std::tuple{0U, 3, std::numeric_limits<float>::infinity()}}) {
    std::vector<float> numbers = some_numbers(10, 1);
    const auto rows = [&] { return tensor(numbers, {10, 1}); };
    const Tensor targets = tensor(some_numbers(10, 2), {10, 1});
    DataParallelOptions options = options_for(3, 0.01F);
    options.batch_size = 4;
    const auto model = nn::linear(1);
    data_parallel(
        options, rows(), targets,
        [&](const Tensor& x, const Tensor& y) { return mean(square(model(x) - y)); },
        [&, at = row, value = bad, expected = step](Trainer& trainer) {
          trainer.run_epoch();
          numbers[at] = value;
          trainer.set_batch(rows(), targets);
          trainer.run_epoch();
          EXPECT_EQ(trainer.first_bad_step(), expected);
          trainer.run_epoch();
          EXPECT_EQ(trainer.first_bad_step(), expected);
        });
  }
}

TEST(FirstBadStep, IsKnownAfterAShardIsLost) {
  DataParallelOptions options = options_for(2, 0.1F);
  options.on_device_lost = OnDeviceLost::kRedistribute;
  options.batch_size = 2;
  const auto control = test::register_backend(*options.runtime, 0);
  options.backend_name = "test0";
  const Parameter w("w", {}, Initializer::constant(1));
  const Tensor x = tensor<float>({1, 1, 1, std::numeric_limits<float>::infinity()}, {4});
  data_parallel(
      options, x, x, [&](const Tensor& a, const Tensor&) { return w.tensor() + mean(a); },
      [&](Trainer& trainer) {
        trainer.step();
        trainer.step();
        control->fail_after = 0;
        trainer.step();
        EXPECT_EQ(trainer.shards(), 1U);
        EXPECT_EQ(trainer.first_bad_step(), 1);
      });
}

}  // namespace
}  // namespace yoke::testing
