// SPDX-License-Identifier: Apache-2.0
// tests/mutant/buffer.cpp: buffers and copies.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "bug.h"
#include "device.h"

namespace yoke::mutant {
namespace {

constexpr std::uint64_t kMisplaced = 8;
constexpr std::uint64_t kStaged = 1024;  // smaller sources are copied during the call

// The number of bytes that a copy transfers, with the bug that is switched on.
std::uint64_t copied(std::uint64_t byte_count) {
  return on<"copy_loses_last_byte">() && byte_count != 0 ? byte_count - 1 : byte_count;
}

void copy_bytes(std::byte* target, const void* source, std::uint64_t byte_count) {
  if (byte_count != 0) {
    std::memcpy(target, source, byte_count);
  }
}

[[noreturn]] void hang() {
  for (;;) {
    ::pause();
  }
}

// Bugs that crash, end or stop the process.
void misbehave() {
  if (on<"from_host_crashes">()) {
    std::raise(SIGSEGV);
  }
  if (on<"from_host_exits">()) {
    std::exit(0);
  }
  if (on<"from_host_hangs">()) {
    ::setpgid(0, ::getpgid(::getppid()));  // leaves the process group that the kit kills
    hang();
  }
  if (on<"from_host_starts_processes">()) {
    static_cast<void>(::fork());
    hang();
  }
}

// Bug: one staging area for all streams.
std::vector<std::byte>& shared_area() {
  static std::vector<std::byte> area(kStaged);
  return area;
}

// For the bug buffers_are_in_a_table_of_2048.
std::atomic<std::size_t> rows_in_use{1};

}  // namespace

void perform(sdk::Stream* stream, const std::shared_ptr<DeviceState>& device, std::int32_t kind,
             std::function<void()> work) {
  device->check_not_lost();
  const Trouble trouble = device->next(kind);
  if (on<"copy_fault_is_swallowed">() && kind == YOKE_FAULT_COPY && trouble == Trouble::kUnavailable) {
    return;
  }
  if (stream != nullptr) {
    static_cast<Stream*>(stream)->post([device, trouble, work = std::move(work)] {
      device->suffer(trouble);
      work();
    });
    return;
  }
  device->suffer(trouble);
  if (on<"null_stream_returns_early">()) {
    std::thread([work = std::move(work)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      work();
    }).detach();
    return;
  }
  work();
}

Buffer::Buffer(std::uint64_t byte_count, const sdk::Host& host, std::shared_ptr<DeviceState> device)
    : HostBuffer(on<"buffer_is_misaligned">() ? byte_count + kMisplaced
                 : on<"buffer_size_wraps">()  ? std::min<std::uint64_t>(byte_count, 4096)
                                              : byte_count,
                 host),
      device_(std::move(device)),
      row_(on<"buffers_are_in_a_table_of_2048">() && byte_count <= kStaged ? rows_in_use++ : 0) {}

Buffer::~Buffer() {
  if (on<"buffers_are_in_a_table_of_2048">() && row_ != 0) {
    --rows_in_use;
  }
}

void* Buffer::host_address() noexcept {
  if (row_ >= 2048) {
    return shared_area().data();
  }
  void* const address = HostBuffer::host_address();
  return on<"buffer_is_misaligned">() ? static_cast<std::byte*>(address) + kMisplaced : address;
}

std::int32_t Buffer::from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                               std::uint64_t byte_count) {
  misbehave();
  std::byte* const target = at(on<"from_host_forgets_offset">() ? 0 : offset);
  const std::uint64_t count = copied(byte_count);
  if (stream != nullptr && byte_count <= kStaged && !on<"source_is_read_after_copied">()) {
    const auto* const bytes = static_cast<const std::byte*>(source);
    if (on<"streams_share_staging">()) {
      std::copy(bytes, bytes + byte_count, shared_area().begin());
      perform(stream, device_, YOKE_FAULT_COPY, [=] { copy_bytes(target, shared_area().data(), count); });
      return YOKE_SOURCE_COPIED;
    }
    perform(stream, device_, YOKE_FAULT_COPY,
            [target, count, kept = std::vector<std::byte>(bytes, bytes + byte_count)] {
              copy_bytes(target, kept.data(), count);
            });
    return YOKE_SOURCE_COPIED;
  }
  perform(stream, device_, YOKE_FAULT_COPY, [=] { copy_bytes(target, source, count); });
  if (on<"source_word_is_unknown">()) {
    return stream == nullptr ? YOKE_SOURCE_UNTIL_EVENT : YOKE_SOURCE_UNTIL_EVENT + 1;
  }
  return stream == nullptr || on<"source_is_read_after_copied">() ? YOKE_SOURCE_COPIED
                                                                  : YOKE_SOURCE_UNTIL_EVENT;
}

void Buffer::to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) {
  const std::byte* const source = at(on<"to_host_forgets_offset">() ? 0 : offset);
  std::uint64_t count = copied(byte_count);
  count += on<"to_host_writes_one_byte_more">() && count != 0 ? 1U : 0U;
  perform(stream, device_, YOKE_FAULT_COPY,
          [=] { copy_bytes(static_cast<std::byte*>(target), source, count); });
}

void Buffer::copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source,
                       std::uint64_t source_offset, std::uint64_t byte_count) {
  auto& other = static_cast<Buffer&>(source);
  if (on<"copy_between_devices_is_skipped">() && other.device_ != device_) {
    return;
  }
  std::byte* target = at(on<"device_to_device_forgets_target_offset">() ? 0 : offset);
  std::byte* from = other.at(on<"device_to_device_forgets_source_offset">() ? 0 : source_offset);
  if (on<"device_to_device_swaps">()) {
    std::swap(target, from);
  }
  const std::uint64_t count = copied(byte_count);
  const bool is_lost = on<"copies_between_devices_bring_zeros">() && other.device_ != device_;
  perform(stream, device_, YOKE_FAULT_COPY, [=] {
    if (is_lost) {
      std::memset(target, 0, count);
    } else if (count != 0) {
      std::memmove(target, from, count);
    }
  });
}

void Buffer::fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                  std::span<const std::byte> pattern) {
  std::array<std::byte, 8> copy{};
  std::copy(pattern.begin(), pattern.end(), copy.begin());
  std::uint64_t size = pattern.size();
  if (on<"fill_takes_four_bytes_at_most">()) {
    size = std::min<std::uint64_t>(size, 4);
  }
  const std::uint64_t phase = on<"fill_has_wrong_phase">() && size == 2 ? 1 : 0;
  const std::byte* const late = on<"fill_keeps_the_pattern_pointer">() ? pattern.data() : nullptr;
  perform(stream, device_, YOKE_FAULT_COPY, [=, target = at(offset), count = copied(byte_count)] {
    const std::byte* const from = late == nullptr ? copy.data() : late;
    for (std::uint64_t i = 0; i < count; ++i) {
      target[i] = from[(i + phase) % size];
    }
  });
}

}  // namespace yoke::mutant
