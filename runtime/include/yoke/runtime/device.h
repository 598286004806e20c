// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/device.h: RAII over devices, buffers, code and routines of a backend.
#pragma once

#include <yoke/runtime/runtime.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

class Stream;
namespace detail {
class Hazards;  // who last wrote and read which range of a buffer
class Compilation;
}  // namespace detail

// An open device. Thread-safe.
class Device : public std::enable_shared_from_this<Device> {
 public:
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::shared_ptr<Backend>& backend() const { return backend_; }
  std::uint32_t ordinal() const { return ordinal_; }
  const DeviceInfo& info() const { return info_; }
  const std::string& name() const { return name_; }  // "cc:0", as messages name it
  yoke_memory_info memory() const;
  yoke_device* get() const { return handle_; }
  // May routines here use buffers of `other` in place: same device handle, or the backend's yoke.peer/1 says
  // so.
  bool can_access(const Device& other) const;
  // Once a call has answered kDeviceLost the device stays lost: every stream on it answers the same.
  bool is_lost() const noexcept { return lost_.load(); }
  void set_lost() noexcept { lost_.store(true); }
  std::uint32_t next_stream_number() noexcept { return stream_count_.fetch_add(1); }  // for names

 private:
  friend class Backend;
  Device(std::shared_ptr<Backend> backend, std::uint32_t ordinal, std::span<const Option> options);
  std::shared_ptr<Backend> backend_;
  std::uint32_t ordinal_;
  DeviceInfo info_;
  std::string name_;
  yoke_device* handle_ = nullptr;
  std::atomic<bool> lost_{false};
  std::atomic<std::uint32_t> stream_count_{0};
};

// Owns one allocation on one device. The last owner waits (bounded) for queued work that uses it before it is
// freed.
class Buffer {
 public:
  // Throws Error kOutOfDeviceMemory when the device has no room.
  Buffer(std::shared_ptr<Device> device, std::uint64_t byte_count, std::int32_t kind = YOKE_MEMORY_DEVICE);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  std::uint64_t byte_count() const { return byte_count_; }
  yoke_buffer* get() const { return handle_; }
  detail::Hazards& hazards() const { return *hazards_; }

 private:
  std::shared_ptr<Device> device_;
  std::uint64_t byte_count_;
  yoke_buffer* handle_ = nullptr;
  std::unique_ptr<detail::Hazards> hazards_;
};

// A part of a buffer; keeps the buffer alive.
struct BufferView {
  std::shared_ptr<Buffer> buffer;
  std::uint64_t offset = 0;
  std::uint64_t byte_count = 0;
};

struct ArgumentInfo {
  std::string name;
  std::int32_t type = 0;    // YOKE_F32 ...
  std::int32_t access = 0;  // YOKE_ACCESS_*
  std::vector<std::uint64_t> dims;
  std::uint64_t byte_count = 0;
};

struct SymbolInfo {
  std::string name;
  std::int64_t low = 0, high = 1, step = 1;  // high excluded
};

// One program, compiled for one device (good on every device handle of the same kind of device only if the
// backend says so: today, for the device it was compiled for).
class Code {
 public:
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
  const Entry& entry(std::string_view name) const;  // Error kNotFound lists the names
  std::uint32_t entry_number(std::string_view name) const;
  yoke_code* get() const { return handle_; }         // null where another backend runs it
  const std::string& text() const { return text_; }  // what the backend was given
  // Null: the device's backend runs it. Else the same programs on the fallback device; entries() counts no
  // workspace then, because none of it is on device().
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

// Verifies, optimizes (runtime/program) and compiles a text; equal texts on one device are compiled once per
// runtime while the code lives. A text with a statement that the backend does not run is compiled, whole, for
// RuntimeOptions::fallback_backend, unless the runtime is strict. Throws Error with line and reason.
std::shared_ptr<const Code> compile(const std::shared_ptr<Device>& device, std::string_view program_text);

// How many texts this runtime gave to backends to compile so far (cache hits not counted): for tests and
// reports.
std::uint64_t compile_count(const Runtime& runtime);

}  // namespace yoke
