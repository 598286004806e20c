// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/collective_group.cpp: joins a group, aborts it when a member fails; the groups of a stream.
#include <algorithm>

#include "device/call.h"
#include "schedule/collective_call.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

std::string CollectiveGroup::member_name(std::uint32_t member) const {
  return "member " + std::to_string(first_rank_ + member) + " of " + std::to_string(total_);
}

CollectiveGroup::CollectiveGroup(std::span<const std::shared_ptr<Stream>> streams, const GroupRanks& ranks)
    : first_rank_(ranks.first), total_(ranks.size), members_(streams.size()) {
  communicators_.reserve(streams.size());
  for (std::uint32_t k = 0; k < size(); ++k) {
    members_[k].stream = streams[k]->state().shared_from_this();
    communicators_.emplace_back(streams[k]->device(), ranks.id, first_rank_ + k, total_);
  }
}

std::shared_ptr<CollectiveGroup> CollectiveGroup::create(std::span<const std::shared_ptr<Stream>> streams,
                                                         const GroupRanks& ranks) {
  std::shared_ptr<CollectiveGroup> group(new CollectiveGroup(streams, ranks));
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
  stream(0).backend().runtime->log_leak([&] {
    return "communicator.leak stream=\"" + stream(0).name + "\" members=" + std::to_string(size()) +
           " reason=\"collectives are still pending after the wait timeout\"";
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

void CollectiveGroup::fail(std::uint32_t member, ErrorCode code, std::string_view reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_) {
      return;
    }
    has_failed_ = true;
    code_ = code;
    try {
      failure_ =
          member_name(member) + ", stream '" + stream(member).name + "', failed: " + std::string(reason);
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
  std::uint32_t member = 0;
  for (; member < size(); ++member) {
    stream(member).refresh_native();
    if (stream(member).has_failed() && stream(member).error_code() != ErrorCode::kAborted) {
      break;
    }
  }
  if (member == size()) {
    const auto failed =
        std::find_if(communicators_.begin(), communicators_.end(),
                     [](const Communicator& communicator) { return communicator.has_failed(); });
    if (failed == communicators_.end()) {
      return;
    }
    member = static_cast<std::uint32_t>(failed - communicators_.begin());
  }
  try {
    if (stream(member).has_failed()) {
      fail(member, stream(member).error_code(), stream(member).error().what());
    } else {
      communicators_[member].wait(std::chrono::nanoseconds::zero());
    }
  } catch (const Error& error) {
    fail(member, error.code(), error.what());
  } catch (const std::exception& error) {  // out of memory
    fail(member, ErrorCode::kResourceExhausted, error.what());
  }
}

void StreamState::add_group(const std::shared_ptr<CollectiveGroup>& group) {
  const std::lock_guard lock(groups_mutex_);
  std::erase_if(groups_, [](const auto& one) { return one.expired(); });
  groups_.push_back(group);
  has_groups_.store(true);
  const BackendState& all = backend();
  const std::lock_guard all_lock(all.groups_mutex);
  std::erase_if(all.groups, [&](const auto& one) { return one.expired() || one.lock() == group; });
  all.groups.push_back(group);
  all.has_groups.store(true);
}

namespace {

// Without the lock, because `use` calls back.
template <class Groups, class Use>
void each_group(const std::atomic<bool>& has_groups, std::mutex& mutex, const Groups& groups,
                const Use& use) {
  for (std::size_t i = 0; has_groups.load(); ++i) {
    std::shared_ptr<CollectiveGroup> group;
    {
      const std::lock_guard lock(mutex);
      if (i >= groups.size()) {
        return;
      }
      group = groups[i].lock();
    }
    if (group != nullptr) {
      use(*group);
    }
  }
}

}  // namespace

// All groups of the backend: this stream may wait for another one that has collectives.
void StreamState::poll_groups() noexcept {
  const BackendState& all = backend();
  each_group(all.has_groups, all.groups_mutex, all.groups, [](CollectiveGroup& group) { group.poll(); });
}

std::string StreamState::group_failure() {
  std::string failure;
  each_group(has_groups_, groups_mutex_, groups_,
             [&](const CollectiveGroup& group) { failure = failure.empty() ? group.failure() : failure; });
  return failure;
}

}  // namespace yoke::detail
