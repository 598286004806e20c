// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/context_test.cpp: contexts of plugins/gpu on the fake driver of CUDA. Each test runs
// in its own process, because the fake reads its variables once.
#include <cuda/vendor.h>
#include <dlfcn.h>
#include <gpu/buffer.h>
#include <gpu/context.h>
#include <gpu/timeline.h>
#include <gtest/gtest.h>
#include <hip/vendor.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/plugin.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contexts.h"
#include "own_process.h"

namespace yoke::gpu {
namespace {

TEST(ContextTest, PeerAccessIsEnabledAgainWhenThePeerWasClosed) {
  expect_ok([]() -> std::string {
    const auto all = machine("2");
    const auto one = all->context(0);
    for (int round = 0; round < 2; ++round) {
      const auto other = all->context(1);
      if (!one->can_access(*other)) {
        return "the devices are peers";
      }
      const Address there = allocate(*other);
      const Current current = one->enter();
      const Address here = one->pool().allocate(512);
      one->call(one->driver().copy_on_device, here, there, std::size_t{512}, one->immediate());
      one->finish(one->immediate());
      one->pool().free(here, 512);
      const Current of_other = other->enter();
      other->pool().free(there, 512);
    }
    return {};
  });
}

TEST(ContextTest, QueryThatFailsOnceIsRepeated) {
  expect_ok([]() -> std::string {
    const auto context = machine("1", "event_query:1:999")->context(0);
    const Current current = context->enter();
    context->finish(context->immediate());
    return context->lost() ? "the device is lost" : "";
  });
}

TEST(ContextTest, ContextOfAnotherLibraryStaysCurrent) {
  expect_ok([]() -> std::string {
    const auto all = machine("2");
    const auto context = all->context(0);
    const auto other = all->context(1);
    void* first = nullptr;
    (void)all->driver().context_get(&first);
    if (first != nullptr) {
      return "opening a device leaves its context current";
    }
    const Current current = other->enter();
    const auto timeline = std::make_shared<Timeline>(context, 0, std::nullopt);
    context->add(timeline);
    timeline->submit([](void*) {});
    const auto point = timeline->record(true);
    timeline->post([](std::int32_t) {}, true);
    timeline->wait(~std::uint64_t{0});
    (void)point->time_ns();
    timeline->close();
    void* last = nullptr;
    (void)all->driver().context_get(&last);
    return last == other->peer().context ? "" : "the context of the thread has changed";
  });
}

TEST(ContextTest, ThreadsWithoutAContextWait) {
  expect_ok([]() -> std::string {
    const auto context = machine("1")->context(0);
    const auto timeline = std::make_shared<Timeline>(context, 0, std::nullopt);
    context->add(timeline);
    timeline->post([](std::int32_t) {}, true);
    const auto point = timeline->record(false);
    std::thread([&] {
      timeline->wait(~std::uint64_t{0});
      (void)timeline->state();
      point->wait(~std::uint64_t{0});
    }).join();
    timeline->close();
    return context->lost() ? "the device is lost" : "";
  });
}

// A driver ends the registrations of a context with the context.
TEST(ContextTest, RegistrationKeepsItsContext) {
  expect_ok([]() -> std::string {
    const auto all = machine("2");
    std::vector<std::byte> bytes(4096);
    const sdk::Import memory = {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(),
                                YOKE_MEMORY_HOST};
    auto first = std::make_unique<Buffer>(all->context(0), memory);
    auto second = std::make_unique<Buffer>(all->context(1), memory);
    first.reset();
    const auto target = std::make_unique<Buffer>(all->context(1), 4096);
    target->copy_from(nullptr, 0, *second, 0, 4096);
    second.reset();
    return "";
  });
}

// Releases of HIP do not say that memory is already registered, and the end of one registration ends both.
TEST(ContextTest, RegistrationOfAnotherLibraryStays) {
  expect_ok([]() -> std::string {
    const auto all = machine("1", "", std::make_unique<hip::Vendor>());
    const auto context = all->context(0);
    const Current current = context->enter();
    alignas(4096) static std::byte bytes[4096];
    const Driver& driver = all->driver();
    context->call(driver.host_register, static_cast<void*>(bytes), sizeof bytes, 0U);
    const sdk::Import memory = {reinterpret_cast<std::uintptr_t>(bytes), sizeof bytes, YOKE_MEMORY_HOST};
    { const Buffer imported(context, memory); }
    const int code = driver.host_unregister(bytes);
    return code == 0 ? "" : "hipHostUnregister returns " + std::to_string(code);
  });
}

// Other libraries ask for the last error after their own calls.
TEST(ContextTest, ImportLeavesNoErrorOnTheThread) {
  expect_ok([]() -> std::string {
    const auto all = machine("1", "", std::make_unique<hip::Vendor>());
    const auto context = all->context(0);
    void* const fake = ::dlopen(FAKE_GPU_FOLDER "/hip/libamdhip64.so.5", RTLD_NOW);
    const auto last_error = reinterpret_cast<int (*)()>(::dlsym(fake, "hipGetLastError"));
    (void)last_error();
    alignas(4096) static std::byte bytes[4096];
    {
      const Buffer imported(context,
                            {reinterpret_cast<std::uintptr_t>(bytes), sizeof bytes, YOKE_MEMORY_HOST});
    }
    const int code = last_error();
    return code == 0 ? "" : "the error " + std::to_string(code) + " stays";
  });
}

TEST(ContextTest, CopiesGoOnWhileHostMemoryIsRegistered) {
  expect_ok([]() -> std::string {
    const auto context = machine("1")->context(0);
    void* const fake = ::dlopen(FAKE_GPU_FOLDER "/cuda/libcuda.so.1", RTLD_NOW);
    const auto hold = reinterpret_cast<void (*)(const char*)>(::dlsym(fake, "fake_gpu_hold"));
    const auto held = reinterpret_cast<int (*)()>(::dlsym(fake, "fake_gpu_held"));
    std::vector<std::byte> bytes(4096);
    HostMemory& memory = context->machine().host_memory();
    hold("host_register");
    std::thread registering([&] {
      const Current current = context->enter();
      const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
      (void)memory.add(address, bytes.size(), context);
      memory.remove(address);
    });
    while (held() == 0) {
      std::this_thread::yield();
    }
    auto asked = std::async(std::launch::async, [&] { return memory.covers(bytes.data(), bytes.size()); });
    const bool is_served = asked.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    hold(nullptr);
    registering.join();
    return is_served ? "" : "the lock is held during the registration";
  });
}

TEST(ContextTest, QueryDuringTheCaptureOfAnotherLibraryIsRepeated) {
  expect_ok([]() -> std::string {
    const auto context = machine("1", "event_query:1:900")->context(0);
    const Current current = context->enter();
    context->finish(context->immediate());
    return {};
  });
}

TEST(ContextTest, CaptureEndsWhenTheHostIsOutOfMemory) {
  expect_ok([]() -> std::string {
    const auto context = machine("1")->context(0);
    const Current current = context->enter();
    std::string why_not;
    try {
      (void)context->capture([](void*) { throw std::bad_alloc(); }, why_not);
      return "the failure is lost";
    } catch (const std::bad_alloc&) {  // as it should be
    }
    const Address memory = context->pool().allocate(512);
    void* const graph = context->capture(
        [&](void* stream) {
          context->call(context->driver().fill_bytes, memory, static_cast<unsigned char>(0), std::size_t{512},
                        stream);
        },
        why_not);
    if (graph != nullptr) {
      (void)context->driver().graph_executable_destroy(graph);
    }
    context->pool().free(memory, 512);
    return graph != nullptr ? "" : why_not;
  });
}

TEST(ContextTest, BusyDeviceIsNotCalledLost) {
  expect_ok([]() -> std::string {
    const auto all = machine("1", "context_retain:1:46");
    const std::int32_t code = code_of([&] { all->context(0); });
    return code == YOKE_STATUS_UNAVAILABLE ? "" : "the code is " + std::to_string(code);
  });
}

// A vendor whose files and device nodes a test chooses.
class ChosenVendor final : public cuda::Vendor {
 public:
  ChosenVendor(std::vector<const char*> files, std::vector<const char*> nodes) : facts_(Vendor::facts()) {
    facts_.driver_files = std::move(files);
    facts_.nodes = std::move(nodes);
  }
  const VendorFacts& facts() const override { return facts_; }

 private:
  VendorFacts facts_;
};

std::shared_ptr<Machine> machine_of(std::vector<const char*> files, std::vector<const char*> nodes) {
  ::unsetenv("YOKE_CUDA_LIBRARY");
  return std::make_shared<Machine>(std::make_unique<ChosenVendor>(std::move(files), std::move(nodes)),
                                   sdk::Host());
}

TEST(ContextTest, DriverWithoutAFunctionIsReplacedByTheNextFile) {
  expect_ok([]() -> std::string {
    const auto all = machine_of({"/nonexistent.so", "libm.so.6", FAKE_GPU_FOLDER "/cuda/libcuda.so.1"}, {});
    return all->devices().empty() ? all->why_none() : "";
  });
  expect_ok([]() -> std::string {
    const auto all = machine_of({"/nonexistent.so", "libm.so.6"}, {});
    return all->devices().empty() &&
                   all->why_none().starts_with("the driver is too old: libm.so.6 has no cuInit")
               ? ""
               : all->why_none();
  });
}

TEST(ContextTest, NodeThatTheUserMayNotUseIsNamed) {
  std::string node = testing::TempDir() + "yoke-node-XXXXXX";
  const int file = ::mkstemp(node.data());
  ASSERT_EQ(::fchmod(file, 0), 0);
  expect_ok([&]() -> std::string {
    ::setenv("FAKE_GPU_DEVICES", "0", 1);
    const auto all = machine_of({FAKE_GPU_FOLDER "/cuda/libcuda.so.1"}, {node.c_str()});
    (void)all->library().open_driver();
    constexpr uid_t kNobody = 65534;
    if (::getuid() == 0 && ::setuid(kNobody) != 0) {  // root may use every node
      return "the user cannot be changed";
    }
    const bool is_named = all->devices().empty() &&
                          all->why_none().starts_with("this user may not use " + node) &&
                          all->why_none().find("group video") != std::string::npos;
    return is_named ? "" : all->why_none();
  });
  ::close(file);
  ::unlink(node.c_str());
}

// Freeing memory waits for the device, which waits for the host function; meanwhile the driver serves no
// other call. So a thread that calls the driver must not hold what the host function needs.
template <class Call>
std::string call_while_freeing(const Call& call) {
  constexpr int kMany = 200;  // enough that a record looks for finished points
  const auto context = machine("1")->context(0);
  const auto timeline = std::make_shared<Timeline>(context, 0, std::nullopt);
  context->add(timeline);
  const Address memory = allocate(*context);
  for (int i = 0; i < kMany; ++i) {
    (void)timeline->record(false);
  }
  std::atomic<bool> is_open{false};
  timeline->post(
      [&](std::int32_t) {
        while (!is_open) {
          std::this_thread::yield();
        }
      },
      true);
  const auto after_a_while = [](const auto& work) {
    return std::thread([&work] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      work();
    });
  };
  const auto free_memory = [&] {
    const Current current = context->enter();
    context->pool().free(memory, 512);
  };
  std::thread freeing(free_memory);
  const auto call_now = [&] { call(*timeline); };
  std::thread calling = after_a_while(call_now);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  is_open = true;
  freeing.join();
  calling.join();
  (void)code_of([&] { timeline->wait(~std::uint64_t{0}); });
  timeline->close();
  return {};
}

TEST(ContextTest, RecordingDoesNotStopHostFunctionsThatTheDriverWaitsFor) {
  expect_ok([] {
    return call_while_freeing([](Timeline& timeline) {
      for (int i = 0; i < 200; ++i) {
        (void)timeline.record(false);
      }
    });
  });
}

TEST(ContextTest, AbortDoesNotStopHostFunctionsThatTheDriverWaitsFor) {
  expect_ok([] {
    return call_while_freeing(
        [](Timeline& timeline) { timeline.cancel(sdk::Failure(YOKE_STATUS_ABORTED, "aborted")); });
  });
}

}  // namespace
}  // namespace yoke::gpu
