// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/plugin.h: the classes that a plugin derives from. entry.h makes a plugin of
// them.
//
// The SDK has already checked what it can before it calls: ordinals, option names, types and ranges, ranges
// of copies, counts and alignment of bindings, values of symbols. It keeps the live counters, and destroys
// children before their device. Every virtual function may throw (Failure, std::bad_alloc, ...): nothing gets
// across the boundary. Threads: as backend.h says for the function of the same name.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/fault.h>
#include <yoke/sdk/failure.h>
#include <yoke/sdk/host.h>
#include <yoke/sdk/options.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::sdk {

// A point behind the work queued on a stream so far. It may outlive its stream.
class Event {
 public:
  virtual ~Event() = default;
  // Throws the first error of the work before it.
  virtual bool done() = 0;
  // Throws that error, or YOKE_DEADLINE_EXCEEDED after `timeout_ns` nanoseconds.
  virtual void wait(std::uint64_t timeout_ns) = 0;
  // Nanoseconds from `start` (of the same backend) to this event; both are done.
  virtual std::uint64_t elapsed_since(Event& start);

 protected:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

// Work done in order. Only for backends that provide streams; the others only ever see a null Stream*: done
// on return.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual bool done() = 0;
  virtual void wait(std::uint64_t timeout_ns) = 0;
  virtual std::unique_ptr<Event> record() = 0;
  virtual void wait_event(Event& event) = 0;
  virtual std::string debug_text() { return {}; }

  // For a backend that provides faults ("yoke.fault/1"). Queues work that fails with `failure`, in place of a
  // copy or a launch: what is behind it, and every wait from then on, fails with it.
  virtual void poison(const Failure& failure);
  // Queues work that takes `delay_ns` nanoseconds.
  virtual void pause(std::uint64_t delay_ns);

 protected:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

// Memory of one device. A buffer with a host address needs nothing else: the copies below then work on that
// address at once, which is right for a null stream and for streams that are done whenever they are asked.
class Buffer {
 public:
  virtual ~Buffer() = default;
  // Aligned to 64 bytes; null: the host cannot address it, and every copy is overridden.
  virtual void* host_address() noexcept { return nullptr; }
  // Gives back YOKE_SOURCE_*.
  virtual std::int32_t from_host(Stream* stream, std::uint64_t offset, const void* source,
                                 std::uint64_t byte_count);
  virtual void to_host(Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count);
  // `source` is of the same backend, maybe of another device.
  virtual void copy_from(Stream* stream, std::uint64_t offset, Buffer& source, std::uint64_t source_offset,
                         std::uint64_t byte_count);
  // `pattern` has 1, 2, 4 or 8 bytes, and `byte_count` is a multiple of its size.
  virtual void fill(Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                    std::span<const std::byte> pattern);

 protected:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

// Where one argument lives, or the workspace (buffer null: none was wanted).
struct Binding {
  Buffer* buffer = nullptr;
  std::uint64_t offset = 0;

  // For buffers with a host address.
  void* host_address() const noexcept {
    return buffer == nullptr ? nullptr : static_cast<std::byte*>(buffer->host_address()) + offset;
  }
};

// Code bound to memory.
class Routine {
 public:
  virtual ~Routine() = default;
  virtual void launch(Stream* stream, std::span<const std::int64_t> symbol_values) = 0;

 protected:
  Routine() = default;
  Routine(const Routine&) = delete;
  Routine& operator=(const Routine&) = delete;
};

struct Argument {
  std::string name;
  std::int32_t type = YOKE_F32;
  std::int32_t access = YOKE_ACCESS_IN;
  std::vector<std::uint64_t> dims;
  std::uint64_t byte_count = 0;
  std::uint32_t alignment = 1;  // the element's size: offsets are multiples of it
};

// low, low + step, ... below high.
struct SymbolRange {
  std::string name;
  std::int64_t low = 0;
  std::int64_t high = 1;
  std::int64_t step = 1;
};

// What the host learns about one compiled program. program.h makes it from a parsed one.
struct Entry {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<SymbolRange> symbols;
  std::uint64_t workspace_byte_count = 0;
  bool deterministic = true;
  std::string fingerprint;
};

// A compiled text. The SDK keeps it alive for as long as a routine linked from it lives.
class Code {
 public:
  virtual ~Code() = default;
  // One per program, in the text's order; the same on every call.
  virtual std::span<const Entry> entries() const = 0;
  // One binding per argument. Each fits, is aligned, and overlaps no other where one of them is written.
  virtual std::unique_ptr<Routine> link(std::uint32_t entry, std::span<const Binding> bindings,
                                        const Binding& workspace) = 0;

 protected:
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

struct Verdict {
  std::uint32_t program = 0;
  std::uint32_t statement = 0;
  std::int32_t verdict = YOKE_VERDICT_NATIVE;
  std::string reason;
};

// An opened device.
class Device {
 public:
  virtual ~Device() = default;
  // 0: no limit but the machine's. The SDK counts what live buffers use, and refuses what would pass the
  // limit.
  virtual std::uint64_t memory_limit() { return 0; }
  // The default is host memory for both kinds. Throws YOKE_OUT_OF_DEVICE_MEMORY.
  virtual std::unique_ptr<Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind);
  // May routines of this device be linked with buffers of `other`?
  virtual bool peer_access(Device& other) { return this == &other; }
  // Programs: `text` is in yoke's program format, version 1. Throws YOKE_INVALID_ARGUMENT with line and
  // reason for a text that is no valid program, YOKE_UNIMPLEMENTED for a statement that is unsupported.
  virtual std::unique_ptr<Code> compile(std::string_view text);
  virtual std::vector<Verdict> can_compile(std::string_view text);
  // Streams.
  virtual std::unique_ptr<Stream> create_stream(std::int32_t priority);
  virtual void abort();
  // Faults: can one of this kind (YOKE_FAULT_*) be brought about? The SDK makes calls fail, and asks a stream
  // to poison() and pause() for what is queued. With WorkerStream, or a pause() of your own: all, so true.
  virtual bool can_fail(std::int32_t kind) { return kind != YOKE_FAULT_EVENT_LATE; }

  // The backend's. Set before the first virtual call, after open_device.
  const Host& host() const noexcept { return host_; }
  void set_host(const Host& host) noexcept { host_ = host; }

 protected:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

 private:
  Host host_;
};

struct DeviceInfo {
  std::string name;
  std::string unique_id;
  std::uint64_t memory_bytes = 0;
  std::vector<std::int32_t> types = {YOKE_F32};  // that programs compute with: YOKE_F64, YOKE_I32, ...
  std::int32_t kind = YOKE_DEVICE_OTHER;
  std::uint32_t compute_unit_count = 1;
  std::uint32_t suggested_stream_count = 1;
  bool host_visible = false;
  std::int32_t numa_node = -1;
};

// Which tables beyond tier 0 the host gets to see.
struct Provides {
  bool streams = false;
  bool programs = false;
  bool peers = false;
  bool faults = false;  // fails on purpose, for tests
};

// The plugin. Constructed when the plugin is entered: the constructor opens nothing, starts nothing and
// prints nothing.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Provides provides() const = 0;
  virtual std::uint32_t device_count() = 0;
  // Asked when there is no device: what is missing and what would mend it.
  virtual std::string why_no_device() { return {}; }
  virtual DeviceInfo describe(std::uint32_t ordinal) = 0;
  // What open_device understands; the same on every call.
  virtual std::vector<OptionSpec> option_specs() { return {}; }
  virtual std::unique_ptr<Device> open_device(std::uint32_t ordinal, const Options& options) = 0;

  // Set before the first virtual call, after the constructor.
  const Host& host() const noexcept { return host_; }
  void set_host(const Host& host) noexcept { host_ = host; }

 protected:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

 private:
  Host host_;
};

}  // namespace yoke::sdk

#include <yoke/sdk/host_memory.h>  // the default implementations
