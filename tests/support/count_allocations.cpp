// SPDX-License-Identifier: Apache-2.0
// tests/support/count_allocations.cpp: replaces operator new of the whole test program; linked only where
// allocation_count is used.
#include "count_allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};

void* allocate(std::size_t byte_count, std::size_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (byte_count + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(byte_count == 0 ? 1 : byte_count)
                     : std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

namespace yoke::test {
std::uint64_t allocation_count() {
  return count.load(std::memory_order_relaxed);
}
}  // namespace yoke::test

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
__attribute__((visibility("default"))) void* operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t));
}
__attribute__((visibility("default"))) void* operator new[](std::size_t size) {
  return allocate(size, alignof(std::max_align_t));
}
__attribute__((visibility("default"))) void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
__attribute__((visibility("default"))) void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
// Where the library falls back when there is no memory, as std::stable_sort does.
__attribute__((visibility("default"))) void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
__attribute__((visibility("default"))) void* operator new[](std::size_t size,
                                                            const std::nothrow_t&) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
__attribute__((visibility("default"))) void operator delete(void* memory) noexcept {
  std::free(memory);
}
__attribute__((visibility("default"))) void operator delete[](void* memory) noexcept {
  std::free(memory);
}
__attribute__((visibility("default"))) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
__attribute__((visibility("default"))) void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
__attribute__((visibility("default"))) void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
__attribute__((visibility("default"))) void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
__attribute__((visibility("default"))) void operator delete(void* memory, std::size_t,
                                                            std::align_val_t) noexcept {
  std::free(memory);
}
__attribute__((visibility("default"))) void operator delete[](void* memory, std::size_t,
                                                              std::align_val_t) noexcept {
  std::free(memory);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
