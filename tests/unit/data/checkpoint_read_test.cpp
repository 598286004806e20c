// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/checkpoint_read_test.cpp: which checkpoint of a folder is read, what its description may have, and
// what happens if it is replaced meanwhile.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/checkpoint.h>
#include <zlib.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "error_of.h"
#include "test_files.h"

namespace {

int checksum_count = 0;
std::function<void()> before_checksum;  // of the next checksum only

}  // namespace

// Replaces that of zlib. The first checksum that a reader computes is that of the description.
extern "C" uLong crc32_z(uLong start, const Bytef* bytes, z_size_t size) {
  ++checksum_count;
  if (const auto call = std::exchange(before_checksum, nullptr)) {
    call();
  }
  static const auto original = reinterpret_cast<decltype(&crc32_z)>(::dlsym(RTLD_NEXT, "crc32_z"));
  return original(start, bytes, size);
}

namespace yoke {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

using test::error_of;
using test::is_error;
using test::TemporaryFolder;

TrainerState state_of(std::int64_t step, std::size_t element_count = 1) {
  TrainerState state;
  state.step = step;
  state.base_seed = -5;
  state.parameters = {{"w", Type::kF32, {element_count}, std::vector<std::byte>(4 * element_count)}};
  return state;
}

// Writes a description with a correct checksum.
void write_description(const fs::path& file, json fields) {
  fields.erase("crc32");
  const std::string text = fields.dump();
  fields["crc32"] = ::crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  test::write_file(file, fields.dump());
}

TEST(CheckpointReads, FieldsOfAnotherKindAreErrors) {
  const TemporaryFolder folder;
  const fs::path file = CheckpointFolder(folder.path()).save(state_of(7)) / "checkpoint.json";
  const json right = json::parse(test::read_whole(file));
  const std::tuple<const char*, json, const char*> cases[] = {
      {"step", 1.5, "'step' is not a whole number"},
      {"step", "7", "'step' is not a whole number"},
      {"step", std::uint64_t{1} << 63U, "'step' is not a whole number"},
      {"base_seed", 1e300, "'base_seed' is not a whole number"},
      {"bindings", 1, "'bindings' is not a list"},
      {"bindings", {1, "2"}, "'bindings' is not a whole number"},
      {"batch", -1, "'batch' is not a whole number from 0 on"},
      {"row_count", 1.5, "'row_count' is not a whole number from 0 on"},
      {"optimizer", 1, "'optimizer' is not text"},
      {"precision", 1, "'precision' is not text"},
      {"learning_rate", "0.1", "'learning_rate' is not a number"},
      {"loss_scale", true, "'loss_scale' is not a number"},
      {"backends", {1}, "'backends' is not text"},
      {"notes", {1}, "'notes' is not an object"},
      {"notes", {{"a", 1}}, "'a' is not text"},
      {"files", "none", "'files' is not an object"},
  };
  for (const auto& [name, value, why] : cases) {
    json changed = right;
    changed[name] = value;
    write_description(file, changed);
    EXPECT_THAT(error_of([&] { (void)load_checkpoint(folder.path()); }),
                is_error(ErrorCode::kDataLoss, file.string() + ": ", why))
        << name << ": " << value;
    changed.erase(name);
    if (std::string(name) != "precision") {  // its absence is not an error
      write_description(file, changed);
      EXPECT_THAT(error_of([&] { (void)load_checkpoint(folder.path()); }),
                  is_error(ErrorCode::kDataLoss, "it has no '" + std::string(name) + "'"));
    }
  }
  write_description(file, right);
  EXPECT_EQ(load_checkpoint(folder.path()).state.base_seed, -5);
}

TEST(CheckpointReads, OtherFormatsAreRefusedAndThoseWithoutAPrecisionAreF32) {
  const TemporaryFolder folder;
  const fs::path file = CheckpointFolder(folder.path()).save(state_of(7)) / "checkpoint.json";
  json fields = json::parse(test::read_whole(file));
  for (const char* name : {"precision", "loss_scale", "clean_steps", "skipped_steps"}) {
    fields.erase(name);
  }
  write_description(file, fields);
  const TrainerState old = load_checkpoint(folder.path()).state;
  EXPECT_EQ(old.precision, "f32");
  EXPECT_EQ(old.loss_scale.scale, 1);
  fields["format"] = "yoke.checkpoint/2";
  write_description(file, fields);
  EXPECT_THAT(error_of([&] { (void)load_checkpoint(folder.path()); }),
              is_error(ErrorCode::kUnimplemented, "the format is 'yoke.checkpoint/2', and this version"));
}

TEST(CheckpointReads, OnlyNamesOfStepsAreCheckpointsOfAFolder) {
  const TemporaryFolder folder;
  CheckpointFolder(folder.path()).save(state_of(7));
  fs::rename(folder / "step-000000000007", folder / "best");
  EXPECT_EQ(load_checkpoint(folder / "best").state.step, 7);
  const auto finds_nothing_in = [](const fs::path& path) {
    EXPECT_THAT(error_of([&] { (void)load_checkpoint(path); }),
                is_error(ErrorCode::kNotFound, path.string() + " has no checkpoint"));
  };
  for (const char* name : {"copy-000000000009", "step-9", "a"}) {
    fs::create_directory(folder / name);
    finds_nothing_in(folder / name);
  }
  fs::remove(folder / "latest");
  fs::create_directory_symlink("best", folder / "latest");  // by a user
  finds_nothing_in(folder.path());
  finds_nothing_in(folder / "step-000000000008");
  fs::copy(folder / "best", folder / "step-000000000007");
  EXPECT_EQ(load_checkpoint(folder.path()).folder, folder / "step-000000000007");
}

TEST(CheckpointReads, UnreadableFilesArePermissionErrors) {
  const TemporaryFolder folder;
  const fs::path saved = CheckpointFolder(folder.path()).save(state_of(7));
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(saved / "weights.safetensors", fs::perms(0));
  {
    const test::OrdinaryUser user;
    EXPECT_THAT(
        error_of([&] { (void)load_checkpoint(folder.path()); }),
        is_error(ErrorCode::kPermissionDenied, "cannot read " + (saved / "weights.safetensors").string()));
  }
  fs::permissions(folder.path(), fs::perms(0));
  const test::OrdinaryUser user;
  EXPECT_THAT(error_of([&] { (void)load_checkpoint(folder.path()); }),
              is_error(ErrorCode::kPermissionDenied, "cannot read the folder " + folder.path().string()));
}

TEST(CheckpointReads, NextOneIsReadIfTheRunRemovesIt) {
  const TemporaryFolder folder;
  CheckpointFolder kept(folder.path(), 1);
  kept.save(state_of(1));
  before_checksum = [&] {
    kept.save(state_of(2));
    before_checksum = [&] { kept.save(state_of(3)); };
  };
  EXPECT_EQ(load_checkpoint(folder.path()).state.step, 3);
}

TEST(CheckpointReads, ReplacementIsReadIfTheRunReplacesIt) {
  const TemporaryFolder folder;
  CheckpointFolder kept(folder.path());
  kept.save(state_of(1, 10));
  before_checksum = [&] { kept.save(state_of(1, 20)); };
  EXPECT_EQ(load_checkpoint(folder.path()).state.parameters.at(0).dims, Dims{20});
}

TEST(CheckpointReads, DamagedOneIsReadExactlyTwice) {
  const TemporaryFolder folder;
  test::write_file(CheckpointFolder(folder.path()).save(state_of(1)) / "checkpoint.json", R"({"crc32": 1})");
  checksum_count = 0;
  EXPECT_THAT(error_of([&] { (void)load_checkpoint(folder.path()); }),
              is_error(ErrorCode::kDataLoss, "its checksum is wrong"));
  EXPECT_EQ(checksum_count, 2);
}

}  // namespace
}  // namespace yoke
