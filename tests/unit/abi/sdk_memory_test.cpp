// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_memory_test.cpp: how the SDK checks, counts and limits
// buffers and copies, and "yoke.memory/1".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_backend.h"
#include "loaded_plugin.h"

namespace yoke::test {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

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

TEST_F(SdkMemoryTest, CopiesOutOfRangeAreRejected) {
  Entered entered(entry());
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 16);
  std::array<char, 17> memory{};
  const auto* api = entered.backend;
  const auto write = [&](std::uint64_t offset, const void* from, std::uint64_t byte_count) {
    return api->from_host(nullptr, buffer, offset, from, byte_count, nullptr, &entered.error);
  };
  const auto read = [&](std::uint64_t offset, std::uint64_t byte_count) {
    return api->to_host(nullptr, buffer, offset, memory.data(), byte_count, nullptr);
  };
  const auto copy = [&](std::uint64_t to, std::uint64_t from, std::uint64_t byte_count) {
    return api->device_to_device(nullptr, buffer, to, buffer, from, byte_count, nullptr);
  };

  EXPECT_EQ(write(0, memory.data(), 17), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(entered.error.text, "from_host: 17 bytes at offset 0 exceed the 16-byte buffer");
  EXPECT_EQ(write(kHuge, memory.data(), 2), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(write(0, nullptr, 4), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(read(8, kHuge - 4), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(read(17, 0), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(read(16, 0), YOKE_STATUS_OK);
  EXPECT_EQ(copy(0, 10, 8), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(copy(0, 4, 8), YOKE_STATUS_INVALID_ARGUMENT) << "the ranges overlap";
  EXPECT_EQ(copy(0, 8, 8), YOKE_STATUS_OK);
  EXPECT_EQ(api->fill(nullptr, buffer, 0, 32, "a", 1, nullptr), YOKE_STATUS_OUT_OF_RANGE);

  api->buffer_destroy(buffer);
  entered.close(device);
}

TEST_F(SdkMemoryTest, BuffersAreAlignedTo256BytesAndDescribed) {
  Entered entered(entry());
  yoke_device* device = entered.open();
  for (const std::uint64_t byte_count : {0U, 1U, 255U, 257U, 4097U}) {
    yoke_buffer* buffer = entered.buffer(device, byte_count);
    auto info = sized<yoke_buffer_info>();
    ASSERT_EQ(entered.backend->buffer_describe(buffer, &info, &entered.error), YOKE_STATUS_OK);
    EXPECT_EQ(info.byte_count, byte_count);
    EXPECT_NE(info.host_address, 0U);
    EXPECT_EQ(info.host_address % YOKE_BUFFER_ALIGNMENT, 0U);
    EXPECT_EQ(info.kind, YOKE_MEMORY_DEVICE);
    entered.backend->buffer_destroy(buffer);
  }
  entered.close(device);
}

TEST_F(SdkMemoryTest, MemoryIsCountedAndLimitedPerHandle) {
  control_->memory_limit = 100;
  Entered entered(entry());
  yoke_device* device = entered.open();
  yoke_device* same = entered.open();
  yoke_buffer* first = entered.buffer(device, 60);
  yoke_buffer* of_same = entered.buffer(same, 100);
  yoke_buffer* second = nullptr;

  EXPECT_EQ(entered.try_buffer(device, 41, YOKE_MEMORY_DEVICE, &second), YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(entered.error.text, "device 0 is out of memory: 41 bytes requested, 60 of 100 in use");
  second = entered.buffer(device, 40);
  entered.backend->buffer_destroy(first);
  const yoke_memory_info info = memory_of(entered, device);
  EXPECT_EQ(info.used_bytes, 40U);
  EXPECT_EQ(info.peak_bytes, 100U);
  EXPECT_EQ(info.limit_bytes, 100U);

  entered.backend->buffer_destroy(second);
  entered.backend->buffer_destroy(of_same);
  entered.close(device);
  entered.close(same);
}

TEST_F(SdkMemoryTest, BuffersThatExceedTheMachineAreRejectedAndNotCounted) {
  Entered entered(entry());
  yoke_device* device = entered.open();
  yoke_buffer* buffer = nullptr;
  for (const std::uint64_t byte_count :
       {kHuge, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())}) {
    EXPECT_EQ(entered.try_buffer(device, byte_count, YOKE_MEMORY_DEVICE, &buffer),
              YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  }
  EXPECT_EQ(entered.try_buffer(device, 8, 77, &buffer), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.try_buffer(device, 8, YOKE_MEMORY_HOST, &buffer), YOKE_STATUS_UNIMPLEMENTED);

  EXPECT_EQ(buffer, nullptr);
  EXPECT_EQ(entered.live_counts().buffers, 0U);
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

TEST_F(SdkMemoryTest, CloseFailsAndCountsLiveObjects) {
  Entered entered(entry());
  yoke_device* device = entered.open();
  yoke_buffer* first = entered.buffer(device, 8);
  yoke_buffer* second = entered.buffer(device, 8);

  EXPECT_EQ(entered.backend->device_close(device, &entered.error), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(entered.error.text, "device 0 cannot be closed: 2 buffers alive; destroy them first");
  EXPECT_EQ(entered.live_counts().buffers, 2U);
  EXPECT_EQ(entered.backend->from_host(nullptr, first, 0, "x", 1, nullptr, nullptr), YOKE_STATUS_OK)
      << "the device stays usable";

  entered.backend->buffer_destroy(first);
  entered.backend->buffer_destroy(second);
  entered.close(device);
  EXPECT_EQ(entered.live_counts().devices, 0U);
}

// A host that counts its allocations and has a limit.
class HostMemoryTest : public SdkMemoryTest {
 protected:
  HostMemoryTest() { current = this; }

  static void* allocate(void*, std::uint64_t byte_count, std::uint64_t alignment) {
    current->alignment_ = alignment;
    if (byte_count > current->most_) {
      return nullptr;
    }
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
  std::uint64_t most_ = 1U << 20U;
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

TEST_F(HostMemoryTest, RefusedMemoryIsAnErrorAndNotCounted) {
  most_ = 64;
  const auto entered = enter(sizeof(yoke_host_api));
  yoke_device* device = entered->open();
  yoke_buffer* buffer = nullptr;

  EXPECT_EQ(entered->try_buffer(device, 65, YOKE_MEMORY_DEVICE, &buffer), YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(entered->error.text, "the machine is out of memory: 65 bytes requested");
  EXPECT_EQ(buffer, nullptr);
  EXPECT_EQ(entered->live_counts().buffers, 0U);
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

// Imports host memory and uses the SDK's defaults for the rest.
class ImportBackend final : public sdk::Backend {
 public:
  struct Device final : sdk::Device {
    std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override {
      if (memory.byte_count > 1000) {
        throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED, "too large");
      }
      return std::make_unique<sdk::HostBuffer>(memory);
    }
    sdk::Native native() override { return {"host", 1, 2}; }
  };
  sdk::Provides provides() const override { return {.memory = true}; }
  std::uint32_t device_count() override { return 1; }
  sdk::DeviceInfo describe(std::uint32_t) override { return {}; }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options&) override {
    return std::make_unique<Device>();
  }
};

std::int32_t import_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  return sdk::enter(args, out_plugin, error, {"import", "1", "tests"},
                    [] { return std::make_unique<ImportBackend>(); });
}

class MemoryExtensionTest : public testing::Test {
 protected:
  ~MemoryExtensionTest() override { entered_.close(device_); }

  std::int32_t import(void* memory, std::uint64_t byte_count, std::int32_t kind, yoke_buffer** out_buffer) {
    auto args = sized<yoke_import_args>();
    args.address = reinterpret_cast<std::uintptr_t>(memory);
    args.byte_count = byte_count;
    args.kind = kind;
    args.release = [](void* user) { ++*static_cast<int*>(user); };
    args.user = &release_count_;
    return entered_.memory->buffer_import(device_, &args, out_buffer, &entered_.error);
  }

  Entered entered_{&import_entry};
  yoke_device* device_ = entered_.open();
  int release_count_ = 0;
};

TEST_F(MemoryExtensionTest, PinnedMemoryIsAlignedAndKeepsTheDeviceOpen) {
  auto args = sized<yoke_pinned_args>();
  args.byte_count = 1000;
  void* memory = nullptr;
  ASSERT_EQ(entered_.memory->pinned_allocate(device_, &args, &memory, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % YOKE_BUFFER_ALIGNMENT, 0U);
  std::memset(memory, 1, 1000);

  EXPECT_EQ(entered_.backend->device_close(device_, &entered_.error), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(entered_.error.text, "device 0 cannot be closed: 1 pinned block alive; destroy them first");
  entered_.memory->pinned_free(device_, memory);
  entered_.memory->pinned_free(device_, nullptr);

  args.byte_count = kHuge;
  EXPECT_EQ(entered_.memory->pinned_allocate(device_, &args, &memory, &entered_.error),
            YOKE_STATUS_RESOURCE_EXHAUSTED);
}

TEST_F(MemoryExtensionTest, ImportedMemoryIsUsedInPlaceAndReleasedOnce) {
  alignas(8) std::array<char, 16> memory{};
  yoke_buffer* buffer = nullptr;
  ASSERT_EQ(import(memory.data() + 4, 12, YOKE_MEMORY_HOST, &buffer), YOKE_STATUS_OK);
  std::uint64_t address = 0;

  EXPECT_EQ(entered_.backend->from_host(nullptr, buffer, 2, "abc", 3, nullptr, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(std::string(memory.data() + 6, 3), "abc");
  EXPECT_EQ(entered_.memory->buffer_device_address(buffer, &address, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(address, reinterpret_cast<std::uintptr_t>(memory.data() + 4));
  auto info = sized<yoke_memory_info>();
  EXPECT_EQ(entered_.backend->device_memory(device_, &info, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(info.used_bytes, 0U);
  EXPECT_EQ(release_count_, 0);
  entered_.backend->buffer_destroy(buffer);
  EXPECT_EQ(release_count_, 1);
}

TEST_F(MemoryExtensionTest, RefusedMemoryIsNotReleased) {
  std::array<char, 16> memory{};
  yoke_buffer* buffer = nullptr;

  EXPECT_EQ(import(memory.data(), 2000, YOKE_MEMORY_HOST, &buffer), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(import(memory.data(), 16, 77, &buffer), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(import(nullptr, 16, YOKE_MEMORY_HOST, &buffer), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(buffer, nullptr);
  EXPECT_EQ(release_count_, 0);
  EXPECT_EQ(entered_.live_counts().buffers, 0U);
}

TEST_F(MemoryExtensionTest, NativeHandlesAreDescribed) {
  auto native = sized<yoke_native_info>();
  ASSERT_EQ(entered_.memory->device_native(device_, &native, nullptr), YOKE_STATUS_OK);
  EXPECT_STREQ(native.api, "host");
  EXPECT_EQ(native.handle, 1U);
  EXPECT_EQ(native.context, 2U);
}

}  // namespace
}  // namespace yoke::test
