// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/count_allocations.cpp: every allocation of the test program, counted.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace yoke::test {

std::atomic<std::uint64_t> allocation_count{0};

}  // namespace yoke::test

void* operator new(std::size_t byte_count) {
  yoke::test::allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(byte_count == 0 ? 1 : byte_count)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
