// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/worker_stream.h: streams for a backend whose work is function calls. Each
// stream has a thread, events, poisoning, deadlines, abort and host callbacks. WorkerBuffer is host memory
// whose copies run on them.
//
// A device holds one WorkerGroup and returns a WorkerStream of it from create_stream. Work is queued with
//   sdk::WorkerStream::run(stream, [=] { ... });   // runs at once when `stream` is null
// An exception poisons the stream: later work is skipped, and waits for that work throw the error. A Failure
// with YOKE_STATUS_DEVICE_LOST poisons every stream of the group; from then on, queueing work and creating streams
// throw it.
#pragma once

#include <yoke/sdk/detail/worker_timeline.h>
#include <yoke/sdk/plugin.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace yoke::sdk {

// The streams of one device, for abort and lost devices. The device owns it; its streams share it.
class WorkerGroup {
 public:
  // Cancels all queued work. From now on every stream, including new ones, fails with YOKE_STATUS_ABORTED.
  void abort() { fail(Failure(YOKE_STATUS_ABORTED, "the device was aborted; close it and open it again")); }

  void fail(const Failure& failure) {
    std::vector<std::shared_ptr<detail::WorkerTimeline>> timelines;
    {
      const std::lock_guard lock(mutex_);
      const bool is_lost = failure.code() == YOKE_STATUS_DEVICE_LOST;
      if (!failure_ || (is_lost && failure_->code() != YOKE_STATUS_DEVICE_LOST)) {
        failure_ = failure;
      }
      for (const auto& weak : timelines_) {
        if (auto timeline = weak.lock()) {
          timelines.push_back(std::move(timeline));
        }
      }
    }
    for (const auto& timeline : timelines) {
      timeline->fail(failure, failure.code() == YOKE_STATUS_DEVICE_LOST);
    }
  }

 private:
  friend class WorkerStream;
  std::shared_ptr<detail::WorkerTimeline> make_timeline() {
    const std::lock_guard lock(mutex_);
    if (failure_ && failure_->code() == YOKE_STATUS_DEVICE_LOST) {
      throw Failure(*failure_);
    }
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
      number_ = timeline_->last_for_event();
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
