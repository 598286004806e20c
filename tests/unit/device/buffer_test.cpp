// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/buffer_test.cpp: memory is accounted, and never freed under work that uses it.
#include <atomic>
#include <cstdlib>
#include <new>

#include "lab.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace yoke::test {
namespace {

// For a test whose subject is a leak: the checker looks away from what this thread allocates.
class MeantLeak {
 public:
#if defined(__SANITIZE_ADDRESS__)
  MeantLeak() {
    __lsan_disable();
  }
  ~MeantLeak() {
    __lsan_enable();
  }
#else
  MeantLeak() {}
  ~MeantLeak() {}
#endif
  MeantLeak(const MeantLeak&) = delete;
  MeantLeak& operator=(const MeantLeak&) = delete;
};

using ::testing::Contains;
using ::testing::HasSubstr;

using BufferTest = LabTest;

TEST_F(BufferTest, ABufferIsAccountedUntilItIsGone) {
  auto buffer = std::make_unique<Buffer>(device(), 1000);
  EXPECT_EQ(device()->memory().used_bytes, 1000U);
  EXPECT_EQ(backend()->live_counts().buffers, 1U);
  buffer.reset();
  EXPECT_EQ(device()->memory().used_bytes, 0U);
  EXPECT_EQ(backend()->live_counts().buffers, 0U);
}

TEST_F(BufferTest, ABufferOfNoBytesIsABuffer) {
  EXPECT_NE(Buffer(device(), 0).get(), nullptr);
}

TEST_F(BufferTest, MoreMemoryThanThereIsIsAnErrorThatNamesTheDevice) {
  const auto error = error_of([&] { Buffer(device(), std::uint64_t{1} << 60U); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfDeviceMemory);
  EXPECT_THAT(error.what(), HasSubstr("lab:0: buffer_create: "));
}

TEST_F(BufferTest, HostMemoryComesFromTheApplicationAndGoesBackToIt) {
  std::atomic<int> live{0};
  std::atomic<std::uint64_t> asked{0};
  options_.allocate_host_memory = [&](std::uint64_t byte_count, std::uint64_t alignment) -> void* {
    asked = byte_count;
    ++live;
    return byte_count > 4096 ? throw std::bad_alloc() : std::aligned_alloc(alignment, 4096);
  };
  options_.free_host_memory = [&](void* memory) {
    --live;
    std::free(memory);
  };
  auto buffer = std::make_unique<Buffer>(device(), 1000);
  EXPECT_EQ(asked, 1000U);
  EXPECT_EQ(live, 1);
  buffer.reset();
  EXPECT_EQ(live, 0);

  const auto error = error_of([&] { Buffer(device(), 5000); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfDeviceMemory) << "what the application threw went no further";
  EXPECT_EQ(backend()->live_counts().buffers, 0U);
}

TEST_F(BufferTest, AnApplicationThatGivesMemoryMustTakeItBack) {
  options_.free_host_memory = [](void*) {};
  const auto error = error_of([&] { Runtime runtime(options_); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("only one of allocate_host_memory and free_host_memory"));
}

TEST_F(BufferTest, TheLastOwnerWaitsForQueuedWorkBeforeTheMemoryGoes) {
  lab_.copy_ms = 50;
  std::vector<std::byte> target(256);
  const auto stream = Stream::create(device());
  auto buffer = std::make_shared<Buffer>(device(), 256);
  stream->to_host(target.data(), {buffer, 0, 256});
  stream->to_host(target.data(), {buffer, 0, 256});

  buffer.reset();
  stream->wait();

  EXPECT_FALSE(lab_.freed_in_use);
  EXPECT_EQ(backend()->live_counts().buffers, 0U);
}

TEST_F(BufferTest, WorkThatDoesNotEndInTimeKeepsTheMemoryAndIsLogged) {
  const MeantLeak leak;
  options_.wait_timeout = std::chrono::milliseconds(10);
  lab_.is_blocked = true;
  std::vector<std::byte> target(256);
  const auto stream = Stream::create(device());
  auto buffer = std::make_shared<Buffer>(device(), 256);
  stream->to_host(target.data(), {buffer, 0, 256});

  buffer.reset();

  EXPECT_EQ(backend()->live_counts().buffers, 1U) << "leaked rather than freed in use";
  {
    const std::lock_guard lock(lines_mutex_);
    EXPECT_THAT(lines_, Contains(HasSubstr("buffer.leak device=lab:0 bytes=256")));
  }
  lab_.is_blocked = false;
  stream->wait(std::chrono::seconds(60));
  EXPECT_FALSE(lab_.freed_in_use);
}

}  // namespace
}  // namespace yoke::test
