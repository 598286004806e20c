// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/queue.h: streams as queues that share the threads of their device.
#pragma once

#include <pthread.h>
#include <yoke/sdk/plugin.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace yoke::strip {

// The threads of a device. A thread is added when work is ready and no thread is idle.
class Pool {
 public:
  ~Pool();
  void submit(std::function<void()> job);
  // Runs body(0) to body(parts - 1), some on other threads, and returns when all are done.
  void parallel(int parts, const std::function<void(int)>& body);

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;
    std::size_t idle = 0;
    bool is_closing = false;
  };
  static void work(const std::shared_ptr<Shared>& shared);
  void add_small_thread();
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::vector<std::thread> threads_;
  std::vector<pthread_t> small_threads_;  // in place of threads_; with the bug small_stacks
};

// Work that still runs; with the bugs statement_barrier, panel_unwaited, tile_reused and staged_dma.
class Pending {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void remove() {
    const std::lock_guard lock(mutex_);
    --count_;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

// A point of a stream. It may outlive the stream.
class Fence {
 public:
  void complete(const std::optional<sdk::Failure>& failure, std::int64_t stamp);
  std::int32_t state();
  void wait(std::uint64_t timeout_ns);
  // Returns false if the fence is complete. Otherwise calls `resume` once when it is.
  bool park(std::function<void()> resume);
  std::optional<sdk::Failure> failure();
  std::int64_t stamp();
  void reset();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_complete_ = false;
  std::int64_t stamp_ = 0;
  std::optional<sdk::Failure> failure_;
  std::vector<std::function<void()>> parked_;
};

// The fences of destroyed events. With the bug event_pool only: streams may still complete them or wait for them.
class Fences {
 public:
  static Fences& of_plugin();
  std::shared_ptr<Fence> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return std::make_shared<Fence>();
    }
    std::shared_ptr<Fence> fence = std::move(free_.back());
    free_.pop_back();
    fence->reset();
    return fence;
  }
  void give(std::shared_ptr<Fence> fence) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(fence));
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Fence>> free_;
};

// A copy within the device.
struct Copy {
  // Includes `next` if that continues the copy; otherwise returns false.
  bool append(const Copy& next);
  std::byte* to;
  const std::byte* from;
  std::uint64_t byte_count;
};

struct Command {
  std::function<void()> work = nullptr;
  std::shared_ptr<Fence> signal = nullptr;
  std::shared_ptr<Fence> await = nullptr;
  yoke_host_callback_fn callback = nullptr;
  void* user = nullptr;
  const void* fills = nullptr;           // the first byte of a fill
  std::shared_ptr<Copy> copy = nullptr;  // with the bug chained_copies
  const void* device = nullptr;          // of the event that it awaits
  bool was_parked = false;
  bool is_counted = false;
};

// The work of one stream. At most one thread runs it at a time.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  Queue(Pool& pool, std::function<void(const sdk::Failure&)> on_lost, std::optional<sdk::Failure> failed)
      : pool_(pool), on_lost_(std::move(on_lost)), failure_(std::move(failed)) {}
  void post(Command command);
  std::shared_ptr<Fence> record();
  void fail(const sdk::Failure& failure);
  std::int32_t state();
  void wait(std::uint64_t timeout_ns);
  void pause(std::uint64_t delay_ns);
  std::size_t length();

 private:
  void take_failure(std::unique_lock<std::mutex>& lock);
  void submit_run();
  void run();
  void execute(std::unique_lock<std::mutex>& lock, Command command);
  bool park(const Command& command);
  void resume();

  Pool& pool_;
  std::function<void(const sdk::Failure&)> on_lost_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Command> commands_;
  std::optional<sdk::Failure> failure_;
  std::uint64_t posted_ = 0;
  std::uint64_t finished_ = 0;
  std::int64_t finish_time_ = 0;  // of the last command; with the bug idle_event_time
  bool is_scheduled_ = false;     // a thread runs the queue or will, or the queue is parked
  bool is_parked_ = false;
  bool has_failed_work_ = false;  // with the bug error_at_enqueue
};

// The streams of one device handle.
class Group {
 public:
  std::shared_ptr<Queue> make_queue();
  void fail(const sdk::Failure& failure);
  Pool& pool() { return pool_; }

 private:
  std::mutex mutex_;
  std::optional<sdk::Failure> failure_;
  std::vector<std::weak_ptr<Queue>> queues_;
  Pool pool_;
};

class Event final : public sdk::Event {
 public:
  Event(std::shared_ptr<Fence> fence, const void* device) : fence_(std::move(fence)), device_(device) {}
  ~Event() override;
  std::int32_t state() override { return fence_->state(); }
  void wait(std::uint64_t timeout_ns) override { fence_->wait(timeout_ns); }
  std::uint64_t elapsed_since(sdk::Event& start) override;
  std::uint64_t time_ns() override { return static_cast<std::uint64_t>(fence_->stamp()); }
  const std::shared_ptr<Fence>& fence() const { return fence_; }
  const void* device() const { return device_; }

 private:
  std::shared_ptr<Fence> fence_;
  const void* device_;
};

class Stream final : public sdk::Stream {
 public:
  explicit Stream(std::shared_ptr<Group> group) : group_(std::move(group)), queue_(group_->make_queue()) {}
  ~Stream() override;
  // Runs `work` at once if `stream` is null.
  static void run(sdk::Stream* stream, std::function<void()> work, const void* fills = nullptr,
                  std::shared_ptr<Copy> copy = nullptr);

  std::int32_t state() override { return queue_->state(); }
  void wait(std::uint64_t timeout_ns) override { queue_->wait(timeout_ns); }
  std::unique_ptr<sdk::Event> record(bool) override {
    return std::make_unique<Event>(queue_->record(), group_.get());
  }
  void wait_event(sdk::Event& event) override {
    const Event& awaited = static_cast<Event&>(event);
    queue_->post({.await = awaited.fence(), .device = awaited.device()});
  }
  void abort() override;
  void host_callback(yoke_host_callback_fn callback, void* user) override {
    queue_->post({.callback = callback, .user = user});
  }
  void poison(const sdk::Failure& failure) override {
    queue_->post({.work = [failure] { throw sdk::Failure(failure); }});
  }
  void pause(std::uint64_t delay_ns) override {
    queue_->post({.work = [queue = queue_.get(), delay_ns] { queue->pause(delay_ns); }});
  }
  std::string debug_text() override { return std::to_string(queue_->length()) + " commands are queued"; }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<Queue> queue_;
};

}  // namespace yoke::strip
