// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/loss_test.cpp: what plugins/gpu does when a device is lost. Each test runs in its own
// process, because the fake reads its variables once.
#include <cuda/vendor.h>
#include <gpu/context.h>
#include <gpu/timeline.h>
#include <gtest/gtest.h>
#include <yoke/plugin.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "contexts.h"
#include "own_process.h"

namespace yoke::gpu {
namespace {

TEST(LossTest, StickyErrorOfAnAllocationLosesTheDevice) {
  expect_ok([]() -> std::string {
    const auto context = machine("1", "memory_allocate:1:700")->context(0);
    const auto timeline = std::make_shared<Timeline>(context, 0, std::nullopt);
    const auto added_late = std::make_shared<Timeline>(context, 0, std::nullopt);
    context->add(timeline);
    const std::int32_t code = code_of([&] { context->watch([&] { return context->pool().allocate(512); }); });
    context->add(added_late);
    const std::int32_t later = code_of([&] { timeline->wait(1); });
    const std::int32_t of_late = code_of([&] { added_late->wait(1); });
    timeline->close();
    added_late->close();
    return code == YOKE_STATUS_DEVICE_LOST && context->lost() && later == code && of_late == code
               ? ""
               : "the device is not lost";
  });
}

TEST(LossTest, QueriesThatKeepFailingLoseTheDevice) {
  expect_ok([]() -> std::string {
    const auto context = machine("1", "event_query:1+:999")->context(0);
    const Current current = context->enter();
    const auto begin = std::chrono::steady_clock::now();
    const std::int32_t code = code_of([&] { context->finish(context->immediate()); });
    if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(1)) {
      return "the wait ended although the work may be running";
    }
    return code == YOKE_STATUS_DEVICE_LOST && context->lost() ? "" : "the work counts as finished";
  });
}

TEST(LossTest, HostFunctionsOfALostDeviceAreCalledOnce) {
  expect_ok([]() -> std::string {
    static std::atomic<int> calls{0};
    const auto context = machine("1", "fill:1:700")->context(0);
    const auto timeline = std::make_shared<Timeline>(context, 0, std::nullopt);
    context->add(timeline);
    const Address memory = allocate(*context);
    timeline->submit([&](void* stream) {
      context->call(context->driver().fill_bytes, memory, static_cast<unsigned char>(0), std::size_t{512},
                    stream);
    });
    for (int i = 0; i < 100; ++i) {
      if (code_of([&] { timeline->post([](std::int32_t) { ++calls; }, true); }) != YOKE_STATUS_OK) {
        ++calls;  // refused, so nothing calls it
      }
    }
    (void)code_of([&] { timeline->wait(~std::uint64_t{0}); });
    const bool is_lost = context->lost();
    timeline->close();
    if (const Current current = context->try_enter()) {
      context->pool().free(memory, 512);
    }
    return is_lost && calls == 100 ? "" : std::to_string(calls) + " calls";
  });
}

// Copies of pageable memory end with a host function that writes to memory of the caller, who may free it as soon as a
// wait ends; the same holds for what a host callback uses.
TEST(LossTest, WaitsLastUntilHostFunctionsHaveReturned) {
  for (const bool is_callback : {false, true}) {
    expect_ok([is_callback]() -> std::string {
      const auto context = machine("1", "fill:1:700")->context(0);
      const auto calling = std::make_shared<Timeline>(context, 0, std::nullopt);
      const auto failing = std::make_shared<Timeline>(context, 0, std::nullopt);
      context->add(calling);
      context->add(failing);
      const Address memory = allocate(*context);
      std::promise<void> begun;
      std::promise<void> go_on;
      std::atomic<int> calls{0};
      calling->post(
          [&](std::int32_t) {
            begun.set_value();
            go_on.get_future().wait();
            ++calls;
          },
          is_callback);
      const auto before_next = calling->record(false);
      std::atomic<int> calls_before_next{-1};
      calling->post([&](std::int32_t) { calls_before_next = calls.load(); }, true);
      begun.get_future().wait();
      failing->submit([&](void* stream) {
        context->call(context->driver().fill_bytes, memory, static_cast<unsigned char>(0), std::size_t{512},
                      stream);
      });
      const std::int32_t of_other = code_of([&] { failing->wait(~std::uint64_t{0}); });
      constexpr std::uint64_t kShort = 100'000'000;
      const bool is_pending = calling->state() == YOKE_STATE_PENDING &&
                              before_next->state() == YOKE_STATE_PENDING && calls_before_next == -1 &&
                              code_of([&] { calling->wait(kShort); }) == YOKE_STATUS_DEADLINE_EXCEEDED &&
                              code_of([&] { before_next->wait(0); }) == YOKE_STATUS_DEADLINE_EXCEEDED;
      go_on.set_value();
      const std::int32_t of_event = code_of([&] { before_next->wait(~std::uint64_t{0}); });
      const bool has_ended = calls == 1;
      const std::int32_t of_stream = code_of([&] { calling->wait(~std::uint64_t{0}); });
      calling->close();
      failing->close();
      if (const Current current = context->try_enter()) {
        context->pool().free(memory, 512);
      }
      if (!context->lost() || of_other != YOKE_STATUS_DEVICE_LOST || of_event != of_other ||
          of_stream != of_other) {
        return "a wait ended without the loss";
      }
      return !is_pending || !has_ended ? "a wait ended during the call"
             : calls_before_next != 1  ? "the next host function was called too early, or not"
                                       : "";
    });
  }
}

// A driver that queues host functions, and then reports the error of other work, as asynchronous drivers may.
class LateErrorVendor final : public cuda::Vendor {
 public:
  explicit LateErrorVendor(bool calls_at_once) : calls_at_once_(calls_at_once) {}

  int launch_host(void*, HostCall& call) const override {
    queued_ = &call;
    if (calls_at_once_) {
      call_queued();
    }
    return 700;
  }
  void call_queued() const { queued_->function(queued_->user); }

 private:
  bool calls_at_once_;
  mutable HostCall* queued_ = nullptr;
};

TEST(LossTest, HostFunctionThatADriverQueuedWithAnErrorIsCalledAtMostOnce) {
  for (const bool calls_at_once : {false, true}) {
    expect_ok([calls_at_once]() -> std::string {
      auto owned = std::make_unique<LateErrorVendor>(calls_at_once);
      const LateErrorVendor& vendor = *owned;
      const auto context = machine("1", "", std::move(owned))->context(0);
      const auto timeline = std::make_shared<Timeline>(context, 0, std::nullopt);
      context->add(timeline);
      int calls = 0;
      const bool is_refused =
          code_of([&] { timeline->post([&](std::int32_t) { ++calls; }, true); }) != YOKE_STATUS_OK;
      if (!calls_at_once) {
        vendor.call_queued();
      }
      timeline->close();
      return is_refused != calls_at_once && calls == (calls_at_once ? 1 : 0)
                 ? ""
                 : std::to_string(calls) + " calls";
    });
  }
}

}  // namespace
}  // namespace yoke::gpu
