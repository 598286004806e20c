// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/objects.h: C++ owners for the ABI's handles. A failed call in them fails the
// test, so tests of a creating call itself use the functions of Plugin.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kit.h"

namespace yoke::conformance {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

inline constexpr std::uint64_t kMillisecond = 1'000'000;  // in ns

// The longest timeout of any wait in the kit: a third of --timeout, so that a wait that never ends is
// reported by the test and not by its deadline.
std::uint64_t longest_wait_ns();

// A deadline for polling, longest_wait_ns() after its construction.
class Patience {
 public:
  bool is_over() const { return Clock::now() > end_; }
  // Polls until `is_met`. Fails with `otherwise` when the time is over.
  template <class Condition>
  static void wait_until(const Condition& is_met, const char* otherwise) {
    for (const Patience patience; !is_met();) {
      check(!patience.is_over(), otherwise);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  Clock::time_point end_ = Clock::now() + std::chrono::nanoseconds(longest_wait_ns());
};

inline std::uint64_t ns_since(Clock::time_point begin) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
}

// Owns a handle and destroys it with the plugin's function. Movable.
template <class T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  Handle(const Plugin& plugin, T* raw) : plugin_(&plugin), raw_(raw) {}
  // The result of a creating call: fails the test unless it returned OK with a handle.
  Handle(const Plugin& plugin, const Answer& answer, T* raw, const std::string& doing) : Handle(plugin, raw) {
    expect_ok(answer, doing);
    check(raw != nullptr, answer.function, " returned OK but left its out-parameter NULL");
  }
  Handle(Handle&& other) noexcept : plugin_(other.plugin_), raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(plugin_, other.plugin_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() { reset(); }

  T* get() const { return raw_; }
  void reset() {
    if (raw_ != nullptr) {
      plugin_->call<Destroy>(std::exchange(raw_, nullptr));
    }
  }

 private:
  const Plugin* plugin_ = nullptr;
  T* raw_ = nullptr;
};

using BufferHandle = Handle<yoke_buffer, &yoke_backend_api::buffer_destroy>;
using StreamHandle = Handle<yoke_stream, &yoke_stream_api::stream_destroy>;
using EventHandle = Handle<yoke_event, &yoke_stream_api::event_destroy>;
using Code = Handle<yoke_code, &yoke_program_api::code_destroy>;
using Routine = Handle<yoke_routine, &yoke_program_api::routine_destroy>;

// An opened device. The destructor reports a device_close that fails, unless the test is failing already.
class Device {
 public:
  Device(Kit& kit, Plugin& plugin, std::uint32_t ordinal, const std::vector<yoke_option>& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Kit& kit() const { return kit_; }
  Plugin& plugin() const { return plugin_; }
  yoke_device* get() const { return raw_; }
  yoke_device_info info() const;
  yoke_memory_info memory() const;
  void close();  // fails the test if device_close fails

 private:
  Kit& kit_;
  Plugin& plugin_;
  std::uint32_t ordinal_;
  yoke_device* raw_ = nullptr;
};

// The device of --device once more, with the same options.
Device another_handle(Kit& kit);

class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::uint64_t byte_count, std::int32_t kind = YOKE_MEMORY_DEVICE);
  Buffer(const Plugin& plugin, BufferHandle handle, std::uint64_t byte_count)
      : plugin_(&plugin), byte_count_(byte_count), handle_(std::move(handle)) {}

  yoke_buffer* get() const { return handle_.get(); }
  std::uint64_t byte_count() const { return byte_count_; }
  void reset() { handle_.reset(); }
  yoke_buffer_info describe() const;

  // Copies with a NULL stream, which are done when they return.
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;
  Bytes contents() const;

 private:
  const Plugin* plugin_ = nullptr;
  std::uint64_t byte_count_ = 0;
  BufferHandle handle_;
};

class Event {
 public:
  Event() = default;
  Event(const Plugin& plugin, EventHandle handle) : plugin_(&plugin), handle_(std::move(handle)) {}

  yoke_event* get() const { return handle_.get(); }
  void reset() { handle_.reset(); }
  std::int32_t state() const;  // YOKE_STATE_*
  bool done() const;           // false: pending; fails the test if the work has failed
  Answer wait(std::uint64_t timeout_ns = longest_wait_ns()) const;
  Answer elapsed_since(const Event& start, std::uint64_t& ns) const;
  std::uint64_t ns_since(const Event& start) const;  // fails the test if event_elapsed fails

 private:
  const Plugin* plugin_ = nullptr;
  EventHandle handle_;
};

// A stream of the backend. Throws Unsupported if the backend has none. The destructor waits for its work, with a
// timeout; if the test has failed and the work does not end, it ends the process.
class Stream {
 public:
  explicit Stream(Device& device, std::int32_t priority = 0);
  ~Stream();
  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = delete;

  yoke_stream* get() const { return handle_.get(); }
  Device& device() const { return *device_; }
  // In turn with and without timing, which a backend may record in different ways.
  Event record() const;
  Event record_timed() const;
  void wait_for(const Event& event) const;
  std::int32_t state() const;  // YOKE_STATE_*
  bool done() const;           // false: pending; fails the test if the work has failed
  Answer wait(std::uint64_t timeout_ns = longest_wait_ns()) const;
  void synchronize() const;  // fails the test unless the wait returns OK

  // Queue a copy. `bytes` stay alive as long as the stream.
  void write(const Buffer& target, std::uint64_t offset, Bytes bytes);
  void keep(std::vector<Bytes> bytes);  // as long as the stream
  void read(const Buffer& source, std::uint64_t offset, std::span<std::byte> bytes) const;
  void copy(const Buffer& target, std::uint64_t target_offset, const Buffer& source,
            std::uint64_t source_offset, std::uint64_t byte_count) const;

 private:
  Event record(std::uint64_t flags) const;

  Device* device_;
  mutable unsigned recorded_;
  StreamHandle handle_;
  std::vector<Bytes> kept_;
};

// Nothing if the backend has no streams.
std::optional<Stream> stream_if_any(Device& device);

// A program's text as an argument struct of the ABI. Borrows `bytes`.
yoke_compile_args program_text(std::string_view bytes);
// A range of a buffer, by default all of it.
yoke_binding binding(const Buffer& buffer, std::uint64_t offset = 0);

Code compile(const Device& device, std::string_view text);
yoke_entry_info describe_entry(const Plugin& plugin, const Code& code, std::uint32_t entry = 0);
// The workspace that an entry needs; an empty handle if it needs none.
Buffer workspace_for(Device& device, const Code& code, std::uint32_t entry = 0);
Routine link(const Plugin& plugin, const Code& code, std::uint32_t entry,
             std::span<const yoke_binding> bindings, const yoke_binding& workspace = {});
// Launches on `stream`, or with a NULL stream, and waits until the launch is done.
void launch(const Plugin& plugin, const Routine& routine, std::span<const std::int64_t> symbols = {},
            const Stream* stream = nullptr);
inline yoke_stream* raw_of(const std::optional<Stream>& stream) {
  return stream ? stream->get() : nullptr;
}

// Arms a fault of yoke.fault/1. Throws Unsupported if the plugin cannot produce it.
void arm_fault(const Plugin& plugin, yoke_device* device, std::int32_t kind, std::uint64_t nth,
               std::uint64_t delay_ns = 0);

// Loses the device by a fault of yoke.fault/1. Throws Unsupported as arm_fault.
void lose_device(Device& device);

// Fails unless a creating call fails with `code` and a text, and leaves its out-parameter unchanged.
template <class T>
void expect_no_object(std::int32_t code, const std::string& doing, const std::function<Answer(T**)>& create) {
  T* untouched = nullptr;
  untouched = reinterpret_cast<T*>(&untouched);
  T* out = untouched;
  const Answer answer = create(&out);
  expect_code(answer, code, doing);
  check(out == untouched, doing, ": ", answer.function, " failed but wrote its out-parameter");
}
void expect_no_buffer(const Device& device, std::uint64_t byte_count, std::int32_t kind, std::int32_t code,
                      const std::string& doing);

// Fails if two of the ranges from `first` to before `second` overlap.
void check_disjoint(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges, const char* what);

// Runs body(0) to body(count - 1), each on its own thread, and rethrows the first exception.
void run_threads(unsigned count, const std::function<void(unsigned)>& body);

// Runs `body` in a forked child with a time limit, and returns its result, or how the child ended.
std::string in_child(const std::function<std::string()>& body);

// The number of threads of this process.
std::size_t thread_count();

// The number of threads of this process, once it is at most `most` or after `tries` times 10 ms: a thread that was
// joined may still be listed.
std::size_t wait_for_threads(std::size_t most, int tries);

// Whether the kit or the plugin runs with a sanitizer, which keeps freed memory and needs shadow memory.
bool is_sanitized();

// "2 buffers, 1 event"; empty if nothing is alive.
std::string alive_text(const yoke_live_counts& live);
// Fails if the plugin reports a live object.
void check_nothing_alive(const Plugin& plugin, const std::string& when);

}  // namespace yoke::conformance
