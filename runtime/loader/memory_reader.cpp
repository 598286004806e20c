// SPDX-License-Identifier: Apache-2.0
// runtime/loader/memory_reader.cpp: reads memory through a pipe, which every sandbox allows.
#include "loader/memory_reader.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/utf8.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace yoke::loader {
namespace {

// No larger than the buffer of any pipe.
constexpr std::size_t kChunk = 4096;

}  // namespace

MemoryReader::MemoryReader() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kResourceExhausted, std::string("cannot check a plugin: pipe: ") +
                                                   std::strerror(errno) +
                                                   "; close unused files, or raise the limit (ulimit -n)");
  }
  in_ = ends[1];
  out_ = ends[0];
}

MemoryReader::~MemoryReader() {
  ::close(in_);
  ::close(out_);
}

bool MemoryReader::copy(const void* from, std::size_t byte_count, void* to) const noexcept {
  for (std::size_t done = 0; done < byte_count;) {
    const std::size_t chunk = std::min(kChunk, byte_count - done);
    // A plain system call: a sanitizer's wrapper of write() would read the memory itself.
    const long written = ::syscall(SYS_write, in_, static_cast<const char*>(from) + done, chunk);
    if (written <= 0) {
      return false;
    }
    const auto count = static_cast<std::size_t>(written);
    if (::read(out_, static_cast<char*>(to) + done, count) != written) {
      return false;
    }
    done += count;
  }
  return true;
}

bool MemoryReader::readable(const void* from) const noexcept {
  char byte = 0;
  return copy(from, 1, &byte);
}

std::optional<std::string> MemoryReader::text(const char* from, std::size_t capacity) const {
  constexpr std::uintptr_t kPage = 4096;  // the smallest page size: the page after the text may be unreadable
  std::string text;
  while (text.size() < capacity) {
    char bytes[kPage];
    const auto address = reinterpret_cast<std::uintptr_t>(from) + text.size();
    const std::size_t count = std::min<std::size_t>(capacity - text.size(), kPage - address % kPage);
    if (!copy(from + text.size(), count, bytes)) {
      return std::nullopt;
    }
    const std::size_t length = strnlen(bytes, count);
    text.append(bytes, length);
    if (length < count) {
      break;
    }
  }
  return text;
}

std::string address_text(const void* address) {
  char text[32];
  std::snprintf(text, sizeof(text), "%p", address);
  return text;
}

std::string printable(std::string_view text, std::size_t capacity) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= capacity) {
      return out + "...";
    }
    const std::size_t size = detail::character_size(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (size == 0 || first < 0x20 || first == 0x7F) {
      constexpr const char* kDigits = "0123456789abcdef";
      out.append("\\x").append(1, kDigits[first >> 4U]).append(1, kDigits[first & 15U]);
      text.remove_prefix(1);
    } else {
      out.append(text.substr(0, size));
      text.remove_prefix(size);
    }
  }
  return out;
}

}  // namespace yoke::loader
