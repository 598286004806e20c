// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/counted_new.cpp: operator new that counts, in a file of its own so that no caller
// sees through it.
#include "counted_new.h"

#include <dlfcn.h>

#include <cstdlib>
#include <new>
#include <string_view>

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> ours{0};
std::atomic<std::uint64_t> in_libraries{0};

namespace {

// oneDNN's execute() builds a map of its arguments on every call, and its OpenMP runtime may allocate too:
// those are not yoke's to avoid, so calls that come straight from another vendor's library are counted apart.
bool is_vendor_library(void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) {
    return false;
  }
  const std::string_view file = info.dli_fname;
  return file.find("libdnnl") != std::string_view::npos || file.find("libgomp") != std::string_view::npos;
}

void* counted(std::size_t size, void* caller) {
  if (counting.load(std::memory_order_relaxed)) {
    (is_vendor_library(caller) ? in_libraries : ours).fetch_add(1, std::memory_order_relaxed);
  }
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size, __builtin_return_address(0));
}
void* operator new[](std::size_t size) {
  return counted(size, __builtin_return_address(0));
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return counted(size, __builtin_return_address(0));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
