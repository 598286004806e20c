// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/memory_test.cpp: the layers read memory that may be unmapped, also where the kernel forbids it.
#include "layers/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace yoke::test {

static std::atomic<int> refusal{0};  // the error of process_vm_readv; 0: it works

// Replaces that of the C library.
extern "C" __attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t process, const iovec* to,
                                                                           unsigned long to_count,
                                                                           const iovec* from,
                                                                           unsigned long from_count,
                                                                           unsigned long flags) {
  if (const int error = refusal.load(); error != 0) {
    errno = error;
    return -1;
  }
  return ::syscall(SYS_process_vm_readv, process, to, to_count, from, from_count, flags);
}

namespace {

constexpr std::size_t kBlock = 64 * 1024;  // that is hashed at once

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + (i >> 8U));
  }
  return bytes;
}

TEST(LayersMemory, HashesOfAllSizesAreThoseOfTheWholeRange) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 5}) {
    const auto bytes = some_bytes(size);
    layers::Hash hash;
    EXPECT_TRUE(layers::hash_mapped(bytes.data(), size, hash)) << size;
    EXPECT_EQ(hash, layers::hash_of(bytes.data(), size)) << size;
  }
}

TEST(LayersMemory, UnmappedMemoryIsNotRead) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t size = kBlock + page;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::munmap(static_cast<std::byte*>(memory) + kBlock, page), 0);
  std::vector<std::byte> copy(size);
  layers::Hash hash;
  EXPECT_FALSE(layers::hash_mapped(memory, size, hash)) << "the last page is missing";
  EXPECT_FALSE(layers::copy_mapped(memory, size, copy.data()));
  EXPECT_FALSE(layers::copy_mapped(nullptr, 1, copy.data()));
  EXPECT_TRUE(layers::hash_mapped(memory, kBlock, hash));
  EXPECT_TRUE(layers::copy_mapped(memory, kBlock, copy.data()));
  ::munmap(memory, kBlock);
}

TEST(LayersMemory, MemoryIsReadDirectlyWhereTheKernelForbidsTheCall) {
  const auto bytes = some_bytes(100);
  for (const int error : {EPERM, ENOSYS, EFAULT}) {
    std::vector<std::byte> copy(100);
    refusal = error;
    const bool is_read = layers::copy_mapped(bytes.data(), 100, copy.data());
    refusal = 0;
    EXPECT_EQ(is_read, error != EFAULT);
    EXPECT_EQ(copy == bytes, error != EFAULT);
  }
}

}  // namespace
}  // namespace yoke::test
