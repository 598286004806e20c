// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/hazards.cpp: finds the work that a command must wait
// for, and records its accesses for later commands.
#include "schedule/hazards.h"

#include <algorithm>
#include <array>
#include <functional>

#include "schedule/routine_access.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

bool overlap(std::uint64_t a_begin, std::uint64_t a_end, std::uint64_t b_begin, std::uint64_t b_end) {
  return a_begin < b_end && b_begin < a_end;
}

// Keeps at most one wait per stream and kind: the latest.
void add_wait(std::vector<Dependency>& waits, const std::shared_ptr<StreamState>& stream,
              std::uint64_t ticket, bool inherits) {
  for (Dependency& wait : waits) {
    if (wait.stream == stream && wait.inherits == inherits) {
      wait.ticket = std::max(wait.ticket, ticket);
      return;
    }
  }
  waits.push_back({stream, ticket, inherits});
}

}  // namespace

// Holds the locks of all buffers of a sorted list. Each buffer is locked once.
class Hazards::HeldLocks {
 public:
  explicit HeldLocks(std::span<const Access> accesses) : accesses_(accesses) {
    each([](std::mutex& mutex) { mutex.lock(); });
  }
  ~HeldLocks() {
    each([](std::mutex& mutex) { mutex.unlock(); });
  }
  HeldLocks(const HeldLocks&) = delete;
  HeldLocks& operator=(const HeldLocks&) = delete;

 private:
  template <class Act>
  void each(const Act& act) {
    const Hazards* last = nullptr;
    for (const Access& access : accesses_) {
      if (access.hazards != last) {
        last = access.hazards;
        act(access.hazards->mutex_);
      }
    }
  }
  std::span<const Access> accesses_;
};

Hazards::Hazards(std::size_t capacity) {
  records_.reserve(capacity);
}
Hazards::~Hazards() = default;

void Hazards::enter(std::span<const Access> accesses, const std::shared_ptr<StreamState>& stream,
                    std::uint64_t ticket, std::vector<Dependency>& waits) {
  const HeldLocks locks(accesses);
  for (const Access& access : accesses) {
    access.hazards->find(access, *stream, waits);
    if (access.versions != nullptr) {
      access.versions->before = access.hazards->version_;
    }
  }
  for (auto first = accesses.begin(); first != accesses.end();) {
    const auto last = std::find_if(first, accesses.end(),
                                   [&](const Access& access) { return access.hazards != first->hazards; });
    first->hazards->make_room(static_cast<std::size_t>(last - first));
    first = last;
  }
  for (const Access& access : accesses) {
    access.hazards->record(access, stream, ticket);
  }
  for (const Access& access : accesses) {
    if (access.versions != nullptr) {
      access.versions->after = access.hazards->version_;
    }
  }
}

void Hazards::find(const Access& access, const StreamState& stream, std::vector<Dependency>& waits) {
  for (std::size_t i = 0; i < records_.size();) {
    const Record& record = records_[i];
    if (record.stream.get() == &stream || !(access.writes || record.is_write) ||
        !overlap(access.begin, access.end, record.begin, record.end)) {
      ++i;
      continue;
    }
    if (record.is_joined && access.reads) {
      ++i;
      continue;
    }
    const bool inherits = access.reads && record.is_write && !record.is_overwritten;
    // Completion is read first, because work is marked as failed before it is complete.
    const bool done = record.stream->is_complete(record.ticket);
    const bool failed = record.stream->has_failed(record.ticket);
    if (done && (!failed || record.is_overwritten)) {
      remove(i);
      continue;
    }
    if (!done || inherits) {
      add_wait(waits, record.stream, record.ticket, inherits);
    }
    ++i;
  }
}

void Hazards::record(const Access& access, const std::shared_ptr<StreamState>& stream, std::uint64_t ticket) {
  version_ += access.writes ? 1U : 0U;
  // A record is removed if its work is complete, or if a new record of the same stream
  // covers it. A record of a different stream does not cover it, because a failed
  // stream skips its commands without waiting for others.
  for (std::size_t i = 0; i < records_.size();) {
    Record& record = records_[i];
    const bool inside = access.begin <= record.begin && record.end <= access.end;
    const bool ours = record.stream == stream;
    if (inside && (ours ? access.writes || !record.is_write
                        : access.writes && record.stream->is_complete(record.ticket))) {
      remove(i);
      continue;
    }
    record.is_overwritten = record.is_overwritten || (inside && access.writes);
    record.is_joined = record.is_joined || (inside && access.joins);
    ++i;
  }
  records_.push_back({access.begin, access.end, stream, ticket, access.writes, false, false});  // make_room()
}

// Makes room for `count` records, so that record() does not allocate.
void Hazards::make_room(std::size_t count) {
  if (records_.capacity() - records_.size() >= count) {
    return;
  }
  // Removes the records of finished work before the list grows.
  std::erase_if(records_, [](const Record& old) {
    old.stream->refresh();
    return old.stream->is_complete(old.ticket) && (!old.is_write || !old.stream->has_failed(old.ticket));
  });
  if (records_.capacity() - records_.size() < count) {
    records_.reserve(std::max(2 * records_.capacity(), records_.size() + count));
  }
}

void Hazards::remove(std::size_t index) {
  records_[index] = std::move(records_.back());
  records_.pop_back();
}

bool Hazards::wait_all(std::chrono::nanoseconds timeout) noexcept {
  const Clock::time_point deadline = deadline_after(timeout);
  for (;;) {
    std::shared_ptr<StreamState> stream;
    std::uint64_t ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto busy = std::find_if(records_.begin(), records_.end(), [](const Record& record) {
        return !record.stream->is_complete(record.ticket);
      });
      if (busy == records_.end()) {
        return true;
      }
      stream = busy->stream;
      ticket = busy->ticket;
    }
    if (!stream->wait_complete(ticket, std::min(deadline, stream->abort_deadline()))) {
      return false;
    }
  }
}

void sort_accesses(std::vector<Access>& accesses) {
  std::erase_if(accesses, [](const Access& access) { return access.begin == access.end; });
  std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
    return a.hazards != b.hazards ? std::less<>()(a.hazards, b.hazards) : a.begin < b.begin;
  });
}

void merge_accesses(std::vector<Access>& accesses) {
  sort_accesses(accesses);
  std::array<std::size_t, 4> latest{};  // by kind: one past the latest access that is kept
  std::size_t kept = 0;
  for (const Access& access : accesses) {
    std::size_t& at = latest[(access.reads ? 1U : 0U) + (access.writes ? 2U : 0U)];
    Access* before = at != 0 ? &accesses[at - 1] : nullptr;
    // No gaps: another stream may use the bytes between two tensors.
    if (before != nullptr && before->hazards == access.hazards && access.begin <= before->end) {
      before->end = std::max(before->end, access.end);
    } else {
      accesses[kept] = access;
      at = ++kept;
    }
  }
  accesses.resize(kept);
}

RoutineAccess::RoutineAccess(const yoke::Code::Entry& entry, const std::vector<BufferView>& bindings,
                             std::span<Versions> versions) {
  accesses.reserve(bindings.size() + 1);
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const std::int32_t access = entry.arguments[i].access;
    const std::uint64_t end = bindings[i].offset + entry.arguments[i].byte_count;
    accesses.push_back({&bindings[i].buffer->hazards(), bindings[i].offset, end + bindings[i].padding,
                        access != YOKE_ACCESS_OUT, access != YOKE_ACCESS_IN,
                        versions.empty() ? nullptr : &versions[i]});
  }
  accesses.push_back({&launches, 0, 1, false, true});
  versions.empty() ? merge_accesses(accesses) : sort_accesses(accesses);
}

}  // namespace yoke::detail
