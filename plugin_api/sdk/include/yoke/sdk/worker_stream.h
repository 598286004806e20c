// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/worker_stream.h: streams for a backend whose work is function calls. Each
// stream has a thread, events, poisoning, deadlines, abort and host callbacks. WorkerBuffer is host memory
// whose copies run on them.
//
// A device holds one WorkerGroup and returns a WorkerStream of it from create_stream. Work is queued with
//   sdk::WorkerStream::run(stream, [=] { ... });   // runs at once when `stream` is null
// An exception poisons the stream: later work is skipped, and waits for that work throw the error. A Failure
// with YOKE_STATUS_DEVICE_LOST poisons every stream of the group.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <yoke/sdk/plugin.h>

#include <algorithm>
#include <array>
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
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace yoke::sdk {

namespace detail {

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

  // Queues work. If `always` is set, it also runs on a failed stream.
  std::uint64_t post(std::function<void()> work, bool always = false) {
    const std::lock_guard lock(mutex_);
    work_.push_back({std::move(work), always});
    changed_.notify_all();
    return ++posted_;
  }
  std::uint64_t last() const {
    const std::lock_guard lock(mutex_);
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

  // Skips all queued work. Running work continues, and waits return only after it has finished.
  void fail(const Failure& failure) {
    std::shared_ptr<WorkerTimeline> awaited;
    {
      const std::lock_guard lock(mutex_);
      const bool is_idle = finished_ == posted_ && !failure_;
      set_failure(failure);
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

  // Called on the timeline's thread, which must not end the process if there is no memory for a message.
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

  // Precondition of the next two functions: the mutex is locked.
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
  std::optional<Failure> failure_;
  Failure out_of_memory_{YOKE_STATUS_RESOURCE_EXHAUSTED, "the plugin is out of host memory"};
  std::uint64_t failed_from_ = 0;
  std::atomic<bool> has_failed_{false};  // wait_for reads it without the mutex
  std::shared_ptr<WorkerTimeline> awaited_;
  bool is_closing_ = false;
};

}  // namespace detail

// The streams of one device, for abort and lost devices. The device owns it; its streams share it.
class WorkerGroup {
 public:
  // Cancels all queued work. From now on every stream, including new ones, fails with YOKE_STATUS_ABORTED.
  void abort() { fail(Failure(YOKE_STATUS_ABORTED, "the device was aborted; close it and open it again")); }

  void fail(const Failure& failure) {
    std::vector<std::shared_ptr<detail::WorkerTimeline>> timelines;
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) {
        failure_.emplace(failure);
      }
      for (const auto& weak : timelines_) {
        if (auto timeline = weak.lock()) {
          timelines.push_back(std::move(timeline));
        }
      }
    }
    for (const auto& timeline : timelines) {
      timeline->fail(failure);
    }
  }

 private:
  friend class WorkerStream;
  std::shared_ptr<detail::WorkerTimeline> make_timeline() {
    const std::lock_guard lock(mutex_);
    auto timeline = std::make_shared<detail::WorkerTimeline>(failure_);
    std::erase_if(timelines_, [](const auto& weak) { return weak.expired(); });
    timelines_.push_back(timeline);
    return timeline;
  }

  std::mutex mutex_;
  std::optional<Failure> failure_;
  std::vector<std::weak_ptr<detail::WorkerTimeline>> timelines_;
};

class WorkerEvent final : public Event {
 public:
  std::int32_t state() override { return timeline_->state(number_); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(number_, timeout_ns); }
  std::uint64_t elapsed_since(Event& start) override {
    const auto& begin = static_cast<WorkerEvent&>(start);  // all events of this backend are WorkerEvents
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, *stamp_ - *begin.stamp_));
  }

  std::uint64_t time_ns() override { return static_cast<std::uint64_t>(*stamp_); }

 private:
  friend class WorkerStream;
  WorkerEvent(std::shared_ptr<detail::WorkerTimeline> timeline, bool timing)
      : timeline_(std::move(timeline)) {
    if (!timing) {
      number_ = timeline_->last();
      return;
    }
    stamp_ = std::make_shared<std::int64_t>(0);
    number_ = timeline_->post([stamp = stamp_] {
      *stamp = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    });
  }
  std::shared_ptr<detail::WorkerTimeline> timeline_;
  std::shared_ptr<std::int64_t> stamp_;  // nanoseconds, written before the event is done; null without timing
  std::uint64_t number_ = 0;             // of the last item before the event
};

// A stream with its own thread. Queued work must not use members of a derived class: the base's destructor runs
// the remaining work after they are destroyed.
class WorkerStream : public Stream {
 public:
  explicit WorkerStream(const std::shared_ptr<WorkerGroup>& group) : timeline_(group->make_timeline()) {
    const detail::SignalsBlocked inherited;
    try {
      thread_ = std::thread(
          [timeline = timeline_, group] { timeline->work([&](const Failure& lost) { group->fail(lost); }); });
    } catch (const std::system_error& error) {
      throw Failure(YOKE_STATUS_RESOURCE_EXHAUSTED,
                    std::string("could not start the thread of a stream: ") + error.what());
    }
  }
  ~WorkerStream() override {
    timeline_->close();
    thread_.join();
  }

  // Queues `work`, which may throw. With a null stream, runs it at once on this thread.
  template <class Work>
  static void run(Stream* stream, Work&& work) {
    if (stream == nullptr) {
      std::forward<Work>(work)();
    } else {
      static_cast<WorkerStream*>(stream)->timeline_->post(std::forward<Work>(work));
    }
  }

  std::int32_t state() override { return timeline_->state(timeline_->last()); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(timeline_->last(), timeout_ns); }
  std::unique_ptr<Event> record(bool timing) override {
    return std::unique_ptr<Event>(new WorkerEvent(timeline_, timing));
  }
  void wait_event(Event& event) override {
    const auto& awaited = static_cast<WorkerEvent&>(event);
    if (awaited.timeline_ != timeline_) {
      timeline_->post([mine = timeline_.get(), other = awaited.timeline_, number = awaited.number_] {
        mine->wait_for(other, number);
      });
    }
  }
  void abort() override {
    timeline_->fail(Failure(YOKE_STATUS_ABORTED, "the stream was aborted; destroy it and create another"));
  }
  void host_callback(yoke_host_callback_fn callback, void* user) override {
    timeline_->post([callback, user, mine = timeline_.get()] { callback(user, mine->status()); }, true);
  }
  void poison(const Failure& failure) override {
    timeline_->post([failure] { throw Failure(failure); });
  }
  void pause(std::uint64_t delay_ns) override {
    timeline_->post([mine = timeline_.get(), delay_ns] { mine->pause(delay_ns); });
  }
  std::string debug_text() override {
    const std::uint64_t count = timeline_->waiting();
    return std::to_string(count) + (count == 1 ? " item of work is" : " items of work are") +
           " queued on a worker thread";
  }

 private:
  std::shared_ptr<detail::WorkerTimeline> timeline_;
  std::thread thread_;
};

// Host memory whose copies run on WorkerStreams.
class WorkerBuffer : public HostBuffer {
 public:
  using HostBuffer::HostBuffer;

  std::int32_t from_host(Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override {
    WorkerStream::run(stream, [=, this] { HostBuffer::from_host(nullptr, offset, source, byte_count); });
    return stream == nullptr ? YOKE_SOURCE_COPIED : YOKE_SOURCE_UNTIL_EVENT;
  }
  void to_host(Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override {
    WorkerStream::run(stream, [=, this] { HostBuffer::to_host(nullptr, offset, target, byte_count); });
  }
  void copy_from(Stream* stream, std::uint64_t offset, Buffer& source, std::uint64_t source_offset,
                 std::uint64_t byte_count) override {
    WorkerStream::run(stream, [=, this, from = &source] {
      HostBuffer::copy_from(nullptr, offset, *from, source_offset, byte_count);
    });
  }
  void fill(Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override {
    std::array<std::byte, 8> copy{};  // the caller's pattern is valid during the call only
    std::copy(pattern.begin(), pattern.end(), copy.begin());
    WorkerStream::run(stream, [=, this, size = pattern.size()] {
      HostBuffer::fill(nullptr, offset, byte_count, std::span(copy).first(size));
    });
  }
};

}  // namespace yoke::sdk
