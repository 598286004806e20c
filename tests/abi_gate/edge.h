// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/edge.h: memory that ends at an inaccessible page.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace yoke::test {

// `byte_count` bytes of kFilling, aligned to 8. An access past the end,
// rounded up to 8 bytes, crashes the process.
class Edge {
 public:
  static constexpr unsigned char kFilling = 0xAB;
  static constexpr std::size_t kAlignment = alignof(std::uint64_t);

  explicit Edge(std::size_t byte_count) : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    mapped_ = (byte_count / page_ + 2) * page_;
    pages_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED || ::mprotect(end(), page_, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
    const std::size_t rounded = (byte_count + kAlignment - 1) / kAlignment * kAlignment;
    start_ = end() - rounded;
    std::memset(start_, kFilling, rounded);
  }
  // The first `byte_count` bytes of `whole`, padded with kFilling.
  template <class T>
  Edge(const T& whole, std::size_t byte_count) : Edge(byte_count) {
    std::memcpy(start_, &whole, byte_count < sizeof(T) ? byte_count : sizeof(T));
  }
  ~Edge() { ::munmap(pages_, mapped_); }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(start_);
  }
  std::byte* data() const { return start_; }

 private:
  std::byte* end() const { return static_cast<std::byte*>(pages_) + mapped_ - page_; }

  std::size_t page_;
  std::size_t mapped_ = 0;
  void* pages_ = nullptr;
  std::byte* start_ = nullptr;
};

}  // namespace yoke::test
