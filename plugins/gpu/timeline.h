// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/timeline.h: what the host knows about the work of one stream of the driver: which of it has
// failed, what waits for it, and which host functions it calls.
#pragma once

#include <yoke/sdk/plugin.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "context.h"

namespace yoke::gpu {

// Calls `is_done` until it returns true or the time limit passes: first in a loop, then with growing pauses.
// Returns its last result.
bool poll_until(std::uint64_t timeout_ns, const std::function<bool()>& is_done);
// Throws YOKE_STATUS_DEADLINE_EXCEEDED.
[[noreturn]] void throw_late(std::uint64_t timeout_ns);

class Timeline;

// A recorded event.
class Point {
 public:
  // `anchor` is not null if the point has a time.
  Point(std::shared_ptr<Timeline> timeline, void* event, bool timing, std::uint64_t number,
        std::shared_ptr<const Anchor> anchor = nullptr)
      : timeline_(std::move(timeline)),
        event_(event),
        timing_(timing),
        number_(number),
        anchor_(std::move(anchor)) {}
  ~Point();
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;

  // Whether the work before the point accesses no memory any more.
  bool is_quiescent();
  std::int32_t state();
  void wait(std::uint64_t timeout_ns);
  std::uint64_t elapsed_since(const Point& start) const;
  // On the host's steady clock.
  std::uint64_t time_ns() const;

 private:
  friend class Timeline;
  struct Waiter {
    std::weak_ptr<Timeline> timeline;
    std::uint64_t number;  // of the first work that waits
  };

  std::shared_ptr<Timeline> timeline_;
  void* event_;
  bool timing_;
  std::uint64_t number_;
  std::shared_ptr<const Anchor> anchor_;
  std::atomic<bool> is_done_{false};
  std::vector<Waiter> waiters_;  // guarded by the mutex of the timeline
};

// Points and host functions are numbered from 1. A failure has the number of the first of them that it
// affects. Failures that yoke causes are known when work is queued, so that later work is not queued; only
// an abort fails work that the driver already has, and that work runs to its end.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  Timeline(std::shared_ptr<Context> context, int priority, std::optional<sdk::Failure> failure);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  // Called when the stream is destroyed; its points stay valid. Precondition: no work is pending.
  void close() noexcept;

  // Calls work(stream), unless the timeline has failed. An exception fails the timeline and is passed on.
  template <class Work>
  void submit(const Work& work) {
    const Current current = context_->enter();
    if (has_failed_.load(std::memory_order_acquire)) [[unlikely]] {
      return;
    }
    try {
      work(stream_);
    } catch (const sdk::Failure& failure) {
      poison(failure);
      throw;
    }
  }
  // Queues a host function. It gets the code of the first error before it, or YOKE_STATUS_OK. Unless
  // `always` is set, it is called only on timelines without an error.
  void post(std::function<void(std::int32_t status)> work, bool always);

  std::shared_ptr<Point> record(bool timing);
  void wait_for(const std::shared_ptr<Point>& point);
  // Work queued from now on fails.
  void poison(const sdk::Failure& failure);
  // Unfinished work and work queued from now on fails, and so does work that waits for it.
  void cancel(const sdk::Failure& failure);
  // Like cancel, without asking the driver what is finished: the device is lost.
  void lose(const sdk::Failure& failure) { spread(failure, false); }
  // On a lost device, calls the host functions that the driver would not call.
  void rescue_tasks();
  // Sleeps for `delay_ns` in stream order, or until the timeline fails.
  void pause(std::uint64_t delay_ns);

  std::int32_t state();
  void wait(std::uint64_t timeout_ns);
  std::optional<sdk::Failure> failure_at(std::uint64_t number) const;
  std::string debug_text() const;

  Context& context() const noexcept { return *context_; }
  void* stream() const noexcept { return stream_; }

 private:
  friend class Point;
  struct Task {
    void release();

    HostCall call{run_task, this};
    std::shared_ptr<Timeline> timeline;
    std::uint64_t number;
    bool always;
    std::function<void(std::int32_t status)> work;
    std::atomic<bool> is_claimed{false};
    // The mutex guards these two.
    bool has_run = false;
    bool is_held = true;  // run_task must not erase it: its launch has not returned, or the device is lost
    std::list<Task>::iterator place;
  };
  static constexpr std::uint64_t kAllCalls = ~std::uint64_t{0};

  static void run_task(void* task);
  void run(Task& task);
  void note_done(std::uint64_t number);
  void prune();
  bool is_finished(const Point& point) const;
  static void keep_forever(std::list<Task>& tasks);
  // `can_ask`: whether the driver knows what is done, and the context is current.
  std::uint64_t first_unfinished(bool can_ask);
  // Whether the work up to the event or on the stream `handle` accesses no memory any more. After a loss the
  // driver cannot say, and only the host functions before `number` may still run.
  bool is_quiescent(const Function<int(void*)>& query, void* handle, std::uint64_t number);
  // Precondition: the mutex is locked.
  bool has_calls_before(std::uint64_t number) const;
  std::unique_ptr<Point> now();
  // Returns the waiters to fail next.
  std::vector<Point::Waiter> fail_from(const sdk::Failure& failure, std::uint64_t number);
  void spread(const sdk::Failure& failure, bool can_ask);

  std::shared_ptr<Context> context_;
  void* stream_ = nullptr;
  // Host functions take it, so no thread may call the driver while it holds it: the driver may make that
  // thread wait for another one, which waits for the device, which waits for the host function.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;  // everything up to this number is known to be done
  std::optional<sdk::Failure> failure_;
  std::uint64_t failed_from_ = 0;
  std::atomic<bool> has_failed_{false};
  std::deque<std::shared_ptr<Point>> points_;  // that may be unfinished, in order
  std::size_t prune_at_ = 64;
  std::list<Task> tasks_;
  std::thread rescue_;
  bool is_rescuing_ = false;
};

}  // namespace yoke::gpu
