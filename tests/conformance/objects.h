// SPDX-License-Identifier: Apache-2.0
// tests/conformance/objects.h: the ABI's handles as C++ objects, for tests that need one and are not about
// making it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kit.h"

namespace yoke::conformance {

// No wait of the kit is longer: a third of --timeout, so that a wait that does not end fails in its own
// words.
std::uint64_t longest_wait_ns();

// For what is asked again and again until it is so: passed after the longest wait.
class Patience {
 public:
  bool is_over() const { return std::chrono::steady_clock::now() > end_; }

 private:
  std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(longest_wait_ns());
};

// Owns a handle that a function of the plugin made; the destroy function ends it. Movable.
template <class T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  Handle(const Plugin& plugin, T* raw) : plugin_(&plugin), raw_(raw) {}
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

using Code = Handle<yoke_code, &yoke_program_api::code_destroy>;
using Routine = Handle<yoke_routine, &yoke_program_api::routine_destroy>;

// An opened device. Closing it is checked where the test is not already failing.
class Device {
 public:
  Device(Kit& kit, Plugin& plugin, std::uint32_t ordinal, const std::vector<yoke_option>& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Kit& kit() const { return kit_; }
  Plugin& plugin() const { return plugin_; }
  yoke_device* get() const { return raw_; }
  yoke_memory_info memory() const;
  void close();  // Failed when the plugin refuses

 private:
  Kit& kit_;
  Plugin& plugin_;
  yoke_device* raw_ = nullptr;
};

class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::uint64_t byte_count, std::int32_t kind = YOKE_MEMORY_DEVICE);

  yoke_buffer* get() const { return handle_.get(); }
  std::uint64_t byte_count() const { return byte_count_; }
  void reset() { handle_.reset(); }
  yoke_buffer_info describe() const;

  // With a NULL stream, done on return; they fail the test when the plugin refuses.
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;
  std::vector<std::byte> contents() const;

 private:
  const Plugin* plugin_ = nullptr;
  std::uint64_t byte_count_ = 0;
  Handle<yoke_buffer, &yoke_backend_api::buffer_destroy> handle_;
};

class Event {
 public:
  Event() = default;
  Event(const Plugin& plugin, yoke_event* raw) : plugin_(&plugin), handle_(plugin, raw) {}

  yoke_event* get() const { return handle_.get(); }
  void reset() { handle_.reset(); }
  bool done() const;
  Answer wait(std::uint64_t timeout_ns = longest_wait_ns()) const;

 private:
  const Plugin* plugin_ = nullptr;
  Handle<yoke_event, &yoke_stream_api::event_destroy> handle_;
};

// A stream of the backend's own: Unsupported where it has none. Waits (bounded) before it goes.
class Stream {
 public:
  explicit Stream(Device& device, std::int32_t priority = 0);
  ~Stream();
  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = delete;

  yoke_stream* get() const { return handle_.get(); }
  Device& device() const { return *device_; }
  Event record() const;
  void wait_for(const Event& event) const;
  bool done() const;
  Answer wait(std::uint64_t timeout_ns = longest_wait_ns()) const;
  void synchronize() const;  // Failed when the wait does not answer OK

  // Queued; `bytes` are kept alive as the plugin asks: until the stream's next synchronize().
  void write(const Buffer& target, std::uint64_t offset, std::vector<std::byte> bytes);
  void read(const Buffer& source, std::uint64_t offset, std::span<std::byte> bytes) const;
  void copy(const Buffer& target, std::uint64_t target_offset, const Buffer& source,
            std::uint64_t source_offset, std::uint64_t byte_count) const;

 private:
  Device* device_;
  Handle<yoke_stream, &yoke_stream_api::stream_destroy> handle_;
  std::vector<std::vector<std::byte>> kept_;
};

// Runs body(0) ... body(count - 1), each on a thread of its own; the first failure of one is thrown here.
void run_threads(unsigned count, const std::function<void(unsigned)>& body);

// The threads that this process has now.
std::size_t thread_count();

// A struct with its struct_size set.
template <class T>
T sized() {
  T made{};
  made.struct_size = sizeof(T);
  return made;
}

}  // namespace yoke::conformance
