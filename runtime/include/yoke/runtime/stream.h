// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/stream.h: streams, events and routines. Conflicting
// work on different streams is ordered automatically.
#pragma once

#include <yoke/runtime/device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace yoke {

class Routine;
namespace detail {
struct StreamState;
struct RoutineAccess;
class FallbackRoutine;
}  // namespace detail

// A point in a stream: all work queued before it. Cheap to copy. May outlive its stream.
// Default-constructed events are done.
class Event {
 public:
  Event() = default;
  // False while work is pending. Throws the error of the work before the event.
  bool is_done() const;
  // Throws the error of the work before the event, even if that is already complete, or kDeadlineExceeded.
  void wait(std::chrono::nanoseconds timeout) const;
  // Waits at most RuntimeOptions::wait_timeout.
  void wait() const;

 private:
  friend class Stream;
  friend class detail::Hazards;
  friend struct detail::StreamState;
  std::shared_ptr<detail::StreamState> stream_;
  std::uint64_t ticket_ = 0;
};

// Why a stream failed.
struct StreamFailure {
  // Lower for earlier failures: among streams that wait for each other, the one with the lowest number failed first,
  // and the others because of it.
  std::uint64_t order = 0;
  // The device whose work failed: the stream's own, or that of the stream it waited for. Reading the memory of another
  // backend's device is work of that device. Never null. If a backend has streams, its devices wait for each other
  // without the runtime, which then takes a failure for the stream's own.
  std::shared_ptr<Device> device;
  Error error;
};

// An in-order queue on one device. Work is queued by one thread at a time ([stream-serial]); waits and
// queries may come from any thread. If the backend has no streams, the runtime's worker threads run the work.
// Once the lists of pending work have grown, queuing copies and launches does not allocate. If a call that
// queues work throws, it has queued nothing.
//
// A wait that throws any error but kDeadlineExceeded, and a query that throws, promise that the work no
// longer uses memory, whether it ran, failed, was skipped or was aborted.
//
// Work that fails poisons its stream: work queued later is skipped. As soon as the failure is known, queuing
// throws its error, and nothing is queued; only host_callback() still queues its callback. renew() ends this.
//
// Every copy and launch first waits for conflicting work of other streams on the same bytes (read after
// write, write after read, write after write), on whichever stream that work was queued.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // `priority` is a hint to devices: 0 is normal, and higher numbers run first.
  // Throws Error kInvalidArgument if the device is null, kResourceExhausted if no thread can be started.
  static std::shared_ptr<Stream> create(std::shared_ptr<Device> device, std::string name = {},
                                        std::int32_t priority = 0);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const std::shared_ptr<Device>& device() const;
  // Unique among all streams of a runtime, including destroyed ones.
  std::uint64_t id() const;
  // "cc:0/stream1", as in messages. Another stream may have the same name.
  const std::string& name() const;

  // Copies dst.byte_count bytes. The host memory must stay valid until
  // an event recorded after the call is done.
  void from_host(const BufferView& dst, const void* src);
  void to_host(void* dst, const BufferView& src);
  // Copies within a backend with its device_to_device, and between backends through host memory, in chunks
  // that overlap. Precondition: the byte counts are equal, and one of the two devices is the stream's.
  void copy(const BufferView& dst, const BufferView& src);
  // Precondition: pattern_byte_count is 1, 2, 4 or 8 and divides dst.byte_count.
  void fill(const BufferView& dst, const void* pattern, std::uint32_t pattern_byte_count);
  // `symbol_values` are in the order of the program's declaration. Throws kOutOfRange before anything is
  // queued if a value is outside its declared range.
  void launch(const Routine& routine, std::span<const std::int64_t> symbol_values = {});

  // Waits for all work queued so far on the bytes of `view` and its padding, on any stream. Work queued later
  // that reads some of them then waits for this call only, not for each of the streams before it. Changes no
  // memory.
  void join(const BufferView& view);

  // Calls `callback` once, after all work queued so far has finished, failed or been skipped; `status` is
  // kOk or the code of that work's first error. Work queued later waits until it returns. It runs on a
  // thread of the backend or of the runtime, must return soon, and must not wait for this stream or own it. If
  // it throws, the stream fails with kUnknown. If this call throws, nothing was queued.
  void host_callback(std::function<void(ErrorCode status)> callback);

  Event record();
  // Makes later work on this stream wait for the event, and fail if the event's work failed.
  void wait_for(const Event& event);
  // The work queued from now on belongs to this step. Errors name the step of the work that failed.
  void begin_step(std::int64_t number);
  // False while work is pending. Throws the stream's error.
  bool is_idle() const;
  // Throws the stream's error, or kDeadlineExceeded.
  void wait(std::chrono::nanoseconds timeout) const;
  void wait() const;
  // Empty: the stream has not failed, or was aborted. Does not wait; call it after a wait, because a wait detects
  // failures.
  std::optional<StreamFailure> failure() const;
  // Skips queued work that has not started, and stops running work where the device can. Returns without
  // waiting. Waits throw kAborted once the work no longer uses memory. Other streams are unaffected unless
  // they wait for this one; only if the backend can abort nothing smaller is its whole device aborted.
  void abort();
  // Makes a stream that has failed or was aborted usable again: replaces its queue. Routines, transfers and contexts
  // that are linked with it stay linked. Waits for the work queued so far, at most RuntimeOptions::wait_timeout.
  // Afterwards the stream has a new id() and an empty merge buffer, and counts no steps. Events recorded before keep
  // their error, and so do tensors that failed work should have written: work that reads one fails until other work
  // has written it. A group of kNative must be created again: its collectives throw kFailedPrecondition. No other
  // thread may use the stream during the call. Throws Error kDeviceLost for a lost device, kDeadlineExceeded if
  // work is still pending, and the backend's errors; the stream is then as before.
  void renew();
  // Waits until all work of the streams has finished or failed. If one misses the deadline, which is
  // RuntimeOptions::wait_timeout for all of them together, aborts all; their destructors then wait at most a
  // second. Without this call, the destructors of streams that hang wait in turn.
  static void finish(std::span<const std::shared_ptr<Stream>> streams) noexcept;
  // The driver's handle of a backend's stream, with yoke.memory/1.
  // Throws Error kUnimplemented if there is none.
  NativeHandle native() const;

  detail::StreamState& state() const { return *state_; }

 private:
  Stream(std::shared_ptr<Device> device, std::string name, std::int32_t priority);
  static std::shared_ptr<detail::StreamState> open(const Stream& stream);
  const std::shared_ptr<Device> device_;
  const std::string name_;
  const std::int32_t priority_;
  std::shared_ptr<detail::StreamState> state_;
};

// Waits for all work of the device's streams, for at most RuntimeOptions::wait_timeout in total. If a stream has
// failed, throws its error after waiting for the others.
void sync_device(const Device& device);

// What a stream is doing, for messages and tools. Other threads may change it at any time.
struct StreamReport {
  std::uint64_t stream_id = 0;  // Stream::id()
  std::uint64_t device_id = 0;  // Device::id()
  std::string stream;           // "cc:0/stream1"
  std::string device;           // "cc:0"
  std::int64_t step = -1;       // of the oldest pending work; -1: none, or unknown
  std::uint64_t queued = 0;     // commands so far
  std::uint64_t completed = 0;  // of these
  // "launch of 'gradient'"; empty: idle. A device with native streams reports only events, so for it the text may be
  // "launch of 'gradient' or one of the 3 commands after it", or "a command before launch of 'gradient'".
  std::string running;
  std::string waits_for;                // the stream that the next command waits for; empty: none
  std::uint64_t waits_for_id = 0;       // the id of that stream
  std::uint64_t waits_for_command = 0;  // the number of the last command there that it waits for
  std::string error;                    // the stream's error; empty: it has not failed
};
StreamReport debug_info(const Stream& stream);
// The reports of all streams of a runtime, in order of creation.
std::vector<StreamReport> debug_info(const Runtime& runtime);
// The reports as a table with one line per stream, or as JSON: an array of objects with the members of StreamReport.
std::string debug_table(std::span<const StreamReport> reports);
std::string debug_json(std::span<const StreamReport> reports);

// An entry of code, bound to buffers: what other runtimes call a bound
// executable. Keeps code, buffers and workspace alive.
class Routine {
 public:
  // `bindings` are in the order of the entry's arguments. The runtime allocates the workspace on the device,
  // unless `workspace` is given: memory that may be shared by routines, whose launches then never overlap, and
  // that nothing else may use. Throws Error kInvalidArgument or kOutOfRange for code, an entry, bindings or a
  // workspace that do not fit.
  static std::shared_ptr<const Routine> link(std::shared_ptr<const Code> code, std::uint32_t entry,
                                             std::vector<BufferView> bindings,
                                             std::shared_ptr<Buffer> workspace = nullptr);
  ~Routine();
  Routine(const Routine&) = delete;
  Routine& operator=(const Routine&) = delete;
  const Code& code() const { return *code_; }
  const Code::Entry& entry() const { return code_->entries()[entry_]; }
  const std::vector<BufferView>& bindings() const { return bindings_; }
  // Null if the routine runs on the fallback device.
  yoke_routine* get() const { return handle_; }
  detail::FallbackRoutine* fallback() const { return fallback_.get(); }

 private:
  friend class Stream;
  Routine(std::shared_ptr<const Code> code, std::uint32_t entry, std::vector<BufferView> bindings,
          std::shared_ptr<Buffer> workspace);
  // Deletes the routine, or leaks it if a launch does not finish in time.
  static void end(const Routine* routine);
  std::shared_ptr<const Code> code_;
  std::uint32_t entry_;
  std::vector<BufferView> bindings_;
  std::shared_ptr<Buffer> workspace_;
  yoke_routine* handle_ = nullptr;
  std::unique_ptr<detail::RoutineAccess> access_;
  std::unique_ptr<detail::FallbackRoutine> fallback_;
};

}  // namespace yoke
