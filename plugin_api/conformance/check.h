// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/check.h: the exceptions that end a test, and the checks that throw them.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace yoke::conformance {

// The plugin broke a promise. The text states what was done, what happened, and what was expected.
class Failed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The plugin does not offer the ability under test. The text is the
// plugin's reason, or names the missing ability.
class Unsupported : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Failed. The driver receives the text first, in case the plugin crashes while the stack unwinds.
[[noreturn]] void fail(const std::string& text);
void announce(const std::string& failure);  // sends the text to the driver
bool has_failed();                          // whether a failure was announced
// Ends the process if a failure was announced, so that the driver reports it now and not at the test's deadline.
void give_up();

// While it lives, failures are not announced, because the test handles them.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

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

// Fails with the concatenated parts. Builds no string if the condition holds.
template <class... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]] {
    fail(text(parts...));
  }
}

// check_equal(info.byte_count, 64, "byte_count of a 64-byte buffer")
template <class Actual, class Expected, class... Parts>
void check_equal(const Actual& actual, const Expected& expected, const Parts&... what) {
  bool equal = false;
  if constexpr (std::integral<Actual> && std::integral<Expected>) {
    equal = std::cmp_equal(actual, expected);
  } else {
    equal = actual == expected;
  }
  if (!equal) [[unlikely]] {
    fail(text(what..., " is ", actual, ", expected ", expected));
  }
}

}  // namespace yoke::conformance
