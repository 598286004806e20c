// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/host_memory.h: buffers in host memory, and what a class of plugin.h does
// when nothing is overridden.
#pragma once

#include <unistd.h>
#include <yoke/sdk/plugin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace yoke::sdk {

// Whether the machine could ever hold that much: an allocator may promise more, and break it at the first
// write.
inline bool machine_holds(std::uint64_t byte_count) noexcept {
  constexpr std::uint64_t kNotWorthAsking = std::uint64_t{1} << 30;
  if (byte_count <= kNotWorthAsking) {
    return true;
  }
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_size > 0 &&
         byte_count <= static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size);
}

// Host memory, aligned to 64 bytes, not initialized. Pass the device's host(): its application then accounts
// the memory, and may refuse it; without one the memory is the plugin's own.
class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(std::uint64_t byte_count, const Host& host = Host()) : memory_(nullptr, Free{host}) {
    constexpr std::uint64_t kAlignment = 64;
    if (machine_holds(byte_count)) {
      memory_.reset(host.allocate(byte_count, kAlignment));
    }
    if (memory_ == nullptr) {
      throw Failure(YOKE_OUT_OF_DEVICE_MEMORY,
                    "the machine has no " + std::to_string(byte_count) + " bytes of memory for a buffer");
    }
  }
  void* host_address() noexcept override { return memory_.get(); }

 private:
  struct Free {
    Host host;
    void operator()(void* memory) const noexcept { host.deallocate(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

namespace detail {

[[noreturn]] inline void not_there(const char* what) {
  throw Failure(YOKE_UNIMPLEMENTED, std::string("the backend has no ") + what);
}

inline std::byte* address_of(Buffer& buffer, std::uint64_t offset) {
  void* address = buffer.host_address();
  if (address == nullptr) {
    not_there("copies for memory without a host address");
  }
  return static_cast<std::byte*>(address) + offset;
}

}  // namespace detail

inline std::uint64_t Event::elapsed_since(Event&) {
  detail::not_there("time between events");
}

inline void Stream::poison(const Failure&) {
  detail::not_there("streams that fail on purpose");
}

inline void Stream::pause(std::uint64_t) {
  detail::not_there("streams that are late on purpose");
}

inline std::int32_t Buffer::from_host(Stream*, std::uint64_t offset, const void* source,
                                      std::uint64_t byte_count) {
  if (byte_count != 0) {
    std::memcpy(detail::address_of(*this, offset), source, byte_count);
  }
  return YOKE_SOURCE_COPIED;
}

inline void Buffer::to_host(Stream*, std::uint64_t offset, void* target, std::uint64_t byte_count) {
  if (byte_count != 0) {
    std::memcpy(target, detail::address_of(*this, offset), byte_count);
  }
}

inline void Buffer::copy_from(Stream*, std::uint64_t offset, Buffer& source, std::uint64_t source_offset,
                              std::uint64_t byte_count) {
  if (byte_count != 0) {
    std::memcpy(detail::address_of(*this, offset), detail::address_of(source, source_offset), byte_count);
  }
}

inline void Buffer::fill(Stream*, std::uint64_t offset, std::uint64_t byte_count,
                         std::span<const std::byte> pattern) {
  if (byte_count == 0) {
    return;
  }
  std::byte* target = detail::address_of(*this, offset);
  if (std::all_of(pattern.begin(), pattern.end(), [&](std::byte b) { return b == pattern[0]; })) {
    std::memset(target, std::to_integer<int>(pattern[0]), byte_count);
    return;
  }
  // Doubles what is already there: a few large copies for any pattern.
  std::memcpy(target, pattern.data(), pattern.size());
  for (std::uint64_t filled = pattern.size(); filled < byte_count;) {
    const std::uint64_t more = std::min(filled, byte_count - filled);
    std::memcpy(target + filled, target, more);
    filled += more;
  }
}

inline std::unique_ptr<Buffer> Device::create_buffer(std::uint64_t byte_count, std::int32_t) {
  return std::make_unique<HostBuffer>(byte_count, host());
}
inline std::unique_ptr<Code> Device::compile(std::string_view) {
  detail::not_there("programs");
}
inline std::vector<Verdict> Device::can_compile(std::string_view) {
  detail::not_there("programs");
}
inline std::unique_ptr<Stream> Device::create_stream(std::int32_t) {
  detail::not_there("streams");
}
inline void Device::abort() {
  detail::not_there("abort");
}

}  // namespace yoke::sdk
