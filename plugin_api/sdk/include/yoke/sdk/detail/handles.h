// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/handles.h: the ABI's opaque handles in a plugin built on the SDK.
#pragma once

#include <yoke/sdk/detail/faults.h>
#include <yoke/sdk/detail/fork_guard.h>
#include <yoke/sdk/detail/profile.h>
#include <yoke/sdk/plugin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace yoke::sdk::detail {

enum Kind : std::size_t {
  kDevice,
  kBuffer,
  kStream,
  kEvent,
  kCode,
  kRoutine,
  kPinned,
  kCommunicator,
  kKindCount
};

using Counters = std::array<std::atomic<std::uint64_t>, kKindCount>;

// The plugin's own object. Its base class is the ABI's frozen prefix.
struct PluginState final : yoke_plugin {
  PluginState() : yoke_plugin{} {}

  Host host;
  std::unique_ptr<Backend> backend;
  Provides provides;
  std::vector<OptionSpec> option_specs;  // owns the strings of the rows that option_specs() returns
  Counters live{};
  ForkGuard fork_guard;
  std::mutex communicators_mutex;  // guards the list and each communicator's streams
  std::vector<yoke_communicator*> communicators;
};

inline PluginState& state_of(yoke_plugin* plugin) noexcept {
  return *static_cast<PluginState*>(plugin);
}

}  // namespace yoke::sdk::detail

struct yoke_device {
  yoke_device(yoke::sdk::detail::PluginState& owner, std::uint32_t number,
              std::unique_ptr<yoke::sdk::Device> opened)
      : plugin(owner), ordinal(number), object(std::move(opened)) {
    object->set_host(plugin.host);
    plugin.live[yoke::sdk::detail::kDevice].fetch_add(1, std::memory_order_relaxed);
  }
  ~yoke_device() {
    profile.clear();
    object.reset();
    plugin.live[yoke::sdk::detail::kDevice].fetch_sub(1, std::memory_order_release);
  }
  yoke_device(const yoke_device&) = delete;
  yoke_device& operator=(const yoke_device&) = delete;

  yoke::sdk::detail::PluginState& plugin;
  std::uint32_t ordinal;
  std::unique_ptr<yoke::sdk::Device> object;
  yoke::sdk::detail::Counters live{};
  yoke::sdk::detail::Faults faults;
  yoke::sdk::detail::Profile profile;
  std::atomic<std::uint64_t> reserved_bytes{0};  // of live buffers and of those that are being created
  std::atomic<std::uint64_t> used_bytes{0};      // of live buffers
  std::atomic<std::uint64_t> peak_bytes{0};
};

namespace yoke::sdk::detail {

// Counts one child while it lives. The first member of each handle, so that it is destroyed last.
class Pin {
 public:
  Pin(yoke_device& device, Kind kind) noexcept : device_(device), kind_(kind) {
    device_.live[kind].fetch_add(1, std::memory_order_relaxed);
    device_.plugin.live[kind].fetch_add(1, std::memory_order_relaxed);
  }
  ~Pin() {
    device_.plugin.live[kind_].fetch_sub(1, std::memory_order_release);
    device_.live[kind_].fetch_sub(1, std::memory_order_release);
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  yoke_device& device() const noexcept { return device_; }

 private:
  yoke_device& device_;
  Kind kind_;
};

// Counts the bytes of a buffer against the device's limit while the buffer lives, and as used from commit() on: a
// buffer that the device refuses is never used memory.
class Reservation {
 public:
  Reservation(yoke_device& device, std::uint64_t byte_count) : device_(device), byte_count_(byte_count) {
    const std::uint64_t limit = device.object->memory_limit();
    const std::uint64_t most = limit != 0 ? limit : std::numeric_limits<std::int64_t>::max();
    std::uint64_t reserved = device.reserved_bytes.load(std::memory_order_relaxed);
    do {
      if (byte_count > most || reserved > most - byte_count) {
        throw Failure(YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                      "device " + std::to_string(device.ordinal) +
                          " is out of memory: " + std::to_string(byte_count) + " bytes requested, " +
                          std::to_string(reserved) + " of " + std::to_string(most) + " in use");
      }
    } while (!device.reserved_bytes.compare_exchange_weak(reserved, reserved + byte_count));
  }
  ~Reservation() {
    device_.used_bytes.fetch_sub(is_used_ ? byte_count_ : 0);
    device_.reserved_bytes.fetch_sub(byte_count_);
  }
  void commit() {
    is_used_ = true;
    const std::uint64_t used = device_.used_bytes.fetch_add(byte_count_) + byte_count_;
    std::uint64_t peak = device_.peak_bytes.load(std::memory_order_relaxed);
    while (peak < used && !device_.peak_bytes.compare_exchange_weak(peak, used)) {
    }
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

 private:
  yoke_device& device_;
  std::uint64_t byte_count_;
  bool is_used_ = false;
};

// The base of every child handle.
template <class Object>
struct Child {
  Child(yoke_device& device, Kind kind) noexcept : pin(device, kind) {}
  yoke_device& device() const noexcept { return pin.device(); }
  PluginState& plugin() const noexcept { return pin.device().plugin; }

  Pin pin;
  std::unique_ptr<Object> object;
};

template <class T>
std::unique_ptr<T> made(std::unique_ptr<T> object, const char* what) {
  if (object == nullptr) {
    throw Failure(YOKE_STATUS_INTERNAL, std::string("the plugin's ") + what + " returned null");
  }
  return object;
}

}  // namespace yoke::sdk::detail

struct yoke_buffer : yoke::sdk::detail::Child<yoke::sdk::Buffer> {
  yoke_buffer(yoke_device& device, std::uint64_t size, std::int32_t memory_kind)
      : Child(device, yoke::sdk::detail::kBuffer),
        reservation(device, size),
        byte_count(size),
        kind(memory_kind) {
    object = yoke::sdk::detail::made(device.object->create_buffer(size, kind), "create_buffer");
    reservation.commit();
  }
  // Imported memory, which does not count against the limit.
  // `release` is called when the buffer is destroyed.
  yoke_buffer(yoke_device& device, const yoke_import_args& args)
      : Child(device, yoke::sdk::detail::kBuffer),
        reservation(device, 0),
        byte_count(args.byte_count),
        kind(args.kind),
        misalignment(args.address % YOKE_BUFFER_ALIGNMENT) {
    object = yoke::sdk::detail::made(device.object->import_buffer({args.address, args.byte_count, args.kind}),
                                     "import_buffer");
    release = args.release;
    release_user = args.user;
  }
  ~yoke_buffer() {
    object.reset();
    if (release != nullptr) {
      release(release_user);
    }
  }

  yoke::sdk::detail::Reservation reservation;
  std::uint64_t byte_count;
  std::int32_t kind;
  std::uint64_t misalignment = 0;  // of its address, from YOKE_BUFFER_ALIGNMENT
  void (*release)(void* user) = nullptr;
  void* release_user = nullptr;
};

struct yoke_stream : yoke::sdk::detail::Child<yoke::sdk::Stream> {
  yoke_stream(yoke_device& device, std::int32_t priority) : Child(device, yoke::sdk::detail::kStream) {
    object = yoke::sdk::detail::made(device.object->create_stream(priority), "create_stream");
  }
};

struct yoke_event : yoke::sdk::detail::Child<yoke::sdk::Event> {
  yoke_event(yoke_stream& stream, bool with_timing)
      : Child(stream.device(), yoke::sdk::detail::kEvent), timing(with_timing) {
    object = yoke::sdk::detail::made(stream.object->record(timing), "record");
  }

  bool timing;
};

struct yoke_code {
  yoke_code(yoke_device& device, std::string_view text)
      : pin(device, yoke::sdk::detail::kCode),
        object(yoke::sdk::detail::made(device.object->compile(text), "compile")) {}
  yoke_device& device() const noexcept { return pin.device(); }
  yoke::sdk::detail::PluginState& plugin() const noexcept { return pin.device().plugin; }

  yoke::sdk::detail::Pin pin;
  std::shared_ptr<yoke::sdk::Code> object;
};

struct yoke_routine {
  yoke_routine(yoke_code& from, std::uint32_t entry, std::span<const yoke::sdk::Binding> bindings,
               const yoke::sdk::Binding& workspace)
      : pin(from.device(), yoke::sdk::detail::kRoutine),
        code(from.object),
        name(code->entries()[entry].name),
        symbols(code->entries()[entry].symbols),
        object(yoke::sdk::detail::made(code->link(entry, bindings, workspace), "link")) {}
  yoke_device& device() const noexcept { return pin.device(); }
  yoke::sdk::detail::PluginState& plugin() const noexcept { return pin.device().plugin; }

  yoke::sdk::detail::Pin pin;
  std::shared_ptr<yoke::sdk::Code> code;  // outlives `object`, as it is declared before it
  std::string_view name;                  // of the program
  std::span<const yoke::sdk::SymbolRange> symbols;
  std::unique_ptr<yoke::sdk::Routine> object;
};

struct yoke_communicator : yoke::sdk::detail::Child<yoke::sdk::Communicator> {
  yoke_communicator(yoke_device& device, const yoke::sdk::GroupId& id, std::uint32_t its_rank,
                    std::uint32_t group_size)
      : Child(device, yoke::sdk::detail::kCommunicator),
        rank(its_rank),
        size(group_size),
        info(device.object->collectives()) {
    object = yoke::sdk::detail::made(device.object->join_group(id, rank, size), "join_group");
    const std::lock_guard lock(plugin().communicators_mutex);
    plugin().communicators.push_back(this);
  }
  ~yoke_communicator() {
    {
      const std::lock_guard lock(plugin().communicators_mutex);
      std::erase(plugin().communicators, this);
    }
    object.reset();
  }

  std::uint32_t rank;
  std::uint32_t size;
  yoke::sdk::CollectivesInfo info;
  std::vector<const yoke_stream*> streams;  // where its work was queued
};

namespace yoke::sdk::detail {

// Calls `visit` for each communicator and each stream where its work was queued.
template <class Visit>
void for_each_used_stream(PluginState& plugin, const Visit& visit) {
  const std::lock_guard lock(plugin.communicators_mutex);
  for (yoke_communicator* communicator : plugin.communicators) {
    for (std::size_t i = communicator->streams.size(); i-- > 0;) {
      visit(*communicator, i);
    }
  }
}

}  // namespace yoke::sdk::detail

namespace yoke::sdk {

// The objects of handles, for a plugin's own tables (Backend::table).
inline Device& object_of(yoke_device* device) noexcept {
  return *device->object;
}
inline Buffer& object_of(yoke_buffer* buffer) noexcept {
  return *buffer->object;
}
inline Stream& object_of(yoke_stream* stream) noexcept {
  return *stream->object;
}

}  // namespace yoke::sdk
