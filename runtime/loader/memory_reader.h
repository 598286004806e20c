// SPDX-License-Identifier: Apache-2.0
// runtime/loader/memory_reader.h: reads through pointers that may point anywhere, and text that may not end.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace yoke::loader {

// Copies by way of the kernel, which answers EFAULT where a load would kill the process. One thread at a
// time.
class MemoryReader {
 public:
  // Throws Error kResourceExhausted when the process has no file descriptors left.
  MemoryReader();
  ~MemoryReader();
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;

  // False: not all of it can be read; `to` is then undefined.
  bool copy(const void* from, std::size_t byte_count, void* to) const noexcept;
  bool readable(const void* from) const noexcept;

  // The bytes before the first zero; cut at `capacity` bytes. Nothing: it cannot be read.
  std::optional<std::string> text(const char* from, std::size_t capacity) const;

 private:
  int in_ = -1;
  int out_ = -1;
};

// For messages: control characters and bytes that are no UTF-8 become \xNN, and what is longer than
// `capacity` bytes ends in "...".
std::string printable(std::string_view text, std::size_t capacity = 100);

}  // namespace yoke::loader
