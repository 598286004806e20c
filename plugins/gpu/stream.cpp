// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/stream.cpp: queues copies, events and host functions on a stream of the driver.
#include "stream.h"

#include <algorithm>
#include <cstring>

namespace yoke::gpu {
namespace {

constexpr std::uint64_t kSlotBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kChunkBytes = std::uint64_t{4} << 20;

std::byte* pinned(Context& context, std::uint64_t byte_count) {
  void* memory = context.watch([&] { return context.machine().host_memory().allocate(byte_count); });
  if (memory == nullptr) {
    throw sdk::Failure(YOKE_STATUS_RESOURCE_EXHAUSTED, "out of memory to pin: " + std::to_string(byte_count) +
                                                           " bytes requested for a staging buffer");
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

Stream::~Stream() {
  Context& context = timeline_->context();
  timeline_->close();
  for (const Slot& slot : slots_) {
    if (slot.event != nullptr) {
      context.give_event(slot.event, false);
    }
  }
  if (const Current current = context.try_enter()) {
    context.machine().host_memory().free(slot_memory_);
    context.machine().host_memory().free(chunk_);
  }
}

std::unique_ptr<sdk::Event> Stream::record(bool timing) {
  return std::make_unique<Event>(timeline_->record(timing));
}

void Stream::abort() {
  timeline_->cancel(
      sdk::Failure(YOKE_STATUS_ABORTED, "the stream was aborted; destroy it and create another"));
}

void Stream::host_callback(yoke_host_callback_fn callback, void* user) {
  timeline_->post([callback, user](std::int32_t status) { callback(user, status); }, true);
}

sdk::Native Stream::native() {
  Context& context = timeline_->context();
  return {context.vendor().facts().name, reinterpret_cast<std::uintptr_t>(timeline_->stream()),
          reinterpret_cast<std::uintptr_t>(context.peer().context)};
}

Stream::Slot* Stream::free_slot() {
  Context& context = timeline_->context();
  if (slot_memory_ == nullptr) {
    slot_memory_ = pinned(context, kSlotBytes * slots_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i] = {slot_memory_ + i * kSlotBytes, nullptr};
    }
  }
  Slot& slot = slots_[next_slot_];
  if (slot.event == nullptr) {
    slot.event = context.take_event(false);
  } else if (!context.is_done(context.driver().event_query, slot.event)) {
    return nullptr;
  }
  next_slot_ = (next_slot_ + 1) % slots_.size();
  return &slot;
}

std::byte* Stream::chunk() {
  if (chunk_ == nullptr) {
    chunk_ = pinned(timeline_->context(), kChunkBytes);
  }
  return chunk_;
}

std::int32_t Stream::upload(Address target, const void* source, std::uint64_t byte_count) {
  std::int32_t result = YOKE_SOURCE_COPIED;
  timeline_->submit([&](void* stream) {
    Context& context = timeline_->context();
    const Driver& driver = context.driver();
    if (context.machine().host_memory().covers(source, byte_count)) {
      context.call(driver.copy_from_host, target, source, byte_count, stream);
      result = YOKE_SOURCE_UNTIL_EVENT;
      return;
    }
    if (byte_count <= kSlotBytes) {
      if (Slot* slot = free_slot()) {
        std::memcpy(slot->memory, source, byte_count);
        context.call(driver.copy_from_host, target, static_cast<const void*>(slot->memory), byte_count,
                     stream);
        context.call(driver.event_record, slot->event, stream);
        return;
      }
    }
    upload_chunks(target, std::shared_ptr<const void>(std::shared_ptr<void>(), source), byte_count);
    result = YOKE_SOURCE_UNTIL_EVENT;
  });
  return result;
}

void Stream::upload_kept(Address target, std::vector<std::byte> bytes) {
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  timeline_->submit(
      [&](void*) { upload_chunks(target, std::shared_ptr<const void>(kept, kept->data()), kept->size()); });
}

// A host function fills the chunk. Stream order keeps the copy after it, so the host does not wait.
void Stream::upload_chunks(Address target, const std::shared_ptr<const void>& source,
                           std::uint64_t byte_count) {
  Context& context = timeline_->context();
  std::byte* staging = chunk();
  for (std::uint64_t done = 0; done < byte_count;) {
    const std::uint64_t part = std::min(kChunkBytes, byte_count - done);
    timeline_->post(
        [=](std::int32_t) { std::memcpy(staging, static_cast<const std::byte*>(source.get()) + done, part); },
        false);
    context.call(context.driver().copy_from_host, target + done, static_cast<const void*>(staging), part,
                 timeline_->stream());
    done += part;
  }
}

void Stream::download(void* target, Address source, std::uint64_t byte_count) {
  timeline_->submit([&](void* stream) {
    Context& context = timeline_->context();
    if (context.machine().host_memory().covers(target, byte_count)) {
      context.call(context.driver().copy_to_host, target, source, byte_count, stream);
      return;
    }
    std::byte* staging = chunk();
    for (std::uint64_t done = 0; done < byte_count;) {
      const std::uint64_t part = std::min(kChunkBytes, byte_count - done);
      context.call(context.driver().copy_to_host, static_cast<void*>(staging), source + done, part, stream);
      timeline_->post(
          [=](std::int32_t) { std::memcpy(static_cast<std::byte*>(target) + done, staging, part); }, false);
      done += part;
    }
  });
}

}  // namespace yoke::gpu
