// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/queue.cpp: queues a command: records its hazards,
// then passes it to the backend or to the ring.
#include <algorithm>

#include "device/call.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

void StreamState::begin(std::span<const Access> accesses, std::uint64_t ticket_count) {
  check_alive(kNever - 1);
  promise(accesses, ticket_count);
}

void StreamState::promise(std::span<const Access> accesses, std::uint64_t ticket_count) {
  waits_.clear();
  const std::uint64_t last = reserved_.load(std::memory_order_relaxed) + ticket_count;
  try {
    Hazards::enter(accesses, shared_from_this(), last, waits_);
    promised_ = last;
    for (Dependency& wait : waits_) {
      depend(wait);
      wait.stream.reset();
    }
  } catch (const Error& error) {
    retire(error);
    throw;
  } catch (...) {  // out of memory
    waits_.clear();
    if (promised_ == last) {  // the tickets are recorded, but do not wait for all that they should
      fail(reserved_.load() + 1, ErrorCode::kResourceExhausted, [&] {
        return title(reserved_.load() + 1) + ": the host is out of memory; a command was not queued";
      });
    }
    abandon();
    throw;
  }
}

// The hazards have the promised tickets, so other streams would wait for them forever.
void StreamState::abandon() noexcept {
  if (reserved_.load() >= promised_) {
    return;
  }
  if (is_native_ && ring_.is_empty()) {
    raise_to(reserved_, promised_);
    finish(promised_);
  } else if (ring_.room() > 0) {
    Command& nothing = ring_.next();
    nothing.kind = CommandKind::kWait;
    nothing.completes = true;
    nothing.ticket = promised_;
    nothing.other.reset();
    raise_to(reserved_, promised_);
    hand_over(nothing);
  } else {
    fail(completed_.load() + 1, ErrorCode::kResourceExhausted,
         [&] { return "stream '" + name + "': a command could not be queued, and the queue was full"; });
    drop_promised();
  }
}

// The ring is full, so the worker completes the promised tickets after the commands in it.
void StreamState::drop_promised() noexcept {
  raise_to(reserved_, promised_);
  dropped_.store(promised_);
  schedule();
}

void StreamState::retire(const Error& error) noexcept {
  waits_.clear();  // streams must not keep each other alive
  fail(reserved_.load() + 1, error.code(), [&]() -> std::string { return error.what(); });
  abandon();
}

void StreamState::depend(const Dependency& dependency) {
  if (dependency.stream.get() == this) {
    return;
  }
  const std::uint64_t ticket = reserved_.load(std::memory_order_relaxed) + 1;
  if (outcome_of(*dependency.stream, dependency.ticket).has_succeeded()) {
    return;
  }
  if (is_native_ && !dependency.quiesces && ring_.is_empty() && wait_on_device(dependency, ticket)) {
    return;
  }
  Command& command = next_slot();
  command.kind = CommandKind::kWait;
  command.completes = false;
  command.inherits = dependency.inherits;
  command.quiesces = dependency.quiesces;
  command.ticket = ticket;
  command.other = dependency.stream;
  command.other_ticket = dependency.ticket;
  ring_.push();
  schedule();
}

Command& StreamState::next_command(bool on_worker) {
  if (is_native_ && !on_worker && ring_.is_empty()) {
    return inline_command_;
  }
  return next_slot();
}

Command& StreamState::next_slot() {
  ensure_worker();
  wait_for_room();
  return ring_.next();
}

void StreamState::hand_over(Command& command) noexcept {
  if (&command == &inline_command_) {
    run(command);
    return;
  }
  ring_.push();
  schedule();
}

void StreamState::wait_for_room() {
  if (ring_.room() > 0) {
    return;
  }
  const auto has_room = [this] { return ring_.room() >= CommandRing::kWakeRoom; };
  const Clock::time_point deadline = deadline_after(wait_timeout);
  while (!room_.sleep_until(std::min(deadline, Clock::now() + kSlice), has_room) && Clock::now() < deadline) {
    workers_->relieve();
  }
  if (ring_.room() == 0) {
    const auto sentence = [&] {
      return title(completed_.load() + 1) + ": the queue of " + std::to_string(CommandRing::kCapacity) +
             " commands stayed full; the running command does not finish";
    };
    note_late();
    // Not kDeadlineExceeded, which waits return only while work is pending.
    fail(completed_.load() + 1, ErrorCode::kResourceExhausted, sentence);
    drop_promised();
    throw Error(ErrorCode::kResourceExhausted, sentence());
  }
}

}  // namespace yoke::detail
