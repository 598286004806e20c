// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_memory_test.cpp: what the SDK checks about buffers and copies, and how it counts what
// lives.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_backend.h"
#include "loaded_plugin.h"

namespace yoke::test {
namespace {

class SdkMemoryTest : public testing::Test {
 protected:
  SdkMemoryTest() { current_script = &script_; }

  Script script_;
};

TEST_F(SdkMemoryTest, CopiesOutOfRangeAreRefusedAndTouchNothing) {
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 16);
  std::array<char, 17> memory{};
  const auto* api = entered.backend;
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

  EXPECT_EQ(api->from_host(nullptr, buffer, 0, memory.data(), 17, nullptr, &entered.error),
            YOKE_OUT_OF_RANGE);
  EXPECT_EQ(entered.error.text, "from_host: 17 bytes from byte 0 do not fit in a buffer of 16 bytes");
  EXPECT_EQ(api->from_host(nullptr, buffer, kHuge, memory.data(), 2, nullptr, nullptr), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(api->to_host(nullptr, buffer, 8, memory.data(), kHuge - 4, nullptr), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(api->to_host(nullptr, buffer, 17, memory.data(), 0, nullptr), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(api->to_host(nullptr, buffer, 16, memory.data(), 0, nullptr), YOKE_OK);
  EXPECT_EQ(api->device_to_device(nullptr, buffer, 0, buffer, 10, 8, nullptr), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(api->device_to_device(nullptr, buffer, 0, buffer, 4, 8, nullptr), YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(api->device_to_device(nullptr, buffer, 0, buffer, 8, 8, nullptr), YOKE_OK);
  EXPECT_EQ(api->from_host(nullptr, buffer, 0, nullptr, 4, nullptr, nullptr), YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(api->fill(nullptr, buffer, 0, 32, "a", 1, nullptr), YOKE_OUT_OF_RANGE);

  api->buffer_destroy(buffer);
  entered.close(device);
}

TEST_F(SdkMemoryTest, FillRepeatsPatternsOfOneTwoFourAndEightBytes) {
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 80);
  for (const std::uint32_t size : {1U, 2U, 4U, 8U}) {
    const std::string pattern = std::string("abcdefgh").substr(0, size);
    std::string expected = "..";
    while (expected.size() < 2 + 72) {
      expected += pattern;
    }
    std::string got(2 + 72, '.');
    ASSERT_EQ(entered.backend->fill(nullptr, buffer, 8, 72, pattern.data(), size, &entered.error), YOKE_OK);
    ASSERT_EQ(entered.backend->to_host(nullptr, buffer, 8, got.data() + 2, 72, nullptr), YOKE_OK);
    EXPECT_EQ(got, expected);
  }

  EXPECT_EQ(entered.backend->fill(nullptr, buffer, 0, 6, "abc", 3, nullptr), YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(entered.backend->fill(nullptr, buffer, 0, 6, "abcd", 4, nullptr), YOKE_INVALID_ARGUMENT);
  entered.backend->buffer_destroy(buffer);
  entered.close(device);
}

TEST_F(SdkMemoryTest, CopiesGoBetweenTwoDevicesAndSourcesAreFreeAtOnce) {
  Entered entered(fake_entry);
  yoke_device* first = entered.open(0);
  yoke_device* second = entered.open(1);
  yoke_buffer* from = entered.buffer(first, 8);
  yoke_buffer* to = entered.buffer(second, 12);
  std::int32_t source = 0;
  std::array<char, 8> got{};

  EXPECT_EQ(entered.backend->from_host(nullptr, from, 0, "original", 8, &source, nullptr), YOKE_OK);
  EXPECT_EQ(source, YOKE_SOURCE_COPIED);
  EXPECT_EQ(entered.backend->device_to_device(nullptr, to, 4, from, 0, 8, nullptr), YOKE_OK);
  EXPECT_EQ(entered.backend->to_host(nullptr, to, 4, got.data(), 8, nullptr), YOKE_OK);
  EXPECT_EQ(std::string(got.data(), 8), "original");

  entered.backend->buffer_destroy(from);
  entered.backend->buffer_destroy(to);
  entered.close(first);
  entered.close(second);
}

TEST_F(SdkMemoryTest, BuffersAreAlignedAndDescribed) {
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  for (const std::uint64_t byte_count : {0U, 1U, 63U, 65U, 4097U}) {
    yoke_buffer* buffer = entered.buffer(device, byte_count);
    yoke_buffer_info info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(entered.backend->buffer_describe(buffer, &info, &entered.error), YOKE_OK);
    EXPECT_EQ(info.byte_count, byte_count);
    EXPECT_NE(info.host_address, 0U);
    EXPECT_EQ(info.host_address % 64, 0U);
    EXPECT_EQ(info.kind, YOKE_MEMORY_DEVICE);
    entered.backend->buffer_destroy(buffer);
  }
  entered.close(device);
}

TEST_F(SdkMemoryTest, MemoryIsCountedAndTheLimitHolds) {
  script_.memory_limit = 100;
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  yoke_buffer* first = entered.buffer(device, 60);
  yoke_buffer* second = nullptr;

  EXPECT_EQ(entered.backend->buffer_create(device, 41, YOKE_MEMORY_DEVICE, &second, &entered.error),
            YOKE_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(entered.error.text, "device 0 has no room for 41 bytes: 60 of 100 are in use");
  second = entered.buffer(device, 40);
  entered.backend->buffer_destroy(first);
  yoke_memory_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(entered.backend->device_memory(device, &info, nullptr), YOKE_OK);
  EXPECT_EQ(info.used_bytes, 40U);
  EXPECT_EQ(info.peak_bytes, 100U);
  EXPECT_EQ(info.limit_bytes, 100U);

  entered.backend->buffer_destroy(second);
  entered.close(device);
}

TEST_F(SdkMemoryTest, BuffersThatNoMachineCanHoldAreRefusedAndNotCounted) {
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  yoke_buffer* buffer = nullptr;
  for (const std::uint64_t byte_count :
       {std::numeric_limits<std::uint64_t>::max(),
        static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())}) {
    EXPECT_EQ(entered.backend->buffer_create(device, byte_count, YOKE_MEMORY_DEVICE, &buffer, nullptr),
              YOKE_OUT_OF_DEVICE_MEMORY);
  }
  EXPECT_EQ(entered.backend->buffer_create(device, 8, 77, &buffer, nullptr), YOKE_UNIMPLEMENTED);

  EXPECT_EQ(buffer, nullptr);
  EXPECT_EQ(entered.live_counts().buffers, 0U);
  entered.close(device);
}

TEST_F(SdkMemoryTest, LimitAndCountsHoldWhenThreadsCompete) {
  script_.memory_limit = 300;
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        yoke_buffer* buffer = nullptr;
        if (entered.backend->buffer_create(device, 100, YOKE_MEMORY_DEVICE, &buffer, nullptr) == YOKE_OK) {
          entered.backend->from_host(nullptr, buffer, 96, &round, 4, nullptr, nullptr);
          entered.backend->buffer_destroy(buffer);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  yoke_memory_info info{};
  info.struct_size = sizeof info;

  ASSERT_EQ(entered.backend->device_memory(device, &info, nullptr), YOKE_OK);
  EXPECT_EQ(info.used_bytes, 0U);
  EXPECT_GE(info.peak_bytes, 100U);
  EXPECT_LE(info.peak_bytes, 300U);
  entered.close(device);
}

TEST_F(SdkMemoryTest, DeviceWithLiveChildrenStaysOpenAndSaysWhichTheyAre) {
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  yoke_buffer* first = entered.buffer(device, 8);
  yoke_buffer* second = entered.buffer(device, 8);
  EXPECT_EQ(entered.live_counts().devices, 1U);
  EXPECT_EQ(entered.live_counts().buffers, 2U);

  EXPECT_EQ(entered.backend->device_close(device, &entered.error), YOKE_FAILED_PRECONDITION);
  EXPECT_EQ(entered.error.text, "device 0 stays open: 2 buffers alive; destroy them first");
  EXPECT_EQ(entered.backend->from_host(nullptr, first, 0, "x", 1, nullptr, nullptr), YOKE_OK)
      << "still usable";

  entered.backend->buffer_destroy(first);
  entered.backend->buffer_destroy(second);
  entered.close(device);
  EXPECT_EQ(entered.live_counts().devices, 0U);
}

// What a test's host gave away, and what it gives at most.
struct Memory {
  std::vector<void*> live;
  std::uint64_t most = 1U << 20U;
  std::uint64_t alignment = 0;
};
Memory* current_memory = nullptr;

class HostMemoryTest : public SdkMemoryTest {
 protected:
  HostMemoryTest() { current_memory = &memory_; }

  static void* allocate(void*, std::uint64_t byte_count, std::uint64_t alignment) {
    current_memory->alignment = alignment;
    if (byte_count > current_memory->most) {
      return nullptr;
    }
    void* given = std::aligned_alloc(alignment, (byte_count / alignment + 1) * alignment);
    current_memory->live.push_back(given);
    return given;
  }
  static void deallocate(void*, void* given) {
    EXPECT_EQ(std::erase(current_memory->live, given), 1U) << "freed here, but not from here";
    std::free(given);
  }
  // The host's table, cut after `struct_size` bytes; memory services are there all the same.
  static std::unique_ptr<Entered> enter(std::uint64_t struct_size) {
    return std::make_unique<Entered>(fake_entry, [=](yoke_host_api& api) {
      api.struct_size = struct_size;
      api.allocate = &allocate;
      api.deallocate = &deallocate;
    });
  }

  Memory memory_;
};

TEST_F(HostMemoryTest, BuffersLiveInMemoryThatTheHostGaveAndGetsBack) {
  const auto entered = enter(sizeof(yoke_host_api));
  yoke_device* device = entered->open();
  yoke_buffer* buffer = entered->buffer(device, 100);
  yoke_buffer_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(entered->backend->buffer_describe(buffer, &info, nullptr), YOKE_OK);

  ASSERT_EQ(memory_.live.size(), 1U);
  EXPECT_EQ(info.host_address, reinterpret_cast<std::uintptr_t>(memory_.live[0]));
  EXPECT_EQ(memory_.alignment, 64U);
  entered->backend->buffer_destroy(buffer);
  EXPECT_TRUE(memory_.live.empty());
  entered->close(device);
}

TEST_F(HostMemoryTest, MemoryThatTheHostRefusesIsAnErrorAndNothingIsCounted) {
  memory_.most = 64;
  const auto entered = enter(sizeof(yoke_host_api));
  yoke_device* device = entered->open();
  yoke_buffer* buffer = nullptr;

  EXPECT_EQ(entered->backend->buffer_create(device, 65, YOKE_MEMORY_DEVICE, &buffer, &entered->error),
            YOKE_OUT_OF_DEVICE_MEMORY);

  EXPECT_EQ(entered->error.text, "the machine has no 65 bytes of memory for a buffer");
  EXPECT_EQ(buffer, nullptr);
  EXPECT_EQ(entered->live_counts().buffers, 0U);
  entered->close(device);
}

TEST_F(HostMemoryTest, AHostOfMinor1IsNeverAskedForMemory) {
  // 48: the table of 0.1. 56 and 60: `deallocate` is missing, or cut in two.
  for (const std::uint64_t struct_size : {48U, 56U, 60U}) {
    const auto entered = enter(struct_size);
    yoke_device* device = entered->open();
    yoke_buffer* buffer = entered->buffer(device, 100);

    EXPECT_EQ(memory_.alignment, 0U) << "asked behind struct_size " << struct_size;
    entered->backend->buffer_destroy(buffer);
    entered->close(device);
  }
}

}  // namespace
}  // namespace yoke::test
