// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/sized.h: reads and writes structs and
// rows whose size differs between host and plugin.
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

// Copies the part of `*theirs` that both sides know to `mine`; the rest of `mine` is unchanged.
template <class T>
void read_sized(T& mine, const T* theirs) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  std::uint64_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  std::memcpy(&mine, theirs, static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof(T))));
}

// As read_sized, for a table of functions: a slot that is only partly inside struct_size is ignored.
template <class T>
void read_table(T& mine, const T* theirs) noexcept {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(void*) == 0);
  std::uint64_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  size = std::min<std::uint64_t>(size, sizeof(T)) / sizeof(void*) * sizeof(void*);
  std::memcpy(&mine, theirs, static_cast<std::size_t>(size));
}

// Writes the part of `mine` that both sides know to the caller's struct; its struct_size is unchanged.
template <class T>
void write_sized(T mine, T* theirs) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::uint64_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  if (size < sizeof size) {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT,
                  "struct_size of the out struct is " + std::to_string(size) + "; set it to its sizeof");
  }
  mine.struct_size = size;
  std::memcpy(theirs, &mine, static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof(T))));
}

// The address of row `index` of an array whose rows are `stride` bytes apart.
template <class T>
T* row_of(T* rows, std::uint64_t stride, std::uint64_t index) noexcept {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(rows) + index * stride);
}

// Copies the part of row `index` of the caller's array that both sides know; the rest is zero.
template <class T>
T read_row(const T* rows, std::uint64_t stride, std::uint64_t index) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T row{};
  std::memcpy(&row, row_of(rows, stride, index),
              static_cast<std::size_t>(std::min<std::uint64_t>(stride, sizeof(T))));
  return row;
}

// Copies text into a field of a struct, with a closing zero; text that is
// too long is cut between two UTF-8 characters.
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
