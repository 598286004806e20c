// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/plugin.h: the base classes of a plugin. entry.h makes a plugin from them.
//
// Before calling a virtual function, the SDK checks ordinals, flags, options, ranges of copies, the number,
// size, alignment and overlap of bindings, and values of symbols. It maintains the live counts and keeps a
// device open while its objects are alive. Virtual functions may throw (Failure, std::bad_alloc, ...); the
// SDK converts exceptions to status codes. Threads: as backend.h states for the function of the same name.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/memory.h>
#include <yoke/sdk/failure.h>
#include <yoke/sdk/host.h>
#include <yoke/sdk/options.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::sdk {

// A handle of the backend's driver, for yoke_native_info.
struct Native {
  std::string api;  // "cuda", "opencl", "host"
  std::uint64_t handle = 0;
  std::uint64_t context = 0;
};

// A point after the work queued on a stream so far. It may outlive its stream.
class Event {
 public:
  virtual ~Event() = default;
  // Returns YOKE_STATE_*. A failure of the work is a state and is not thrown.
  virtual std::int32_t state() = 0;
  // Waits until the work before the event is quiescent (backend.h), then throws the first error of that work,
  // if any. Throws YOKE_STATUS_DEADLINE_EXCEEDED after `timeout_ns` nanoseconds.
  virtual void wait(std::uint64_t timeout_ns) = 0;
  // Nanoseconds from `start`, an event of the same backend, to this event.
  // Both are done and were recorded with timing.
  virtual std::uint64_t elapsed_since(Event& start);
  // The time of the event on the host's steady clock, for "yoke.profile/1". It is done and has timing.
  virtual std::uint64_t time_ns();

 protected:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

// A queue of work that runs in order. A backend without streams always receives a null Stream* and must
// finish the work before it returns.
class Stream {
 public:
  virtual ~Stream() = default;
  // As Event::state and Event::wait, for all work queued so far and for any earlier failure of the stream.
  virtual std::int32_t state() = 0;
  virtual void wait(std::uint64_t timeout_ns) = 0;
  // `timing`: elapsed_since may be called with the event.
  virtual std::unique_ptr<Event> record(bool timing) = 0;
  // `event` may belong to another device of this backend. The stream inherits its error.
  virtual void wait_event(Event& event) = 0;
  // Cancels all queued work without waiting for it (stream_abort in backend.h).
  virtual void abort();
  // Calls callback(user, status) once, after all work queued so far has finished, failed or been skipped.
  virtual void host_callback(yoke_host_callback_fn callback, void* user);
  virtual Native native();
  virtual std::string debug_text() { return {}; }

  // For backends that simulate faults ("yoke.fault/1"): queues work that fails
  // with `failure`, in place of a copy or launch.
  virtual void poison(const Failure& failure);
  // Queues work that takes `delay_ns` nanoseconds.
  virtual void pause(std::uint64_t delay_ns);

 protected:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

// Memory of one device. A buffer with a host address needs no other function: the default copies access that
// address immediately, unless the stream has failed. That is correct for a null stream and for streams that
// never have pending work.
class Buffer {
 public:
  virtual ~Buffer() = default;
  // Aligned to YOKE_BUFFER_ALIGNMENT. Null if the host cannot address the buffer; then override every copy.
  virtual void* host_address() noexcept { return nullptr; }
  // The address in the device's address space, for "yoke.memory/1". The default is the host address.
  virtual std::uint64_t device_address();
  // Returns YOKE_SOURCE_*.
  virtual std::int32_t from_host(Stream* stream, std::uint64_t offset, const void* source,
                                 std::uint64_t byte_count);
  virtual void to_host(Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count);
  // `source` is of the same backend and may belong to another device.
  virtual void copy_from(Stream* stream, std::uint64_t offset, Buffer& source, std::uint64_t source_offset,
                         std::uint64_t byte_count);
  // `pattern` has 1, 2, 4 or 8 bytes; `byte_count` is a multiple of its size.
  virtual void fill(Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                    std::span<const std::byte> pattern);

 protected:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

// The memory of one argument or of the workspace. The buffer is null if there is no workspace.
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
  std::int32_t type = YOKE_TYPE_F32;
  std::int32_t access = YOKE_ACCESS_IN;
  std::vector<std::uint64_t> dims;
  std::uint64_t byte_count = 0;
  // The alignment of its address: a power of two from the element's size to YOKE_BUFFER_ALIGNMENT.
  std::uint32_t alignment = 1;
};

// The values low, low + step, ... that are less than high.
struct SymbolRange {
  std::string name;
  std::int64_t low = 0;
  std::int64_t high = 1;
  std::int64_t step = 1;
};

// The description of one compiled program. entry_of (program.h) makes it from a parsed program.
struct Entry {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<SymbolRange> symbols;
  std::uint64_t workspace_byte_count = 0;
  bool deterministic = true;
  std::string fingerprint;
};

// A compiled text. The SDK keeps it alive as long as routines linked from it live.
class Code {
 public:
  virtual ~Code() = default;
  // One entry per program, in the order of the text. Must return the same entries on every call.
  virtual std::span<const Entry> entries() const = 0;
  // One binding per argument. Each is large enough and aligned; a range
  // that is written does not overlap any other.
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

// Memory that another library allocated, for "yoke.memory/1". The SDK calls the release callback.
struct Import {
  std::uint64_t address = 0;
  std::uint64_t byte_count = 0;
  std::int32_t kind = YOKE_MEMORY_HOST;
};

// What a device offers in "yoke.collectives/1" (ext/collectives.h).
struct CollectivesInfo {
  std::vector<std::int32_t> sum_types;    // YOKE_TYPE_*
  std::vector<std::int32_t> order_types;  // of maxima and minima
  std::int32_t sum_order = YOKE_SUM_ORDER_ANY;
  std::uint64_t features = 0;      // YOKE_COLLECTIVES_*
  std::uint32_t member_limit = 0;  // of the members of a group in one process; 0: none
};

using GroupId = std::array<std::uint8_t, YOKE_GROUP_ID_BYTES>;

// A member of a group of devices.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Returns YOKE_STATE_*: pending until all members have joined.
  virtual std::int32_t state() = 0;
  // Waits until all members have joined. Throws the first error of the communicator, and
  // YOKE_STATUS_DEADLINE_EXCEEDED after `timeout_ns` nanoseconds.
  virtual void wait(std::uint64_t timeout_ns) = 0;
  // Cancels the communicator's work without waiting for it. The SDK also calls it when a stream or device
  // with work of the communicator is aborted.
  virtual void abort() = 0;

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
};

// The part of one member in a collective. Kinds, ranges and types are valid.
struct Collective {
  Communicator* communicator = nullptr;
  Stream* stream = nullptr;
  Buffer* source = nullptr;  // may be null in a broadcast of another member
  std::uint64_t source_offset = 0;
  Buffer* target = nullptr;
  std::uint64_t target_offset = 0;
  std::uint64_t count = 0;  // elements of a part
  std::int32_t kind = YOKE_COLLECTIVE_ALL_REDUCE;
  std::int32_t type = YOKE_TYPE_F32;
  std::int32_t reduction = YOKE_REDUCTION_SUM;
  std::uint32_t root = 0;
};

// An opened device.
class Device {
 public:
  virtual ~Device() = default;
  // The SDK counts the bytes of live buffers and refuses buffers beyond
  // this limit. 0: limited only by the hardware.
  virtual std::uint64_t memory_limit() { return 0; }
  // The default allocates host memory for both kinds. Throws YOKE_STATUS_OUT_OF_DEVICE_MEMORY.
  virtual std::unique_ptr<Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind);
  // Whether routines of this device may be linked with buffers of `other`. Called if Provides::peers is set; false
  // makes the host copy buffers between the two.
  virtual bool peer_access(Device& other) { return this == &other; }

  // Programs in yoke's program format, version 1. Throw YOKE_STATUS_INVALID_ARGUMENT with
  // line and reason for an invalid text, and compile throws YOKE_STATUS_UNIMPLEMENTED for an
  // unsupported statement. can_compile compiles nothing.
  virtual std::unique_ptr<Code> compile(std::string_view text);
  virtual std::vector<Verdict> can_compile(std::string_view text);

  // Streams.
  virtual std::unique_ptr<Stream> create_stream(std::int32_t priority);
  virtual void abort();

  // "yoke.memory/1". By default, pinned memory is allocated from the host, aligned to YOKE_BUFFER_ALIGNMENT.
  // Return null if there is not enough memory.
  virtual void* pinned_allocate(std::uint64_t byte_count);
  virtual void pinned_free(void* memory) noexcept;
  virtual std::unique_ptr<Buffer> import_buffer(const Import& memory);
  virtual Native native();

  // "yoke.collectives/1". join_group does not wait for other members.
  virtual CollectivesInfo collectives();
  virtual GroupId create_group_id();
  virtual std::unique_ptr<Communicator> join_group(const GroupId& id, std::uint32_t rank, std::uint32_t size);

  // "yoke.fault/1": whether the backend can simulate faults of `kind` (YOKE_FAULT_*). The
  // SDK makes calls fail, and calls Stream::poison and Stream::pause for queued work.
  // Return true with WorkerStream, which supports every kind.
  virtual bool can_fail(std::int32_t kind) { return kind != YOKE_FAULT_EVENT_LATE; }

  // The backend's host. Set after open_device, before any other virtual call.
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
  std::string name;       // not empty
  std::string unique_id;  // not empty; the same for the same hardware in every process
  std::uint64_t memory_bytes = 0;
  std::vector<std::int32_t> types = {YOKE_TYPE_F32};  // that programs may compute with
  std::int32_t kind = YOKE_DEVICE_OTHER;
  std::uint32_t compute_unit_count = 1;
  std::uint32_t suggested_stream_count = 1;
  bool host_visible = false;
  std::int32_t numa_node = -1;
};

// The tables beyond tier 0 that the plugin offers.
struct Provides {
  bool streams = false;
  bool programs = false;
  bool peers = false;
  bool memory = false;       // "yoke.memory/1"
  bool faults = false;       // "yoke.fault/1"
  bool collectives = false;  // "yoke.collectives/1"; needs streams
  bool profile = false;      // "yoke.profile/1"; override Event::time_ns
};

// The plugin, constructed when the plugin is entered. It must not start a thread or load a driver before the
// first device_count, and must not print.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Provides provides() const = 0;
  // May start the driver and block.
  virtual std::uint32_t device_count() = 0;
  // Called if device_count returns 0. Explains why there are no devices and how to fix it.
  virtual std::string why_no_device() { return {}; }
  virtual DeviceInfo describe(std::uint32_t ordinal) = 0;
  // The options of open_device and, with OptionSpec::for_plugin, of
  // configure. Must be the same on every call.
  virtual std::vector<OptionSpec> option_specs() { return {}; }
  // Called once when the plugin is entered, with the options of the whole plugin.
  virtual void configure(const Options&) {}
  virtual std::unique_ptr<Device> open_device(std::uint32_t ordinal, const Options& options) = 0;
  // Queues the rows of one call of "yoke.collectives/1", all or none: on failure it throws before the first.
  virtual void queue_collectives(std::span<const Collective> rows);
  // Returns an additional table, or null. It starts with its struct_size and must
  // live as long as the plugin. Its functions receive the handles of backend.h;
  // object_of (detail/handles.h) returns the object of such a handle.
  virtual const void* table(std::string_view id) {
    (void)id;
    return nullptr;
  }

  // Set after construction, before any virtual call.
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
