// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/memory_test.cpp: the memory that the host has left, read from files like those of Linux; sizes and
// counts as text.
#include <gtest/gtest.h>

#include "host_memory.h"
#include "test_files.h"
#include "text.h"

namespace yoke::cli {
namespace {

class HostMemory : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    test::write_file(folder_ / file, text);
  }
  std::optional<std::uint64_t> available() const { return available_host_memory(folder_.path()); }
  test::TemporaryFolder folder_;
};

TEST_F(HostMemory, IsWhatTheSystemReports) {
  EXPECT_EQ(available(), std::nullopt);
  write("proc/meminfo", "MemTotal:       32000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n");
  EXPECT_EQ(available(), 8000U * 1024U);
  EXPECT_GT(available_host_memory().value_or(0), 1U << 20U);
}

TEST_F(HostMemory, IsLimitedByEveryControlGroupAbove) {
  write("proc/meminfo", "MemAvailable:    8000 kB\n");
  write("proc/self/cgroup", "0::/user/job\n");
  write("sys/fs/cgroup/user/job/memory.max", "max\n");
  write("sys/fs/cgroup/user/job/memory.current", "1000\n");
  EXPECT_EQ(available(), 8000U * 1024U);
  write("sys/fs/cgroup/user/memory.max", "600000\n");
  write("sys/fs/cgroup/user/memory.current", "200000\n");
  EXPECT_EQ(available(), 400000U);
  write("sys/fs/cgroup/user/memory.stat", "anon 150000\ninactive_file 50000\n");
  EXPECT_EQ(available(), 450000U);
  write("sys/fs/cgroup/memory.max", "1000\n");  // of the container
  write("sys/fs/cgroup/memory.current", "5000\n");
  EXPECT_EQ(available(), 0U);
}

TEST_F(HostMemory, IsLimitedByControlGroupsOfTheFirstVersion) {
  write("proc/meminfo", "MemAvailable:    8000 kB\n");
  write("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/job\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "700000\n");
  EXPECT_EQ(available(), 8000U * 1024U);
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "600000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "500000\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 100000\n");
  EXPECT_EQ(available(), 200000U);
}

TEST(Counts, HaveTheFormOfTheirNoun) {
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(60000, "row"), "60,000 rows");
  EXPECT_EQ(counted(1, "class", "classes"), "1 class");
  EXPECT_EQ(counted(2, "class", "classes"), "2 classes");
  EXPECT_EQ(byte_text(1), "1 byte");
  EXPECT_EQ(byte_text(0), "0 bytes");
  EXPECT_EQ(byte_text(1023), "1023 bytes");
  EXPECT_EQ(byte_text(1536), "1.5 KiB");
  EXPECT_EQ(byte_text(std::uint64_t{5} << 50U), "5120.0 TiB");
}

}  // namespace
}  // namespace yoke::cli
