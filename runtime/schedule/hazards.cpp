// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/hazards.cpp: finds the work that a command must wait
// for, and records its accesses for later commands.
#include "schedule/hazards.h"

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <utility>

#include "schedule/routine_access.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

bool overlap(std::uint64_t a_begin, std::uint64_t a_end, std::uint64_t b_begin, std::uint64_t b_end) {
  return a_begin < b_end && b_begin < a_end;
}

constexpr std::size_t kFewWaits = 16;

// Whether a command that waits for `a` need not wait for `b`. If it inherits an error from `a`, it stops
// waiting early, but then it is skipped.
bool covers(const Dependency& a, const Dependency& b) {
  return a.stream == b.stream && a.ticket >= b.ticket && a.inherits >= b.inherits;
}

// Leaves out waits that another one covers, as long as there are few; merge_waits() handles many.
void add_wait(std::vector<Dependency>& waits, const std::shared_ptr<StreamState>& stream,
              std::uint64_t ticket, bool inherits) {
  Dependency added{stream, ticket, inherits};
  if (waits.size() <= kFewWaits) {
    if (std::any_of(waits.begin(), waits.end(),
                    [&](const Dependency& wait) { return covers(wait, added); })) {
      return;
    }
    std::erase_if(waits, [&](const Dependency& wait) { return covers(added, wait); });
  }
  waits.push_back(std::move(added));
}

// Keeps at most two waits per stream: the latest whose error is inherited, and a later one.
void merge_waits(std::vector<Dependency>& waits) {
  if (waits.size() <= kFewWaits) {
    return;
  }
  const auto key = [](const Dependency& wait) { return std::tuple(wait.stream.get(), !wait.inherits); };
  std::sort(waits.begin(), waits.end(), [&](const Dependency& a, const Dependency& b) {
    return std::pair(key(a), b.ticket) < std::pair(key(b), a.ticket);
  });
  // std::unique compares each wait with the last one that it keeps.
  waits.erase(std::unique(waits.begin(), waits.end(), covers), waits.end());
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
  writes_.reserve(capacity);
  reads_.reserve(capacity);
}
Hazards::~Hazards() = default;

void Hazards::enter(std::span<const Access> accesses, const std::shared_ptr<StreamState>& stream,
                    std::uint64_t ticket, std::vector<Dependency>& waits) {
  const HeldLocks locks(accesses);
  for (const Access& access : accesses) {
    find(access.hazards->writes_, true, access, *stream, waits);
    if (access.writes) {
      find(access.hazards->reads_, false, access, *stream, waits);
    }
    if (access.versions != nullptr) {
      access.versions->before = access.hazards->version_;
    }
  }
  merge_waits(waits);
  for (auto first = accesses.begin(); first != accesses.end();) {
    const auto last = std::find_if(first, accesses.end(),
                                   [&](const Access& access) { return access.hazards != first->hazards; });
    const auto writes = std::count_if(first, last, [](const Access& access) { return access.writes; });
    make_room(first->hazards->writes_, true, static_cast<std::size_t>(writes));
    make_room(first->hazards->reads_, false, static_cast<std::size_t>(last - first - writes));
    first = last;
  }
  for (const Access& access : accesses) {
    Hazards& hazards = *access.hazards;
    if (access.writes) {
      ++hazards.version_;
      cover(hazards.writes_, true, access, *stream);
      cover(hazards.reads_, false, access, *stream);
    }
    add(access.writes ? hazards.writes_ : hazards.reads_, access, stream, ticket);
  }
  for (const Access& access : accesses) {
    if (access.versions != nullptr) {
      access.versions->after = access.hazards->version_;
    }
  }
}

void Hazards::find(Records& records, bool are_writes, const Access& access, const StreamState& stream,
                   std::vector<Dependency>& waits) {
  for (std::size_t i = 0; i < records.size();) {
    const Record& record = records[i];
    if (record.stream.get() == &stream || !overlap(access.begin, access.end, record.begin, record.end) ||
        (record.is_joined && access.reads)) {
      ++i;
      continue;
    }
    const bool inherits = access.reads && are_writes && !record.is_overwritten;
    const Outcome outcome = outcome_of(*record.stream, record.ticket);
    if (outcome.has_succeeded() || (outcome.is_complete && record.is_overwritten)) {
      remove(records, i);
      continue;
    }
    if (!outcome.is_complete || inherits) {
      add_wait(waits, record.stream, record.ticket, inherits);
    }
    ++i;
  }
}

// Marks the records that a new write covers. One is removed if its work is complete or of the same stream. A
// record of a different stream stays, because a failed stream skips its commands without waiting for others.
// A write of the same bytes and stream stays last, for add().
void Hazards::cover(Records& records, bool are_writes, const Access& access, const StreamState& stream) {
  for (std::size_t i = 0; i < records.size();) {
    Record& record = records[i];
    if (access.begin > record.begin || record.end > access.end ||
        (are_writes && repeats(record, access, stream) && i + 1 == records.size())) {
      ++i;
    } else if (record.stream.get() == &stream || record.stream->is_complete(record.ticket)) {
      remove(records, i);
    } else {
      record.is_overwritten = true;
      record.is_joined = record.is_joined || access.joins;
      ++i;
    }
  }
}

bool Hazards::repeats(const Record& record, const Access& access, const StreamState& stream) {
  return record.stream.get() == &stream && record.begin == access.begin && record.end == access.end;
}

// A command that repeats the access of a recent record replaces it, because a stream's commands run in order. So the
// lists of a few streams stay short.
// Precondition: make_room().
void Hazards::add(Records& records, const Access& access, const std::shared_ptr<StreamState>& stream,
                  std::uint64_t ticket) {
  constexpr std::size_t kRecent = 8;
  for (std::size_t i = 1; i <= std::min(kRecent, records.size()); ++i) {
    Record& record = records[records.size() - i];
    if (repeats(record, access, *stream)) {
      record.ticket = ticket;
      record.is_overwritten = false;
      record.is_joined = false;
      return;
    }
  }
  records.push_back({access.begin, access.end, stream, ticket, false, false});
}

// Makes room for `count` records, so that adding them does not allocate. Before the list grows, removes the
// records of finished work, and those that a later one of the same stream repeats.
void Hazards::make_room(Records& records, bool are_writes, std::size_t count) {
  if (records.capacity() - records.size() >= count) {
    return;
  }
  std::erase_if(records, [&](const Record& old) {
    old.stream->refresh();
    const Outcome outcome = outcome_of(*old.stream, old.ticket);
    return are_writes ? outcome.has_succeeded() : outcome.is_complete;
  });
  const auto range = [](const Record& record) {
    return std::tuple(record.stream.get(), record.begin, record.end);
  };
  std::sort(records.begin(), records.end(), [&](const Record& a, const Record& b) {
    return std::pair(range(a), b.ticket) < std::pair(range(b), a.ticket);
  });
  records.erase(std::unique(records.begin(), records.end(),
                            [&](const Record& a, const Record& b) { return range(a) == range(b); }),
                records.end());
  if (records.capacity() - records.size() < std::max(count, records.capacity() / 4)) {
    records.reserve(std::max(2 * records.capacity(), records.size() + count));
  }
}

void Hazards::remove(Records& records, std::size_t index) {
  records[index] = std::move(records.back());
  records.pop_back();
}

bool Hazards::wait_all(std::chrono::nanoseconds timeout) noexcept {
  const Clock::time_point deadline = deadline_after(timeout);
  for (;;) {
    std::shared_ptr<StreamState> stream;
    std::uint64_t ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      for (const Records* records : {&writes_, &reads_}) {
        for (const Record& record : *records) {
          if (!record.stream->is_complete(record.ticket)) {
            stream = record.stream;
            ticket = record.ticket;
          }
        }
      }
      if (stream == nullptr) {
        return true;
      }
    }
    if (!stream->wait_complete(ticket, std::min(deadline, stream->last_deadline()))) {
      stream->note_late();
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
                             Buffer* workspace, std::span<Versions> versions) {
  accesses.reserve(bindings.size() + 2);
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const std::int32_t access = entry.arguments[i].access;
    const std::uint64_t end = bindings[i].offset + entry.arguments[i].byte_count;
    accesses.push_back({&bindings[i].buffer->hazards(), bindings[i].offset, end + bindings[i].padding,
                        access != YOKE_ACCESS_OUT, access != YOKE_ACCESS_IN,
                        versions.empty() ? nullptr : &versions[i]});
  }
  accesses.push_back({&launches, 0, 1, false, true});
  if (workspace != nullptr) {
    accesses.push_back({&workspace->hazards(), 0, workspace->byte_count(), false, true});
  }
  versions.empty() ? merge_accesses(accesses) : sort_accesses(accesses);
}

}  // namespace yoke::detail
