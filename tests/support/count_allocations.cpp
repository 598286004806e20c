// SPDX-License-Identifier: Apache-2.0
// tests/support/count_allocations.cpp: replaces operator new in the whole test program. It is linked only
// into programs that use allocation_count.
#include "count_allocations.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string_view>

namespace {

std::atomic<std::uint64_t> count{0};
std::atomic<bool> ignores_vendors{false};
// Of FailAllocations: calls [fail_from, fail_to) fail.
std::atomic<bool> is_failing{false};
std::atomic<std::uint64_t> fail_from{0};
std::atomic<std::uint64_t> fail_to{0};
std::atomic<std::uint64_t> calls{0};

bool is_vendor_code(void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) {
    return false;
  }
  const std::string_view file = info.dli_fname;
  return file.find("libdnnl") != std::string_view::npos || file.find("libgomp") != std::string_view::npos;
}

void count_call(void* caller) {
  if (!ignores_vendors.load(std::memory_order_relaxed) || !is_vendor_code(caller)) {
    count.fetch_add(1, std::memory_order_relaxed);
  }
}

bool must_fail(void* caller) {
  if (!is_failing.load(std::memory_order_relaxed)) {
    return false;
  }
  const std::uint64_t number = calls.fetch_add(1);
  return number >= fail_from.load() && number < fail_to.load() && !is_vendor_code(caller);
}

void* allocate(std::size_t byte_count, std::size_t alignment, void* caller) {
  count_call(caller);
  if (must_fail(caller)) {
    throw std::bad_alloc();
  }
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

IgnoreVendorAllocations::IgnoreVendorAllocations() {
  ignores_vendors = true;
}
IgnoreVendorAllocations::~IgnoreVendorAllocations() {
  ignores_vendors = false;
}

FailAllocations::FailAllocations(std::uint64_t first, Which which) {
  fail_from = first;
  fail_to = which == Which::kOne ? first + 1 : UINT64_MAX;
  calls = 0;
  is_failing = true;
}
FailAllocations::~FailAllocations() {
  is_failing = false;
}
std::uint64_t FailAllocations::call_count() {
  return calls;
}
}  // namespace yoke::test

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
__attribute__((visibility("default"))) void* operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
__attribute__((visibility("default"))) void* operator new[](std::size_t size) {
  return allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
__attribute__((visibility("default"))) void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
__attribute__((visibility("default"))) void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
// Used by library functions such as std::stable_sort that have a fallback if memory is short.
__attribute__((visibility("default"))) void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* const caller = __builtin_return_address(0);
  count_call(caller);
  return must_fail(caller) ? nullptr : std::malloc(size == 0 ? 1 : size);
}
__attribute__((visibility("default"))) void* operator new[](std::size_t size,
                                                            const std::nothrow_t&) noexcept {
  void* const caller = __builtin_return_address(0);
  count_call(caller);
  return must_fail(caller) ? nullptr : std::malloc(size == 0 ? 1 : size);
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
