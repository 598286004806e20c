// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/worker.cpp: the worker thread of a stream: runs or skips
// commands in order, and publishes its progress.
#include <pthread.h>
#include <signal.h>
#include <yoke/runtime/stream.h>

#include <array>
#include <cstdio>

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

// Signals are delivered to the application's threads, because workers block all of them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

void StreamState::start_worker() {
  const SignalsBlocked inherited_by_the_worker;
  stopped_.store(false);
  try {
    worker_ = std::thread([self = shared_from_this()] { self->work(); });
  } catch (const std::system_error& error) {
    stopped_.store(true);
    throw Error(ErrorCode::kResourceExhausted,
                "stream '" + name + "': could not start a worker thread: " + error.what());
  } catch (...) {  // out of memory
    stopped_.store(true);
    throw;
  }
  std::array<char, 16> title{};  // the system's limit
  (void)std::snprintf(title.data(), title.size(), "yk %s", name.c_str());
  pthread_setname_np(worker_.native_handle(), title.data());
}

void StreamState::ensure_worker() {
  if (is_native_ && !worker_.joinable()) {
    start_worker();
  }
}

void StreamState::work() noexcept {
  const auto has_work = [this] {
    return !ring_.is_empty() || stopping_.load() || issued_.load() < dropped_.load();
  };
  for (;;) {
    const std::uint64_t dropped = dropped_.load();  // before is_empty(): earlier tickets are in the ring
    if (ring_.is_empty()) {
      if (issued_.load() < dropped) {
        finish(dropped);
      }
      if (stopping_.load()) {
        break;
      }
      if (!worker_spin_(has_work)) {
        work_.sleep_until(Clock::now() + std::chrono::hours(1), has_work);
      }
      continue;
    }
    Command& command = ring_.front();
    run(command);
  }
  stopped_.store(true);
  progress_.notify();
}

void StreamState::run(Command& command) noexcept {
  const bool is_inline = &command == &inline_command_;
  const std::uint64_t ticket = command.ticket;
  const bool completes = command.completes;
  const bool is_recorded = on_work_ != nullptr && !is_inline;
  const Clock::time_point begin = is_recorded ? Clock::now() : Clock::time_point();
  if (device->is_lost() && !has_failed(ticket)) [[unlikely]] {
    fail_as_lost(ticket);
  }
  if (command.kind == CommandKind::kCallback) {
    if (is_inline && issue_callback(command)) {
      finish(ticket);
      return;
    }
    if (is_inline) {
      return;  // the worker runs it
    }
    run_callback(command);
  } else if (command.kind == CommandKind::kWait) {
    if (command.other != nullptr && (command.quiesces || !has_failed(ticket))) {
      wait_as_worker(command);
    }
  } else if (!has_failed(ticket)) {
    if (delay_us_ != 0 && !is_inline) {
      inject_delay(ticket);
    }
    issue(command);
  }
  if (command.kind == CommandKind::kCollective && has_failed(ticket)) {
    command.collective->fail(command.rank);
  }
  if (is_recorded) [[unlikely]] {
    record_work(command, begin);
  }
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
  (*on_work_)(work);
}

void StreamState::finish(std::uint64_t ticket) noexcept {
  raise_to(issued_, ticket);
  if (!is_native_) {
    raise_to(completed_, ticket);
  }
  progress_.notify();
}

void StreamState::inject_delay(std::uint64_t ticket) const {
  const std::uint64_t wait = mix(delay_seed_ ^ mix(ticket)) % (delay_us_ + std::uint64_t{1});
  if (wait != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(wait));
  }
}

void StreamState::wait_as_worker(const Command& command) noexcept {
  StreamState& other = *command.other;
  const std::uint64_t ticket = command.other_ticket;
  const auto is_ready = [&] {
    return other.is_complete(ticket) || (command.inherits && !command.quiesces && other.has_failed(ticket));
  };
  const bool spun = !other.is_native_ && wait_spin_(is_ready);
  if (!spun && !is_ready()) {
    const Clock::time_point deadline = deadline_after(wait_timeout);
    while (!is_ready()) {
      const bool failed = has_failed(command.ticket);  // aborted, or late
      if (failed && !command.quiesces) {
        return;
      }
      other.wait_slice(ticket, failed ? Clock::time_point::max() : deadline);
      if (!failed && Clock::now() >= deadline && !is_ready()) {
        other.note_late();
        fail(command.ticket, ErrorCode::kAborted, [&] {  // not kDeadlineExceeded, as in wait_for_room
          const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(wait_timeout);
          return title(command.ticket) + ": stream '" + other.name +
                 "' did not finish the awaited work within " + std::to_string(limit.count()) + " ms";
        });
      }
    }
  }
  if (command.inherits && other.has_failed(ticket)) {
    inherit(command.ticket, other);
  }
}

void StreamState::inherit(std::uint64_t ticket, const StreamState& other) noexcept {
  fail(ticket, other.error_code(),
       [&] { return title(ticket) + ": it waited for work that failed: " + other.error().what(); });
}

}  // namespace yoke::detail
