// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/stream_state.h: a stream's inside: its timeline of tickets, its queue, its worker, its
// merge buffer.
//
// Every command gets the next ticket. A ticket is over when `completed` has reached it, whether it ran,
// failed or was skipped; it failed when `failed_from` is at or below it. So an event is a stream and a
// number, and nobody waits for ever.
//
// Two kinds of stream share this code. A backend without streams: commands go through the ring to a worker
// thread, which calls the backend with a NULL stream. A backend with streams: commands are handed to the
// backend at once, on the caller's thread; only while one must wait for another backend's work do they go
// through the ring.
#pragma once

#include <yoke/runtime/device.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "schedule/command.h"
#include "schedule/hazards.h"
#include "schedule/parking.h"

namespace yoke {
class Stream;
}

namespace yoke::detail {

struct BackendState;

// What a stream's merge buffer holds, and where: set and checked in the order in which work is queued.
struct MergeContent {
  std::shared_ptr<const std::string> node;  // null: nothing
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;
};

struct StreamState : std::enable_shared_from_this<StreamState> {
  StreamState(std::shared_ptr<Device> on, std::string called);
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  // Creates the backend's stream, or starts the worker.
  void open();
  // Finishes what is queued, or aborts it at the deadline; returns in any case.
  void close() noexcept;

  // Timeline; from any thread.
  bool is_complete(std::uint64_t ticket) const noexcept { return completed_.load() >= ticket; }
  bool has_failed(std::uint64_t ticket) const noexcept { return failed_from_.load() <= ticket; }
  bool has_failed() const noexcept { return failed_from_.load() != kNever; }
  std::uint64_t last_ticket() const noexcept { return reserved_.load(); }
  void refresh() noexcept;  // asks the backend how far it is
  // Until the ticket is over, failed or not; false at the deadline.
  bool wait_complete(std::uint64_t ticket, Clock::time_point deadline) noexcept;
  // For the host. Throws the error of the ticket, or kDeadlineExceeded.
  void wait(std::uint64_t ticket, std::chrono::nanoseconds timeout);
  void check_alive(std::uint64_t ticket);  // throws the error of the ticket; a lost device fails every one
  void fail(std::uint64_t ticket, ErrorCode code, const std::string& sentence) noexcept;
  Error error() const;
  void abort() noexcept;
  void mark() noexcept;  // a backend's event here, so that waiting for this point need not wait for more

  // Queuing; from one thread at a time. begin() takes `ticket_count` tickets' worth of hazards, then each
  // emit() one ticket; depend() makes the next emit() wait.
  void begin(std::span<const Access> accesses, std::uint64_t ticket_count);
  void depend(const Dependency& dependency);
  template <class Fill>
  std::uint64_t emit(const Fill& fill) {
    const std::uint64_t ticket = reserved_.load(std::memory_order_relaxed) + 1;
    Command& command = next_command();
    command.completes = true;
    command.ticket = ticket;
    command.label[0] = '\0';
    fill(command);
    reserved_.store(ticket);
    hand_over(command);
    return ticket;
  }
  // May this stream's copies touch the buffer? The backend's own streams serve their device only.
  bool reaches(const Buffer& buffer) const;
  void stage(const BufferView& dst, const BufferView& src);  // copy through host memory
  void prepare_staging(const BufferView& dst, const BufferView& src);
  // The stream on which this one's programs fall back: itself, or where the backend brings the stream, one
  // that a worker drives with NULL streams. The caller orders the two.
  StreamState& fallback_lane();

  const std::shared_ptr<Device> device;
  const std::string name;
  const std::chrono::nanoseconds wait_timeout;

  // The merge buffer; grows when transfers are linked. Touched by the queuing thread only.
  std::shared_ptr<Buffer> merge_buffer;
  MergeContent merge_content;

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  // An event of the backend's behind the commands up to `ticket`.
  struct NativeEvent {
    std::uint64_t ticket = 0;
    yoke_event* event = nullptr;
    int users = 0;
  };
  // The other side of copies through host memory.
  struct Staging {
    std::shared_ptr<Stream> stream;
    std::array<std::unique_ptr<std::byte[]>, 2> chunks;
    std::uint64_t chunk_byte_count = 0;
  };

  const BackendState& backend() const;
  Staging& staging_for(const BufferView& dst, const BufferView& src);
  // queue.cpp
  Command& next_command();
  void hand_over(Command& command);
  void wait_for_room();
  // worker.cpp
  void start_worker();
  void work() noexcept;
  void run(Command& command) noexcept;
  void finish(std::uint64_t ticket) noexcept;
  void inject_delay(std::uint64_t ticket) const;
  void wait_as_worker(const Command& command) noexcept;
  void inherit(std::uint64_t ticket, const StreamState& other) noexcept;
  // issue.cpp
  void issue(const Command& command);
  std::int32_t fill_by_copies(const Command& command, class Status& status);
  // native.cpp
  bool wait_on_device(const Dependency& dependency, std::uint64_t ticket);
  NativeEvent* event_for(std::uint64_t ticket);
  bool wait_native(std::uint64_t ticket, std::chrono::nanoseconds slice) noexcept;
  void native_failed(std::int32_t code, const class Status& status) noexcept;
  void close_native() noexcept;
  // True: over. Returns after a slice of time at most, so that callers can look at deadline and abort.
  bool wait_slice(std::uint64_t ticket, Clock::time_point deadline) noexcept;

  // Timeline. completed_ <= issued_ <= reserved_; a worker's commands are issued and completed at once.
  std::atomic<std::uint64_t> reserved_{0};
  std::atomic<std::uint64_t> issued_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint64_t> failed_from_{kNever};
  Parking progress_;  // one of the above has changed
  mutable std::mutex error_mutex_;
  ErrorCode error_code_ = ErrorCode::kOk;
  std::string error_text_;

  // Queue.
  CommandRing ring_;
  Command inline_command_;
  std::vector<Dependency> waits_;
  std::uint64_t promised_ = 0;  // the last ticket that hazards know of
  Parking work_;                // the worker sleeps here when there is nothing to do
  Parking room_;                // the caller sleeps here when the ring is full

  // Worker.
  std::thread worker_;
  Spin worker_spin_;  // for commands
  Spin wait_spin_;    // for other streams
  Spin host_spin_;    // of whoever waits for this stream
  std::atomic<bool> stopping_{false};
  std::atomic<bool> stopped_{true};
  std::uint32_t delay_us_ = 0;
  std::uint64_t delay_seed_ = 0;

  // Backend's stream; null without one. issue_mutex_ makes calls on it serial and guards the events.
  yoke_stream* native_ = nullptr;
  bool is_native_ = false;
  std::mutex issue_mutex_;
  std::array<NativeEvent, 16> events_;

  std::map<const Device*, Staging> stagings_;
  std::shared_ptr<StreamState> lane_;  // under error_mutex_: abort comes from any thread
};

}  // namespace yoke::detail
