// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/data_arguments_test.cpp: data sets, files, checkpoints and schedules with empty arguments.
#include <yoke/yoke.h>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kMissing = ErrorCode::kNotFound;

TEST(DataArguments, Tables) {
  const datasets::Table none;
  EXPECT_EQ(none.row_count(), 0U);
  EXPECT_ERROR(kMissing, (void)datasets::read_csv(""));
  EXPECT_ERROR(kMissing, (void)datasets::read_columns(""));
  EXPECT_ERROR(kMissing, (void)datasets::read_text(""));
  EXPECT_ERROR(kMissing, (void)datasets::read_images("", 10, 0, 1));
  EXPECT_ERROR(kInvalid, (void)datasets::read_images("", 10, 0, 0));
  EXPECT_ERROR(kInvalid, (void)datasets::column_of(none, ""));
  EXPECT_ERROR(kInvalid, (void)datasets::random_split(0, 0.5, 0));
  EXPECT_ERROR(kInvalid, (void)datasets::read_split("", 0, 0, 0.5));
  EXPECT_ERROR(kMissing, (void)datasets::read_split("", 0, 2, 0.5));
  EXPECT_ERROR(kInvalid, (void)datasets::make_examples(none, {}, datasets::Task::kRegression));
  const datasets::Table damaged{
      .file = {}, .names = {"x", "y"}, .lines = {1, 2}, .values = {1}, .label_names = {}};
  EXPECT_ERROR(kInvalid, (void)datasets::make_examples(damaged, {{0}, {1}}, datasets::Task::kRegression));
}

TEST(DataArguments, Files) {
  EXPECT_FALSE(is_safetensors(""));
  EXPECT_THROW(save_safetensors("", {}), Error);
  EXPECT_ERROR(kMissing, (void)load_safetensors(""));
  EXPECT_THROW(save_arrays("", {}), Error);
  EXPECT_ERROR(kMissing, (void)load_arrays(""));
  EXPECT_ERROR(kMissing, (void)load_npy(""));
  EXPECT_THROW(save_npy("", {}), Error);
  EXPECT_ERROR(kInvalid, save_npy("unused.npy", {.name = {}, .dims = {2}, .bytes = {}}));
}

TEST(DataArguments, Checkpoints) {
  EXPECT_ERROR(kMissing, (void)load_checkpoint(""));
  EXPECT_ERROR(kMissing, (void)load_checkpoint_notes(""));
  EXPECT_ERROR(kMissing, (void)load_checkpoint_weights(""));
  EXPECT_ERROR(kMissing, (void)checkpoint_weights(""));
  EXPECT_THROW(CheckpointFolder(""), Error);
  EXPECT_ERROR(kInvalid, CheckpointFolder("unused", 0));
  const auto folder = std::filesystem::temp_directory_path() / ("yoke-empty-" + std::to_string(::getpid()));
  {
    CheckpointFolder kept(folder);
    EXPECT_FALSE(kept.latest());
    EXPECT_EQ(kept.path(), folder);
    EXPECT_EQ(kept.save(TrainerState{}), folder / "step-000000000000");
  }
  EXPECT_TRUE(load_checkpoint(folder).state.parameters.empty());
  std::filesystem::remove_all(folder);
}

TEST(DataArguments, Orders) {
  EXPECT_ERROR(kInvalid, Permutation(0, 0, 0));
  EXPECT_EQ(Permutation(1, 0, 0)(0), 0U);
  EXPECT_ERROR(kInvalid, (void)shuffled({}, {}, 0, 0));
}

TEST(DataArguments, Augmentation) {
  EXPECT_ERROR(kInvalid, (void)random_flip({}));
  EXPECT_ERROR(kInvalid, (void)random_crop({}, 1));
  EXPECT_ERROR(kInvalid, (void)uniform({}, {.by_row = true}));
  EXPECT_EQ(run_seed_symbol().low, 0);
  EXPECT_EQ(batch_row_symbol().low, 0);
}

TEST(DataArguments, Schedules) {
  EXPECT_ERROR(kInvalid, (void)parse_schedule("", 0.1, 1));
  EXPECT_FALSE(needs_steps(static_cast<Schedule::Kind>(99)));
  EXPECT_ERROR(kInvalid, (void)learning_rate({.kind = static_cast<Schedule::Kind>(99), .rate = 1}));
  EXPECT_EQ(learning_rate({}).rank(), 0U);
  EXPECT_FALSE(parse_plateau(""));
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, ReduceOnPlateau(Scalar{}));
  ReduceOnPlateau plateau(scalar("rate", 1));
  EXPECT_FALSE(plateau.observe(std::nan("")));
  EXPECT_EQ(plateau.observation_count(), 1);
  EXPECT_ERROR(kInvalid, plateau.set_state(""));
  EXPECT_EQ(plateau.state(), "rate=1,best=inf,bad=1,cooldown=0,observations=1");
}

}  // namespace
}  // namespace yoke::test
