// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/shortest.h: numbers as texts, for messages and files.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <string>

namespace yoke::detail {

// The shortest text that reads back as the same number: "-1", "0.1".
template <std::floating_point Number>
std::string shortest(Number value) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

}  // namespace yoke::detail
