// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/stream.h: work in order: copies and launches. Hazards between streams are
// ordered here, not by the caller.
#pragma once

#include <yoke/runtime/device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace yoke {

class Routine;
namespace detail {
struct StreamState;
struct RoutineAccess;
class FallbackRoutine;
}  // namespace detail

// A point in a stream: all work queued before it. Cheap to copy; outlives its stream.
class Event {
 public:
  Event() = default;     // done
  bool is_done() const;  // throws the error of the work before it
  // Throws the error of the work before it, also when already complete, or kDeadlineExceeded.
  void wait(std::chrono::nanoseconds timeout) const;
  void wait() const;  // with the runtime's wait_timeout

 private:
  friend class Stream;
  friend class detail::Hazards;
  friend struct detail::StreamState;
  std::shared_ptr<detail::StreamState> stream_;
  std::uint64_t ticket_ = 0;
};

// In-order queue on one device. One thread at a time queues work ([stream-serial]); waits and queries come
// from any thread. A backend without streams is driven by a worker thread. No call of a step allocates. Every
// copy and launch first makes this stream wait for conflicting work of other streams on the same bytes (read
// after write, write after read, write after write), whichever stream it was queued on.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> create(std::shared_ptr<Device> device, std::string name = {});
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const std::shared_ptr<Device>& device() const;
  const std::string& name() const;  // "cc:0/stream1", as messages name it

  // Source and destination in host memory must stay until an event behind the call is done.
  void from_host(const BufferView& dst, const void* src);  // dst.byte_count bytes
  void to_host(void* dst, const BufferView& src);
  // Within a backend: the backend's device_to_device. Across backends: staged through host memory in chunks
  // that overlap; runs on both streams where needed. Byte counts must agree.
  void copy(const BufferView& dst, const BufferView& src);
  void fill(const BufferView& dst, const void* pattern, std::uint32_t pattern_byte_count);
  // `symbol_values` in the program's order. Throws kOutOfRange before anything is queued when one leaves its
  // range.
  void launch(const Routine& routine, std::span<const std::int64_t> symbol_values = {});

  Event record();
  void wait_for(const Event& event);  // later work here waits for it, and inherits its error
  bool is_idle() const;               // throws the stream's error
  void wait(std::chrono::nanoseconds timeout) const;
  void wait() const;
  // Ends queued work with kAborted without running it; every wait returns.
  void abort();

  detail::StreamState& state() const { return *state_; }

 private:
  explicit Stream(std::shared_ptr<detail::StreamState> state);
  std::shared_ptr<detail::StreamState> state_;
};

// Code bound to memory. Keeps code, buffers and workspace alive.
class Routine {
 public:
  // `bindings` in the order of the entry's arguments. The workspace comes from the runtime and is accounted
  // on the device.
  static std::shared_ptr<const Routine> link(std::shared_ptr<const Code> code, std::uint32_t entry,
                                             std::vector<BufferView> bindings);
  ~Routine();
  Routine(const Routine&) = delete;
  Routine& operator=(const Routine&) = delete;
  const Code& code() const { return *code_; }
  const Code::Entry& entry() const { return code_->entries()[entry_]; }
  const std::vector<BufferView>& bindings() const { return bindings_; }
  yoke_routine* get() const { return handle_; }  // null where another backend runs it
  detail::FallbackRoutine* fallback() const { return fallback_.get(); }

 private:
  friend class Stream;
  Routine(std::shared_ptr<const Code> code, std::uint32_t entry, std::vector<BufferView> bindings);
  static void end(const Routine* routine);  // deletes it, unless a launch of it does not end
  std::shared_ptr<const Code> code_;
  std::uint32_t entry_;
  std::vector<BufferView> bindings_;
  std::shared_ptr<Buffer> workspace_;
  yoke_routine* handle_ = nullptr;
  std::unique_ptr<detail::RoutineAccess> access_;  // what a launch touches; made once, when linked
  std::unique_ptr<detail::FallbackRoutine> fallback_;
};

}  // namespace yoke
