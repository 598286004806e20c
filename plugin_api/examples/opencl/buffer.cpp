// SPDX-License-Identifier: Apache-2.0
// buffer.cpp: memory and copies.
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "device.h"

namespace ocl {
namespace {

using yoke::sdk::Failure;

constexpr std::uint64_t kLongestPattern = 8;

OwnedEvent queued(cl_int status, cl_event event, const char* call, const char* what) {
  check(status, call, what);
  return OwnedEvent(event);
}

// The pattern rotated by `shift` bytes.
std::array<std::byte, kLongestPattern> turned(std::span<const std::byte> pattern, std::uint64_t shift) {
  std::array<std::byte, kLongestPattern> result = {};
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    result[i] = pattern[(i + shift) % pattern.size()];
  }
  return result;
}

Label label_of(const char* text) {
  return std::make_shared<const std::string>(text);
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

void Buffer::write(yoke::sdk::Stream* stream, std::uint64_t offset, const void* from,
                   std::uint64_t byte_count, std::shared_ptr<void> keep) {
  static const Label& label = *new Label(label_of("from_host"));
  device_.submit(
      stream, label,
      [&](cl_command_queue queue) {
        cl_event event = nullptr;
        const cl_int status = api().clEnqueueWriteBuffer(queue, memory(), CL_FALSE, offset, byte_count, from,
                                                         0, nullptr, &event);
        return queued(status, event, "clEnqueueWriteBuffer", "from_host");
      },
      std::move(keep));
}

void Buffer::read(yoke::sdk::Stream* stream, std::uint64_t offset, void* to, std::uint64_t byte_count,
                  std::shared_ptr<void> keep) {
  static const Label& label = *new Label(label_of("to_host"));
  device_.submit(
      stream, label,
      [&](cl_command_queue queue) {
        cl_event event = nullptr;
        const cl_int status =
            api().clEnqueueReadBuffer(queue, memory(), CL_FALSE, offset, byte_count, to, 0, nullptr, &event);
        return queued(status, event, "clEnqueueReadBuffer", "to_host");
      },
      std::move(keep));
}

std::int32_t Buffer::from_host(yoke::sdk::Stream* stream, std::uint64_t offset, const void* source,
                               std::uint64_t byte_count) {
  if (byte_count == 0) {
    return YOKE_SOURCE_COPIED;
  }
  write(stream, offset, source, byte_count);
  return stream == nullptr ? YOKE_SOURCE_COPIED : YOKE_SOURCE_UNTIL_EVENT;
}

void Buffer::to_host(yoke::sdk::Stream* stream, std::uint64_t offset, void* target,
                     std::uint64_t byte_count) {
  if (byte_count != 0) {
    read(stream, offset, target, byte_count);
  }
}

void Buffer::copy_from(yoke::sdk::Stream* stream, std::uint64_t offset, yoke::sdk::Buffer& source,
                       std::uint64_t source_offset, std::uint64_t byte_count) {
  static const Label& label = *new Label(label_of("device_to_device"));
  auto& from = static_cast<Buffer&>(source);
  if (byte_count == 0) {
    return;
  }
  if (from.device_.context() != device_.context()) {
    copy_through_host(stream, offset, from, source_offset, byte_count);
    return;
  }
  device_.submit(stream, label, [&](cl_command_queue queue) {
    cl_event event = nullptr;
    const cl_int status = api().clEnqueueCopyBuffer(queue, from.memory(), memory(), source_offset, offset,
                                                    byte_count, 0, nullptr, &event);
    return queued(status, event, "clEnqueueCopyBuffer", "device_to_device");
  });
}

// Copies between two contexts, which cannot share memory. One side reads to host memory after the work
// queued on the stream, the other side writes it to its device, and the stream continues after that.
void Buffer::copy_through_host(yoke::sdk::Stream* stream, std::uint64_t offset, Buffer& source,
                               std::uint64_t source_offset, std::uint64_t byte_count) {
  const auto staged = std::make_shared<std::vector<std::byte>>(byte_count);
  if (stream == nullptr) {
    source.read(nullptr, source_offset, staged->data(), byte_count);
    write(nullptr, offset, staged->data(), byte_count);
    return;
  }
  auto& near = static_cast<Stream&>(*stream);
  const bool at_source = &near.context() == source.device_.context().get();
  Stream& far = near.on(at_source ? device_.context() : source.device_.context());
  if (at_source) {
    source.read(&near, source_offset, staged->data(), byte_count, staged);
  }
  far.follow(near.timeline(), near.timeline()->last());
  if (at_source) {
    write(&far, offset, staged->data(), byte_count, staged);
  } else {
    source.read(&far, source_offset, staged->data(), byte_count, staged);
  }
  // If the stream has failed meanwhile, follow() does nothing, but waits
  // must still wait for the other device.
  near.timeline()->include(far.timeline(), far.timeline()->last());
  near.follow(far.timeline(), far.timeline()->last());
  if (!at_source) {
    write(&near, offset, staged->data(), byte_count, staged);
  }
}

void Buffer::fill(yoke::sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                  std::span<const std::byte> pattern) {
  static const Label& label = *new Label(label_of("fill"));
  const auto part = [&](std::uint64_t from, std::uint64_t bytes, std::uint64_t unit) {
    if (bytes == 0) {
      return;
    }
    const auto shifted = turned(pattern, (from - offset) % pattern.size());
    device_.submit(stream, label, [&](cl_command_queue queue) {
      cl_event event = nullptr;
      const cl_int status =
          api().clEnqueueFillBuffer(queue, memory(), shifted.data(), unit, from, bytes, 0, nullptr, &event);
      return queued(status, event, "clEnqueueFillBuffer", "fill");
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
