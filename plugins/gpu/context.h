// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/context.h: the primary context of one device, and what all handles of the device share.
#pragma once

#include <yoke/sdk/failure.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "attentions.h"
#include "convolutions.h"
#include "machine.h"
#include "pool.h"
#include "products.h"

namespace yoke::gpu {

class Timeline;
class Context;

// A moment that the device and the host both know, so that times of the device become times of the host.
struct Anchor {
  explicit Anchor(Context& of);
  ~Anchor();
  Anchor(const Anchor&) = delete;
  Anchor& operator=(const Anchor&) = delete;

  Context& context;
  void* event;
  std::uint64_t host_ns = 0;
};

// Makes a context current on this thread while the object lives, then restores the earlier one: other
// libraries use the thread, too.
class [[nodiscard]] Current {
 public:
  Current(const Driver& driver, void* context) noexcept;
  Current(Current&& other) noexcept
      : driver_(other.driver_),
        earlier_(other.earlier_),
        has_changed_(std::exchange(other.has_changed_, false)),
        call_(other.call_),
        code_(other.code_) {}
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  Current& operator=(Current&&) = delete;
  ~Current();

  explicit operator bool() const noexcept { return code_ == 0; }
  const char* call() const noexcept { return call_; }  // the one that failed
  int code() const noexcept { return code_; }

 private:
  const Driver& driver_;
  void* earlier_ = nullptr;
  bool has_changed_ = false;
  const char* call_ = "";
  int code_ = 0;
};

// Every function is thread-safe, and leaves the current context of its thread as it was.
class Context {
 public:
  Context(std::shared_ptr<Machine> machine, const Hardware& hardware);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Makes the context current. Throws YOKE_STATUS_DEVICE_LOST on a lost device.
  Current enter();
  // Like enter, for destructors: also works on a lost device, whose objects the driver destroys if it can.
  // The result is false if the driver refuses.
  Current try_enter() noexcept { return {driver(), handle_}; }

  // Calls a function of the driver and throws its error. Precondition: the context is current.
  template <class... P, class... A>
  void call(const Function<int(P...)>& function, A... arguments) {
    check(function.name, function(arguments...));
  }
  void check(const char* name, int code) {
    if (code != 0) [[unlikely]] {
      fail(name, code);
    }
  }
  // Throws. A sticky error loses the device.
  [[noreturn]] void fail(const char* name, int code);
  // Returns work(). Records a failure that loses the device.
  template <class Work>
  auto watch(const Work& work) {
    try {
      return work();
    } catch (const sdk::Failure& failure) {
      if (failure.code() == YOKE_STATUS_DEVICE_LOST) {
        lose(failure, "allocating memory");
      }
      throw;
    }
  }
  // Whether the work before `handle`, a stream or event, is done. A query that fails says nothing about the
  // work, so the work counts as pending. The device is lost if the query fails for kPatience.
  bool is_done(const Function<int(void*)>& query, void* handle);
  // Waits for all work of the stream, without a limit.
  void finish(void* stream);

  bool lost() const noexcept { return is_lost_.load(std::memory_order_acquire); }

  void* take_event(bool timing);
  void give_event(void* event, bool timing) noexcept;
  // An anchor that is at most some seconds old, or null if the device is too busy to record one.
  // Precondition: the context is current.
  std::shared_ptr<const Anchor> anchor();

  // Whether kernels of this device may access memory of `other`.
  bool can_access(Context& other);

  // For loss: a sticky error fails every timeline of the device.
  void add(const std::shared_ptr<Timeline>& timeline);

  Machine& machine() const noexcept { return *machine_; }
  const Driver& driver() const noexcept { return machine_->driver(); }
  const Vendor& vendor() const noexcept { return machine_->vendor(); }
  const Hardware& hardware() const noexcept { return hardware_; }
  Pool& pool() noexcept { return pool_; }
  Products& products() noexcept { return *products_; }
  Convolutions& convolutions() noexcept { return *convolutions_; }
  Attentions& attentions() noexcept { return *attentions_; }
  Peer peer() const noexcept { return {handle_, hardware_.device}; }
  // The stream for work that names no stream.
  void* immediate() const noexcept { return immediate_; }

  // Records the driver calls of `work` on an internal stream. Returns an executable graph, or null with the
  // reason in `why_not`. Passes on what `work` throws, except a Failure, which is a reason.
  void* capture(const std::function<void(void* stream)>& work, std::string& why_not);

 private:
  static constexpr std::chrono::seconds kPatience{2};
  bool keeps_failing(void* handle);
  // Fails every timeline of the device, the first time.
  void lose(const sdk::Failure& failure, const char* call);
  sdk::Failure with_name(const sdk::Failure& failure) const;

  std::shared_ptr<Machine> machine_;
  const Hardware& hardware_;
  const std::uint64_t serial_;  // unique in the process
  void* handle_ = nullptr;
  void* immediate_ = nullptr;
  void* capturing_ = nullptr;
  Pool pool_;
  std::unique_ptr<Products> products_;
  std::unique_ptr<Convolutions> convolutions_;
  std::unique_ptr<Attentions> attentions_;
  std::atomic<bool> is_lost_{false};
  std::mutex losing_mutex_;
  std::mutex mutex_;
  std::optional<sdk::Failure> loss_;
  std::vector<std::weak_ptr<Timeline>> timelines_;
  std::vector<void*> events_[2];                                    // free ones, without and with timing
  std::map<void*, std::chrono::steady_clock::time_point> failing_;  // by handle: when its query first failed
  std::atomic<bool> has_failing_{false};
  std::map<std::uint64_t, bool> peers_;  // by serial of the context: whether access is enabled
  std::mutex capture_mutex_;
  std::mutex anchor_mutex_;
  std::shared_ptr<const Anchor> anchor_;
};

}  // namespace yoke::gpu
