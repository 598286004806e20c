// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/stream_state.h: the state of a stream: its timeline of
// tickets, its queue, its merge buffer.
//
// Every command gets the next ticket. A ticket is complete when `completed` has reached it, whether its
// command ran, failed or was skipped, so every wait ends. A ticket has failed if `failed_from` is at or
// below it. An event is a stream and a ticket.
//
// There are two kinds of streams. If the backend has no streams, commands go through a ring buffer to the
// runtime's workers (worker_pool.h), which call the backend with a NULL stream. If it has streams ("native"
// streams), commands are issued to the backend at once, on the caller's thread; they go through the ring
// only while one of them must wait for work of a different backend.
#pragma once

#include <yoke/runtime/stream.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/host_memory.h"
#include "schedule/command.h"
#include "schedule/hazards.h"
#include "schedule/parking.h"
#include "schedule/running_work.h"
#include "schedule/worker_pool.h"

namespace yoke::detail {

struct BackendState;
class CollectiveCall;
class CollectiveGroup;

// The contents of a stream's merge buffer, set and checked in the order in which work is queued.
struct MergeContent {
  std::shared_ptr<const std::string> node;  // null: empty
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;
};

struct StreamState final : Task, std::enable_shared_from_this<StreamState> {
  StreamState(std::shared_ptr<Device> on, std::string called);
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  // Creates the backend's stream, or joins the workers.
  void open(std::int32_t priority);
  // Waits for queued work, aborts it at the deadline, and returns in any case.
  void close() noexcept;

  // The timeline. Called from any thread.
  bool is_complete(std::uint64_t ticket) const noexcept { return completed_.load() >= ticket; }
  bool has_failed(std::uint64_t ticket) const noexcept { return failed_from_.load() <= ticket; }
  bool has_failed() const noexcept { return failed_from_.load() != kNever; }
  std::uint64_t last_ticket() const noexcept { return reserved_.load(); }
  // Updates the progress of a native stream; refresh() also detects failed members of its groups.
  // try_refresh_native() does nothing while another thread queues, because a driver's call may never return.
  void refresh_native() noexcept;
  void try_refresh_native() noexcept;
  void refresh() noexcept;
  // Waits until the ticket is complete, failed or not. Returns false at the deadline.
  bool wait_complete(std::uint64_t ticket, Clock::time_point deadline) noexcept;
  // For the application's waits. Throws the error of the ticket, or kDeadlineExceeded.
  void wait(std::uint64_t ticket, std::chrono::nanoseconds timeout);
  // Throws the error of the ticket. On a lost device every ticket fails.
  void check_alive(std::uint64_t ticket);
  // `compose()` returns the sentence of the error. It may throw: the error then has a fixed text.
  template <class Compose>
  void fail(std::uint64_t ticket, ErrorCode code, const Compose& compose) noexcept {
    std::string sentence;
    try {
      sentence = compose();
    } catch (...) {  // out of memory
    }
    set_failed(ticket, code, std::move(sentence));
  }
  void fail_as_lost(std::uint64_t ticket) noexcept;
  Error error() const;
  ErrorCode error_code() const noexcept;
  std::optional<StreamFailure> failure() const;  // see Stream::failure
  // Later commands belong to this step. title() names the stream and the step of the ticket, for messages.
  void begin_step(std::int64_t number) noexcept;
  std::string title(std::uint64_t ticket) const;
  // Destructors wait at most `patience` for the aborted work.
  void abort(std::chrono::nanoseconds patience) noexcept;
  // Records that a wait of wait_timeout has missed its deadline.
  void note_late() noexcept;
  bool is_late() const noexcept;  // and nothing completed since
  // When destructors stop waiting: soon after an abort, and after a missed deadline unless work completed since.
  Clock::time_point last_deadline() const noexcept;
  // Records a native event, so that waits for this point do not include later work.
  void mark() noexcept;
  NativeHandle native_handle();  // throws kUnimplemented
  StreamReport report();         // what it is doing
  std::string activity_text();   // the same for messages: "; it runs launch of 'gradient'"

  // Queuing. Called from one thread at a time. promise() records the accesses of the next `ticket_count`
  // tickets; each emit() queues one command with the next ticket; depend() makes the next emit() wait.
  // begin() is a promise() that throws the stream's error if it has one. If one of them throws, the promised
  // tickets that were not queued are completed; retire() fails the stream, too, and so does promise() where
  // the tickets would be complete before the work that they wait for.
  void begin(std::span<const Access> accesses, std::uint64_t ticket_count);
  void promise(std::span<const Access> accesses, std::uint64_t ticket_count);
  void retire(const Error& error) noexcept;
  void depend(const Dependency& dependency);
  // `on_worker`: a worker runs the command, on a native stream too.
  template <class Fill>
  std::uint64_t emit(const Fill& fill, bool on_worker = false) {
    const std::uint64_t ticket = reserved_.load(std::memory_order_relaxed) + 1;
    Command* command = nullptr;
    try {
      command = &next_command(on_worker);
      command->completes = true;
      command->ticket = ticket;
      command->label[0] = '\0';
      fill(*command);
    } catch (...) {
      abandon();
      throw;
    }
    reserved_.store(ticket);
    hand_over(*command);
    return ticket;
  }
  // Queues a callback; see Stream::host_callback.
  void queue_callback(std::function<void(ErrorCode)> callback);
  // Whether this stream's copies can access the buffer. A native stream can only access its own device.
  bool reaches(const Buffer& buffer) const;
  // Copies through host memory. prepare_staging allocates what that needs.
  void stage(const BufferView& dst, const BufferView& src);
  void prepare_staging(const BufferView& dst, const BufferView& src);
  // The stream that runs this stream's fallback launches: itself, or for a native stream a second one on the
  // workers. The caller orders the two.
  StreamState& fallback_lane();

  const std::shared_ptr<Device> device;
  const std::uint64_t id;  // see Stream::id
  const std::string name;
  const std::chrono::nanoseconds wait_timeout;

  // The merge buffer grows when transfers are linked. Used by the queuing thread only.
  std::shared_ptr<Buffer> merge_buffer;
  MergeContent merge_content;

 private:
  friend class CollectiveCall;   // queues on several streams at once
  friend class CollectiveGroup;  // for backend() and the groups
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  // A native event recorded after the command `ticket`.
  struct NativeEvent {
    std::uint64_t ticket = 0;
    yoke_event* event = nullptr;
    int users = 0;            // threads waiting for it
    std::uint64_t order = 0;  // when it was recorded; see next_order()
  };
  // The first ticket of a step is the one after ticket_before.
  struct StepMark {
    std::uint64_t ticket_before = 0;
    std::int64_t number = 0;
  };
  // The stream of the other device and the host memory of staged copies.
  struct Staging {
    std::array<HostMemory, 2> chunks;
    std::uint64_t chunk_byte_count = 0;
    std::shared_ptr<Stream> stream;  // last, so that it is closed before the chunks are freed
  };

  const BackendState& backend() const;
  // `order`: 0: now. `cause`: the stream whose failure this one inherits; null: its own work failed.
  void set_failed(std::uint64_t ticket, ErrorCode code, std::string sentence, std::uint64_t order = 0,
                  const StreamState* cause = nullptr) noexcept;
  Error error_locked() const;  // with error_mutex_ locked
  std::shared_ptr<Device> failed_device() const noexcept;
  // Increases with every call, for all streams of the process.
  static std::uint64_t next_order() noexcept;
  Staging& staging_for(const BufferView& dst, const BufferView& src);
  void queue_chunks(const BufferView& dst, const BufferView& src, Staging& staging);
  // queue.cpp
  Command& next_command(bool on_worker);
  Command& next_slot();
  void hand_over(Command& command) noexcept;
  void wait_for_room();
  void abandon() noexcept;
  void drop_promised() noexcept;
  // In report.cpp, for report(): a worker records what it waits for, and removes the record afterwards.
  void note_wait(const Command& command) noexcept;
  void forget_wait() noexcept;
  // What the stream is doing: the command, and the stream and ticket that it waits for.
  struct Activity {
    std::string running;
    std::shared_ptr<StreamState> awaited;
    std::uint64_t awaited_ticket = 0;
  };
  Activity activity();
  Activity native_activity();
  // worker.cpp
  void join_workers();
  // A native stream joins the workers when the first command needs them.
  void ensure_worker();
  // Returns false if a worker still runs the stream at the deadline; the worker then keeps this object alive.
  bool leave_workers(Clock::time_point deadline) noexcept;
  void schedule() noexcept;  // call it when there is something to run
  void run_commands() noexcept override;
  bool has_work() const noexcept;
  void stop() noexcept;
  void run(Command& command) noexcept;
  void end_wait(const Command& command) noexcept;
  void finish(std::uint64_t ticket) noexcept;
  void inject_delay(std::uint64_t ticket) const;
  void record_work(const Command& command, Clock::time_point begin) noexcept;
  std::optional<std::int64_t> step_of(std::uint64_t ticket) const;
  bool is_over(const Command& wait) const noexcept;
  bool wait_as_worker(const Command& command) noexcept;
  bool park(const Command& command) noexcept;
  void stop_waiting() noexcept;
  void remove_waiter(StreamState& waiter) noexcept;
  void resume() noexcept;
  void fail_late(const Command& wait) noexcept;
  void wait_for_native(const Command& command) noexcept;
  void wake_waiters() noexcept;
  void inherit(std::uint64_t ticket, const StreamState& other) noexcept;
  // callback.cpp
  void run_callback(Command& command) noexcept;
  bool issue_callback(Command& command) noexcept;
  void call_back(const HostCallback& callback, ErrorCode code) noexcept;
  // issue.cpp
  void issue(const Command& command) noexcept;
  std::int32_t call_backend(const Command& command, class Status& status);
  std::int32_t fill_by_copies(const Command& command, class Status& status,
                              std::unique_lock<std::mutex>& lock);
  // native.cpp
  class NativeUse;
  void open_native(std::int32_t priority);
  void abort_native() noexcept;
  bool wait_on_device(const Dependency& dependency, std::uint64_t ticket);
  NativeEvent* event_for(std::uint64_t ticket);
  bool wait_native(std::uint64_t ticket, std::chrono::nanoseconds slice) noexcept;
  void query_native(yoke_stream* stream) noexcept;  // with issue_mutex_ locked
  const NativeEvent* query_events() noexcept;
  // `event`: the first one that has failed, if it is known. `call`: the call that has failed, if it may be the reason
  // rather than work before it.
  void native_failed(std::int32_t code, const class Status& status, const NativeEvent* event = nullptr,
                     const char* call = "") noexcept;
  bool is_device_lost() const noexcept;  // a call has returned DEVICE_LOST
  void close_native() noexcept;
  void poll_groups() noexcept;
  std::string group_failure();
  // Waits a short time at most and returns whether the ticket is complete, so
  // that callers can check for a deadline or an abort.
  bool wait_slice(std::uint64_t ticket, Clock::time_point deadline) noexcept;

  // Timeline. completed_ <= issued_ <= reserved_. A worker's commands
  // are issued and completed at the same time.
  std::atomic<std::uint64_t> reserved_{0};
  std::atomic<std::uint64_t> issued_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint64_t> failed_from_{kNever};
  Parking progress_;  // notified when one of the above changes
  mutable std::mutex error_mutex_;
  ErrorCode error_code_ = ErrorCode::kOk;
  std::string error_text_;
  std::uint64_t failure_order_ = 0;
  std::shared_ptr<Device> failed_device_;  // not null if the stream has failed
  Clock::time_point abort_deadline_ = Clock::time_point::max();
  Clock::time_point late_deadline_ = Clock::time_point::max();
  std::uint64_t late_completed_ = 0;  // completed_ when a deadline was missed
  std::array<StepMark, 64> steps_;    // the latest ones, in a ring
  std::size_t step_count_ = 0;

  // Queue.
  CommandRing ring_;
  Command inline_command_;
  std::vector<Dependency> waits_;
  std::uint64_t promised_ = 0;             // the last ticket recorded in Hazards
  std::atomic<std::uint64_t> dropped_{0};  // up to here, tickets may have no command
  Parking room_;                           // the caller sleeps here while the ring is full

  // Workers.
  const std::shared_ptr<WorkerPool> workers_;
  std::shared_ptr<StreamState> self_;  // while a worker may use this object
  bool is_abandoned_ = false;          // under the workers' lock
  Spin worker_spin_;                   // a worker, for commands
  Spin wait_spin_;                     // a worker, for other streams
  Spin host_spin_;                     // application threads, for this stream
  std::atomic<bool> stopping_{false};
  // Streams that are parked because the command at the front of their ring waits for this stream.
  std::mutex waiters_mutex_;
  std::atomic<std::uint64_t> awaited_ticket_{kNever};  // the lowest ticket that they wait for
  StreamState* first_waiter_ = nullptr;
  // This stream's own wait.
  std::shared_ptr<StreamState> awaited_;  // not null: it is parked
  StreamState* next_waiter_ = nullptr;    // in the list of awaited_, under its waiters_mutex_
  bool is_waiter_ = false;
  Clock::time_point wait_begin_;  // not set: it is not waiting
  Clock::time_point wait_deadline_;
  const std::function<void(const WorkRecord&)>* on_work_ = nullptr;  // null: work is not recorded
  std::uint32_t delay_us_ = 0;
  std::uint64_t delay_seed_ = 0;

  // The backend's stream, or null. issue_mutex_ serializes the calls on it and guards the events. To set
  // native_, both mutexes are held.
  yoke_stream* native_ = nullptr;
  bool is_native_ = false;
  std::mutex issue_mutex_;
  std::array<NativeEvent, 8> events_;  // in a ring, recorded in this order
  std::size_t next_event_ = 0;
  bool cannot_record_ = false;  // event_record failed
  std::mutex native_mutex_;
  int native_users_ = 0;  // threads that use native_ without issue_mutex_; under native_mutex_

  // The groups of this stream that still exist.
  std::mutex groups_mutex_;
  std::vector<std::weak_ptr<CollectiveGroup>> groups_;
  std::atomic<bool> has_groups_{false};

  std::map<const Device*, Staging> stagings_;
  std::shared_ptr<StreamState> lane_;  // under error_mutex_: abort comes from any thread
  // For report().
  std::shared_ptr<StreamState> noted_wait_;  // under error_mutex_; null: the worker waits for no stream
  std::uint64_t noted_ticket_ = 0;           // the same
  bool has_note_ = false;                    // for the worker
  RunningWork running_;
  IssuedWork issued_work_;  // of a native stream
};

[[noreturn]] inline void refuse(const StreamState& state, ErrorCode code, const std::string& what,
                                const std::string& why) {
  throw Error(code, "stream '" + state.name + "': " + what + ": " + why);
}

}  // namespace yoke::detail
