// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/counted.h: counts with their nouns, for messages.
#pragma once

#include <concepts>
#include <string>

namespace yoke::detail {

// "symbol" for 1, else "symbols"; `plural` is for nouns that need more than an "s".
template <std::integral Count>
std::string noun_for(Count count, const char* noun, const char* plural = nullptr) {
  return count == 1 ? noun : plural != nullptr ? plural : std::string(noun) + "s";
}

// "1 symbol", "3 symbols".
template <std::integral Count>
std::string counted(Count count, const char* noun, const char* plural = nullptr) {
  return std::to_string(count) + " " + noun_for(count, noun, plural);
}

}  // namespace yoke::detail
