// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/threads_test.cpp: threads that share the devices of one backend. The thread sanitizer checks
// the plugin and the fake driver with it.
#include <backend.h>
#include <cuda/vendor.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace yoke::gpu {
namespace {

constexpr std::uint64_t kCount = 20'000;  // 80,000 bytes: more than a slot of staging memory
constexpr const char* kProgram = R"(yoke.program 1
program next(symbol by in 0..1000) {
  arg x: f32[20000] inout
  temp y: f32[20000]
  y[i] = x[19999 - i] + f32(by)
  x[i] = y[19999 - i]
}
)";

// An event that any thread may wait for.
struct Board {
  std::mutex mutex;
  std::shared_ptr<sdk::Event> event;

  std::shared_ptr<sdk::Event> exchange(std::shared_ptr<sdk::Event> next) {
    const std::lock_guard lock(mutex);
    event.swap(next);
    return next;
  }
};

// Copies, launches and waits on its own stream; then aborts it. Returns whether all results are right.
bool use(sdk::Device& device, Board& board, std::uint64_t seed) {
  const auto code = device.compile(kProgram);
  const auto buffer = device.create_buffer(4 * kCount, YOKE_MEMORY_DEVICE);
  const auto workspace = device.create_buffer(code->entries()[0].workspace_byte_count, YOKE_MEMORY_DEVICE);
  const std::array bindings = {sdk::Binding{buffer.get(), 0}};
  const auto routine = code->link(0, bindings, {workspace.get(), 0});
  const auto stream = device.create_stream(0);
  std::atomic<int> calls{0};
  bool is_right = true;
  for (std::uint64_t round = 0; round < 6; ++round) {
    const std::vector<float> sent(kCount, static_cast<float>(seed));
    std::vector<float> received(kCount);
    buffer->from_host(stream.get(), 0, sent.data(), 4 * kCount);
    const auto by = static_cast<std::int64_t>(round);
    routine->launch(stream.get(), std::span(&by, 1));
    routine->launch(stream.get(), std::span(&by, 1));
    if (const auto other = board.exchange(stream->record(round % 2 == 0))) {
      stream->wait_event(*other);
    }
    stream->host_callback([](void* user, std::int32_t) { ++*static_cast<std::atomic<int>*>(user); }, &calls);
    const auto passing = device.create_buffer(512 * (seed + round + 1), YOKE_MEMORY_DEVICE);
    passing->copy_from(stream.get(), 0, *buffer, 0, 512);
    void* const pinned = device.pinned_allocate(4096);
    buffer->to_host(stream.get(), 0, received.data(), 4 * kCount);
    (void)stream->state();
    stream->wait(UINT64_MAX);
    device.pinned_free(pinned);
    is_right = is_right && received == std::vector<float>(kCount, static_cast<float>(seed + 2 * round));
  }
  stream->pause(1'000'000'000'000);
  std::thread aborting([&] { stream->abort(); });
  try {
    stream->wait(UINT64_MAX);
    is_right = false;
  } catch (const sdk::Failure& failure) {
    is_right = is_right && failure.code() == YOKE_STATUS_ABORTED && calls == 6;
  }
  aborting.join();
  return is_right;
}

int run_threads() {
  BackendOf<cuda::Vendor> backend;
  yoke_option cache{};
  cache.name = "cache";
  cache.type = YOKE_OPTION_TEXT;
  cache.text = "off";
  if (backend.device_count() != 2) {
    return 2;
  }
  const sdk::Options options(backend.option_specs(), YOKE_OPTION_SCOPE_DEVICE, &cache, 1, sizeof cache);
  const std::array devices = {backend.open_device(0, options), backend.open_device(1, options)};
  Board board;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] { wrong += use(*devices[seed % 2], board, seed) ? 0 : 1; });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return wrong == 0 ? 0 : 1;
}

TEST(ThreadsTest, StreamsOfTwoDevicesAreUsedByFourThreads) {
  EXPECT_EXIT(
      {
        ::setenv("FAKE_GPU_DEVICES", "2", 1);
        ::setenv("FAKE_GPU_RESTORED", "1", 1);
        ::setenv("FAKE_GPU_SEED", "5", 1);
        ::setenv("YOKE_CUDA_LIBRARY", FAKE_CUDA_FOLDER "/libcuda.so.1", 1);
        ::setenv("YOKE_NVRTC_LIBRARY", FAKE_CUDA_FOLDER "/libnvrtc.so.13", 1);
        std::exit(run_threads());
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace yoke::gpu
