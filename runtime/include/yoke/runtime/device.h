// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/device.h: devices, buffers and compiled code as C++ objects.
#pragma once

#include <yoke/runtime/runtime.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

class Stream;
namespace detail {
class Hazards;  // which stream last wrote and read which bytes of a buffer
class Compilation;
class WorkProfile;
}  // namespace detail

// A handle of the driver under a backend, for libraries that share the
// device with yoke (yoke/ext/memory.h). Borrowed.
struct NativeHandle {
  std::string api;  // "cuda", "hip", "opencl", "host"
  std::uint64_t handle = 0;
  std::uint64_t context = 0;  // 0: none
};

// An open device. Thread-safe.
class Device : public std::enable_shared_from_this<Device> {
 public:
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::shared_ptr<Backend>& backend() const { return backend_; }
  std::uint32_t ordinal() const { return ordinal_; }
  const DeviceInfo& info() const { return info_; }
  // "cc:0", as in messages.
  const std::string& name() const { return name_; }
  // Unique among all handles that a runtime has opened, of all backends. info().unique_id names the device itself.
  std::uint64_t id() const { return id_; }
  // The streams of this handle that exist, in order of creation.
  std::vector<std::shared_ptr<Stream>> streams() const;
  yoke_memory_info memory() const;
  yoke_device* get() const { return handle_; }
  // Throws Error kUnimplemented if the backend lacks yoke.memory/1 or such a handle.
  NativeHandle native() const;
  // Whether both handles denote the same device. Streams, buffers, events and routines of one handle can
  // then be used with those of the other.
  bool is_same(const Device& other) const { return backend_ == other.backend_ && ordinal_ == other.ordinal_; }
  // Whether routines of this device can use buffers of `other` in place: the devices are the same, or
  // the backend's yoke.peer/1 allows it.
  bool can_access(const Device& other) const;
  // A device is lost once a call has failed with kDeviceLost. Every
  // stream of a lost device fails with kDeviceLost.
  bool is_lost() const noexcept { return lost_.load(); }
  void set_lost() noexcept { lost_.store(true); }
  detail::WorkProfile* profile() const { return profile_.get(); }  // internal; may be null
  // The number of the next stream, for its name.
  std::uint32_t next_stream_number() noexcept { return stream_count_.fetch_add(1); }

 private:
  friend class Backend;
  Device(std::shared_ptr<Backend> backend, std::uint32_t ordinal, std::span<const Option> options);
  std::shared_ptr<Backend> backend_;
  std::uint32_t ordinal_;
  std::uint64_t id_;
  DeviceInfo info_;
  std::string name_;
  yoke_device* handle_ = nullptr;
  std::unique_ptr<detail::WorkProfile> profile_;
  std::atomic<bool> lost_{false};
  std::atomic<std::uint32_t> stream_count_{0};
};

// Memory that another library allocated.
struct ForeignMemory {
  std::uint64_t address = 0;  // in the device's address space; for YOKE_MEMORY_HOST in the host's
  std::uint64_t byte_count = 0;
  std::int32_t kind = YOKE_MEMORY_DEVICE;
  // Called once, when the buffer is destroyed. It must not use objects of yoke. An exception is logged and
  // dropped. May be empty.
  std::function<void()> release = {};
};

// Owns one allocation on one device. The destructor waits, at most RuntimeOptions::wait_timeout, for queued
// work that uses the buffer. If the work does not finish, the memory is leaked and an error is logged.
class Buffer {
 public:
  // Throws Error kOutOfDeviceMemory, or kInvalidArgument if the device is null.
  Buffer(std::shared_ptr<Device> device, std::uint64_t byte_count, std::int32_t kind = YOKE_MEMORY_DEVICE);
  // Makes a buffer of foreign memory, with the backend's yoke.memory/1. The memory must
  // stay valid until `release` is called. If this throws, `release` is not called. Throws
  // Error kUnimplemented if the memory cannot be imported, kInvalidArgument if the device is null.
  static std::shared_ptr<Buffer> import(std::shared_ptr<Device> device, ForeignMemory memory);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  std::uint64_t byte_count() const { return byte_count_; }
  yoke_buffer* get() const { return handle_; }
  // The address in the device's address space, for other libraries. Throws Error kUnimplemented.
  std::uint64_t device_address() const;
  // The address of imported memory, which may have any alignment; 0 for buffers that yoke created.
  std::uint64_t import_address() const { return import_address_; }
  detail::Hazards& hazards() const { return *hazards_; }

 private:
  Buffer(std::shared_ptr<Device> device, ForeignMemory memory);
  std::shared_ptr<Device> device_;
  std::uint64_t byte_count_;
  std::uint64_t import_address_ = 0;
  yoke_buffer* handle_ = nullptr;
  std::unique_ptr<detail::Hazards> hazards_;
};

// A range of a buffer. Keeps the buffer alive.
struct BufferView {
  std::shared_ptr<Buffer> buffer;
  std::uint64_t offset = 0;
  std::uint64_t byte_count = 0;
  // Bytes after the range that belong to it and that nothing else uses. Routines whose views touch, padding
  // included, have fewer ranges of memory to order.
  std::uint64_t padding = 0;
};

struct ArgumentInfo {
  std::string name;
  std::int32_t type = 0;        // YOKE_TYPE_*
  std::int32_t access = 0;      // YOKE_ACCESS_*
  std::uint32_t alignment = 1;  // of the address to bind, in bytes
  std::vector<std::uint64_t> dims;
  std::uint64_t byte_count = 0;
};

// The values low, low + step, ... that are less than high.
struct SymbolInfo {
  std::string name;
  std::int64_t low = 0, high = 1, step = 1;
};

// A text of programs, compiled for one device: what other runtimes call an executable.
class Code {
 public:
  // One program of the text.
  struct Entry {
    std::string name;
    std::vector<ArgumentInfo> arguments;
    std::vector<SymbolInfo> symbols;
    std::uint64_t workspace_byte_count = 0;
    bool deterministic = true;
    std::string fingerprint;
  };
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  const std::shared_ptr<Device>& device() const { return device_; }
  const std::vector<Entry>& entries() const { return entries_; }
  // Both throw Error kNotFound, which lists the names.
  const Entry& entry(std::string_view name) const;
  std::uint32_t entry_number(std::string_view name) const;
  // Returns null if the code runs on the fallback device.
  yoke_code* get() const { return handle_; }
  // The optimized text, as the backend compiled it.
  const std::string& text() const { return text_; }
  // The code on the fallback device, or null if the device's own backend runs it. With a fallback,
  // entries() report no workspace, because device() holds none.
  const std::shared_ptr<const Code>& fallback() const { return fallback_; }
  const std::string& fallback_reason() const { return fallback_reason_; }

 private:
  friend std::shared_ptr<const Code> compile(const std::shared_ptr<Device>&, std::string_view);
  friend class detail::Compilation;
  Code(std::shared_ptr<Device> device, std::string text);
  std::shared_ptr<Device> device_;
  std::string text_;
  std::vector<Entry> entries_;
  yoke_code* handle_ = nullptr;
  std::shared_ptr<const Code> fallback_;
  std::string fallback_reason_;
};

// Verifies, optimizes and compiles a text. Equal texts are compiled once per device while their code lives.
// If the backend does not run one of its statements, the whole text is compiled for
// RuntimeOptions::fallback_backend, unless the runtime is strict. Throws Error: kInvalidArgument with line,
// column and reason, or if the device is null; kUnimplemented with the unsupported statements; kNotFound if
// there is no backend fallback_backend; or the backend's failure.
std::shared_ptr<const Code> compile(const std::shared_ptr<Device>& device, std::string_view program_text);

// How many texts the runtime has passed to backends for compilation, without cache hits.
// For tests and reports.
std::uint64_t compile_count(const Runtime& runtime);

}  // namespace yoke
