// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/queue.cpp: queues a command: records its hazards,
// then passes it to the backend or to the ring.
#include "device/call.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

void StreamState::begin(std::span<const Access> accesses, std::uint64_t ticket_count) {
  waits_.clear();
  promised_ = reserved_.load(std::memory_order_relaxed) + ticket_count;
  Hazards::enter(accesses, shared_from_this(), promised_, waits_);
  for (Dependency& wait : waits_) {
    depend(wait);
    wait.stream.reset();
  }
}

void StreamState::depend(const Dependency& dependency) {
  if (dependency.stream.get() == this) {
    return;
  }
  const std::uint64_t ticket = reserved_.load(std::memory_order_relaxed) + 1;
  if (dependency.stream->is_complete(dependency.ticket) &&
      !dependency.stream->has_failed(dependency.ticket)) {
    return;
  }
  if (is_native_ && ring_.is_empty() && wait_on_device(dependency, ticket)) {
    return;
  }
  wait_for_room();
  Command& command = ring_.next();
  command.kind = CommandKind::kWait;
  command.completes = false;
  command.inherits = dependency.inherits;
  command.ticket = ticket;
  command.other = dependency.stream;
  command.other_ticket = dependency.ticket;
  ring_.push();
  work_.notify();
}

Command& StreamState::next_command(bool on_worker) {
  if (is_native_ && !on_worker && ring_.is_empty()) {
    return inline_command_;
  }
  wait_for_room();
  return ring_.next();
}

void StreamState::hand_over(Command& command) {
  if (&command == &inline_command_) {
    run(command);
    return;
  }
  if (is_native_ && !worker_.joinable()) {
    start_worker();
  }
  ring_.push();
  work_.notify();
}

void StreamState::wait_for_room() {
  if (ring_.room() > 0) {
    return;
  }
  if (is_native_ && !worker_.joinable()) {
    start_worker();
  }
  const auto has_room = [this] { return ring_.room() >= CommandRing::kWakeRoom; };
  if (!room_.sleep_until(deadline_after(wait_timeout), has_room) && ring_.room() == 0) {
    const std::string sentence = "stream '" + name + "': the queue of " +
                                 std::to_string(CommandRing::kCapacity) +
                                 " commands stayed full; the running command does not finish";
    // Not kDeadlineExceeded, which waits return only while work is pending.
    fail(completed_.load() + 1, ErrorCode::kResourceExhausted, sentence);
    raise_to(reserved_, promised_);  // the hazards have this ticket, and the worker completes it later
    throw Error(ErrorCode::kResourceExhausted, sentence);
  }
}

}  // namespace yoke::detail
