// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/pool_test.cpp: memory that is kept for reuse.
#include "pool.h"

#include <cuda/vendor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/plugin.h>

#include <cstdint>
#include <map>
#include <string>

namespace yoke::gpu {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The memory of a device, as a driver would report it.
struct Memory {
  std::map<Address, std::size_t> blocks;
  std::size_t capacity = 16 * kMiB;
  Address next = 4096;
  int allocations = 0;

  std::size_t used() const {
    std::size_t sum = 0;
    for (const auto& [address, size] : blocks) {
      sum += size;
    }
    return sum;
  }
};
Memory* memory = nullptr;

int allocate(Address* address, std::size_t byte_count) {
  if (byte_count > memory->capacity - memory->used()) {
    return kOutOfMemory;
  }
  ++memory->allocations;
  *address = memory->next;
  memory->blocks[memory->next] = byte_count;
  memory->next += byte_count;
  return 0;
}

int release(Address address) {
  return memory->blocks.erase(address) == 1 ? 0 : kInvalidValue;
}

int info(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = memory->capacity - memory->used();
  *total_bytes = memory->capacity;
  return 0;
}

class PoolTest : public testing::Test {
 protected:
  PoolTest() {
    memory = &memory_;
    driver_.memory_allocate = {allocate, "cuMemAlloc_v2"};
    driver_.memory_free = {release, "cuMemFree_v2"};
    driver_.memory_info = {info, "cuMemGetInfo_v2"};
    pool_.set_limit(8 * kMiB);
  }
  ~PoolTest() override {
    pool_.trim();
    EXPECT_TRUE(memory_.blocks.empty()) << "memory is left after trim()";
    memory = nullptr;
  }

  Memory memory_;
  cuda::Vendor vendor_;
  Driver driver_;
  Pool pool_{vendor_, driver_};
};

TEST_F(PoolTest, SizeClassesAreLargeEnoughAndWasteAtMostAnEighth) {
  for (std::uint64_t size = 1; size < std::uint64_t{1} << 40; size = size * 5 / 4 + 1) {
    const std::uint64_t bytes = Pool::size_class(size);
    EXPECT_GE(bytes, size);
    EXPECT_LE(bytes - size, std::max<std::uint64_t>(511, size / 8)) << size;
    EXPECT_EQ(bytes % 512, 0U) << size;
    EXPECT_EQ(Pool::size_class(bytes), bytes) << size;
  }
  EXPECT_EQ(Pool::size_class(0), 512U);
  EXPECT_EQ(Pool::size_class(UINT64_MAX), UINT64_MAX);
}

TEST_F(PoolTest, FreedBlockIsReusedForItsSizeClassOnly) {
  const Address first = pool_.allocate(1000);
  pool_.free(first, 1000);
  EXPECT_NE(pool_.allocate(4096), first);
  EXPECT_EQ(pool_.allocate(1024), first);
  EXPECT_EQ(memory_.allocations, 2);
  pool_.free(first, 1024);
  pool_.free(first + 1024, 4096);
}

TEST_F(PoolTest, BlocksBeyondTheLimitReturnToTheDriver) {
  const Address large = pool_.allocate(6 * kMiB);
  const Address small = pool_.allocate(4 * kMiB);
  pool_.free(large, 6 * kMiB);
  EXPECT_EQ(memory_.blocks.size(), 2U);
  pool_.free(small, 4 * kMiB);
  EXPECT_EQ(memory_.used(), 4 * kMiB);
  pool_.set_limit(0);
  EXPECT_EQ(memory_.used(), 0U);
}

TEST_F(PoolTest, KeptBlocksAreFreedBeforeAnAllocationFails) {
  const Address kept = pool_.allocate(6 * kMiB);
  pool_.free(kept, 6 * kMiB);
  const Address large = pool_.allocate(14 * kMiB);
  EXPECT_EQ(memory_.used(), 14 * kMiB);
  pool_.free(large, 14 * kMiB);
}

TEST_F(PoolTest, ErrorOfAFullDeviceHasBytesRequestedUsedAndFree) {
  const Address part = pool_.allocate(4 * kMiB);
  try {
    pool_.allocate(13 * kMiB + 1);
    FAIL() << "the allocation fits";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
    EXPECT_THAT(failure.text(), HasSubstr("13631489 bytes requested"));
    EXPECT_THAT(failure.text(), HasSubstr("4194304 in use"));
    EXPECT_THAT(failure.text(), HasSubstr("12582912 of 16777216 free"));
  }
  pool_.free(part, 4 * kMiB);
}

}  // namespace
}  // namespace yoke::gpu
