// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/held.h: keeps streams from running until a test lets them.
#pragma once

#include <memory>
#include <optional>

#include "busy.h"
#include "host_callback.h"

namespace yoke::conformance {

// Streams passed to hold() run no later work before open(): they wait for an event of a stream that a host
// callback blocks. Without host callbacks, that stream runs long copies instead, so held work starts by
// itself after some time. It also runs them if other streams copy meanwhile and the callback would block
// their copies: a driver may use one thread for all host functions, including those of copies. Declare a
// Held after the streams and buffers that it holds, so that it opens before they are destroyed.
class Held {
 public:
  enum class Others { kIdle, kCopy };
  explicit Held(Device& device, Others others = Others::kIdle) : stream_(device) {
    if (others == Others::kIdle || !blocks_copies(device)) {
      gate_ = HostCallback::gate(stream_);
    }
    if (!is_closed()) {
      busy_.emplace(device, 1U << 20U);
      busy_->queue(64);
      stream_.wait_for(busy_->stream.record());
    }
    event_ = stream_.record();
  }
  ~Held() { open(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void hold(const Stream& stream) const { stream.wait_for(event_); }
  const Stream& stream() const { return stream_; }
  const Event& event() const { return event_; }
  // True: held streams have run nothing so far. False: they may have.
  bool is_closed() const { return gate_ != nullptr && gate_->is_closed(); }
  void open() const {
    if (gate_ != nullptr) {
      gate_->open();
    }
  }

  // Whether copies on one stream wait while a host callback of another stream runs. Tested once per process. On a
  // machine that is too loaded to copy in time, streams are held by copies instead.
  static bool blocks_copies(Device& device) {
    static const bool result = [&] {
      constexpr std::uint64_t kLarge = 100'000;
      const Buffer buffer(device, kLarge);
      Bytes host(kLarge);
      const Stream copying(device);
      const Held held(device);
      const Plugin& plugin = device.plugin();
      for (const std::uint64_t byte_count : {std::uint64_t{64}, kLarge}) {
        expect_ok(plugin.from_host(copying.get(), buffer.get(), 0, host.data(), byte_count, nullptr));
        expect_ok(plugin.to_host(copying.get(), buffer.get(), 0, host.data(), byte_count));
      }
      const bool is_blocked = !copying.wait(500 * kMillisecond).ok();
      held.open();
      copying.synchronize();
      return is_blocked;
    }();
    return result;
  }

 private:
  std::optional<Busy> busy_;
  Stream stream_;
  std::unique_ptr<HostCallback> gate_;
  Event event_;
};

}  // namespace yoke::conformance
