// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/stream.h: streams with one worker thread each, their events, and the threads that run
// the parts of a kernel. All streams of the plugin share one lock.
#pragma once

#include <yoke/sdk/plugin.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bugs.h"

namespace yoke::handmade {

// Starts a thread that blocks all signals.
std::thread start_thread(std::function<void()> body);

struct Hub {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> was_aborted{false};  // some device; with the bug reopened_aborted
  bool is_closing = false;               // the plugin; with the bug early_thread
};

// The progress of one stream. Items of work are numbered from 1. Events share it, so it may outlive the
// stream.
class Timeline {
 public:
  Timeline(std::shared_ptr<Hub> hub, const std::optional<sdk::Failure>& failed);

  // Queues work. With `always` it also runs on a failed stream.
  std::uint64_t post(std::function<void()> run, bool always = false);
  std::uint64_t posted() const;
  std::uint64_t mark() const;  // the number of an event that is recorded now
  // With `by_start`, work counts as finished when it starts; with the bug query_started only.
  std::int32_t state(std::uint64_t number, bool by_start = false) const;
  std::int32_t status() const;
  void wait(std::uint64_t number, std::uint64_t timeout_ns) const;
  // Cancels what is queued. Running work ends by itself.
  void fail(const sdk::Failure& failure);
  void fail_locked(const sdk::Failure& failure);  // with the lock of the hub held
  void forget();  // its failure. With the bug failure_forgotten only: events may outlive their stream.
  void close();
  bool is_cancelled() const noexcept { return cancelled_; }
  // Memory for the time of an event.
  std::shared_ptr<std::int64_t> stamp();

  // The next three run on the thread of the stream.
  void await(const Timeline& other, std::uint64_t number, bool inherits);
  void pause(std::uint64_t delay_ns);
  void serve(const std::function<void(const sdk::Failure&)>& on_lost);

 private:
  struct Item {
    std::function<void()> run;
    bool always = false;
  };
  bool has_failed_at(std::uint64_t number) const {
    return failure_ && (number >= failed_from_ || bug("old_event_fails"));
  }
  void set_failure(const sdk::Failure& failure);

  std::shared_ptr<Hub> hub_;
  std::deque<Item> queue_;
  std::uint64_t posted_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t finished_ = 0;
  std::optional<sdk::Failure> failure_;
  std::uint64_t failed_from_ = 0;
  mutable bool was_reported_ = false;  // with the bug error_once
  mutable std::uint64_t synced_ = 0;   // with the bug synced_early
  std::atomic<bool> cancelled_{false};
  bool closing_ = false;
  std::array<std::shared_ptr<std::int64_t>, 64> stamps_;
  std::size_t next_stamp_ = 0;
};

// The streams of one device handle.
class Group {
 public:
  explicit Group(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}
  std::shared_ptr<Timeline> add();
  void fail(const sdk::Failure& failure);

 private:
  std::shared_ptr<Hub> hub_;
  std::mutex mutex_;
  std::optional<sdk::Failure> failure_;
  std::vector<std::weak_ptr<Timeline>> timelines_;
};

class Event final : public sdk::Event {
 public:
  Event(std::shared_ptr<Timeline> timeline, bool timing);
  std::int32_t state() override { return timeline_->state(number_); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(number_, timeout_ns); }
  std::uint64_t elapsed_since(sdk::Event& start) override;
  std::uint64_t time_ns() override { return static_cast<std::uint64_t>(*stamp_); }

 private:
  friend class Stream;
  std::shared_ptr<Timeline> timeline_;
  std::shared_ptr<std::int64_t> stamp_;  // null without timing
  std::uint64_t number_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>();  // with the bug destroyed_event
};

class Stream final : public sdk::Stream {
 public:
  explicit Stream(const std::shared_ptr<Group>& group);
  ~Stream() override;
  // Queues `work(timeline)`; runs it at once, with a null timeline, on a null stream. With `always` it also runs on a
  // failed stream.
  static void run(sdk::Stream* stream, std::function<void(const Timeline*)> work, bool always = false);

  std::int32_t state() override { return timeline_->state(timeline_->posted(), bug("query_started")); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(timeline_->posted(), timeout_ns); }
  std::unique_ptr<sdk::Event> record(bool timing) override {
    return std::make_unique<Event>(timeline_, timing);
  }
  void wait_event(sdk::Event& event) override;
  void abort() override;
  void host_callback(yoke_host_callback_fn callback, void* user) override;
  void poison(const sdk::Failure& failure) override;
  void pause(std::uint64_t delay_ns) override;
  std::string debug_text() override { return std::to_string(timeline_->posted()) + " items were queued"; }

 private:
  std::shared_ptr<Timeline> timeline_;
  std::shared_ptr<Timeline> awaited_;  // with the bug wait_once
  std::thread thread_;
};

// Threads that run the parts of a kernel, together with the thread that asks.
class Pool {
 public:
  explicit Pool(std::size_t thread_count);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  // Calls part(0), ... part(count - 1), on any thread and in any order, and returns when all have returned.
  // Throws what a part threw.
  void run(std::size_t count, const std::function<void(std::size_t)>& part);

 private:
  struct Job {
    const std::function<void(std::size_t)>* part;
    std::size_t count;
    std::size_t next = 0;
    std::size_t done = 0;
    std::exception_ptr failure{};
  };
  // Runs one part. Precondition: the lock is held and the job has a part left.
  void step(std::unique_lock<std::mutex>& lock, Job& job);
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job*> jobs_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace yoke::handmade
