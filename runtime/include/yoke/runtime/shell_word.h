// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/shell_word.h: text as one word of a shell command, for messages with a command to copy.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace yoke::detail {

// "a" of "a", and "'a b'" of "a b", as a POSIX shell reads it.
inline std::string shell_word(const std::string& text) {
  constexpr std::string_view kSafe = "/._-+,:@%=";
  const auto is_safe = [&](char c) {
    const auto code = static_cast<unsigned char>(c);
    return std::isalnum(code) != 0 || code >= 0x80 || kSafe.find(c) != kSafe.npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_safe)) {
    return text;
  }
  std::string all = "'";
  for (const char c : text) {
    all += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return all + "'";
}

}  // namespace yoke::detail
