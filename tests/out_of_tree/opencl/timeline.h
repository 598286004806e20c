// SPDX-License-Identifier: Apache-2.0
// timeline.h: what is known of the work on one queue: how far it is, and what went wrong first.
//
// OpenCL tells the end of each command through a callback. The numbers below are counted from those, so that
// a wait is a condition variable with a deadline, and an error stays with the stream on which it happened.
// One mutex guards the bookkeeping of all queues, because errors travel between them; no OpenCL call is made
// under it.
#pragma once

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

// An event that the host completes; work behind it waits. It is never completed with an error, which would
// end that work unrun: PoCL 3.1 aborts the process then. The bookkeeping below knows the error; the work runs
// for nothing.
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

// Shared by all streams of one opened device.
class Hub {
 public:
  // Throws what ended the device for good: aborted.
  void check() const;
  // Every wait ends; gates open.
  void abort();
  // Kept weakly, to be opened when the device is aborted.
  void watch(const std::shared_ptr<Gate>& gate);

 private:
  friend class Timeline;
  mutable std::condition_variable changed_;
  std::optional<yoke::sdk::Failure> ended_;
  std::vector<std::weak_ptr<Gate>> gates_;
};

// Work is numbered from 1 in the order in which it was queued.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  explicit Timeline(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}

  // Counts one piece of queued work, which ends with `event`. `label` says what it is: "statement 2 of
  // program 'f'". Where it waits for another timeline, it takes over that one's error.
  void add(const OwnedEvent& event, std::shared_ptr<const std::string> label,
           std::shared_ptr<Timeline> other = nullptr, std::uint64_t other_number = 0);

  // Counts one piece of work that fails when all before it has ended.
  void add_failure(yoke::sdk::Failure failure);
  // Returns `delay_ns` after all work up to `number` has ended; at once when the device ends or after
  // abandon().
  void sleep_behind(std::uint64_t number, std::uint64_t delay_ns) const;
  void abandon();

  std::uint64_t last() const;
  bool failed() const;
  // Has all work up to `number` ended? Throws its first error.
  bool done(std::uint64_t number) const;
  // Throws that error, or YOKE_DEADLINE_EXCEEDED.
  void wait(std::uint64_t number, std::uint64_t timeout_ns) const;
  // Has all work ended within the time, whatever became of it?
  bool drained(std::uint64_t timeout_ns) const;
  // Calls once when all work up to `number` has ended; `good`: without an error. On any thread, maybe at
  // once.
  void when_done(std::uint64_t number, std::function<void(bool good)> then);
  // "3 of 5 done"
  std::string text() const;

  const std::shared_ptr<Hub>& hub() const noexcept { return hub_; }

 private:
  struct Problem {
    std::uint64_t number;
    yoke::sdk::Failure failure;
  };
  struct Waiter {
    std::uint64_t number;
    std::function<void(bool)> then;
  };
  struct Report;

  static void CL_CALLBACK on_end(cl_event event, cl_int status, void* report);
  void ended(const Report& report, cl_int status);
  void settle(std::uint64_t number, std::optional<yoke::sdk::Failure> failure);
  const Problem* problem_up_to(std::uint64_t number) const;  // the three under the mutex
  void throw_problem_up_to(std::uint64_t number) const;
  bool ends(std::unique_lock<std::mutex>& lock, std::uint64_t number, std::uint64_t timeout_ns) const;

  std::shared_ptr<Hub> hub_;
  std::uint64_t last_ = 0;
  std::uint64_t completed_ = 0;           // all up to this number have ended
  std::vector<std::uint64_t> scattered_;  // ended, behind one that has not
  std::optional<Problem> problem_;        // the first
  std::vector<Waiter> waiters_;
  bool abandoned_ = false;
};

}  // namespace ocl
