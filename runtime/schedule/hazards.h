// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/hazards.h: who last wrote and read which bytes of a buffer, so that streams wait for each
// other without the caller.
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

// How often a buffer had been written before a command's own accesses, and after them, in the one order of
// all commands.
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
  Versions* versions = nullptr;  // filled in by Hazards::enter where somebody asks
};

// Work of another stream that a command waits for. Its error is inherited only where its result is read: a
// failed reader spoils nothing, and what a failed writer left is overwritten.
struct Dependency {
  std::shared_ptr<StreamState> stream;
  std::uint64_t ticket = 0;
  bool inherits = false;
};

// The live reads and writes of one buffer. Thread-safe.
class Hazards {
 public:
  explicit Hazards(std::size_t capacity = 32);
  ~Hazards();
  Hazards(const Hazards&) = delete;
  Hazards& operator=(const Hazards&) = delete;

  // Waits until no queued work uses the buffer any more, whether it succeeds or fails. False: some still does
  // after `timeout`; then the memory must not be freed.
  bool wait_all(std::chrono::nanoseconds timeout) noexcept;

  // Locks every buffer of `accesses` (sorted: sort_accesses), fills `waits` with what `stream` must wait for,
  // and records the accesses under the stream's command `ticket`. Because all locks are held at once,
  // commands of all streams have one order, and no two can wait for each other.
  static void enter(std::span<const Access> accesses, const std::shared_ptr<StreamState>& stream,
                    std::uint64_t ticket, std::vector<Dependency>& waits);

 private:
  class HeldLocks;
  struct Record {
    std::uint64_t begin;
    std::uint64_t end;
    std::shared_ptr<StreamState> stream;
    std::uint64_t ticket;
    bool is_write;
    bool is_overwritten;  // later work replaces all of it: still to be waited for, but its error matters to
                          // nobody
  };

  void find(const Access& access, const StreamState& stream, std::vector<Dependency>& waits);
  void record(const Access& access, const std::shared_ptr<StreamState>& stream, std::uint64_t ticket);
  void add(Record record);
  void remove(std::size_t index);

  std::mutex mutex_;
  std::uint64_t version_ = 0;  // counts writes
  std::vector<Record> records_;
};

// In the order in which locks are taken.
void sort_accesses(std::vector<Access>& accesses);

}  // namespace yoke::detail
