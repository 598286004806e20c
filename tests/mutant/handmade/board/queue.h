// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/queue.h: streams as command queues. The workers of an engine take the next command of
// any queue that is ready.
#pragma once

#include <yoke/sdk/plugin.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../bugs.h"

namespace yoke::board {

using handmade::bug;

class Workers;

// The lock of all queues of the plugin.
struct Hub {
  std::mutex mutex;
  std::condition_variable finished;
  std::vector<Workers*> engines;  // of open devices
};

// Commands are numbered from 1. Events share the queue, so it may outlive its stream.
struct Queue {
  // A small copy to the host; with the bug readback_reuse.
  struct Read {
    const std::byte* source;
    void* target;
    std::uint64_t byte_count;
  };
  struct Command {
    std::function<void()> run;
    bool always = false;               // also on a failed queue
    std::shared_ptr<Queue> awaited{};  // the command waits for `number` of this queue
    std::uint64_t number = 0;
    bool is_upload = false;
    std::shared_ptr<std::vector<Read>> reads{};  // with the bug readback_reuse
  };
  Queue(Hub& its_hub, Workers& its_workers, const void* its_owner, std::int32_t its_priority)
      : hub(its_hub), workers(&its_workers), owner(its_owner), priority(its_priority) {}

  std::uint64_t post(Command command);
  std::deque<Command>::iterator place_of(const Command& command);
  std::int32_t state(std::uint64_t number);
  void wait(std::uint64_t number, std::uint64_t timeout_ns);
  void fail(const sdk::Failure& first);  // with the lock held, as the next three
  void land();                           // without the lock, as the next one
  void flush();                          // hands all commands to the workers; with the bug batched_submit
  bool has_reached(std::uint64_t number) const;
  bool has_failed_at(std::uint64_t number) const { return failure && number >= failed_from; }
  bool is_ready() const;

  Hub& hub;
  Workers* workers;
  const void* owner;  // the device handle
  std::int32_t priority;
  std::deque<Command> commands;
  std::vector<std::shared_ptr<std::uint64_t>> history;  // with the bug event_history
  std::vector<std::function<void()>> landings;          // of small to_host; with the bug landing_events
  std::uint64_t posted = 0;
  std::uint64_t finished = 0;
  std::uint64_t submitted = 0;  // commands that the workers may run; with the bug batched_submit
  std::uint64_t recorded = 0;   // commands before the last event; with the bug transfer_queue
  bool is_running = false;
  std::optional<sdk::Failure> failure;
  std::uint64_t failed_from = 0;
  std::atomic<bool> is_cancelled{false};
};

// The threads of one device: as many as it ever had streams at the same time.
class Workers {
 public:
  explicit Workers(std::shared_ptr<Hub> hub);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  std::shared_ptr<Queue> open(const void* owner, bool is_aborted, std::int32_t priority);
  void close(const std::shared_ptr<Queue>& queue);
  void fail(const void* owner, const sdk::Failure& failure);
  void fail_locked(const void* owner, const sdk::Failure& failure);
  void wake(const Workers* by);  // after a command of `by` has finished; with the lock held

 private:
  void serve();
  bool is_outranked(const Queue& queue) const;

  std::shared_ptr<Hub> hub_;
  std::condition_variable ready_;
  std::vector<std::shared_ptr<Queue>> queues_;
  std::vector<std::thread> threads_;
  bool is_closing_ = false;
};

class Event final : public sdk::Event {
 public:
  Event(std::shared_ptr<Queue> queue, bool timing);
  std::int32_t state() override { return queue_->state(number_); }
  void wait(std::uint64_t timeout_ns) override { queue_->wait(number_, timeout_ns); }
  std::uint64_t elapsed_since(sdk::Event& start) override {
    return time_ns() - static_cast<Event&>(start).time_ns();
  }
  std::uint64_t time_ns() override { return *stamp_; }

 private:
  friend class Stream;
  std::shared_ptr<Queue> queue_;
  std::shared_ptr<std::uint64_t> stamp_;  // null without timing
  std::uint64_t number_ = 0;
};

class Stream final : public sdk::Stream {
 public:
  Stream(Workers& workers, const void* owner, bool is_aborted, std::int32_t priority)
      : queue_(workers.open(owner, is_aborted, priority)) {}
  ~Stream() override {
    queue_->workers->close(queue_);
    queue_->land();
  }
  // Runs work(is_cancelled) in the queue; at once without a stream.
  static void run(sdk::Stream* stream, std::function<void(const std::atomic<bool>&)> work) {
    post(stream, std::move(work), false);
  }
  // As run(), for copies from the host.
  static void upload(sdk::Stream* stream, std::function<void(const std::atomic<bool>&)> work) {
    post(stream, std::move(work), true);
  }
  // Copies to the host by way of a block. With the bug readback_reuse only: the reads that are queued in a row share
  // it, although the first one has not left it when the second one arrives.
  static void read_by_block(sdk::Stream* stream, const Queue::Read& read);
  // Copies to the host by way of a block that is emptied when the stream is waited for. With the bug landing_events
  // only: an event after the copy promises the bytes, too.
  static void read_back(sdk::Stream* stream, const std::byte* source, void* target, std::uint64_t byte_count);
  // Whether work may run at once, because all work before it is done.
  static bool is_idle(sdk::Stream* stream);
  static bool is_of(sdk::Stream* stream, const Workers& workers);  // a null stream is of all

  std::int32_t state() override { return queue_->state(last()); }
  void wait(std::uint64_t timeout_ns) override {
    queue_->wait(last(), timeout_ns);
    queue_->land();
  }
  std::unique_ptr<sdk::Event> record(bool timing) override { return std::make_unique<Event>(queue_, timing); }
  void wait_event(sdk::Event& event) override;
  void abort() override;
  void host_callback(yoke_host_callback_fn callback, void* user) override;
  void poison(const sdk::Failure& failure) override;
  void pause(std::uint64_t delay_ns) override;
  std::string debug_text() override { return std::to_string(last()) + " commands were queued"; }

 private:
  static void post(sdk::Stream* stream, std::function<void(const std::atomic<bool>&)> work, bool is_upload);
  std::uint64_t last() const;
  std::shared_ptr<Queue> queue_;
};

std::thread start_thread(std::function<void()> body);  // one that blocks all signals
sdk::Failure aborted();

}  // namespace yoke::board
