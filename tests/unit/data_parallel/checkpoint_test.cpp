// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/checkpoint_test.cpp: runs that go on from a checkpoint end with the same bits, whatever the
// optimizer, the placement and the number of shards; damaged checkpoints are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "../data/test_files.h"
#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::is_error;
using test::TemporaryFolder;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr std::uint64_t kRows = 22;
constexpr int kSteps = 10;
constexpr int kHalf = 4;  // in the second epoch

struct Case {
  std::int64_t shards = 1;
  std::int64_t shards_later = 1;
  Placement placement = Placement::kAuto;
  MergeStrategy merge = MergeStrategy::kAuto;
  Optimizer optimizer = Sgd{.momentum = 0.9};
  std::int64_t reproducible = 0;
  bool fed = false;
  OnDeviceLost on_device_lost = OnDeviceLost::kFail;
  std::int64_t accumulate = 1;
  bool varying = false;
  Precision precision = Precision::kF32;
};

using Body = std::function<std::vector<float>(Trainer&)>;

std::vector<float> train(const Case& with, std::int64_t shards, const Body& body) {
  const Tensor x = tensor(some_numbers(kRows * 5, 1), {kRows, 5});
  const Tensor y = tensor(some_numbers(kRows, 2), {kRows});
  const nn::Module model = nn::sequential(nn::linear(7), nn::relu(), nn::dropout(0.2), nn::linear(1));
  DataParallelOptions options = options_for(shards, 0.05F);
  options.batch_size = 8;
  options.optimizer = with.optimizer;
  options.placement = with.placement;
  options.merge = with.merge;
  options.reproducible = with.reproducible;
  options.on_device_lost = with.on_device_lost;
  options.accumulate = with.accumulate;
  options.varying_rows = with.varying;
  options.precision = with.precision;
  options.base_seed = 3;
  options.bucket_byte_count = 256;  // several buckets, so that states are divided
  const auto loss = [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); };
  return with.fed ? data_parallel(options, shuffled(x, y, 8, 3), loss, body)
                  : data_parallel(options, x, y, loss, body);
}

std::vector<float> steps(Trainer& trainer, int count) {
  for (int i = 0; i < count; ++i) {
    trainer.step();
  }
  return all_values(trainer);
}

// The values of a run without interruption, and of one that is saved and goes on in a new trainer.
std::pair<std::vector<float>, std::vector<float>> whole_and_resumed(const Case& with) {
  const TemporaryFolder folder;
  const auto whole = train(with, with.shards, [](Trainer& trainer) { return steps(trainer, kSteps); });
  train(with, with.shards, [&](Trainer& trainer) {
    steps(trainer, kHalf);
    CheckpointFolder(folder.path()).save(trainer, {{"key", "value"}});
    return steps(trainer, 1);  // is lost
  });
  const auto resumed = train(with, with.shards_later, [&](Trainer& trainer) {
    trainer.set_state(load_checkpoint(folder.path()).state);
    EXPECT_EQ(trainer.step_count(), kHalf);
    return steps(trainer, kSteps - kHalf);
  });
  return {whole, resumed};
}

TEST(Checkpoint, ResumedRunEndsWithTheSameBits) {
  const Case cases[] = {
      {},
      {.optimizer = AdamW{}},
      {.optimizer = AdamW{}, .fed = true},
      {.shards = 2, .shards_later = 2, .placement = Placement::kOwner, .merge = MergeStrategy::kOwner},
      {.shards = 3, .shards_later = 3, .placement = Placement::kEverywhere, .merge = MergeStrategy::kTree},
      {.shards = 2,
       .shards_later = 2,
       .placement = Placement::kSharded,
       .merge = MergeStrategy::kRing,
       .optimizer = AdamW{}},
      {.shards = 3, .shards_later = 3, .placement = Placement::kSharded, .merge = MergeStrategy::kDirect},
      {.shards = 2, .shards_later = 2, .optimizer = AdamW{}, .on_device_lost = OnDeviceLost::kRedistribute},
      {.shards = 2, .shards_later = 2, .optimizer = AdamW{}, .accumulate = 2},
      {.shards = 2, .shards_later = 2, .optimizer = AdamW{}, .precision = Precision::kBF16},
      {.optimizer = AdamW{}, .precision = Precision::kF16},
      {.shards = 2,
       .shards_later = 2,
       .optimizer = clip_by_global_norm(AdamW{}, 1),
       .precision = Precision::kF16},
  };
  for (std::size_t i = 2; i < std::size(cases) + 2; i += kTriesAll ? 1 : 3) {
    const auto [whole, resumed] = whole_and_resumed(cases[i % std::size(cases)]);
    EXPECT_EQ(whole, resumed) << "case " << i % std::size(cases);
  }
}

// The batch of the next step is not the number of steps modulo the batches of an epoch.
TEST(Checkpoint, KeepsThePlaceInOtherRowsThatSetBatchGave) {
  const TemporaryFolder folder;
  const auto give_ten_rows = [](Trainer& trainer) {
    trainer.set_batch(tensor(some_numbers(50, 8), {10, 5}), tensor(some_numbers(10, 9), {10}));
  };
  const Case with{.varying = true};
  const auto whole = train(with, 1, [&](Trainer& trainer) {
    steps(trainer, 1);
    give_ten_rows(trainer);
    steps(trainer, 1);
    CheckpointFolder(folder.path()).save(trainer);
    return steps(trainer, 2);
  });
  const auto resumed = train(with, 1, [&](Trainer& trainer) {
    const TrainerState state = load_checkpoint(folder.path()).state;
    EXPECT_THAT(error_of([&] { trainer.set_state(state); }),
                is_error(ErrorCode::kInvalidArgument, "the number of rows is 10, here 22"));
    give_ten_rows(trainer);
    trainer.set_state(state);
    return steps(trainer, 2);
  });
  EXPECT_EQ(whole, resumed);
}

// The statistics of batch normalization are saved, too, and have no optimizer states.
TEST(Checkpoint, RunningStatesAreSaved) {
  const Tensor x = tensor(some_numbers(kRows * 5, 1), {kRows, 5});
  const Tensor y = tensor(some_numbers(kRows, 2), {kRows});
  const auto run = [&](const Body& body) {
    const nn::Module model = nn::sequential(nn::linear(7), nn::batch_norm(), nn::relu(), nn::linear(1));
    DataParallelOptions options = options_for(2, 0.05F);
    options.batch_size = 8;
    options.optimizer = AdamW{};
    return data_parallel(
        options, x, y, [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); }, body);
  };
  TrainerState half;
  const auto whole = run([&](Trainer& trainer) {
    steps(trainer, kHalf);
    half = trainer.state();
    return steps(trainer, kSteps - kHalf);
  });
  EXPECT_EQ(run([&](Trainer& trainer) {
              trainer.set_state(half);
              return steps(trainer, kSteps - kHalf);
            }),
            whole);
  EXPECT_LT(half.optimizer.size(), 2 * half.parameters.size());
}

TEST(Checkpoint, OtherNumbersOfShardsGoOnWithTheSameBitsIfReproducible) {
  for (const auto& [shards, later] : {std::pair(1, 4), std::pair(4, 2), std::pair(2, 1)}) {
    for (const bool fed : {false, true}) {
      if (!kTriesAll && fed != (shards == 4)) {
        continue;
      }
      const auto [whole, resumed] = whole_and_resumed(
          {.shards = shards, .shards_later = later, .optimizer = AdamW{}, .reproducible = 4, .fed = fed});
      EXPECT_EQ(whole, resumed) << shards << " to " << later;
    }
  }
}

TEST(Checkpoint, OtherNumbersOfShardsAndPlacementsGoOnWithinRounding) {
  const TemporaryFolder folder;
  const Case first{.placement = Placement::kSharded, .merge = MergeStrategy::kRing, .optimizer = Adam{}};
  Case second{.placement = Placement::kOwner, .merge = MergeStrategy::kOwner, .optimizer = Adam{}};
  std::vector<NamedArray> states;
  train(first, 3, [&](Trainer& trainer) {
    steps(trainer, kHalf);
    const TrainerState state = trainer.state();
    states = state.optimizer;
    CheckpointFolder(folder.path()).save(state);
    return std::vector<float>();
  });
  train(second, 2, [&](Trainer& trainer) {
    trainer.set_state(load_checkpoint(folder.path()).state);
    const TrainerState state = trainer.state();
    EXPECT_EQ(state.optimizer.size(), states.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      EXPECT_EQ(state.optimizer[i].name, states[i].name);
      EXPECT_EQ(state.optimizer[i].bytes, states[i].bytes) << states[i].name;
      EXPECT_TRUE(std::any_of(states[i].bytes.begin(), states[i].bytes.end(), [](std::byte byte) {
        return byte != std::byte{0};
      })) << states[i].name;
    }
    return steps(trainer, 1);
  });
}

TEST(SavedParameters, ReachEveryShardUnderEachStrategy) {
  const TemporaryFolder folder;
  const auto run = [&](const DataParallelOptions& options, const std::function<void(Trainer&)>& body) {
    const auto model = nn::sequential(nn::linear(5), nn::relu(), nn::linear(1));
    const auto loss = [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); };
    data_parallel(options, tensor(some_numbers(36, 1), {12, 3}), tensor(some_numbers(12, 2), {12, 1}), loss,
                  body);
  };
  double expected = 0;
  run(options_for(1, 0.1F), [&](Trainer& trainer) {
    trainer.step();
    trainer.save_params(folder / "p.npz");
    trainer.step();
    expected = trainer.loss_value();
  });
  for (const auto& [strategy, placement] : strategies_and_placements()) {
    SCOPED_TRACE(std::string(merge_strategy_name(strategy)) + ", " + placement_name(placement));
    DataParallelOptions options = options_for(3, 0.1F);
    options.merge = strategy;
    options.placement = placement;
    options.check_replicas_every = 1;
    run(options, [&](Trainer& trainer) {
      trainer.step();  // with other parameters
      trainer.restore_params(folder / "p.npz");
      trainer.step();
      EXPECT_NEAR(trainer.loss_value(), expected, 1e-6);
    });
  }
}

TEST(Checkpoint, HasWhatTheRunWas) {
  const TemporaryFolder folder;
  train({.optimizer = AdamW{}, .precision = Precision::kF16}, 2, [&](Trainer& trainer) {
    steps(trainer, kHalf);
    trainer.set_learning_rate(0.01);
    CheckpointFolder(folder.path()).save(trainer, {{"a", "1"}});
    return std::vector<float>();
  });
  const Checkpoint read = load_checkpoint(folder.path());
  EXPECT_EQ(read.state.step, kHalf);
  EXPECT_EQ(read.state.optimizer_name, "adamw");
  EXPECT_EQ(read.state.base_seed, 3);
  EXPECT_EQ(read.state.row_count, kRows);
  EXPECT_EQ(read.state.batch_rows, 8U);
  EXPECT_FLOAT_EQ(static_cast<float>(read.state.learning_rate.value_or(0)), 0.01F);
  EXPECT_EQ(read.state.shards, 2U);
  EXPECT_THAT(read.state.devices, HasSubstr(" x2"));
  EXPECT_THAT(read.state.backends, ElementsAre(HasSubstr(std::string(backend_name()) + " ")));
  EXPECT_EQ(read.state.precision, "f16");
  EXPECT_EQ(read.state.loss_scale.scale, 65536);
  EXPECT_EQ(read.state.loss_scale.clean_steps, kHalf);
  EXPECT_EQ(read.state.loss_scale.skipped_steps, 0);
  EXPECT_EQ(read.notes.at("a"), "1");
  EXPECT_EQ(load_checkpoint_notes(folder.path()).state.parameters.size(), 0U);
  train({.optimizer = AdamW{}, .precision = Precision::kF16}, 1, [&](Trainer& trainer) {
    trainer.set_state(read.state);
    trainer.step();
    EXPECT_FLOAT_EQ(static_cast<float>(trainer.learning_rate_value()), 0.01F);
    return std::vector<float>();
  });
}

TEST(Checkpoint, KeepsTheLastOnesAndLatestNamesTheNewest) {
  const TemporaryFolder folder;
  train({}, 1, [&](Trainer& trainer) {
    CheckpointFolder kept(folder.path(), 2);
    for (int i = 0; i < 4; ++i) {
      trainer.step();
      EXPECT_EQ(kept.save(trainer), folder / ("step-00000000000" + std::to_string(i + 1)));
      EXPECT_EQ(kept.latest(), folder / ("step-00000000000" + std::to_string(i + 1)));
    }
    kept.save(trainer);  // the same step again
    return std::vector<float>();
  });
  EXPECT_THAT(folder.names(), UnorderedElementsAre("latest", "step-000000000003", "step-000000000004"));
  EXPECT_EQ(fs::read_symlink(folder / "latest"), "step-000000000004");
  EXPECT_EQ(load_checkpoint(folder.path()).folder, folder / "step-000000000004");
}

TEST(Checkpoint, FullDiskLeavesTheLastOneUnchanged) {
  const TemporaryFolder folder;
  train({}, 1, [&](Trainer& trainer) {
    CheckpointFolder kept(folder.path());
    steps(trainer, 1);
    kept.save(trainer);
    steps(trainer, 1);
    const test::FileSizeLimit full(100);
    EXPECT_THAT(error_of([&] { kept.save(trainer); }),
                is_error(ErrorCode::kResourceExhausted, "free some space"));
    return std::vector<float>();
  });
  EXPECT_EQ(load_checkpoint(folder.path()).state.step, 1);
  EXPECT_THAT(folder.names(), UnorderedElementsAre("latest", "step-000000000001"));
}

TEST(Checkpoint, StateOfAnotherRunIsAnErrorThatListsTheDifferences) {
  TrainerState state;
  train({}, 1, [&](Trainer& trainer) {
    state = trainer.state();
    return std::vector<float>();
  });
  const auto refuses = [&](const std::function<void(TrainerState&)>& change, const std::string& why) {
    train({}, 1, [&](Trainer& trainer) {
      TrainerState changed = state;
      change(changed);
      const std::vector<float> before = all_values(trainer);
      EXPECT_THAT(error_of([&] { trainer.set_state(changed); }),
                  is_error(ErrorCode::kInvalidArgument, why, "nothing was changed"));
      EXPECT_EQ(all_values(trainer), before);
      return before;
    });
  };
  refuses([](TrainerState& s) { s.optimizer_name = "adam"; }, "the optimizer is adam, here sgd");
  refuses([](TrainerState& s) { s.base_seed = 4; }, "the base seed is 4, here 3");
  refuses([](TrainerState& s) { s.row_count = 1; }, "the number of rows is 1, here 22");
  refuses([](TrainerState& s) { s.batch_rows = 1; }, "the batch size is 1, here 8");
  refuses([](TrainerState& s) { s.step = -1; }, "the step is -1");
  refuses([](TrainerState& s) { s.batch = 3; }, "the batch is 3");
  refuses([](TrainerState& s) { s.bindings.push_back(1); }, "the number of bindings is 1, here 0");
  refuses([](TrainerState& s) { s.parameters.pop_back(); }, "is missing");
  refuses([](TrainerState& s) { s.optimizer.clear(); }, "'momentum/0.weight' is missing");
  refuses([](TrainerState& s) { s.parameters[0].dims = {35}; }, "'0.weight' is f32[35], here f32[7, 5]");
  refuses(
      [](TrainerState& s) {
        s.parameters[0].dims = {2};
        s.parameters[0].bytes.resize(8);
      },
      "'0.weight' is f32[2], here f32[7, 5]; nothing");  // its bytes are as many as they should be
  refuses([](TrainerState& s) { s.optimizer[0].bytes.pop_back(); }, "has 139 bytes");
  refuses([](TrainerState& s) { s.parameters.push_back(s.parameters[0]); },
          "it has more parameters than the model");
  train({}, 1, [&](Trainer& trainer) {
    trainer.step();
    EXPECT_THAT(error_of([&] { trainer.set_state(state); }),
                is_error(ErrorCode::kFailedPrecondition, "a step has run"));
    return std::vector<float>();
  });
}

// Truncated, changed and missing files: a sentence that names the file, or the same values.
TEST(Checkpoint, DamagedFilesAreErrors) {
  const TemporaryFolder folder;
  fs::path saved;
  train({}, 1, [&](Trainer& trainer) {
    steps(trainer, 2);
    saved = CheckpointFolder(folder.path()).save(trainer, {{"model", "a small one"}});
    return std::vector<float>();
  });
  const Checkpoint right = load_checkpoint(saved);
  std::mt19937 random(23);
  const auto check = [&](const fs::path& file, const std::string& bytes) {
    test::write_file(file, bytes);
    try {
      const Checkpoint read = load_checkpoint(folder.path());
      EXPECT_EQ(read.state.step, right.state.step);
      EXPECT_EQ(read.notes, right.notes);
      for (std::size_t i = 0; i < right.state.parameters.size(); ++i) {
        EXPECT_EQ(read.state.parameters.at(i).bytes, right.state.parameters[i].bytes);
      }
    } catch (const Error& error) {
      EXPECT_THAT(error, AnyOf(is_error(ErrorCode::kDataLoss), is_error(ErrorCode::kUnimplemented)));
      EXPECT_THAT(error.what(), HasSubstr(file.filename().string()));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  };
  for (const char* name : {"checkpoint.json", "weights.safetensors", "optimizer.safetensors"}) {
    const fs::path file = saved / name;
    const std::string whole = test::read_whole(file);
    for (int i = 0; i < 100; ++i) {
      check(file, whole.substr(0, random() % whole.size()));
      std::string changed = whole;
      for (auto flips = 1 + random() % 3; flips > 0; --flips) {
        changed[random() % changed.size()] ^= static_cast<char>(1U << random() % 8);
      }
      check(file, changed);
    }
    check(file, "{");
    check(file, std::string(100000, '['));
    check(file, R"({"format":"yoke.checkpoint/1","crc32":1e400})");
    fs::remove(file);
    for (const fs::path& either : {fs::path(folder.path()), saved}) {
      EXPECT_THAT(error_of([&] { load_checkpoint(either); }),
                  is_error(ErrorCode::kDataLoss, name, "is missing", "remove its folder"));
    }
    test::write_file(file, whole);
  }
  EXPECT_EQ(load_checkpoint(folder.path()).state.step, 2);
}

}  // namespace
}  // namespace yoke::testing
