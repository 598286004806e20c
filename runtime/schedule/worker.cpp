// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/worker.cpp: runs or skips the commands of a stream in
// order, on a worker, and publishes its progress.
#include <yoke/runtime/stream.h>

#include <algorithm>
#include <utility>

#include "device/call.h"
#include "schedule/collective_call.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finalizer
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

void StreamState::join_workers() {
  ring_.allocate();
  try {
    workers_->add(*this);
  } catch (const Error& error) {
    throw Error(error.code(), "stream '" + name + "': " + error.what());
  }
  self_ = shared_from_this();
}

void StreamState::ensure_worker() {
  if (is_native_ && self_ == nullptr) {
    join_workers();
  }
}

bool StreamState::leave_workers(Clock::time_point deadline) noexcept {
  if (self_ == nullptr) {
    return true;
  }
  std::shared_ptr<StreamState> mine;  // released last
  bool has_left = !has_work() && workers_->stop_idle(*this);
  if (!has_left) {
    stopping_.store(true);
    schedule();
    has_left = workers_->wait_stopped(*this, deadline, [this] { is_abandoned_ = true; });
  }
  if (has_left) {
    mine = std::move(self_);
    workers_->remove();
  }
  return has_left;
}

void StreamState::stop() noexcept {
  const std::shared_ptr<WorkerPool> workers = workers_;
  const std::shared_ptr<StreamState> mine =
      workers->stop(*this, [this] { return is_abandoned_ ? std::move(self_) : nullptr; });
  if (mine != nullptr) {
    workers->remove();
  }
}

bool StreamState::has_work() const noexcept {
  return !ring_.is_empty() || stopping_.load() || issued_.load() < dropped_.load();
}

void StreamState::schedule() noexcept {
  State idle = kIdle;
  if (state_.load() == kIdle && state_.compare_exchange_strong(idle, kReady)) {
    workers_->push(*this);
  }
}

void StreamState::run_commands() noexcept {
  for (;;) {
    const std::uint64_t dropped = dropped_.load();  // before is_empty(): earlier tickets are in the ring
    if (ring_.is_empty()) {
      if (issued_.load() < dropped) {
        finish(dropped);
      }
      if (stopping_.load()) {
        stop();
        return;
      }
      const auto has_more = [this] { return has_work(); };
      if (!workers_->linger(worker_spin_, has_more) && workers_->rest(*this, has_more)) {
        return;
      }
      workers_->go_on();
      continue;
    }
    Command& command = ring_.front();
    if (command.kind == CommandKind::kWait && command.other != nullptr && !wait_as_worker(command)) {
      return;
    }
    workers_->go_on();
    run(command);
    workers_->count_command();
    if (workers_->should_yield(*this)) {
      state_.store(kReady);
      workers_->push(*this);
      return;
    }
  }
}

void StreamState::run(Command& command) noexcept {
  const bool is_inline = &command == &inline_command_;
  const std::uint64_t ticket = command.ticket;
  const bool completes = command.completes;
  const bool is_recorded = on_work_ != nullptr && !is_inline;
  const Clock::time_point waited = std::exchange(wait_begin_, {});
  const Clock::time_point begin = is_recorded && waited == Clock::time_point() ? Clock::now() : waited;
  if (device->is_lost() && !has_failed(ticket)) [[unlikely]] {
    fail_as_lost(ticket);
  }
  if (command.kind == CommandKind::kCallback) {
    if (is_inline) {
      issued_work_.add(ticket, command.kind, {});
      if (issue_callback(command)) {
        finish(ticket);
      }
      return;  // if it was not issued, the worker runs it
    }
    running_.begin(command.kind, {});
    run_callback(command);
  } else if (command.kind == CommandKind::kWait) {
    end_wait(command);
  } else if (!has_failed(ticket)) {
    const std::string_view subject = command.kind == CommandKind::kLaunch ? command.routine->entry().name
                                     : command.kind == CommandKind::kCollective
                                         ? command.collective->tensor()
                                         : std::string_view(command.label.data());
    running_.begin(command.kind, subject);
    if (is_native_) {
      issued_work_.add(ticket, command.kind, subject);
    }
    if (delay_us_ != 0 && !is_inline) {
      inject_delay(ticket);
    }
    if (command.kind == CommandKind::kCollective) {
      const WorkerPool::Blocking for_other_members;
      issue(command);
    } else {
      issue(command);
    }
  }
  if (command.kind == CommandKind::kCollective && has_failed(ticket)) {
    command.collective->fail(command.member);
  }
  if (is_recorded) [[unlikely]] {
    record_work(command, begin);
  }
  running_.end();
  command.other.reset();
  // Published before the pop, because the caller may issue its next command itself once the ring is empty.
  if (completes) {
    finish(ticket);
  }
  if (!is_inline) {
    ring_.pop();
    if (ring_.room() >= CommandRing::kWakeRoom) {
      room_.notify();
    }
  }
}

void StreamState::end_wait(const Command& command) noexcept {
  if (has_note_) {
    forget_wait();
  }
  if (command.other != nullptr && command.inherits && !has_failed(command.ticket) &&
      command.other->has_failed(command.other_ticket)) {
    try_refresh_native();
    inherit(command.ticket, *command.other);
  }
}

// Before the ticket is complete, so that a wait returns after it. Waits that ended at once are left out.
void StreamState::record_work(const Command& command, Clock::time_point begin) noexcept {
  const Clock::time_point end = Clock::now();
  if (has_failed(command.ticket) ||
      (command.kind == CommandKind::kWait &&
       (command.other == nullptr || end - begin < std::chrono::microseconds(2)))) {
    return;
  }
  using Kind = WorkRecord::Kind;
  const auto ns = [](Clock::time_point time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  };
  WorkRecord work;
  work.stream = name;
  work.step = step_of(command.ticket).value_or(-1);
  work.begin_ns = ns(begin);
  work.end_ns = ns(end);
  work.tensor = command.label.data();
  work.byte_count = command.byte_count;
  switch (command.kind) {
    case CommandKind::kLaunch:
      work.kind = Kind::kLaunch;
      work.name = command.routine->entry().name;
      break;
    case CommandKind::kFromHost:
    case CommandKind::kToHost:
    case CommandKind::kDeviceToDevice:
      work.kind = Kind::kCopy;
      work.name = command.kind == CommandKind::kFromHost ? "from_host"
                  : command.kind == CommandKind::kToHost ? "to_host"
                                                         : "device_to_device";
      break;
    case CommandKind::kFill:
      work.kind = Kind::kFill;
      work.name = "fill";
      break;
    case CommandKind::kCollective:
      work.kind = Kind::kCollective;
      work.name = "collective";
      break;
    case CommandKind::kWait:
      work.kind = Kind::kWait;
      work.name = command.other->name;
      break;
    case CommandKind::kCallback:
      work.kind = Kind::kCallback;
      work.name = "callback";
      break;
  }
  if (command.kind != CommandKind::kFromHost && command.kind != CommandKind::kToHost &&
      command.kind != CommandKind::kDeviceToDevice) {
    work.tensor = {};
    work.byte_count = command.kind == CommandKind::kFill ? command.byte_count : 0;
  }
  try {
    (*on_work_)(work);
  } catch (...) {  // the work itself is done
  }
}

void StreamState::finish(std::uint64_t ticket) noexcept {
  raise_to(issued_, ticket);
  if (!is_native_) {
    raise_to(completed_, ticket);
  }
  progress_.notify();
  if (ticket >= awaited_ticket_.load()) {
    wake_waiters();
  }
}

void StreamState::inject_delay(std::uint64_t ticket) const {
  const std::uint64_t wait = mix(delay_seed_ ^ mix(ticket)) % (delay_us_ + std::uint64_t{1});
  if (wait != 0) {
    const WorkerPool::Blocking asleep;
    std::this_thread::sleep_for(std::chrono::microseconds(wait));
  }
}

// Whether the wait has ended: this stream has failed, or the other one is ready or has failed.
bool StreamState::is_over(const Command& wait) const noexcept {
  const StreamState& other = *wait.other;
  return other.is_complete(wait.other_ticket) ||
         (!wait.quiesces &&
          (has_failed(wait.ticket) || (wait.inherits && other.has_failed(wait.other_ticket))));
}

// Returns false if the stream is parked: the worker must not use it afterwards.
bool StreamState::wait_as_worker(const Command& command) noexcept {
  if (awaited_ != nullptr) {
    stop_waiting();
  }
  if (device->is_lost() && !has_failed(command.ticket)) [[unlikely]] {
    fail_as_lost(command.ticket);
  }
  if (is_over(command)) {
    return true;
  }
  if (wait_begin_ == Clock::time_point()) {
    wait_begin_ = Clock::now();
    wait_deadline_ = deadline_after(wait_timeout);
  }
  if (command.other->is_native_) {
    note_wait(command);
    wait_for_native(command);
    return true;
  }
  if (workers_->linger(wait_spin_, [&] { return is_over(command); })) {
    return true;
  }
  note_wait(command);
  if (!has_failed(command.ticket) && Clock::now() >= wait_deadline_) {
    fail_late(command);
  }
  return park(command);
}

// Returns true if the wait has already ended instead.
bool StreamState::park(const Command& command) noexcept {
  const std::shared_ptr<StreamState> other = command.other;
  // Until it is released, no worker runs this stream: run_commands begins with stop_waiting.
  const std::lock_guard lock(other->waiters_mutex_);
  awaited_ = other;
  next_waiter_ = std::exchange(other->first_waiter_, this);
  is_waiter_ = true;
  other->awaited_ticket_.store(std::min(other->awaited_ticket_.load(), command.other_ticket));
  if (!has_failed(command.ticket)) {
    workers_->list(*this, wait_deadline_);
  }
  state_.store(kParked);
  State parked = kParked;
  if (!is_over(command) || !state_.compare_exchange_strong(parked, kRunning)) {
    return false;
  }
  workers_->unlist(*this);
  other->remove_waiter(*this);
  awaited_.reset();
  return true;
}

void StreamState::stop_waiting() noexcept {
  {
    const std::lock_guard lock(awaited_->waiters_mutex_);
    if (is_waiter_) {
      awaited_->remove_waiter(*this);
    }
  }
  awaited_.reset();
}

// Precondition: waiters_mutex_ is held.
void StreamState::remove_waiter(StreamState& waiter) noexcept {
  StreamState** link = &first_waiter_;
  while (*link != &waiter) {
    link = &(*link)->next_waiter_;
  }
  *link = waiter.next_waiter_;
  waiter.is_waiter_ = false;
  if (first_waiter_ == nullptr) {
    awaited_ticket_.store(kNever);
  }
}

// Runs the streams whose wait has ended.
void StreamState::wake_waiters() noexcept {
  const std::lock_guard lock(waiters_mutex_);
  std::uint64_t lowest = kNever;
  for (StreamState** link = &first_waiter_; *link != nullptr;) {
    StreamState& waiter = **link;
    const Command& wait = waiter.ring_.front();
    if (!waiter.is_over(wait)) {
      lowest = std::min(lowest, wait.other_ticket);
      link = &waiter.next_waiter_;
      continue;
    }
    *link = waiter.next_waiter_;
    waiter.is_waiter_ = false;
    waiter.resume();
  }
  awaited_ticket_.store(lowest);
}

void StreamState::resume() noexcept {
  State parked = kParked;
  if (state_.load() == kParked && state_.compare_exchange_strong(parked, kReady)) {
    workers_->push(*this);
  }
}

void StreamState::fail_late(const Command& wait) noexcept {
  wait.other->note_late();
  fail(wait.ticket, ErrorCode::kAborted, [&] {  // not kDeadlineExceeded, as in wait_for_room
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(wait_timeout);
    return title(wait.ticket) + ": stream '" + wait.other->name +
           "' did not finish the awaited work within " + std::to_string(limit.count()) + " ms";
  });
}

void StreamState::wait_for_native(const Command& command) noexcept {
  const WorkerPool::Blocking may_block;
  while (!is_over(command)) {
    const bool has_deadline = !has_failed(command.ticket);
    command.other->wait_slice(command.other_ticket, has_deadline ? wait_deadline_ : Clock::time_point::max());
    if (has_deadline && Clock::now() >= wait_deadline_ && !is_over(command)) {
      fail_late(command);
    }
  }
}

}  // namespace yoke::detail
