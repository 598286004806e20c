// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/range.h: checks that a view is inside its buffer, and composes the error message; texts of counts
// and numbers for other messages.
#pragma once

#include <yoke/runtime/device.h>

#include <cstdint>
#include <string>

namespace yoke::detail {

// "1 symbol", "3 symbols".
inline std::string counted(std::uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// "shard 3 is out of range [0, 3)".
inline std::string outside_text(const char* what, std::uint64_t number, std::uint64_t count) {
  return std::string(what) + " " + std::to_string(number) + " is out of range [0, " + std::to_string(count) +
         ")";
}

// Precondition: the view has a buffer, here and below.
inline bool is_in_range(const BufferView& view) {
  const std::uint64_t capacity = view.buffer->byte_count();
  return view.offset <= capacity && view.byte_count <= capacity - view.offset &&
         view.padding <= capacity - view.offset - view.byte_count;
}

// "range [8, 24) exceeds the 16-byte buffer", or the same without the end where that overflows.
inline std::string range_text(const BufferView& view) {
  const std::string buffer = "the " + std::to_string(view.buffer->byte_count()) + "-byte buffer";
  const std::uint64_t end = view.offset + view.byte_count + view.padding;
  if (end < view.offset) {
    return std::to_string(view.byte_count) + " bytes from offset " + std::to_string(view.offset) +
           " exceed " + buffer;
  }
  return "range [" + std::to_string(view.offset) + ", " + std::to_string(end) + ") exceeds " + buffer;
}

}  // namespace yoke::detail
