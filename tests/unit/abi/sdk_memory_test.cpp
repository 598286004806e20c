// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_memory_test.cpp: how the SDK checks, counts and limits buffers and copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fake_backend.h"
#include "loaded_plugin.h"

namespace yoke::test {
namespace {

class SdkMemoryTest : public testing::Test {
 protected:
  yoke_plugin_entry_fn entry() { return entry_of(0, control_); }
  static yoke_memory_info memory_of(Entered& entered, yoke_device* device) {
    auto info = sized<yoke_memory_info>();
    EXPECT_EQ(entered.backend->device_memory(device, &info, nullptr), YOKE_STATUS_OK);
    return info;
  }

  std::shared_ptr<Control> control_ = std::make_shared<Control>();
};

TEST_F(SdkMemoryTest, InvalidCopiesAreRejected) {
  Entered entered(entry());
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 16);
  std::array<char, 17> memory{};
  const auto* api = entered.backend;

  EXPECT_EQ(api->from_host(nullptr, buffer, 0, memory.data(), 17, nullptr, &entered.error),
            YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(entered.error.text, "from_host: 17 bytes at offset 0 exceed the 16-byte buffer");
  EXPECT_EQ(api->from_host(nullptr, buffer, 0, nullptr, 4, nullptr, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(api->device_to_device(nullptr, buffer, 0, buffer, 4, 8, nullptr), YOKE_STATUS_INVALID_ARGUMENT)
      << "the ranges overlap";

  api->buffer_destroy(buffer);
  entered.close(device);
}

TEST_F(SdkMemoryTest, CopyBetweenBuffersMovesTheGivenRangeOnly) {
  Entered entered(entry());
  yoke_device* device = entered.open();
  yoke_buffer* from = entered.buffer(device, 8);
  yoke_buffer* to = entered.buffer(device, 8);
  std::string read = "........";
  const auto* api = entered.backend;
  api->from_host(nullptr, from, 0, "abcdefgh", 8, nullptr, nullptr);
  api->from_host(nullptr, to, 0, "12345678", 8, nullptr, nullptr);

  EXPECT_EQ(api->device_to_device(nullptr, to, 1, from, 3, 2, &entered.error), YOKE_STATUS_OK);
  api->to_host(nullptr, to, 0, read.data(), 8, nullptr);
  EXPECT_EQ(read, "1de45678");

  api->buffer_destroy(from);
  api->buffer_destroy(to);
  entered.close(device);
}

TEST_F(SdkMemoryTest, OutOfMemoryReportsBytesRequestedUsedAndAvailable) {
  control_->memory_limit = 100;
  Entered entered(entry());
  yoke_device* const device = entered.open();
  yoke_buffer* const first = entered.buffer(device, 60);
  yoke_buffer* second = nullptr;
  EXPECT_EQ(entered.try_buffer(device, 41, YOKE_MEMORY_DEVICE, &second), YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(entered.error.text, "device 0 is out of memory: 41 bytes requested, 60 of 100 in use");
  entered.backend->buffer_destroy(first);
  entered.close(device);
}

TEST_F(SdkMemoryTest, BuffersMayReachTheLimitAndThePeakIsKept) {
  control_->memory_limit = 100;
  Entered entered(entry());
  yoke_device* const device = entered.open();
  entered.backend->buffer_destroy(entered.buffer(device, 100));
  yoke_buffer* const first = entered.buffer(device, 60);
  yoke_buffer* second = entered.buffer(device, 40);
  yoke_buffer* third = nullptr;
  EXPECT_EQ(entered.try_buffer(device, 0, YOKE_MEMORY_DEVICE, &third), YOKE_STATUS_OK);
  entered.backend->buffer_destroy(third);
  EXPECT_EQ(entered.try_buffer(device, 101, YOKE_MEMORY_DEVICE, &third), YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(memory_of(entered, device).used_bytes, 100U);
  entered.backend->buffer_destroy(second);
  second = entered.buffer(device, 20);
  const yoke_memory_info info = memory_of(entered, device);
  EXPECT_EQ(info.used_bytes, 80U);
  EXPECT_EQ(info.peak_bytes, 100U);
  EXPECT_EQ(info.limit_bytes, 100U);
  entered.backend->buffer_destroy(second);
  entered.backend->buffer_destroy(first);
  entered.close(device);
}

// The sum of all sizes must not overflow.
TEST_F(SdkMemoryTest, RefusedBuffersReserveNothing) {
  Entered entered(entry());
  yoke_device* const device = entered.open();
  yoke_buffer* buffer = nullptr;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(entered.try_buffer(device, std::uint64_t{1} << 60U, YOKE_MEMORY_DEVICE, &buffer),
              YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
    EXPECT_EQ(entered.error.text, "the machine is out of memory: 1152921504606846976 bytes requested");
  }
  EXPECT_EQ(entered.try_buffer(device, ~std::uint64_t{0}, YOKE_MEMORY_DEVICE, &buffer),
            YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(
      entered.error.text,
      "device 0 is out of memory: 18446744073709551615 bytes requested, 0 of 9223372036854775807 in use");
  entered.close(device);
}

TEST_F(SdkMemoryTest, RefusedBufferIsNeverUsedMemory) {
  Entered entered(entry());
  yoke_device* const device = entered.open();
  yoke_buffer* const first = entered.buffer(device, 60);
  yoke_buffer* second = nullptr;

  EXPECT_EQ(entered.try_buffer(device, std::uint64_t{1} << 60U, YOKE_MEMORY_DEVICE, &second),
            YOKE_STATUS_OUT_OF_DEVICE_MEMORY);

  EXPECT_EQ(memory_of(entered, device).used_bytes, 60U);
  EXPECT_EQ(memory_of(entered, device).peak_bytes, 60U);
  entered.backend->buffer_destroy(first);
  entered.close(device);
}

TEST_F(SdkMemoryTest, LimitHoldsWhenThreadsCompete) {
  control_->memory_limit = 300;
  Entered entered(entry());
  yoke_device* device = entered.open();
  std::vector<std::thread> threads;
  auto args = sized<yoke_buffer_args>();
  args.byte_count = 100;
  args.kind = YOKE_MEMORY_DEVICE;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        yoke_buffer* buffer = nullptr;
        if (entered.backend->buffer_create(device, &args, &buffer, nullptr) == YOKE_STATUS_OK) {
          entered.backend->from_host(nullptr, buffer, 96, &round, 4, nullptr, nullptr);
          entered.backend->buffer_destroy(buffer);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  const yoke_memory_info info = memory_of(entered, device);
  EXPECT_EQ(info.used_bytes, 0U);
  EXPECT_GE(info.peak_bytes, 100U);
  EXPECT_LE(info.peak_bytes, 300U);
  entered.close(device);
}

// A stream whose work has failed.
class FailedStream final : public sdk::Stream {
 public:
  std::int32_t state() override { return YOKE_STATE_FAILED; }
  void wait(std::uint64_t) override {}
  std::unique_ptr<sdk::Event> record(bool) override { return nullptr; }
  void wait_event(sdk::Event&) override {}
};

TEST(HostBuffer, CopiesAndFillsAreSkippedOnAFailedStreamOnly) {
  FailedStream failed;
  for (sdk::Stream* stream : {static_cast<sdk::Stream*>(&failed), static_cast<sdk::Stream*>(nullptr)}) {
    sdk::HostBuffer buffer(4);
    sdk::HostBuffer other(4);
    const auto text = [&] { return std::string(static_cast<const char*>(buffer.host_address()), 4); };
    const bool runs = stream == nullptr;
    buffer.from_host(nullptr, 0, "aaaa", 4);
    other.from_host(nullptr, 0, "bcde", 4);

    buffer.from_host(stream, 1, "xyz", 2);
    EXPECT_EQ(text(), runs ? "axya" : "aaaa");
    buffer.copy_from(stream, 2, other, 1, 2);
    EXPECT_EQ(text(), runs ? "axcd" : "aaaa");
    buffer.fill(stream, 0, 2, std::as_bytes(std::span("hi", 2)));
    EXPECT_EQ(text(), runs ? "hicd" : "aaaa");
    buffer.fill(stream, 3, 1, std::as_bytes(std::span("!", 1)));
    EXPECT_EQ(text(), runs ? "hic!" : "aaaa");
    std::string read = "....";
    buffer.to_host(stream, 1, read.data(), 2);
    EXPECT_EQ(read, runs ? "ic.." : "....");
  }
}

TEST(HostBuffer, FillEndsInsideTheLastDoubling) {
  sdk::HostBuffer buffer(16);
  buffer.from_host(nullptr, 0, "................", 16);

  buffer.fill(nullptr, 1, 12, std::as_bytes(std::span("abcd", 4)));

  EXPECT_EQ(std::string(static_cast<const char*>(buffer.host_address()), 16), ".abcdabcdabcd...");
}

// A host that counts what it allocates.
class HostMemoryTest : public SdkMemoryTest {
 protected:
  HostMemoryTest() { current = this; }

  static void* allocate(void*, std::uint64_t byte_count, std::uint64_t alignment) {
    current->alignment_ = alignment;
    void* memory = std::aligned_alloc(alignment, (byte_count / alignment + 1) * alignment);
    current->live_.push_back(memory);
    return memory;
  }
  static void deallocate(void*, void* memory) {
    EXPECT_EQ(std::erase(current->live_, memory), 1U) << "not allocated by this host";
    std::free(memory);
  }
  // Enters with a host table of `struct_size` bytes. Its memory
  // functions are set even if they lie past its end.
  std::unique_ptr<Entered> enter(std::uint64_t struct_size) {
    return std::make_unique<Entered>(entry(), [=](yoke_host_api& api) {
      api.struct_size = struct_size;
      api.allocate = &allocate;
      api.deallocate = &deallocate;
    });
  }

  static inline HostMemoryTest* current = nullptr;
  std::vector<void*> live_;
  std::uint64_t alignment_ = 0;
};

TEST_F(HostMemoryTest, BuffersUseTheAllocatorOfTheHost) {
  const auto entered = enter(sizeof(yoke_host_api));
  yoke_device* device = entered->open();
  yoke_buffer* buffer = entered->buffer(device, 100);
  auto info = sized<yoke_buffer_info>();
  ASSERT_EQ(entered->backend->buffer_describe(buffer, &info, nullptr), YOKE_STATUS_OK);

  ASSERT_EQ(live_.size(), 1U);
  EXPECT_EQ(info.host_address, reinterpret_cast<std::uintptr_t>(live_[0]));
  EXPECT_EQ(alignment_, std::uint64_t{YOKE_BUFFER_ALIGNMENT});
  entered->backend->buffer_destroy(buffer);
  EXPECT_TRUE(live_.empty());
  entered->close(device);
}

TEST_F(HostMemoryTest, PinnedMemoryUsesTheAllocatorOfTheHost) {
  control_->provides.memory = true;
  const auto entered = enter(sizeof(yoke_host_api));
  yoke_device* device = entered->open();
  auto args = sized<yoke_pinned_args>();
  args.byte_count = 100;
  void* memory = nullptr;
  ASSERT_EQ(entered->memory->pinned_allocate(device, &args, &memory, nullptr), YOKE_STATUS_OK);
  EXPECT_THAT(live_, testing::ElementsAre(memory));
  EXPECT_EQ(alignment_, std::uint64_t{YOKE_BUFFER_ALIGNMENT});
  entered->memory->pinned_free(device, memory);
  EXPECT_TRUE(live_.empty());
  entered->close(device);
}

TEST_F(HostMemoryTest, AllocatorPastTheEndOfTheHostTableIsNotCalled) {
  // The table ends before `allocate`, before `deallocate`, or inside it.
  for (const std::uint64_t struct_size : {48U, 56U, 60U}) {
    const auto entered = enter(struct_size);
    yoke_device* device = entered->open();
    yoke_buffer* buffer = entered->buffer(device, 100);

    EXPECT_EQ(alignment_, 0U) << "called past struct_size " << struct_size;
    entered->backend->buffer_destroy(buffer);
    entered->close(device);
  }
}

}  // namespace
}  // namespace yoke::test
