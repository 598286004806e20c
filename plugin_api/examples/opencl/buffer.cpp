// SPDX-License-Identifier: Apache-2.0
// buffer.cpp: memory and copies.
#include <algorithm>
#include <array>
#include <cstddef>

#include "device.h"

namespace ocl {
namespace {

using yoke::sdk::Failure;

constexpr std::uint64_t kLongestPattern = 8;

// The pattern rotated by `shift` bytes.
std::array<std::byte, kLongestPattern> turned(std::span<const std::byte> pattern, std::uint64_t shift) {
  std::array<std::byte, kLongestPattern> result = {};
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    result[i] = pattern[(i + shift) % pattern.size()];
  }
  return result;
}

}  // namespace

Buffer::Buffer(Device& device, std::uint64_t byte_count) : device_(device) {
  const Hardware& hardware = device.hardware();
  if (hardware.max_buffer_bytes != 0 && byte_count > hardware.max_buffer_bytes) {
    throw Failure(YOKE_STATUS_OUT_OF_DEVICE_MEMORY, "a buffer of " + std::to_string(byte_count) +
                                                        " bytes exceeds the limit of '" + hardware.info.name +
                                                        "', " + std::to_string(hardware.max_buffer_bytes) +
                                                        " bytes; use smaller buffers");
  }
  cl_int status = CL_SUCCESS;
  const auto& context = device.context()->handle;
  // OpenCL does not support empty buffers.
  memory_.reset(api().clCreateBuffer(context.get(), CL_MEM_READ_WRITE, std::max<std::uint64_t>(byte_count, 1),
                                     nullptr, &status));
  if (status != CL_SUCCESS) {
    check(status, "clCreateBuffer", "a buffer of " + std::to_string(byte_count) + " bytes");
  }
}

Buffer::Buffer(Device& device, const yoke::sdk::Import& memory)
    : device_(device), host_address_(reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory.address))) {
  cl_int status = CL_SUCCESS;
  const auto& context = device.context()->handle;
  if (memory.byte_count == 0) {
    memory_.reset(api().clCreateBuffer(context.get(), CL_MEM_READ_WRITE, 1, nullptr, &status));
  } else {
    memory_.reset(api().clCreateBuffer(context.get(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                       memory.byte_count, host_address_, &status));
  }
  check(status, "clCreateBuffer", "importing " + std::to_string(memory.byte_count) + " bytes");
}

std::int32_t Buffer::from_host(yoke::sdk::Stream* stream, std::uint64_t offset, const void* source,
                               std::uint64_t byte_count) {
  if (byte_count == 0) {
    return YOKE_SOURCE_COPIED;
  }
  device_.submit(stream, "clEnqueueWriteBuffer", "from_host", [=, this](auto queue, auto* event) {
    return api().clEnqueueWriteBuffer(queue, memory(), CL_FALSE, offset, byte_count, source, 0, nullptr,
                                      event);
  });
  return stream == nullptr ? YOKE_SOURCE_COPIED : YOKE_SOURCE_UNTIL_EVENT;
}

void Buffer::to_host(yoke::sdk::Stream* stream, std::uint64_t offset, void* target,
                     std::uint64_t byte_count) {
  if (byte_count != 0) {
    device_.submit(stream, "clEnqueueReadBuffer", "to_host", [=, this](auto queue, auto* event) {
      return api().clEnqueueReadBuffer(queue, memory(), CL_FALSE, offset, byte_count, target, 0, nullptr,
                                       event);
    });
  }
}

void Buffer::copy_from(yoke::sdk::Stream* stream, std::uint64_t offset, yoke::sdk::Buffer& source,
                       std::uint64_t source_offset, std::uint64_t byte_count) {
  auto* from = static_cast<Buffer*>(&source);
  if (byte_count == 0) {
    return;
  }
  if (from->device_.context() == device_.context()) {
    device_.submit(stream, "clEnqueueCopyBuffer", "device_to_device", [=, this](auto queue, auto* event) {
      return api().clEnqueueCopyBuffer(queue, from->memory(), memory(), source_offset, offset, byte_count, 0,
                                       nullptr, event);
    });
    return;
  }
  // Two contexts cannot share memory. The thread of the stream copies through host memory.
  device_.run(stream, [=, this](cl_command_queue) {
    std::vector<std::byte> staged(byte_count);
    from->to_host(nullptr, source_offset, staged.data(), byte_count);
    from_host(nullptr, offset, staged.data(), byte_count);
  });
}

void Buffer::fill(yoke::sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                  std::span<const std::byte> pattern) {
  const auto part = [&](std::uint64_t from, std::uint64_t bytes, std::uint64_t unit) {
    if (bytes == 0) {
      return;
    }
    const auto shifted = turned(pattern, (from - offset) % pattern.size());
    device_.submit(stream, "clEnqueueFillBuffer", "fill", [=, this](auto queue, auto* event) {
      return api().clEnqueueFillBuffer(queue, memory(), shifted.data(), unit, from, bytes, 0, nullptr, event);
    });
  };
  // clEnqueueFillBuffer requires offset and size to be multiples of the pattern size. Bytes before the
  // first and after the last such offset are filled one at a time.
  const std::uint64_t size = pattern.size();
  const std::uint64_t end = offset + byte_count;
  const std::uint64_t first = std::min((offset + size - 1) / size * size, end);
  const std::uint64_t last = std::max(end / size * size, first);
  for (std::uint64_t at = offset; at < first; ++at) {
    part(at, 1, 1);
  }
  part(first, last - first, size);
  for (std::uint64_t at = last; at < end; ++at) {
    part(at, 1, 1);
  }
}

}  // namespace ocl
