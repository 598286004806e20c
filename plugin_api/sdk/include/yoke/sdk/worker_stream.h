// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/worker_stream.h: streams for a backend whose work is calls: a thread each,
// in order, with events, errors that stay, deadlines and abort; and host memory whose copies run on them.
//
// A device holds one WorkerGroup, and gives a WorkerStream of it from create_stream. Work goes in by
//   sdk::WorkerStream::run(stream, [=] { ... });   // now and here on a null stream, else queued
// What it throws poisons the stream: work behind it is skipped, and whoever waits for that is told. A
// Failure with YOKE_DEVICE_LOST poisons every stream of the group.
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

// While it lives, on this thread and for the threads started meanwhile: signals are the application's, and
// none of them is delivered to a thread of the plugin.
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

// A stream's queue and how far it is; shared with its events and its thread, so that it outlives the stream.
// Work is numbered from 1; number n is over when `finished` has reached it, whether it ran, failed or was
// skipped.
class WorkerTimeline {
 public:
  explicit WorkerTimeline(std::optional<Failure> failed) : failure_(std::move(failed)) {
    has_failed_ = failure_.has_value();
  }

  std::uint64_t post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
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

  // Of one point, or (`whole`) of the stream, whose error also counts when nothing is behind it.
  bool done(std::uint64_t number, bool whole) const {
    const std::lock_guard lock(mutex_);
    if (finished_ < number) {
      return false;
    }
    check(number, whole);
    return true;
  }
  // Ends when the work is over, also when it failed: only then it has left the caller's memory.
  void wait(std::uint64_t number, bool whole, std::uint64_t timeout_ns) const {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return finished_ >= number; };
    if (!is_over() && !changed_.wait_for(lock, capped(timeout_ns), is_over)) {
      throw Failure(YOKE_DEADLINE_EXCEEDED, std::to_string(number - finished_) +
                                                " pieces of queued work were not done within " +
                                                std::to_string(timeout_ns / 1'000'000) + " ms");
    }
    check(number, whole);
  }

  // On this timeline's own thread: until `number` of another one is over, or this one has failed. Throws the
  // other's error.
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
    {
      const std::lock_guard lock(mutex_);
      awaited_.reset();
    }
    if (failure) {
      throw Failure(*failure);
    }
  }

  // On this timeline's own thread: so long, or until it fails or its stream is destroyed.
  void pause(std::uint64_t delay_ns) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, capped(delay_ns), [&] { return has_failed_ || is_closing_; });
  }

  // Skips what is queued; what runs goes on, and its end is waited for.
  void fail(const Failure& failure) {
    std::shared_ptr<WorkerTimeline> awaited;
    {
      const std::lock_guard lock(mutex_);
      set_failure(failure);
      changed_.notify_all();
      awaited = awaited_;
    }
    if (awaited != nullptr) {  // the thread sleeps there, and looks at has_failed_ when it wakes
      const std::lock_guard lock(awaited->mutex_);
      awaited->changed_.notify_all();
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
  }

  // The thread. `on_lost` hears of a lost device.
  void work(const std::function<void(const Failure&)>& on_lost) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return is_closing_ || !work_.empty(); });
      if (work_.empty()) {
        return;
      }
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      if (!has_failed_) {
        lock.unlock();
        std::optional<Failure> failure = attempt(work);
        work = nullptr;  // what it holds goes before anybody hears that it is over
        if (failure && failure->code() == YOKE_DEVICE_LOST) {
          on_lost(*failure);
        }
        lock.lock();
        if (failure) {
          set_failure(*failure);
        }
      }
      ++finished_;
      changed_.notify_all();
    }
  }

 private:
  static std::chrono::nanoseconds capped(std::uint64_t timeout_ns) {
    constexpr std::uint64_t kTenYears = 315'360'000'000'000'000;  // a clock's now plus more would overflow
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(timeout_ns, kTenYears)));
  }

  static std::optional<Failure> attempt(const std::function<void()>& work) {
    try {
      work();
      return std::nullopt;
    } catch (const Failure& failure) {
      return failure;
    } catch (const std::bad_alloc&) {
      return Failure(YOKE_RESOURCE_EXHAUSTED, "the plugin got no host memory");
    } catch (const std::exception& exception) {
      return Failure(YOKE_INTERNAL, exception.what());
    } catch (...) {
      return Failure(YOKE_INTERNAL, "queued work threw something that is no std::exception");
    }
  }

  // With the mutex held, the two below.
  void set_failure(const Failure& failure) {
    if (!failure_) {
      failure_.emplace(failure);
      failed_from_ = finished_ + 1;
      has_failed_ = true;
    }
  }
  void check(std::uint64_t number, bool whole) const {
    if (failure_ && (whole || number >= failed_from_)) {
      throw Failure(*failure_);
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::uint64_t posted_ = 0;
  std::uint64_t finished_ = 0;
  std::optional<Failure> failure_;
  std::uint64_t failed_from_ = 0;
  std::atomic<bool> has_failed_{false};  // read without the mutex by whoever waits at another timeline
  std::shared_ptr<WorkerTimeline> awaited_;
  bool is_closing_ = false;
};

}  // namespace detail

// The streams of one device: what abort and a lost device reach. The device owns it; streams share it.
class WorkerGroup {
 public:
  // Every queued piece of work is given up, and every stream answers YOKE_ABORTED from now on, new ones too.
  void abort() { fail(Failure(YOKE_ABORTED, "the device was aborted; close it and open it again")); }

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
  bool done() override { return timeline_->done(number_, false); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(number_, false, timeout_ns); }
  std::uint64_t elapsed_since(Event& start) override {
    auto& begin = static_cast<WorkerEvent&>(start);  // of this backend: the SDK has no other kind here
    if (!begin.done() || !done()) {
      throw Failure(YOKE_FAILED_PRECONDITION, "time between events is known when both are done");
    }
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, *stamp_ - *begin.stamp_));
  }

 private:
  friend class WorkerStream;
  WorkerEvent(std::shared_ptr<detail::WorkerTimeline> timeline) : timeline_(std::move(timeline)) {
    number_ = timeline_->post([stamp = stamp_] {
      *stamp = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    });
  }
  std::shared_ptr<detail::WorkerTimeline> timeline_;
  std::shared_ptr<std::int64_t> stamp_ = std::make_shared<std::int64_t>(0);  // ns; written before it is done
  std::uint64_t number_ = 0;
};

// A stream with a thread of its own.
class WorkerStream final : public Stream {
 public:
  explicit WorkerStream(const std::shared_ptr<WorkerGroup>& group) : timeline_(group->make_timeline()) {
    const detail::SignalsBlocked inherited;
    try {
      thread_ = std::thread(
          [timeline = timeline_, group] { timeline->work([&](const Failure& lost) { group->fail(lost); }); });
    } catch (const std::system_error& error) {
      throw Failure(YOKE_RESOURCE_EXHAUSTED, std::string("there is no thread for a stream: ") + error.what());
    }
  }
  ~WorkerStream() override {
    timeline_->close();
    thread_.join();
  }

  // Runs `work` in its turn; it may throw. On a null stream: now, on this thread.
  template <class Work>
  static void run(Stream* stream, Work&& work) {
    if (stream == nullptr) {
      std::forward<Work>(work)();
    } else {
      static_cast<WorkerStream*>(stream)->timeline_->post(std::forward<Work>(work));
    }
  }

  bool done() override { return timeline_->done(timeline_->last(), true); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(timeline_->last(), true, timeout_ns); }
  std::unique_ptr<Event> record() override { return std::unique_ptr<Event>(new WorkerEvent(timeline_)); }
  void wait_event(Event& event) override {
    const auto& awaited = static_cast<WorkerEvent&>(event);
    if (awaited.timeline_ != timeline_) {
      timeline_->post([mine = timeline_.get(), other = awaited.timeline_, number = awaited.number_] {
        mine->wait_for(other, number);
      });
    }
  }
  void poison(const Failure& failure) override {
    timeline_->post([failure] { throw Failure(failure); });
  }
  void pause(std::uint64_t delay_ns) override {
    timeline_->post([mine = timeline_.get(), delay_ns] { mine->pause(delay_ns); });
  }
  std::string debug_text() override {
    return std::to_string(timeline_->waiting()) + " pieces of work are queued on a worker thread";
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
    std::array<std::byte, 8> copy{};  // the pattern is the caller's only during the call
    std::copy(pattern.begin(), pattern.end(), copy.begin());
    WorkerStream::run(stream, [=, this, size = pattern.size()] {
      HostBuffer::fill(nullptr, offset, byte_count, std::span(copy).first(size));
    });
  }
};

}  // namespace yoke::sdk
