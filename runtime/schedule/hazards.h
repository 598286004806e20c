// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/hazards.h: records which commands last wrote and read which bytes of a buffer, so that
// streams wait for conflicting work automatically.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace yoke::detail {

class Hazards;
struct StreamState;

// The number of writes to a buffer before and after a command's own accesses, in the order of all commands.
struct Versions {
  std::uint64_t before = 0;
  std::uint64_t after = 0;
};

// Bytes [begin, end) of one buffer that a command reads, writes, or both.
struct Access {
  Hazards* hazards = nullptr;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool reads = false;
  bool writes = false;
  Versions* versions = nullptr;  // Hazards::enter fills it if it is not null
  bool joins = false;            // see Stream::join
};

// Work of another stream that a command waits for. The command
// inherits its error only if it reads the result.
struct Dependency {
  std::shared_ptr<StreamState> stream;
  std::uint64_t ticket = 0;
  bool inherits = false;
  bool quiesces = false;  // waits until the work is complete, also if either stream has failed
};

// What is known of a command while its stream works.
struct Outcome {
  bool is_complete = false;
  bool has_failed = false;
  bool has_succeeded() const { return is_complete && !has_failed; }
};
// Completion is read first, because work is marked as failed before it is complete: read in the other order, a command
// that fails in between would look as if it had succeeded.
template <class Timeline>
Outcome outcome_of(const Timeline& stream, std::uint64_t ticket) {
  const bool is_complete = stream.is_complete(ticket);
  return {is_complete, stream.has_failed(ticket)};
}

// The pending reads and writes of one buffer. Thread-safe.
class Hazards {
 public:
  explicit Hazards(std::size_t capacity = 32);
  ~Hazards();
  Hazards(const Hazards&) = delete;
  Hazards& operator=(const Hazards&) = delete;

  // Waits until all queued work that uses the buffer has finished or failed. Returns false at the deadline;
  // the memory must then not be freed.
  bool wait_all(std::chrono::nanoseconds timeout) noexcept;

  // Appends to `waits` the work that `stream` must wait for, and records the accesses as those of the
  // stream's command `ticket`. Precondition: `accesses` are sorted (sort_accesses). The locks of all
  // their buffers are held together, which gives the commands of all streams one order: two commands
  // never wait for each other. If this throws, nothing is recorded.
  static void enter(std::span<const Access> accesses, const std::shared_ptr<StreamState>& stream,
                    std::uint64_t ticket, std::vector<Dependency>& waits);

 private:
  class HeldLocks;
  struct Record {
    std::uint64_t begin;
    std::uint64_t end;
    std::shared_ptr<StreamState> stream;
    std::uint64_t ticket;
    bool is_overwritten;  // completely, by later work: commands wait for it but do not inherit its error
    // A later join covers it. Commands that read wait for the join instead, and inherit its error: a failed
    // join has not waited.
    bool is_joined;
  };
  // Reads do not conflict with each other, so most commands look at the writes only.
  using Records = std::vector<Record>;

  static void find(Records& records, bool are_writes, const Access& access, const StreamState& stream,
                   std::vector<Dependency>& waits);
  static void cover(Records& records, bool are_writes, const Access& access, const StreamState& stream);
  static bool repeats(const Record& record, const Access& access, const StreamState& stream);
  static void add(Records& records, const Access& access, const std::shared_ptr<StreamState>& stream,
                  std::uint64_t ticket);
  static void make_room(Records& records, bool are_writes, std::size_t count);
  static void remove(Records& records, std::size_t index);

  std::mutex mutex_;
  std::uint64_t version_ = 0;  // counts writes
  Records writes_;
  Records reads_;
};

// Sorts accesses in locking order and removes empty ones.
void sort_accesses(std::vector<Access>& accesses);
// Sorts accesses and joins those of one kind that touch or overlap.
// Precondition: they have no versions.
void merge_accesses(std::vector<Access>& accesses);

}  // namespace yoke::detail
