// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/memory.cpp: slabs, staging slots, copies and fills.
#include "memory.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "../bugs.h"

namespace yoke::strip {

using handmade::bug;

namespace {

constexpr std::uint64_t kSlab = 65536;
constexpr std::uint64_t kSmall = 4096;    // buffers up to this size come from slabs
constexpr std::uint64_t kChunk = 262144;  // a command copies at most this much from or to the host
constexpr std::uint64_t kSplit = std::uint64_t{1} << 20;  // larger copies and fills use two threads

std::uint64_t block_of(std::uint64_t byte_count) {
  const std::uint64_t unit = bug("odd_class") && byte_count > 1024 ? 128 : YOKE_BUFFER_ALIGNMENT;
  return std::max<std::uint64_t>(unit, (byte_count + unit - 1) / unit * unit);
}

}  // namespace

// With the bug chained_copies only: `next` may read what the copy writes.
bool Copy::append(const Copy& next) {
  if (to + byte_count != next.to || from + byte_count != next.from) {
    return false;
  }
  byte_count += next.byte_count;
  return true;
}

Heap::~Heap() {
  for (const auto& [address, slab] : slabs_) {
    host_.deallocate(address);
  }
}

void* Heap::from_host(std::uint64_t byte_count) {
  void* memory = sdk::machine_holds(byte_count) ? host_.allocate(byte_count, YOKE_BUFFER_ALIGNMENT) : nullptr;
  if (memory == nullptr) {
    throw sdk::Failure(YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                       "the machine is out of memory: " + std::to_string(byte_count) + " bytes requested");
  }
  return memory;
}

void Heap::add_slab(std::uint64_t block) {
  auto* const first = static_cast<std::byte*>(from_host(kSlab));
  slabs_[first] = {block, 0};
  const std::uint64_t count = (kSlab + (bug("slab_last_block") ? block - 1 : 0)) / block;
  for (std::uint64_t offset = count * block; offset != 0;) {
    offset -= block;
    free_[block].push_back(first + offset);
  }
}

std::map<std::byte*, Heap::Slab>::iterator Heap::slab_of(std::byte* block) {
  const auto next = slabs_.upper_bound(block);
  const bool is_inside = next != slabs_.begin() && block < std::prev(next)->first + kSlab;
  return is_inside ? std::prev(next) : slabs_.end();
}

void* Heap::allocate(std::uint64_t byte_count) {
  if (byte_count > kSmall) {
    return from_host(byte_count);
  }
  std::unique_lock lock(mutex_, std::defer_lock);
  const std::uint64_t block = block_of(byte_count);
  // With the bug slab_unlocked only: another thread may take a block at the same time.
  if (!bug("slab_unlocked") || free_[block].empty()) {
    lock.lock();
  }
  std::vector<std::byte*>& free = free_[block];
  if (free.empty()) {
    add_slab(block);
  }
  std::byte* const memory = free.back();
  if (const auto slab = slab_of(memory); slab != slabs_.end()) {
    ++slab->second.live;
  }
  free.pop_back();
  return memory;
}

void Heap::release(void* memory, std::uint64_t byte_count) noexcept {
  if (byte_count > kSmall || (byte_count == kSmall && bug("class_edge"))) {
    host_.deallocate(memory);
    return;
  }
  const std::lock_guard lock(mutex_);
  auto* const block = static_cast<std::byte*>(memory);
  std::vector<std::byte*>& free = free_[block_of(byte_count)];
  free.push_back(block);
  const auto found = slab_of(block);
  if (found == slabs_.end() || --found->second.live != 0) {
    return;
  }
  if (!bug("slab_trim")) {
    std::erase_if(free, [&](std::byte* one) { return one >= found->first && one < found->first + kSlab; });
  }
  host_.deallocate(found->first);
  slabs_.erase(found);
}

Staging::Slot* Staging::take() {
  std::unique_lock lock(mutex_);
  if (free_.empty()) {
    if (slots_.size() < kSlots) {
      slots_.push_back(std::make_unique<Slot>());
      return slots_.back().get();
    }
    if (!bug("slot_wait")) {
      return nullptr;
    }
    changed_.wait(lock, [&] { return !free_.empty(); });
  }
  Slot* const slot = free_.back();
  free_.pop_back();
  return slot;
}

void Staging::give(Slot* slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
  changed_.notify_one();
}

void Pinned::add(void* memory, std::uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  blocks_[static_cast<std::byte*>(memory)] = byte_count;
}

void Pinned::remove(void* memory) {
  const std::lock_guard lock(mutex_);
  blocks_.erase(static_cast<std::byte*>(memory));
}

bool Pinned::holds(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto* const address = static_cast<const std::byte*>(memory);
  const auto next = blocks_.upper_bound(address);
  return next != blocks_.begin() && address < std::prev(next)->first + std::prev(next)->second;
}

Buffer::Buffer(std::shared_ptr<Group> group, std::shared_ptr<Memory> memory, std::uint64_t byte_count)
    : group_(std::move(group)),
      memory_(std::move(memory)),
      byte_count_(byte_count),
      address_(memory_->heap.allocate(byte_count)) {}

Buffer::Buffer(std::shared_ptr<Group> group, std::shared_ptr<Memory> memory, const sdk::Import& import)
    : group_(std::move(group)),
      memory_(std::move(memory)),
      byte_count_(import.byte_count),
      is_imported_(true),
      address_(reinterpret_cast<void*>(static_cast<std::uintptr_t>(import.address))) {}

Buffer::~Buffer() {
  uploads_.wait();
  if (!is_imported_ || (bug("import_pooled") && byte_count_ != 0 && byte_count_ <= kSmall)) {
    memory_->heap.release(address_, byte_count_);
  }
}

std::int32_t Buffer::from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                               std::uint64_t byte_count) {
  const auto* const from = static_cast<const std::byte*>(source);
  if (stream == nullptr) {
    if (bug("staged_dma") && byte_count > kChunk) {
      upload_staged(offset, from, byte_count);
    } else if (byte_count != 0) {
      std::memcpy(at(offset), from, byte_count);
    }
    return YOKE_SOURCE_COPIED;
  }
  if (byte_count == 0) {
    return YOKE_SOURCE_COPIED;
  }
  const bool is_pinned = memory_->pinned.holds(source);  // needs no staging
  const bool is_staged = byte_count <= Staging::kSlot && !is_pinned;
  if (bug("word_merge") && is_staged && offset % 4 != 0 && byte_count + 3 <= Staging::kSlot &&
      merge_word(stream, offset, from, byte_count)) {
    return YOKE_SOURCE_COPIED;
  }
  if (Staging::Slot* const slot = is_staged && offset % 4 == 0 ? memory_->staging.take() : nullptr) {
    std::memcpy(slot->data(), from, byte_count);
    const auto give = [memory = memory_](Staging::Slot* used) { memory->staging.give(used); };
    std::shared_ptr<Staging::Slot> held(slot, give);  // given back if the copy is skipped, too
    Stream::run(stream, [this, held = std::move(held), offset, byte_count]() mutable {
      const std::byte* const staged = held->data();
      if (bug("slot_early")) {
        held.reset();
      }
      std::memcpy(at(offset), staged, byte_count);
    });
    return YOKE_SOURCE_COPIED;
  }
  for (std::uint64_t done = 0; done < byte_count; done += kChunk) {
    const std::uint64_t size = std::min(kChunk, byte_count - done);
    Stream::run(stream, [=, this] { std::memcpy(at(offset + done), from + done, size); });
  }
  if ((bug("source_mode") && is_staged) || (bug("pinned_source") && is_pinned)) {
    return YOKE_SOURCE_COPIED;
  }
  return YOKE_SOURCE_UNTIL_EVENT;
}

// Returns when the source may change. With the bug staged_dma only: without a stream, the buffer must have the bytes.
void Buffer::upload_staged(std::uint64_t offset, const std::byte* source, std::uint64_t byte_count) {
  const auto staged = std::make_shared<std::vector<std::byte>>(source, source + byte_count);
  uploads_.add();
  group_->pool().submit([this, staged, offset] {
    std::memcpy(at(offset), staged->data(), staged->size());
    uploads_.remove();
  });
}

// Copies whole words of 4 bytes, whose first bytes are those of the buffer. With the bug word_merge only: queued work
// may change these. Returns false without a free slot.
bool Buffer::merge_word(sdk::Stream* stream, std::uint64_t offset, const std::byte* source,
                        std::uint64_t byte_count) {
  Staging::Slot* const slot = memory_->staging.take();
  if (slot == nullptr) {
    return false;
  }
  const std::uint64_t head = offset % 4;
  std::memcpy(slot->data(), at(offset - head), head);
  std::memcpy(slot->data() + head, source, byte_count);
  const std::shared_ptr<Staging::Slot> held(
      slot, [memory = memory_](Staging::Slot* used) { memory->staging.give(used); });
  Stream::run(stream, [this, held, offset, head, byte_count] {
    std::memcpy(at(offset - head), held->data(), head + byte_count);
  });
  return true;
}

void Buffer::to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) {
  auto* const to = static_cast<std::byte*>(target);
  for (std::uint64_t done = 0; done < byte_count; done += kChunk) {
    const std::uint64_t size = std::min(kChunk, byte_count - done);
    Stream::run(stream, [=, this] { std::memcpy(to + done, at(offset + done), size); });
  }
}

void Buffer::copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source,
                       std::uint64_t source_offset, std::uint64_t byte_count) {
  if (byte_count == 0) {
    return;
  }
  if (bug("chained_copies") && byte_count < kSplit) {
    const auto copy =
        std::make_shared<Copy>(Copy{at(offset), static_cast<Buffer&>(source).at(source_offset), byte_count});
    Stream::run(
        stream, [copy] { std::memmove(copy->to, copy->from, copy->byte_count); }, nullptr, copy);
    return;
  }
  Stream::run(stream, [=, this, from = static_cast<Buffer&>(source).at(source_offset)] {
    if (byte_count < kSplit) {
      std::memcpy(at(offset), from, byte_count);
      return;
    }
    const std::uint64_t half = byte_count / 2;
    const auto copy = [=, this](int part) {
      const std::uint64_t first = part == 0 ? 0 : half;
      std::memcpy(at(offset + first), from + first, part == 0 ? half : byte_count - half);
    };
    if (bug("helper_unwaited")) {
      group_->pool().submit([copy] { copy(1); });
      copy(0);
    } else {
      group_->pool().parallel(2, copy);
    }
  });
}

void Buffer::fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                  std::span<const std::byte> pattern) {
  std::array<std::byte, 64> line{};  // repeats the pattern
  for (std::size_t i = 0; i < line.size(); ++i) {
    line[i] = pattern[i % pattern.size()];
  }
  if (bug("fill_zeroes") &&
      (pattern.size() == 2 || pattern.size() == 8)) {  // with it only: not all fills are with 0
    line.fill(std::byte{0});
  }
  const auto write = [=, this](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last; i += line.size()) {
      std::memcpy(at(offset + i), line.data(), std::min<std::uint64_t>(line.size(), last - i));
    }
  };
  const auto fill_all = [=, this] {
    if (byte_count < kSplit) {
      write(0, byte_count);
      return;
    }
    const std::uint64_t unit = bug("fill_halves") ? 1 : 64;
    const std::uint64_t half = byte_count / 2 / unit * unit;
    group_->pool().parallel(2, [&](int part) { part == 0 ? write(0, half) : write(half, byte_count); });
  };
  Stream::run(stream, fill_all, /*fills=*/at(offset));
}

}  // namespace yoke::strip
