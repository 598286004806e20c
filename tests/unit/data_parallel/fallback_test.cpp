// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/fallback_test.cpp: training on devices that cannot run programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Outcome {
  std::vector<float> parameters;
  double loss = 0;
  std::vector<FallbackCount> fallbacks;
};

// A runtime with backend_name() as the fallback, and `control`, if not null, as the backend "test7".
std::shared_ptr<Runtime> runtime_for(std::shared_ptr<test::Control> control, bool strict = false) {
  RuntimeOptions options;
  options.log_level = LogLevel::kOff;
  options.strict = strict;
  options.fallback_backend = backend_name();
  auto runtime = test_runtime(options);
  if (control != nullptr) {
    test::register_backend(*runtime, 7, std::move(control));
  }
  return runtime;
}

std::shared_ptr<test::Control> memory_only(bool has_streams) {
  auto control = std::make_shared<test::Control>();
  control->provides.programs = false;
  control->provides.streams = has_streams;
  control->has_peers = false;
  control->make_bare();
  return control;
}

Outcome train(const std::shared_ptr<Runtime>& runtime, const std::string& backend, std::int64_t shards,
              MergeStrategy merge) {
  const auto data = datasets::half_moons(60, 0.1, 0);
  const auto model = nn::sequential(nn::linear(8), nn::relu(), nn::linear(2));
  DataParallelOptions options;
  options.runtime = runtime;
  options.backend_name = backend;
  options.shards = shards;
  options.learning_rate = 0.1F;
  options.optimizer = Sgd{.momentum = 0.5};
  options.batch_size = 20;
  options.merge = merge;
  Outcome outcome;
  data_parallel(
      options, data.points, data.labels,
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        for (int step = 0; step < 12; ++step) {
          trainer.step();
        }
        outcome.loss = trainer.loss_value();
        outcome.parameters = all_values(trainer);
      });
  outcome.fallbacks = runtime->fallbacks();
  return outcome;
}

// The backend "test7" has no options.
TEST(DeviceOptions, WithAPrefixReachOnlyTheDevicesOfThatBackend) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 30U;
  const auto data = datasets::half_moons(20, 0.1, 0);
  const auto model = nn::linear(2);
  const std::string with_options = backend_name();
  DataParallelOptions options;
  options.runtime = runtime_for(memory_only(true));
  options.backend_name = with_options + ":1,test7:1";
  options.learning_rate = 0.1F;
  options.device_options = {{with_options + ".memory_limit", kLimit}};
  std::vector<std::uint64_t> available;
  options.check_memory = [&](std::span<const MemoryNeed> needs) {
    available = {needs[0].available, needs[1].available};
  };
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); };
  data_parallel(options, data.points, data.labels, loss_of, [](Trainer& trainer) { trainer.step(); });
  EXPECT_EQ(available.at(0), std::uint64_t{kLimit});
  EXPECT_NE(available.at(1), std::uint64_t{kLimit});
}

class FallbackTraining : public ::testing::TestWithParam<std::tuple<bool, std::int64_t, MergeStrategy>> {};

INSTANTIATE_TEST_SUITE_P(Strategies, FallbackTraining,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(1, 3),
                                            ::testing::Values(MergeStrategy::kOwner, MergeStrategy::kTree)));

TEST_P(FallbackTraining, MatchesTheFallbackBackendBitForBit) {
  const auto [has_streams, shards, merge] = GetParam();
  const Outcome wanted = train(runtime_for(nullptr), backend_name(), shards, merge);

  const Outcome got = train(runtime_for(memory_only(has_streams)), "test7", shards, merge);

  EXPECT_EQ(got.parameters, wanted.parameters);
  EXPECT_EQ(got.loss, wanted.loss);
  EXPECT_THAT(wanted.fallbacks, IsEmpty());
  const char* each_step = shards == 1 ? "step" : "gradient";
  std::uint64_t launches = 0;
  for (const FallbackCount& row : got.fallbacks) {
    launches += row.routine == each_step ? row.launch_count : 0;
    EXPECT_EQ(row.reason, "it does not provide yoke.program/1");
  }
  EXPECT_EQ(launches, static_cast<std::uint64_t>(12 * shards));
}

TEST(FallbackTraining, MixesDevicesWithAndWithoutPrograms) {
  const Outcome wanted = train(runtime_for(nullptr), backend_name(), 2, MergeStrategy::kOwner);
  const auto runtime = runtime_for(memory_only(false));
  const std::string mixed = std::string(backend_name()) + ":1,test7:1";
  EXPECT_EQ(train(runtime, mixed, 2, MergeStrategy::kOwner).parameters, wanted.parameters);
}

TEST(FallbackTraining, IsAnErrorInStrictMode) {
  const auto control = memory_only(false);
  const auto runtime = runtime_for(control, true);
  EXPECT_THAT(test::error_of([&] { train(runtime, "test7", 2, MergeStrategy::kOwner); }),
              test::is_error(ErrorCode::kUnimplemented, "backend 'test7' does not run programs",
                             "strict mode forbids the fallback"));
  EXPECT_THAT(runtime->fallbacks(), IsEmpty());
}

TEST(FallbackTraining, IsNotUsedForABackendThatRunsEverything) {
  const auto runtime = runtime_for(nullptr, true);
  EXPECT_THAT(train(runtime, backend_name(), 3, MergeStrategy::kAuto).fallbacks, IsEmpty());
}

struct MemoryCase {
  std::int64_t accumulate = 1;
  bool is_fed = false;
  MergeStrategy merge = MergeStrategy::kOwner;
  Wire wire = Wire::kFull;
};

// What a run with three shards announces for the fallback device, and what it uses there.
std::pair<std::uint64_t, std::uint64_t> fallback_bytes(const MemoryCase& one) {
  constexpr std::uint64_t kRows = 60;
  constexpr std::uint64_t kWidth = 40;
  const auto model = nn::sequential(nn::linear(100), nn::relu(), nn::linear(1));
  DataParallelOptions options;
  options.runtime = runtime_for(memory_only(false));
  options.backend_name = "test7";
  options.shards = 3;
  options.learning_rate = 0.01F;
  options.batch_size = 30;
  options.accumulate = one.accumulate;
  options.merge = one.merge;
  options.wire = one.wire;
  std::uint64_t announced = 0;
  options.check_memory = [&](std::span<const MemoryNeed> needs) {
    for (const MemoryNeed& need : needs) {
      announced = need.device.starts_with(backend_name()) ? need.total() : announced;
    }
  };
  std::uint64_t used = 0;
  const auto body = [&](Trainer& trainer) {
    trainer.step();
    trainer.wait();
    const auto code = compile(trainer.shard_list()[0].stream->device(),
                              "yoke.program 1\nprogram p() {\n  arg x : f32[1] out\n  x[i] = 1\n}\n");
    used = code->fallback()->device()->memory().used_bytes;
  };
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return mean(square(model(x) - y)); };
  const auto rows = [&](std::uint64_t count) {
    return Batch{tensor(some_numbers(count * kWidth, 1), {count, kWidth}),
                 tensor(some_numbers(count, 2), {count, 1})};
  };
  if (one.is_fed) {
    data_parallel(options,
                  Feed{{YOKE_TYPE_F32, {kRows, kWidth}},
                       {YOKE_TYPE_F32, {kRows, 1}},
                       [&](std::int64_t) { return rows(30); }},
                  loss_of, body);
  } else {
    data_parallel(options, rows(kRows)["inputs"], rows(kRows)["targets"], loss_of, body);
  }
  return {announced, used};
}

TEST(FallbackMemory, IsAnnouncedForFeedsSumsAndMerges) {
  for (const MemoryCase& one :
       std::vector<MemoryCase>{{},
                               {.is_fed = true},
                               {.accumulate = 2},
                               {.accumulate = 3, .is_fed = true, .merge = MergeStrategy::kTree},
                               {.merge = MergeStrategy::kRing},
                               {.merge = MergeStrategy::kRing, .wire = Wire::kBF16},
                               {.merge = MergeStrategy::kTree, .wire = Wire::kBF16}}) {
    const auto [announced, used] = fallback_bytes(one);
    EXPECT_GT(used, 0U);
    EXPECT_NEAR(static_cast<double>(announced), static_cast<double>(used), 0.02 * static_cast<double>(used))
        << "accumulate " << one.accumulate << (one.is_fed ? ", fed, " : ", ")
        << merge_strategy_name(one.merge) << ", wire " << wire_name(one.wire);
  }
}

}  // namespace
}  // namespace yoke::testing
