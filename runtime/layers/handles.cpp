// SPDX-License-Identifier: Apache-2.0
// runtime/layers/handles.cpp: one table for the process, so that a handle of another plugin is known for what
// it is. Its memory is never given back, which is what makes every look-up safe.
#include "layers/handles.h"

#include <array>
#include <deque>
#include <new>
#include <stdexcept>

namespace yoke::layers {
namespace {

// 16 bits of mark (no address on any 64-bit machine), 20 of generation, 24 of index, 4 zero.
constexpr std::uint64_t kMark = 0x796b;
constexpr unsigned kMarkShift = 48;
constexpr unsigned kGenerationShift = 28;
constexpr unsigned kIndexShift = 4;
constexpr std::uint64_t kGenerations = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMostHandles = std::uint64_t{1} << 24U;
constexpr std::uint64_t kChunk = 1024;
constexpr std::size_t kRest = 8192;  // so many dead handles keep their object, for the message

struct Slot {
  std::mutex mutex;
  std::uint64_t word = 0;
  std::uint64_t generation = 0;
  std::shared_ptr<Object> object;
};

struct Table {
  std::array<std::atomic<Slot*>, kMostHandles / kChunk> chunks{};
  std::mutex mutex;  // of what follows
  std::uint64_t count = 0;
  std::deque<std::uint64_t> free;  // oldest first
};

Table& table() {
  static Table* const only = new Table;  // never destroyed: handles may be looked up at exit
  return *only;
}

Slot& slot_at(std::uint64_t index) {
  return table().chunks[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
}

std::uint64_t index_of(std::uint64_t word) {
  return (word >> kIndexShift) & (kMostHandles - 1);
}

std::uint64_t take_index() {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  if (all.free.size() > kRest) {
    const std::uint64_t index = all.free.front();
    all.free.pop_front();
    return index;
  }
  if (all.count == kMostHandles) {
    throw std::length_error("the layers have no number for another handle");
  }
  if (all.count % kChunk == 0) {
    all.chunks[all.count / kChunk].store(new Slot[kChunk], std::memory_order_release);
  }
  return all.count++;
}

}  // namespace

std::uint64_t insert_handle(const std::shared_ptr<Object>& object) {
  const std::uint64_t index = take_index();
  Slot& slot = slot_at(index);
  std::shared_ptr<Object> last;  // freed without the lock
  const std::lock_guard lock(slot.mutex);
  slot.generation = (slot.generation + 1) % kGenerations;
  slot.word = (kMark << kMarkShift) | (slot.generation << kGenerationShift) | (index << kIndexShift);
  last = std::move(slot.object);
  slot.object = object;
  object->word = slot.word;
  return slot.word;
}

std::shared_ptr<Object> find_object(std::uint64_t word, bool may_wait) {
  if (word >> kMarkShift != kMark || (word & ((1U << kIndexShift) - 1)) != 0) {
    return nullptr;
  }
  const std::uint64_t index = index_of(word);
  if (table().chunks[index / kChunk].load(std::memory_order_acquire) == nullptr) {
    return nullptr;
  }
  Slot& slot = slot_at(index);
  std::unique_lock lock(slot.mutex, std::defer_lock);
  if (may_wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return nullptr;
  }
  return slot.word == word ? slot.object : nullptr;
}

void retire_handle(Object& object) {
  object.alive.store(false, std::memory_order_release);
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.free.push_back(index_of(object.word));
}

}  // namespace yoke::layers
