// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/foreign.h: pinned memory, and memory that a test lends to the plugin.
#pragma once

#include <algorithm>
#include <span>
#include <thread>

#include "kit.h"

namespace yoke::conformance {

inline std::uint64_t number_of(const void* address) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
}

struct Pinned {
  Pinned(const Device& of, std::uint64_t byte_count) : device(of) {
    const yoke_pinned_args args = {sizeof args, 0, byte_count};
    void* raw = nullptr;
    expect_ok(device.plugin().call<&yoke_memory_api::pinned_allocate>(device.get(), &args, &raw),
              text("allocating ", byte_count, " bytes of pinned memory"));
    check(raw != nullptr, "pinned_allocate returned OK but left its out-parameter NULL");
    check(number_of(raw) % YOKE_BUFFER_ALIGNMENT == 0, "the address of ", byte_count,
          " bytes of pinned memory is not a multiple of ", YOKE_BUFFER_ALIGNMENT);
    bytes = {static_cast<std::byte*>(raw), byte_count};
  }
  ~Pinned() {
    try {
      device.plugin().call<&yoke_memory_api::pinned_free>(device.get(), static_cast<void*>(bytes.data()));
    } catch (const std::exception&) {
      // The plugin lacks the function; another test reports that.
    }
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  const Device& device;
  std::span<std::byte> bytes;
};

// Memory that the test lends to the plugin.
struct Lent {
  Bytes memory;
  int releases = 0;
  std::thread::id thread = {};
  static constexpr std::byte kReleased{0x7e};

  static void release(void* user) {
    auto& lent = *static_cast<Lent*>(user);
    ++lent.releases;
    lent.thread = std::this_thread::get_id();
    std::fill(lent.memory.begin(), lent.memory.end(), kReleased);  // as if the owner had reused it
  }
  yoke_import_args args(std::uint64_t offset = 0, std::uint64_t byte_count = 64) {
    return {sizeof(yoke_import_args),
            0,
            number_of(memory.data() + offset),
            byte_count,
            YOKE_MEMORY_HOST,
            0,
            release,
            this};
  }
  bool is_all_released() const {
    return std::all_of(memory.begin(), memory.end(), [](std::byte byte) { return byte == kReleased; });
  }
};

inline Answer import(const Device& device, const yoke_import_args& args, yoke_buffer** out) {
  return device.plugin().call<&yoke_memory_api::buffer_import>(device.get(), &args, out);
}

inline BufferHandle imported(const Device& device, const yoke_import_args& args) {
  const std::string doing = text("importing ", args.byte_count, " bytes of kind ", args.kind);
  yoke_buffer* raw = nullptr;
  const Answer answer = import(device, args, &raw);
  expect_supported(answer, doing);
  return {device.plugin(), answer, raw, doing};
}

}  // namespace yoke::conformance
