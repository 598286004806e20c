// SPDX-License-Identifier: Apache-2.0
// runtime/loader/memory_reader.h: reads through pointers that may be
// invalid, and texts that may be unterminated.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace yoke::loader {

// Copies through the kernel, which fails with EFAULT where a load would kill the process. Not thread-safe.
class MemoryReader {
 public:
  // Throws Error kResourceExhausted if the process has no file descriptors left.
  MemoryReader();
  ~MemoryReader();
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;

  // Returns false if some of the bytes are unreadable; the contents of `to` are then undefined.
  bool copy(const void* from, std::size_t byte_count, void* to) const noexcept;
  bool readable(const void* from) const noexcept;

  // The text up to its terminating zero, or its first `capacity` bytes. Returns nothing if it is unreadable.
  std::optional<std::string> text(const char* from, std::size_t capacity) const;

 private:
  int in_ = -1;
  int out_ = -1;
};

// For messages: escapes control characters and invalid UTF-8 as \xNN,
// and cuts after `capacity` bytes with "...".
std::string printable(std::string_view text, std::size_t capacity = 100);
std::string address_text(const void* address);  // "0x7f00"

}  // namespace yoke::loader
