// SPDX-License-Identifier: Apache-2.0
// tests/conformance/check.h: what a test throws, and the checks that throw it.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace yoke::conformance {

// The plugin broke what it claims; the text says what was done, what came, and what was due.
class Failed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The plugin does not claim what the test asks about; the text is the plugin's own reason, or what is absent.
class Unsupported : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Failed. The driver hears of it at once, in case the plugin does not survive the way out.
[[noreturn]] void fail(const std::string& text);
[[noreturn]] inline void unsupported(const std::string& reason) {
  throw Unsupported(reason);
}

namespace detail {

template <class Part>
void append(std::string& text, const Part& part) {
  if constexpr (std::is_same_v<Part, bool>) {
    text += part ? "true" : "false";
  } else if constexpr (std::is_same_v<Part, char>) {
    text += part;
  } else if constexpr (std::is_arithmetic_v<Part>) {
    text += std::to_string(part);
  } else {
    text += part;
  }
}

}  // namespace detail

// text("copy of ", byte_count, " bytes")
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string all;
  (detail::append(all, parts), ...);
  return all;
}

// Fails with the parts put together, which costs nothing where the condition holds.
template <class... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]] {
    fail(text(parts...));
  }
}

// check_equal(info.byte_count, 64, "byte_count of a buffer of 64 bytes")
template <class Actual, class Expected, class... Parts>
void check_equal(const Actual& actual, const Expected& expected, const Parts&... what) {
  bool equal = false;
  if constexpr (std::integral<Actual> && std::integral<Expected>) {
    equal = std::cmp_equal(actual, expected);
  } else {
    equal = actual == expected;
  }
  if (!equal) [[unlikely]] {
    fail(text(what..., ": it is ", actual, ", due is ", expected));
  }
}

}  // namespace yoke::conformance
