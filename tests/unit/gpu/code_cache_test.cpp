// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/code_cache_test.cpp: compiled kernels on disk.
#include "code_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <yoke/program/text.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../../support/count_allocations.h"

namespace yoke::gpu {
namespace {

namespace fs = std::filesystem;

class CodeCacheTest : public testing::Test {
 protected:
  CodeCacheTest() {
    std::string name = fs::temp_directory_path() / "yoke-cache-XXXXXX";
    root_ = ::mkdtemp(name.data());
    folder_ = root_ / "yoke" / "cuda";
  }
  ~CodeCacheTest() override { fs::remove_all(root_); }

  CodeCache cache(std::uint64_t limit = 1 << 20) const { return {sdk::Host(), folder_, limit}; }
  std::string contents(const std::string& key) const {
    std::ifstream file(folder_ / key, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& key, const std::string& bytes) const {
    std::ofstream(folder_ / key, std::ios::binary) << bytes;
  }

  fs::path root_;
  fs::path folder_;
  const std::string key_ = program::digest("key");
  const std::string image_ = std::string("\x7f\x45\x4c\x46\0\n\n image", 13);
};

TEST_F(CodeCacheTest, ReturnsWhatWasStored) {
  EXPECT_EQ(cache().find(key_), std::nullopt);
  cache().store(key_, image_);
  EXPECT_EQ(cache().find(key_), image_);
  EXPECT_EQ(cache().find(program::digest("other")), std::nullopt);
  cache().remove(key_);
  EXPECT_EQ(cache().find(key_), std::nullopt);
}

TEST_F(CodeCacheTest, OnlyTheUserMayReadTheFolderAndItsFiles) {
  cache().store(key_, image_);
  struct stat status = {};
  ASSERT_EQ(::stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat((folder_ / key_).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(CodeCacheTest, FolderThatOthersMayWriteIsNotUsed) {
  cache().store(key_, image_);
  fs::permissions(folder_, fs::perms::all);
  EXPECT_EQ(cache().find(key_), std::nullopt);
  cache().store(program::digest("other"), image_);
  EXPECT_FALSE(fs::exists(folder_ / program::digest("other")));
}

TEST_F(CodeCacheTest, FileThatIsCutOrChangedAnywhereCountsAsMissing) {
  cache().store(key_, image_);
  const std::string whole = contents(key_);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    write(key_, whole.substr(0, i));
    EXPECT_EQ(cache().find(key_), std::nullopt) << "cut to " << i << " bytes";
    EXPECT_FALSE(fs::exists(folder_ / key_)) << "a broken file stays";
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write(key_, changed);
    EXPECT_EQ(cache().find(key_), std::nullopt) << "changed at byte " << i;
  }
  write(key_, whole);
  EXPECT_EQ(cache().find(key_), image_);
}

TEST_F(CodeCacheTest, FileOfAnotherKeyCountsAsMissing) {
  cache().store(key_, image_);
  const std::string other = program::digest("other");
  fs::copy(folder_ / key_, folder_ / other);
  EXPECT_EQ(cache().find(other), std::nullopt);
}

TEST_F(CodeCacheTest, LeastRecentlyUsedFilesAreRemovedFirst) {
  const CodeCache small = cache(2000);
  const std::string image(150, 'x');  // about 250 bytes with its header
  std::vector<std::string> keys;
  for (int i = 0; i < 7; ++i) {
    keys.push_back(program::digest(std::to_string(i)));
    small.store(keys.back(), image);
    fs::last_write_time(folder_ / keys.back(),
                        fs::file_time_type::clock::now() - std::chrono::hours(100 - i));
  }
  ASSERT_TRUE(small.find(keys[0]));  // and is now the newest
  small.store(program::digest("more"), std::string(600, 'x'));
  EXPECT_TRUE(small.find(keys[0]));
  EXPECT_FALSE(small.find(keys[1]));
  EXPECT_TRUE(small.find(program::digest("more")));
}

TEST_F(CodeCacheTest, FilesOfOthersInTheFolderAreKept) {
  cache().store(key_, image_);
  const std::string big(4000, 'x');
  const std::vector<std::string> names = {"thesis.tex", key_ + ".backup", "0" + key_, key_.substr(1)};
  for (const std::string& name : names) {
    write(name, big);
    fs::last_write_time(folder_ / name, fs::file_time_type::clock::now() - std::chrono::hours(1000));
  }
  for (int i = 0; i < 40; ++i) {
    cache(1000).store(program::digest(std::to_string(i)), image_);
  }
  for (const std::string& name : names) {
    EXPECT_EQ(contents(name), big) << name;
  }
  std::uint64_t total = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    total += entry.file_size() == big.size() ? 0 : entry.file_size();
  }
  EXPECT_LE(total, 1000U);
}

TEST_F(CodeCacheTest, ConcurrentWritersLeaveOneWholeFile) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        cache().store(key_, image_);
        const std::optional<std::string> found = cache().find(key_);
        EXPECT_EQ(found, image_);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

// A failed allocation throws. It does not end the process, and no stored image gets lost.
TEST_F(CodeCacheTest, FailedAllocationKeepsStoredImages) {
  using Failures = yoke::test::FailAllocations;
  const std::string other = program::digest("other");
  cache().store(key_, image_);
  for (const auto which : {Failures::Which::kOne, Failures::Which::kAllFrom}) {
    std::uint64_t failed = 0;
    bool is_reached = true;
    for (std::uint64_t first = 0; is_reached; ++first) {
      const CodeCache tested = cache();
      std::optional<std::string> found = image_;
      {
        const Failures failing(first, which);
        try {
          found = tested.find(key_);
          tested.store(other, image_);
          tested.remove(other);
        } catch (const std::bad_alloc&) {
          ++failed;
        }
        is_reached = Failures::call_count() > first;
      }
      EXPECT_EQ(found, image_) << first;
      EXPECT_EQ(cache().find(key_), image_) << first;
    }
    EXPECT_GT(failed, 10U);
  }
}

TEST_F(CodeCacheTest, OptionSelectsTheFolder) {
  ::setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(CodeCache::folder_of("on", "hip"), "/somewhere/yoke/hip");
  EXPECT_EQ(CodeCache::folder_of("/mine", "hip"), "/mine");
  EXPECT_EQ(CodeCache::folder_of("off", "hip"), "");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  ::setenv("HOME", "/of_user", 1);
  EXPECT_EQ(CodeCache::folder_of("on", "cuda"), "/of_user/.cache/yoke/cuda");
  const CodeCache disabled(sdk::Host(), "", 1000);
  disabled.store(key_, image_);
  EXPECT_EQ(disabled.find(key_), std::nullopt);
}

}  // namespace
}  // namespace yoke::gpu
