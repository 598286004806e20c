// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/sized.h: structs that start with their own size, read and written by
// whoever knows less of them.
#pragma once

#include <yoke/sdk/failure.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace yoke::sdk {

// Takes over what both sides know of `*theirs`; the rest of `mine` stays as it is (zero, in a fresh one).
template <class T>
void read_sized(T& mine, const T* theirs) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  std::uint64_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  std::memcpy(&mine, theirs, static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof(T))));
}

// As read_sized, for a table of functions: a slot that is only half inside struct_size is not there.
template <class T>
void read_table(T& mine, const T* theirs) noexcept {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(void*) == 0);
  std::uint64_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  size = std::min<std::uint64_t>(size, sizeof(T)) / sizeof(void*) * sizeof(void*);
  std::memcpy(&mine, theirs, static_cast<std::size_t>(size));
}

// Hands out what both sides know of `mine`; the caller's struct_size stays.
template <class T>
void write_sized(T mine, T* theirs) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::uint64_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  if (size < sizeof size) {
    throw Failure(YOKE_INVALID_ARGUMENT, "an out struct has struct_size " + std::to_string(size) +
                                             ": the caller sets it to its sizeof");
  }
  mine.struct_size = size;
  std::memcpy(theirs, &mine, static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof(T))));
}

// Row `index` of the caller's array, whose rows are as long as the first one says.
template <class T>
T* row_of(T* rows, std::uint64_t index) noexcept {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  std::uint64_t stride = 0;
  std::memcpy(&stride, rows, sizeof stride);
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(rows) + index * stride);
}

// Copies text into a field of a struct, closed by a zero, cut between two UTF-8 characters where it is too
// long.
template <std::size_t kCapacity>
void set_text(char (&field)[kCapacity], std::string_view text) noexcept {
  std::size_t length = std::min(text.size(), kCapacity - 1);
  if (length < text.size()) {
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) {
      --length;
    }
  }
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

}  // namespace yoke::sdk
