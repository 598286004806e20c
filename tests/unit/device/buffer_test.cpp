// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/buffer_test.cpp: memory is counted, and is never freed while work uses it.
#include <atomic>
#include <cstdlib>
#include <new>

#include "device_test.h"
#include "expected_leak.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class BufferTest : public DeviceTest {
 protected:
  std::uint64_t live_buffer_count() { return backend()->live_counts().buffers; }
};

TEST_F(BufferTest, BufferIsCountedUntilItIsDestroyed) {
  auto buffer = std::make_unique<Buffer>(device(), 1000);
  EXPECT_EQ(device()->memory().used_bytes, 1000U);
  EXPECT_EQ(live_buffer_count(), 1U);
  buffer.reset();
  EXPECT_EQ(device()->memory().used_bytes, 0U);
  EXPECT_EQ(live_buffer_count(), 0U);
}

TEST_F(BufferTest, EmptyBufferIsValid) {
  EXPECT_NE(Buffer(device(), 0).get(), nullptr);
}

TEST_F(BufferTest, OutOfMemoryNamesTheDevice) {
  EXPECT_THAT(error_of([&] { Buffer(device(), std::uint64_t{1} << 60U); }),
              is_error(ErrorCode::kOutOfDeviceMemory, "test0:0: buffer_create: "));
}

TEST_F(BufferTest, HostMemoryComesFromTheApplication) {
  std::atomic<int> live{0};
  std::atomic<std::uint64_t> requested{0};
  options_.allocate_host_memory = [&](std::uint64_t byte_count, std::uint64_t alignment) -> void* {
    requested = byte_count;
    ++live;
    return byte_count > 4096 ? throw std::bad_alloc() : std::aligned_alloc(alignment, 4096);
  };
  options_.free_host_memory = [&](void* memory) {
    --live;
    std::free(memory);
  };
  auto buffer = std::make_unique<Buffer>(device(), 1000);
  EXPECT_EQ(requested, 1000U);
  EXPECT_EQ(live, 1);
  buffer.reset();
  EXPECT_EQ(live, 0);

  EXPECT_ERROR(ErrorCode::kOutOfDeviceMemory, Buffer(device(), 5000))
      << "the application's exception must not cross the ABI";
  EXPECT_EQ(live_buffer_count(), 0U);
}

TEST_F(BufferTest, ApplicationMustProvideBothMemoryFunctions) {
  options_.free_host_memory = [](void*) {};
  EXPECT_THAT(error_of([&] { Runtime runtime(options_); }),
              is_error(ErrorCode::kInvalidArgument, "only one of allocate_host_memory and free_host_memory"));
}

TEST_F(BufferTest, LastOwnerWaitsForQueuedWork) {
  control_->delay_us = 50000;
  std::vector<std::byte> target(256);
  const auto stream = rig().stream();
  auto buffer = std::make_shared<Buffer>(device(), 256);
  stream->to_host(target.data(), {buffer, 0, 256});
  stream->to_host(target.data(), {buffer, 0, 256});

  buffer.reset();
  stream->wait();

  EXPECT_FALSE(control_->freed_in_use);
  EXPECT_EQ(live_buffer_count(), 0U);
}

TEST_F(BufferTest, BufferOfUnfinishedWorkIsLeakedAndLogged) {
  const ExpectedLeak leak;
  options_.wait_timeout = 10ms;
  std::vector<std::byte> target(256);
  const auto stream = rig().stream();
  auto buffer = std::make_shared<Buffer>(device(), 256);
  control_->is_blocked = true;
  stream->to_host(target.data(), {buffer, 0, 256});

  buffer.reset();

  EXPECT_EQ(live_buffer_count(), 1U) << "leaked rather than freed in use";
  EXPECT_THAT(rig().log.all(), Contains(HasSubstr("buffer.leak device=test0:0 bytes=256")));
  control_->is_blocked = false;
  stream->wait(60s);
  EXPECT_FALSE(control_->freed_in_use);
}

}  // namespace
}  // namespace yoke::test
