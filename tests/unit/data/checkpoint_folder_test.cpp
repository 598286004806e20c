// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/checkpoint_folder_test.cpp: what cannot be a folder of checkpoints is refused at the start, and a
// checkpoint is flushed once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <yoke/checkpoint.h>

#include <cerrno>
#include <string>
#include <vector>

#include "error_of.h"
#include "test_files.h"

namespace {

std::vector<std::string> flushed;  // names of files and folders
bool has_locks = true;

}  // namespace

// These replace those of the C library.
extern "C" int flock(int number, int operation) {
  if (!has_locks) {
    errno = ENOLCK;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, number, operation));
}
extern "C" int fsync(int number) {
  flushed.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(number)).filename());
  return static_cast<int>(::syscall(SYS_fsync, number));
}

namespace yoke {
namespace {

namespace fs = std::filesystem;

using test::error_of;
using test::is_error;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::StartsWith;

TEST(CheckpointFolders, FilesAndLinksWithoutATargetAreNotFolders) {
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
  const TemporaryFolder folder;
  test::write_file(folder / "file", "");
  fs::create_directory_symlink("nowhere", folder / "link");
  const std::string file = folder / "file";
  const std::string link = folder / "link";
  for (const std::string& path : {file, file + "/a"}) {
    EXPECT_THAT(error_of([&] { CheckpointFolder kept(path); }),
                is_error(kInvalid, file + " is a file, not a folder; choose another name"));
  }
  for (const std::string& path : {link, link + "/a"}) {
    EXPECT_THAT(error_of([&] { CheckpointFolder kept(path); }),
                is_error(kInvalid, link + " is a symbolic link to nowhere, which does not exist"));
  }
  fs::create_directory(folder / "nowhere");
  EXPECT_EQ(CheckpointFolder(link).path(), link);
}

TEST(CheckpointFolders, LatestThatIsNotALinkIsRefusedAtTheStart) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "a/latest");
  fs::create_directories(folder / "b");
  test::write_file(folder / "b/latest", "mine");
  for (const char* name : {"a", "b"}) {
    EXPECT_THAT(error_of([&] { CheckpointFolder kept(folder / name); }),
                is_error(ErrorCode::kInvalidArgument, "latest is not a symbolic link"));
  }
  EXPECT_EQ(test::read_whole(folder / "b/latest"), "mine");
}

TEST(CheckpointFolders, DescriptionIsOneObjectOfLittleDepth) {
  const TemporaryFolder folder;
  const fs::path file = CheckpointFolder(folder / "run").save(TrainerState()) / "checkpoint.json";
  const std::string whole = test::read_whole(file);
  const std::string deep(8U << 20U, '[');
  for (const std::string& text : {deep, "{\"a\":" + deep, whole + "x", whole + whole, std::string("[1]")}) {
    test::write_file(file, text);
    EXPECT_THAT(error_of([&] { (void)load_checkpoint(folder / "run"); }),
                is_error(ErrorCode::kDataLoss, "it is not a JSON object"));
  }
  test::write_file(file, whole + " \n");
  EXPECT_EQ(load_checkpoint(folder / "run").state.step, 0);
}

TEST(CheckpointFolders, FoldersThatCannotBeMadeOrUsedAreRefused) {
  const TemporaryFolder folder;
  for (const char* name : {"open", "closed", "listed"}) {
    fs::create_directory(folder / name);
  }
  fs::create_directory_symlink("open", folder / "link");
  test::write_file(folder / "open/file", "");
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(folder / "open", fs::perms(0555));
  fs::permissions(folder / "closed", fs::perms(0));
  fs::permissions(folder / "listed", fs::perms(0444));
  EXPECT_THAT(
      error_of([&] { CheckpointFolder kept(folder / "link/file/a"); }),
      is_error(ErrorCode::kInvalidArgument, (folder / "link/file").string() + " is a file, not a folder"));
  {
    const test::OrdinaryUser user;
    for (const char* name : {"open/new", "open/new/a", "closed/new"}) {
      EXPECT_THAT(
          error_of([&] { CheckpointFolder kept(folder / name); }),
          is_error(ErrorCode::kPermissionDenied, "cannot create the folder " + (folder / name).string()));
    }
    EXPECT_THAT(error_of([&] { CheckpointFolder kept(folder / "closed"); }),
                is_error(ErrorCode::kPermissionDenied, "cannot open the folder"));
    EXPECT_ERROR(ErrorCode::kPermissionDenied, CheckpointFolder(folder / "listed"));
  }
  for (const char* name : {"open", "closed", "listed"}) {
    fs::permissions(folder / name, fs::perms::owner_all);  // so that they can be deleted
  }
}

TEST(CheckpointFolders, FileSystemsWithoutLocksAreUsedWithoutThem) {
  const TemporaryFolder folder;
  has_locks = false;
  EXPECT_NO_THROW(CheckpointFolder(folder.path()).save(TrainerState()));
  has_locks = true;
  EXPECT_EQ(load_checkpoint(folder.path()).state.step, 0);
}

// The disk may be full when a run goes on.
TEST(CheckpointFolders, OpeningOneWhoseLatestIsRightWritesNothing) {
  const TemporaryFolder folder;
  CheckpointFolder(folder.path()).save(TrainerState());
  flushed.clear();
  const CheckpointFolder next(folder.path());
  EXPECT_TRUE(flushed.empty());
}

// On a slow disk, flushing takes most of the time of a small checkpoint.
TEST(CheckpointFolders, EveryFileIsFlushedOnceAndThenTheFolders) {
  const TemporaryFolder folder;
  CheckpointFolder kept(folder / "run");
  TrainerState state;
  state.step = 3;
  flushed.clear();
  kept.save(state);
  EXPECT_THAT(flushed, ElementsAre(StartsWith(".weights.safetensors"), StartsWith(".optimizer.safetensors"),
                                   StartsWith(".checkpoint.json"), ".new", "run", "run"));
}

}  // namespace
}  // namespace yoke
