// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/collective_group.cpp: joins a group, and aborts all of it when a member fails.
#include <algorithm>

#include "device/call.h"
#include "schedule/collective_call.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

std::string name_of(std::uint32_t rank, std::uint32_t size, const StreamState& stream) {
  return "member " + std::to_string(rank) + " of " + std::to_string(size) + ", stream '" + stream.name + "'";
}

}  // namespace

CollectiveGroup::CollectiveGroup(std::span<const std::shared_ptr<Stream>> streams)
    : members_(streams.size()) {
  const auto size = static_cast<std::uint32_t>(streams.size());
  const yoke_group_id id = create_group_id(*streams[0]->device());
  communicators_.reserve(size);
  for (std::uint32_t k = 0; k < size; ++k) {
    members_[k].stream = streams[k]->state().shared_from_this();
    communicators_.emplace_back(streams[k]->device(), id, k, size);
  }
}

std::shared_ptr<CollectiveGroup> CollectiveGroup::create(std::span<const std::shared_ptr<Stream>> streams) {
  std::shared_ptr<CollectiveGroup> group(new CollectiveGroup(streams));
  const Clock::time_point deadline = deadline_after(group->stream(0).wait_timeout);
  for (std::uint32_t k = 0; k < group->size(); ++k) {
    try {
      group->communicators_[k].wait(deadline - Clock::now());
    } catch (const Error& error) {
      group->fail(k, error.code(), error.what());
      group->check();
    }
  }
  for (std::uint32_t k = 0; k < group->size(); ++k) {
    group->stream(k).add_group(group);
  }
  return group;
}

CollectiveGroup::~CollectiveGroup() {
  if (wait_idle()) {
    return;
  }
  for (Communicator& communicator : communicators_) {
    communicator.leak();
  }
  stream(0).backend().runtime->logger.log_composed(LogLevel::kError, [&] {
    return "communicator.leak stream=\"" + stream(0).name + "\" members=" + std::to_string(size()) +
           " reason=\"collectives are still pending after wait_timeout\"";
  });
}

bool CollectiveGroup::wait_idle() noexcept {
  const Clock::time_point deadline = deadline_after(stream(0).wait_timeout);
  return std::all_of(members_.begin(), members_.end(), [&](const Member& member) {
    return member.stream->wait_complete(member.last_ticket.load(),
                                        std::min(deadline, member.stream->last_deadline()));
  });
}

void CollectiveGroup::check() const {
  const std::lock_guard lock(mutex_);
  if (has_failed_) [[unlikely]] {
    throw Error(code_, failure_);
  }
}

std::string CollectiveGroup::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void CollectiveGroup::fail(std::uint32_t rank, ErrorCode code, std::string_view reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_) {
      return;
    }
    has_failed_ = true;
    code_ = code;
    try {
      failure_ = name_of(rank, size(), stream(rank)) + ", failed: " + std::string(reason);
    } catch (const std::exception&) {  // out of memory: the code alone
    }
  }
  for (const Communicator& communicator : communicators_) {
    communicator.abort();
  }
}

void CollectiveGroup::poll() noexcept {
  constexpr std::chrono::milliseconds kInterval{5};
  const std::int64_t now = Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t next = next_poll_ns_.load();
  if (now < next ||
      !next_poll_ns_.compare_exchange_strong(next, now + std::chrono::nanoseconds(kInterval).count())) {
    return;
  }
  // A stream that has failed skips its part of later collectives, so the others would wait for it. It comes
  // before members that failed because of it.
  std::uint32_t rank = 0;
  for (; rank < size(); ++rank) {
    stream(rank).refresh_native();
    if (stream(rank).has_failed() && stream(rank).error_code() != ErrorCode::kAborted) {
      break;
    }
  }
  if (rank == size()) {
    const auto failed =
        std::find_if(communicators_.begin(), communicators_.end(),
                     [](const Communicator& communicator) { return communicator.has_failed(); });
    if (failed == communicators_.end()) {
      return;
    }
    rank = static_cast<std::uint32_t>(failed - communicators_.begin());
  }
  try {
    if (stream(rank).has_failed()) {
      fail(rank, stream(rank).error_code(), stream(rank).error().what());
    } else {
      communicators_[rank].wait(std::chrono::nanoseconds::zero());
    }
  } catch (const Error& error) {
    fail(rank, error.code(), error.what());
  } catch (const std::exception& error) {  // out of memory
    fail(rank, ErrorCode::kResourceExhausted, error.what());
  }
}

}  // namespace yoke::detail
