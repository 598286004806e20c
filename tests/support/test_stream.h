// SPDX-License-Identifier: Apache-2.0
// tests/support/test_stream.h: a backend's own asynchronous stream: a thread that runs closures in order.
#pragma once

#include <yoke/sdk/plugin.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace yoke::test {

// Events and their stream share this, so that events outlive it.
struct TestTimeline {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  std::uint64_t posted = 0;
  std::uint64_t finished = 0;
  std::optional<sdk::Failure> failure;
  std::uint64_t failed_from = 0;
  bool is_closing = false;
  std::shared_ptr<std::atomic<bool>> aborted;
  bool abort_ends_waits = false;

  // With the mutex held.
  void check(std::uint64_t ticket) const {
    if (failure && ticket >= failed_from) {
      throw sdk::Failure(*failure);
    }
    if (aborted->load()) {
      throw sdk::Failure(YOKE_ABORTED, "the test device was aborted");
    }
  }
  bool done(std::uint64_t ticket) {
    const std::lock_guard lock(mutex);
    if (finished < ticket) {
      return false;
    }
    check(ticket);
    return true;
  }
  // Ends when the work is over, also when it failed or was given up: only then is its memory free.
  void wait(std::uint64_t ticket, std::uint64_t timeout_ns) {
    std::unique_lock lock(mutex);
    const auto is_over = [&] { return finished >= ticket || (abort_ends_waits && aborted->load()); };
    if (!changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), is_over)) {
      throw sdk::Failure(YOKE_DEADLINE_EXCEEDED, "the test stream is still busy");
    }
    check(ticket);
  }
};

class TestEvent final : public sdk::Event {
 public:
  TestEvent(std::shared_ptr<TestTimeline> timeline, std::uint64_t ticket)
      : timeline_(std::move(timeline)), ticket_(ticket) {}
  bool done() override { return timeline_->done(ticket_); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(ticket_, timeout_ns); }

 private:
  std::shared_ptr<TestTimeline> timeline_;
  std::uint64_t ticket_;
  friend class TestStream;
};

class TestStream final : public sdk::Stream {
 public:
  TestStream(std::shared_ptr<std::atomic<bool>> aborted, bool abort_ends_waits) {
    timeline_->aborted = std::move(aborted);
    timeline_->abort_ends_waits = abort_ends_waits;
    thread_ = std::thread([timeline = timeline_] { run(*timeline); });
  }
  ~TestStream() override {
    {
      const std::lock_guard lock(timeline_->mutex);
      timeline_->is_closing = true;
    }
    timeline_->changed.notify_all();
    thread_.join();
  }

  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(timeline_->mutex);
      timeline_->work.push_back(std::move(work));
      ++timeline_->posted;
    }
    timeline_->changed.notify_all();
  }

  bool done() override { return timeline_->done(last()); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(last(), timeout_ns); }
  std::unique_ptr<sdk::Event> record() override { return std::make_unique<TestEvent>(timeline_, last()); }
  void wait_event(sdk::Event& event) override {
    auto& other = static_cast<TestEvent&>(event);
    post([timeline = other.timeline_, ticket = other.ticket_] { timeline->wait(ticket, 20'000'000'000U); });
  }

 private:
  std::uint64_t last() {
    const std::lock_guard lock(timeline_->mutex);
    return timeline_->posted;
  }

  static void run(TestTimeline& timeline) {
    std::unique_lock lock(timeline.mutex);
    for (;;) {
      timeline.changed.wait(lock, [&] { return timeline.is_closing || !timeline.work.empty(); });
      if (timeline.work.empty()) {
        return;
      }
      const std::function<void()> work = std::move(timeline.work.front());
      timeline.work.pop_front();
      const bool skipped = timeline.failure.has_value() || timeline.aborted->load();
      lock.unlock();
      std::optional<sdk::Failure> failure;
      try {
        if (!skipped) {
          work();
        }
      } catch (const sdk::Failure& thrown) {
        failure.emplace(thrown);
      }
      lock.lock();
      if (failure && !timeline.failure) {
        timeline.failure.emplace(*failure);
        timeline.failed_from = timeline.finished + 1;
      }
      ++timeline.finished;
      timeline.changed.notify_all();
    }
  }

  std::shared_ptr<TestTimeline> timeline_ = std::make_shared<TestTimeline>();
  std::thread thread_;
};

}  // namespace yoke::test
