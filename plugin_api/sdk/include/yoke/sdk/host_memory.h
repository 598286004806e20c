// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/host_memory.h: buffers in host memory,
// and the default implementations of plugin.h.
#pragma once

#include <unistd.h>
#include <yoke/sdk/plugin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace yoke::sdk {

// Whether the machine has that much memory. An allocator may return more,
// and the process then fails at a later write.
inline bool machine_holds(std::uint64_t byte_count) noexcept {
  constexpr std::uint64_t kAlwaysThere = std::uint64_t{1} << 30;
  if (byte_count <= kAlwaysThere) {
    return true;
  }
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_size > 0 &&
         byte_count <= static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size);
}

// Host memory with undefined contents, aligned to YOKE_BUFFER_ALIGNMENT. Pass the device's host(), so that
// the application can count and limit the memory.
class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(std::uint64_t byte_count, const Host& host = Host()) : owned_(nullptr, Free{host}) {
    if (machine_holds(byte_count)) {
      owned_.reset(host.allocate(byte_count, YOKE_BUFFER_ALIGNMENT));
    }
    address_ = owned_.get();
    if (address_ == nullptr) {
      throw Failure(YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                    "the machine is out of memory: " + std::to_string(byte_count) + " bytes requested");
    }
  }
  // Memory of another library that outlives the buffer (Device::import_buffer).
  explicit HostBuffer(const Import& memory) noexcept
      : owned_(nullptr, Free{}),
        address_(reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory.address))) {}
  void* host_address() noexcept override { return address_; }

 private:
  struct Free {
    Host host;
    void operator()(void* memory) const noexcept { host.deallocate(memory); }
  };
  std::unique_ptr<void, Free> owned_;
  void* address_ = nullptr;
};

namespace detail {

[[noreturn]] inline void unimplemented(const char* what) {
  throw Failure(YOKE_STATUS_UNIMPLEMENTED, std::string("the backend does not implement ") + what);
}

inline std::byte* address_of(Buffer& buffer, std::uint64_t offset) {
  void* address = buffer.host_address();
  if (address == nullptr) {
    unimplemented("copies of buffers without a host address");
  }
  return static_cast<std::byte*>(address) + offset;
}

// Work on a failed stream is skipped.
inline bool is_skipped(Stream* stream) {
  return stream != nullptr && stream->state() == YOKE_STATE_FAILED;
}

}  // namespace detail

inline std::uint64_t Event::elapsed_since(Event&) {
  detail::unimplemented("event_elapsed");
}

inline std::uint64_t Event::time_ns() {
  detail::unimplemented("times of events (Event::time_ns)");
}

inline void Stream::poison(const Failure&) {
  detail::unimplemented("faults on streams");
}

inline void Stream::pause(std::uint64_t) {
  detail::unimplemented("late events");
}

inline std::int32_t Buffer::from_host(Stream* stream, std::uint64_t offset, const void* source,
                                      std::uint64_t byte_count) {
  if (byte_count != 0 && !detail::is_skipped(stream)) {
    std::memcpy(detail::address_of(*this, offset), source, byte_count);
  }
  return YOKE_SOURCE_COPIED;
}

inline void Buffer::to_host(Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) {
  if (byte_count != 0 && !detail::is_skipped(stream)) {
    std::memcpy(target, detail::address_of(*this, offset), byte_count);
  }
}

inline void Buffer::copy_from(Stream* stream, std::uint64_t offset, Buffer& source,
                              std::uint64_t source_offset, std::uint64_t byte_count) {
  if (byte_count != 0 && !detail::is_skipped(stream)) {
    std::memcpy(detail::address_of(*this, offset), detail::address_of(source, source_offset), byte_count);
  }
}

inline void Buffer::fill(Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                         std::span<const std::byte> pattern) {
  if (byte_count == 0 || detail::is_skipped(stream)) {
    return;
  }
  std::byte* target = detail::address_of(*this, offset);
  if (std::all_of(pattern.begin(), pattern.end(), [&](std::byte b) { return b == pattern[0]; })) {
    std::memset(target, std::to_integer<int>(pattern[0]), byte_count);
    return;
  }
  // Every iteration doubles the filled part.
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
  detail::unimplemented("programs");
}
inline std::vector<Verdict> Device::can_compile(std::string_view) {
  detail::unimplemented("programs");
}
inline std::unique_ptr<Stream> Device::create_stream(std::int32_t) {
  detail::unimplemented("streams");
}
inline void Device::abort() {
  detail::unimplemented("device_abort");
}
inline void* Device::pinned_allocate(std::uint64_t byte_count) {
  return machine_holds(byte_count) ? host().allocate(byte_count, YOKE_BUFFER_ALIGNMENT) : nullptr;
}
inline void Device::pinned_free(void* memory) noexcept {
  host().deallocate(memory);
}
inline std::unique_ptr<Buffer> Device::import_buffer(const Import&) {
  detail::unimplemented("buffer_import");
}
inline Native Device::native() {
  detail::unimplemented("device_native");
}

inline CollectivesInfo Device::collectives() {
  detail::unimplemented("collectives");
}
inline GroupId Device::create_group_id() {
  detail::unimplemented("collectives");
}
inline std::unique_ptr<Communicator> Device::join_group(const GroupId&, std::uint32_t, std::uint32_t) {
  detail::unimplemented("collectives");
}
inline void Backend::queue_collectives(std::span<const Collective>) {
  detail::unimplemented("collectives");
}

inline void Stream::abort() {
  detail::unimplemented("stream_abort");
}
inline void Stream::host_callback(yoke_host_callback_fn, void*) {
  detail::unimplemented("stream_host_callback");
}
inline Native Stream::native() {
  detail::unimplemented("stream_native");
}

inline std::uint64_t Buffer::device_address() {
  void* address = host_address();
  if (address == nullptr) {
    detail::unimplemented("buffer_device_address");
  }
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace yoke::sdk
