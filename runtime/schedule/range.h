// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/range.h: checks that a view is inside its buffer, and composes the error message; texts of
// numbers for other messages.
#pragma once

#include <yoke/runtime/counted.h>
#include <yoke/runtime/device.h>

#include <cstdint>
#include <string>

namespace yoke::detail {

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
    return counted(view.byte_count, "byte") + " from offset " + std::to_string(view.offset) +
           (view.byte_count == 1 ? " exceeds " : " exceed ") + buffer;
  }
  return "range [" + std::to_string(view.offset) + ", " + std::to_string(end) + ") exceeds " + buffer;
}

}  // namespace yoke::detail
