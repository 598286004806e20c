// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/host_callback.h: a host callback on a stream, which can keep the stream busy.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "kit.h"

namespace yoke::conformance {

class HostCallback {
 public:
  // A gate returns only after open(), so that no later work of the stream can start. If the plugin calls it on
  // the thread that queues it, it returns at once.
  enum class Kind { kPlain, kGate };

  // Queues the callback, which calls `during`. Throws Unsupported if the backend has no host callbacks.
  explicit HostCallback(const Stream& stream, Kind kind = Kind::kPlain, std::function<void()> during = {}) {
    // Never freed: the plugin may call it late, or twice.
    static std::deque<State> all;
    state_ = &all.emplace_back();
    state_->during = std::move(during);
    state_->is_open = kind == Kind::kPlain;
    expect_supported(stream.device().plugin().call<&yoke_stream_api::stream_host_callback>(
                         stream.get(), &HostCallback::call, static_cast<void*>(state_)),
                     "queueing a host callback");
  }
  // A gate; null if the backend has no host callbacks.
  static std::unique_ptr<HostCallback> gate(const Stream& stream) {
    try {
      return std::make_unique<HostCallback>(stream, Kind::kGate);
    } catch (const Unsupported&) {
      return nullptr;
    }
  }
  HostCallback(const HostCallback&) = delete;
  HostCallback& operator=(const HostCallback&) = delete;
  ~HostCallback() { open(); }

  void open() const { state_->is_open = true; }
  // Waits until the callback was called; returns whether it is waiting for open().
  bool is_closed() const {
    Patience::wait_until([&] { return state_->calls != 0; }, kNotCalled);
    return state_->returns == 0 && !state_->is_open;
  }
  void wait() const {
    Patience::wait_until([&] { return state_->returns != 0; }, kNotCalled);
  }
  int calls() const { return state_->calls; }
  std::int32_t status() const { return state_->status; }
  // Calls of other callbacks in this process before the call of this one.
  int position() const { return state_->position; }

 private:
  struct State {
    std::function<void()> during;
    std::thread::id caller = std::this_thread::get_id();
    Patience patience;
    std::atomic<bool> is_open;
    std::atomic<int> calls{0};
    std::atomic<int> returns{0};
    std::atomic<int> position{-1};
    std::atomic<std::int32_t> status{-1};
  };

  static void call(void* user, std::int32_t status) {
    static std::atomic<int> all_calls{0};
    State& state = *static_cast<State*>(user);
    state.position = all_calls++;
    state.status = status;
    if (state.during) {
      state.during();
    }
    ++state.calls;
    const bool may_block = std::this_thread::get_id() != state.caller;
    while (may_block && !state.is_open && !state.patience.is_over()) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    ++state.returns;
  }
  static constexpr const char* kNotCalled = "a host callback was not called";
  State* state_;
};

}  // namespace yoke::conformance
