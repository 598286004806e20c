// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/worker_timeline.h: the queue of a WorkerStream and its progress.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <yoke/backend.h>
#include <yoke/sdk/failure.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace yoke::sdk::detail {

// Blocks all signals on this thread, and on threads that it starts, while the object lives, so that signals
// are delivered only to threads of the application.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// The queue of a stream and its progress. Shared by the stream, its events and its thread, so it may outlive
// the stream. Work is numbered from 1. Item n is finished when `finished_` >= n, whether it ran, failed or
// was skipped; it does not access memory after that.
class WorkerTimeline {
 public:
  explicit WorkerTimeline(std::optional<Failure> failed) : failure_(std::move(failed)) {
    has_failed_ = failure_.has_value();
  }

  // Queues work. If `always` is set, it also runs on a failed stream. Throws the failure if the device is lost.
  std::uint64_t post(std::function<void()> work, bool always = false) {
    const std::lock_guard lock(mutex_);
    require_device();
    work_.push_back({std::move(work), always});
    changed_.notify_all();
    return ++posted_;
  }
  std::uint64_t last() const {
    const std::lock_guard lock(mutex_);
    return posted_;
  }
  std::uint64_t last_for_event() const {
    const std::lock_guard lock(mutex_);
    require_device();
    return posted_;
  }
  std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return work_.size();
  }

  // The code of the stream's failure, or YOKE_STATUS_OK.
  std::int32_t status() const {
    const std::lock_guard lock(mutex_);
    return failure_ ? failure_->code() : YOKE_STATUS_OK;
  }

  // YOKE_STATE_* of the work up to `number`.
  std::int32_t state(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    if (finished_ < number) {
      return YOKE_STATE_PENDING;
    }
    return has_failed_at(number) ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
  }
  // Waits until the work is finished, failed or skipped, then throws the error, if any.
  void wait(std::uint64_t number, std::uint64_t timeout_ns) const {
    std::unique_lock lock(mutex_);
    const auto is_finished = [&] { return finished_ >= number; };
    if (!is_finished() && !changed_.wait_for(lock, capped(timeout_ns), is_finished)) {
      throw_deadline(number - finished_, timeout_ns);
    }
    if (has_failed_at(number)) {
      throw Failure(*failure_);
    }
  }

  // Runs on this timeline's thread. Waits until item `number` of the other timeline is finished or this
  // timeline has failed. If the other fails, this timeline fails with the same error, but even if the other's device
  // is lost, this timeline's device is not.
  void wait_for(const std::shared_ptr<WorkerTimeline>& other, std::uint64_t number) {
    {
      const std::lock_guard lock(mutex_);
      if (has_failed_) {
        return;
      }
      awaited_ = other;
    }
    std::optional<Failure> failure;
    {
      std::unique_lock lock(other->mutex_);
      other->changed_.wait(lock, [&] { return other->finished_ >= number || has_failed_.load(); });
      if (other->finished_ >= number && other->failure_ && number >= other->failed_from_) {
        failure = other->failure_;
      }
    }
    const std::lock_guard lock(mutex_);
    awaited_.reset();
    if (failure) {
      set_failure(*std::move(failure));
    }
  }

  // Runs on this timeline's thread. Sleeps for `delay_ns`, or until the
  // timeline fails or its stream is destroyed.
  void pause(std::uint64_t delay_ns) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, capped(delay_ns), [&] { return has_failed_ || is_closing_; });
  }

  // Skips all queued work. Running work continues, and waits return only after it has finished. `is_lost`: the device
  // of this timeline is lost.
  void fail(const Failure& failure, bool is_lost = false) {
    std::shared_ptr<WorkerTimeline> awaited;
    {
      const std::lock_guard lock(mutex_);
      const bool is_idle = finished_ == posted_ && !failure_;
      set_failure(failure);
      lost_ = lost_ || !is_lost ? lost_ : std::optional(failure);
      if (is_idle) {  // the failure counts as work, so that events recorded from now on carry it
        ++posted_;
        ++finished_;
      }
      changed_.notify_all();
      awaited = awaited_;
    }
    // If set, this timeline's thread sleeps in wait_for and checks has_failed_ when it wakes.
    if (awaited != nullptr) {
      const std::lock_guard lock(awaited->mutex_);
      awaited->changed_.notify_all();
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
  }

  // The body of the thread. Calls `on_lost` if work reports a lost device.
  void work(const std::function<void(const Failure&)>& on_lost) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return is_closing_ || !work_.empty(); });
      if (work_.empty()) {
        return;
      }
      Item item = std::move(work_.front());
      work_.pop_front();
      if (!has_failed_ || item.always) {
        lock.unlock();
        std::optional<Failure> failure = attempt(item.work);
        item.work = nullptr;  // destroys its captures before the work counts as finished
        if (failure && failure->code() == YOKE_STATUS_DEVICE_LOST) {
          on_lost(*failure);
        }
        lock.lock();
        if (failure) {
          set_failure(*std::move(failure));
        }
      }
      ++finished_;
      changed_.notify_all();
    }
  }

 private:
  // Any other code would mean that the work no longer uses memory, so a missing message must not change it.
  [[noreturn]] static void throw_deadline(std::uint64_t count, std::uint64_t timeout_ns) {
    std::string text;
    try {
      text = std::to_string(count) + (count == 1 ? " item" : " items") +
             " of queued work did not finish within " + std::to_string(timeout_ns / 1'000'000) + " ms";
    } catch (const std::bad_alloc&) {  // the error has no text
    }
    throw Failure(YOKE_STATUS_DEADLINE_EXCEEDED, std::move(text));
  }
  static std::chrono::nanoseconds capped(std::uint64_t timeout_ns) {
    constexpr std::uint64_t kTenYears = 315'360'000'000'000'000;  // a clock's now plus more would overflow
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(timeout_ns, kTenYears)));
  }

  // Called on the timeline's thread. A lack of memory for the message must not end the process.
  std::optional<Failure> attempt(const std::function<void()>& work) {
    try {
      return failure_of(work);
    } catch (const std::bad_alloc&) {
      return std::move(out_of_memory_);
    }
  }
  static std::optional<Failure> failure_of(const std::function<void()>& work) {
    try {
      work();
      return std::nullopt;
    } catch (const Failure& failure) {
      return failure;
    } catch (const std::bad_alloc&) {
      return Failure(YOKE_STATUS_RESOURCE_EXHAUSTED, "the plugin is out of host memory");
    } catch (const std::exception& exception) {
      return Failure(YOKE_STATUS_INTERNAL, exception.what());
    } catch (...) {
      return Failure(YOKE_STATUS_INTERNAL, "queued work threw an object that is not a std::exception");
    }
  }

  // Precondition of the next three functions: the mutex is locked.
  void require_device() const {
    if (lost_) {
      throw Failure(*lost_);
    }
  }
  void set_failure(Failure failure) {
    if (!failure_) {
      failure_.emplace(std::move(failure));
      failed_from_ = finished_ + 1;
      has_failed_ = true;
    }
  }
  bool has_failed_at(std::uint64_t number) const { return failure_ && number >= failed_from_; }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  struct Item {
    std::function<void()> work;
    bool always;
  };
  std::deque<Item> work_;
  std::uint64_t posted_ = 0;
  std::uint64_t finished_ = 0;
  std::optional<Failure> lost_;  // of the device
  std::optional<Failure> failure_;
  Failure out_of_memory_{YOKE_STATUS_RESOURCE_EXHAUSTED, "the plugin is out of host memory"};
  std::uint64_t failed_from_ = 0;
  std::atomic<bool> has_failed_{false};  // wait_for reads it without the mutex
  std::shared_ptr<WorkerTimeline> awaited_;
  bool is_closing_ = false;
};

}  // namespace yoke::sdk::detail
