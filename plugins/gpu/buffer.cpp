// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/buffer.cpp: allocates memory, queues copies and fills.
#include "buffer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "stream.h"

namespace yoke::gpu {
namespace {

// Calls work(context, stream) in the order of the stream. Without a stream, the work is done on return.
template <class Work>
void run(sdk::Stream* stream, Context& context, const Work& work) {
  if (stream != nullptr) {
    Timeline& timeline = static_cast<Stream*>(stream)->timeline();
    timeline.submit([&](void* queue) { work(timeline.context(), queue); });
  } else {
    const Current current = context.enter();
    work(context, context.immediate());
    context.finish(context.immediate());
  }
}

}  // namespace

Buffer::Buffer(std::shared_ptr<Context> context, std::uint64_t byte_count)
    : context_(std::move(context)), byte_count_(byte_count) {
  const Current current = context_->enter();
  address_ = context_->watch([&] { return context_->pool().allocate(byte_count); });
}

Buffer::Buffer(std::shared_ptr<Context> context, const sdk::Import& memory)
    : context_(std::move(context)),
      address_(memory.address),
      byte_count_(memory.byte_count),
      is_imported_(true) {
  if (memory.kind == YOKE_MEMORY_UNIFIED) {
    throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED,
                       "unified memory cannot be imported; import it as device memory");
  }
  if (memory.kind != YOKE_MEMORY_HOST || byte_count_ == 0) {
    return;
  }
  host_address_ = pointer_to(memory.address);
  const Current current = context_->enter();
  HostMemory& host_memory = context_->machine().host_memory();
  const std::uintptr_t first =
      context_->watch([&] { return host_memory.add(memory.address, byte_count_, context_); });
  const int code = context_->driver().host_device_address(&address_, pointer_to(first), 0U);
  if (code != 0) {
    host_memory.remove(memory.address);
    context_->fail(context_->driver().host_device_address.name, code);
  }
  address_ += memory.address - first;
}

Buffer::~Buffer() {
  if (host_address_ != nullptr) {
    if (const Current current = context_->try_enter()) {
      context_->machine().host_memory().remove(reinterpret_cast<std::uintptr_t>(host_address_));
    }
  } else if (!is_imported_) {
    if (const Current current = context_->try_enter()) {
      context_->pool().free(address_, byte_count_);
    }
  }
}

std::int32_t Buffer::from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                               std::uint64_t byte_count) {
  if (byte_count == 0) {
    return YOKE_SOURCE_COPIED;
  }
  if (stream != nullptr) {
    return static_cast<Stream*>(stream)->upload(address_ + offset, source, byte_count);
  }
  run(nullptr, *context_, [&](Context& context, void* queue) {
    context.call(context.driver().copy_from_host, address_ + offset, source, byte_count, queue);
  });
  return YOKE_SOURCE_COPIED;
}

void Buffer::to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) {
  if (byte_count == 0) {
    return;
  }
  if (stream != nullptr) {
    static_cast<Stream*>(stream)->download(target, address_ + offset, byte_count);
    return;
  }
  run(nullptr, *context_, [&](Context& context, void* queue) {
    context.call(context.driver().copy_to_host, target, address_ + offset, byte_count, queue);
  });
}

void Buffer::copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source,
                       std::uint64_t source_offset, std::uint64_t byte_count) {
  if (byte_count == 0) {
    return;
  }
  auto& from = static_cast<Buffer&>(source);
  const Address to_address = address_ + offset;
  const Address from_address = from.address_ + source_offset;
  run(stream, *context_, [&](Context& context, void* queue) {
    // Registered host memory has one address for all devices. The memory on the other side may be of a device that the
    // stream's device cannot access.
    const bool is_to_host = host_address_ != nullptr;
    const bool is_from_host = from.host_address_ != nullptr;
    if (from.context_ == context_ || (is_to_host && is_from_host) ||
        (is_to_host && context.can_access(*from.context_)) ||
        (is_from_host && context.can_access(*context_))) {
      context.call(context.driver().copy_on_device, to_address, from_address, byte_count, queue);
    } else {
      context.check("copying between devices",
                    context.vendor().copy_peer(to_address, context_->peer(), from_address,
                                               from.context_->peer(), byte_count, queue));
    }
  });
}

void Buffer::fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                  std::span<const std::byte> pattern) {
  if (byte_count == 0) {
    return;
  }
  const Address target = address_ + offset;
  // The shortest pattern with the same result.
  std::uint64_t size = pattern.size();
  while (size > 1 && std::equal(pattern.begin(), pattern.begin() + static_cast<std::ptrdiff_t>(size / 2),
                                pattern.begin() + static_cast<std::ptrdiff_t>(size / 2))) {
    size /= 2;
  }
  if (size == 8 || target % size != 0) {
    fill_by_copies(stream, target, byte_count, pattern);
    return;
  }
  std::uint32_t value = 0;
  std::memcpy(&value, pattern.data(), size);
  run(stream, *context_, [&](Context& context, void* queue) {
    const Driver& driver = context.driver();
    const std::uint64_t count = byte_count / size;
    if (size == 1) {
      context.call(driver.fill_bytes, target, static_cast<unsigned char>(value), count, queue);
    } else if (size == 2) {
      context.call(driver.fill_halves, target, static_cast<unsigned short>(value), count, queue);
    } else {
      context.call(driver.fill_words, target, value, count, queue);
    }
  });
}

// Fills the first part from the host, then doubles the filled part.
void Buffer::fill_by_copies(sdk::Stream* stream, Address target, std::uint64_t byte_count,
                            std::span<const std::byte> pattern) {
  constexpr std::uint64_t kFirst = 4096;
  std::vector<std::byte> first(std::min(kFirst, byte_count));
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = pattern[i % pattern.size()];
  }
  std::uint64_t filled = first.size();
  if (stream != nullptr) {
    static_cast<Stream*>(stream)->upload_kept(target, std::move(first));
  } else {
    run(nullptr, *context_, [&](Context& context, void* queue) {
      context.call(context.driver().copy_from_host, target, static_cast<const void*>(first.data()), filled,
                   queue);
    });
  }
  run(stream, *context_, [&](Context& context, void* queue) {
    while (filled < byte_count) {
      const std::uint64_t part = std::min(filled, byte_count - filled);
      context.call(context.driver().copy_on_device, target + filled, target, part, queue);
      filled += part;
    }
  });
}

}  // namespace yoke::gpu
