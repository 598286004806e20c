// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/count_allocations.cpp: every allocation of the test program, counted. A file of its own,
// because g++ warns where it inlines only one of the two sides.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace yoke::test {
std::atomic<std::uint64_t> allocation_count{0};
}

void* operator new(std::size_t byte_count) {
  ++yoke::test::allocation_count;
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
