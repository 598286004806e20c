// SPDX-License-Identifier: Apache-2.0
// timeline.h: the progress and the first error of the work on one queue.
//
// OpenCL reports the end of each command through a callback, from which the numbers below are counted. A wait
// is a condition variable with a deadline, and an error stays with the stream on which it happened.
// One mutex guards the state of all queues, because errors propagate between them; no OpenCL function is
// called while it is locked.
#pragma once

#include <yoke/backend.h>
#include <yoke/sdk/failure.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "opencl_api.h"

namespace ocl {

using Label = std::shared_ptr<const std::string>;

// An event that the host completes and that queued work waits for. It is never completed with an error,
// because PoCL 3.1 then aborts the process; work after a failed gate runs, and its result is discarded.
class Gate {
 public:
  explicit Gate(cl_context context);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  cl_event event() const noexcept { return event_.get(); }
  void open() noexcept;

 private:
  OwnedEvent event_;
  std::once_flag once_;
};

// Work is numbered from 1, in the order in which it is queued. Work that has ended, with or without an error,
// does not access memory any more.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  // `failed`: the timeline fails from the start.
  explicit Timeline(std::optional<yoke::sdk::Failure> failed = {});

  // What is known about a command when it ends.
  struct Command {
    std::shared_ptr<Timeline> timeline;
    std::uint64_t number = 0;
    Label label;                      // for messages: "program 'f'"
    std::shared_ptr<void> keep;       // host memory that the command accesses, or null
    std::shared_ptr<Timeline> other;  // the timeline that the command waits for and whose error it inherits,
    std::uint64_t other_number = 0;   // and the work that it waits for
  };

  // Adding a command takes two steps, so that a command is never queued without being counted: prepare() may
  // throw and comes before the command is queued, add() does not throw.
  std::unique_ptr<Command> prepare(Label label);
  void add(std::unique_ptr<Command> command, const OwnedEvent& event) noexcept;

  // Adds work that is a call of `work` after all work before it has ended.
  void add_call(std::function<std::optional<yoke::sdk::Failure>()> work);
  // Counts the work of `other` up to `included` as work of this timeline, even if this timeline has failed.
  void include(const std::shared_ptr<Timeline>& other, std::uint64_t included);
  // Returns `delay_ns` after all work up to `number` has ended, or as soon as the
  // timeline fails or abandon() is called.
  void sleep_after(std::uint64_t number, std::uint64_t delay_ns) const;
  void abandon();
  // Fails all work that has not ended and all later work. Does not wait: commands that are queued still run.
  void fail(const yoke::sdk::Failure& failure);

  std::uint64_t last() const;
  bool failed() const;
  // YOKE_STATE_* of the work up to `number`.
  std::int32_t state(std::uint64_t number) const;
  // The code of the first error of the work up to `number`, or YOKE_STATUS_OK.
  std::int32_t status(std::uint64_t number) const;
  // Returns when all work up to `number` has ended. Throws its first error, or YOKE_STATUS_DEADLINE_EXCEEDED.
  void wait(std::uint64_t number, std::uint64_t timeout_ns) const;
  // Waits until all work has ended, with or without an error. Returns false at the timeout.
  bool drained(std::uint64_t timeout_ns) const;
  // Calls `then` once all work up to `number` has ended, on any thread, possibly before it returns.
  void when_done(std::uint64_t number, std::function<void()> then);
  // For messages: "3 of 5 commands are done".
  std::string text() const;

 private:
  struct Problem {
    std::uint64_t number;
    yoke::sdk::Failure failure;
  };
  struct Waiter {
    std::uint64_t number;
    std::function<void()> then;
  };

  static void CL_CALLBACK on_end(cl_event event, cl_int status, void* command);
  void ended(const Command& command, cl_int status);
  void settle(std::uint64_t number, std::optional<yoke::sdk::Failure> failure);
  // Precondition of the next two: the mutex is locked.
  const Problem* problem_up_to(std::uint64_t number) const;
  void count(std::uint64_t number);

  mutable std::condition_variable changed_;
  std::uint64_t last_ = 0;
  std::uint64_t completed_ = 0;           // all work up to this number has ended
  std::vector<std::uint64_t> scattered_;  // has ended before work with a lower number
  std::optional<Problem> problem_;        // the one with the lowest number
  std::vector<Waiter> waiters_;
  bool abandoned_ = false;
};

// The timelines of the streams of one open device.
class Hub {
 public:
  // Fails once the device was aborted.
  std::shared_ptr<Timeline> make_timeline();
  // Fails all timelines.
  void abort();

 private:
  std::optional<yoke::sdk::Failure> ended_;
  std::vector<std::weak_ptr<Timeline>> timelines_;
};

}  // namespace ocl
