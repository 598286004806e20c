// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/checkpoint_folder_test.cpp: a folder of checkpoints that is read, locked or left by a killed
// process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "../data/test_files.h"
#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::is_error;
using test::TemporaryFolder;
using ::testing::UnorderedElementsAre;

TEST(CheckpointFolderTest, IsReadWhileItsRunGoesOn) {
  const TemporaryFolder folder;
  CheckpointFolder kept(folder.path(), 1);  // each save removes what may be read just now
  TrainerState state;
  state.parameters = {{"w", Type::kF32, {1000}, std::vector<std::byte>(4000)}};
  kept.save(state);
  auto saving = std::async(std::launch::async, [&] {
    for (state.step = 1; state.step <= 200; ++state.step) {
      kept.save(state);
    }
  });
  while (saving.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    EXPECT_NO_THROW(load_checkpoint(folder.path()));
    EXPECT_NO_THROW(load_checkpoint(folder / "latest"));
  }
}

TEST(CheckpointFolderTest, UnfinishedOnesAreRemovedAndTheFolderIsLocked) {
  const TemporaryFolder folder;
  fs::create_directories(folder / ".new");
  test::write_file(folder / ".new/weights.safetensors", "half");
  fs::create_directory_symlink("step-000000000007", folder / ".latest");
  const CheckpointFolder first(folder.path());
  EXPECT_FALSE(first.latest());
  EXPECT_THAT(folder.names(), ::testing::IsEmpty());
  EXPECT_THAT(error_of([&] { CheckpointFolder second(folder.path()); }),
              is_error(ErrorCode::kFailedPrecondition, "another run saves checkpoints to "));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, CheckpointFolder(folder / "other", 0));
  EXPECT_THAT(error_of([&] { load_checkpoint(folder.path()); }),
              is_error(ErrorCode::kNotFound, " has no checkpoint"));
}

TEST(CheckpointFolderTest, LatestIsAddedIfAProcessWasKilledBeforeItDid) {
  const TemporaryFolder folder;
  TrainerState state;
  state.step = 7;
  CheckpointFolder(folder.path()).save(state);
  fs::remove(folder / "latest");
  for (int i = 0; i < 2; ++i) {  // the second one finds the link that the first one has added
    const CheckpointFolder next(folder.path());
    EXPECT_EQ(fs::read_symlink(folder / "latest"), "step-000000000007");
    EXPECT_THAT(folder.names(), UnorderedElementsAre("latest", "step-000000000007"));
  }
}

// The error for a damaged checkpoint tells the user to do this.
TEST(CheckpointFolderTest, TheOneBeforeIsUsedIfTheUserRemovesTheLatest) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {7, 9}) {
    TrainerState state;
    state.step = step;
    CheckpointFolder(folder.path()).save(state);
  }
  fs::remove_all(folder / "step-000000000009");
  EXPECT_EQ(load_checkpoint(folder.path()).state.step, 7);
  const CheckpointFolder next(folder.path());
  EXPECT_EQ(next.latest(), folder / "step-000000000007");
  EXPECT_EQ(fs::read_symlink(folder / "latest"), "step-000000000007");
  EXPECT_EQ(load_checkpoint(folder / "latest").state.step, 7);
}

// A run that starts anew keeps its own checkpoints, and those of later steps stay.
TEST(CheckpointFolderTest, LatestNamesTheLastOneSavedWhateverItsStep) {
  const TemporaryFolder folder;
  CheckpointFolder kept(folder.path(), 1);
  for (const std::int64_t step : {10, 3, 4}) {
    TrainerState state;
    state.step = step;
    kept.save(state);
    EXPECT_EQ(load_checkpoint(folder.path()).state.step, step);
  }
  EXPECT_EQ(kept.latest(), folder / "step-000000000004");
  EXPECT_THAT(folder.names(), UnorderedElementsAre("latest", "step-000000000004", "step-000000000010"));
}

}  // namespace
}  // namespace yoke::testing
