// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/collective_group.cpp: joins a group, aborts it when a member fails; the groups of a stream.
#include <algorithm>

#include "device/call.h"
#include "schedule/collective_call.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

void add_group(const std::shared_ptr<CollectiveGroup>& group, std::mutex& mutex,
               std::vector<std::weak_ptr<CollectiveGroup>>& groups, std::atomic<bool>& has_groups) {
  const std::lock_guard lock(mutex);
  std::erase_if(groups, [](const auto& one) { return one.expired(); });
  groups.push_back(group);
  has_groups.store(true);
}

}  // namespace

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
    StreamState& stream = group->stream(k);
    add_group(group, stream.groups_mutex_, stream.groups_, stream.has_groups_);
  }
  const BackendState& all = group->stream(0).backend();
  add_group(group, all.groups_mutex, all.groups, all.has_groups);
  return group;
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

// A stream that has failed skips its part of later collectives, so the others would wait for it. It comes before
// members that failed because of it.
std::uint32_t CollectiveGroup::find_failed() const noexcept {
  for (std::uint32_t k = 0; k < size(); ++k) {
    stream(k).refresh_native();
    if (stream(k).has_failed() && stream(k).error_code() != ErrorCode::kAborted) {
      return k;
    }
  }
  const auto failed =
      std::find_if(communicators_.begin(), communicators_.end(),
                   [](const Communicator& communicator) { return communicator.has_failed(); });
  return static_cast<std::uint32_t>(failed - communicators_.begin());
}

void CollectiveGroup::poll() noexcept {
  constexpr std::chrono::milliseconds kInterval{5};
  const std::int64_t now = Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t next = next_poll_ns_.load();
  if (now < next ||
      !next_poll_ns_.compare_exchange_strong(next, now + std::chrono::nanoseconds(kInterval).count())) {
    return;
  }
  const std::uint32_t member = find_failed();
  if (member == size()) {
    return;
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
