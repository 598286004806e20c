// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/utf8.h: finds the characters of text that may be invalid UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace yoke::detail {

// The length of the UTF-8 character at the front of text that is not empty; 0 if it is invalid (overlong forms and
// surrogates too).
inline std::size_t character_size(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  const std::size_t size = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (size == 0 || first > 0xF4 || size > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  const bool refused = (first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) > 0x9F) ||
                       (first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) > 0x8F);
  return refused ? 0 : size;
}

}  // namespace yoke::detail
