// SPDX-License-Identifier: Apache-2.0
// tests/support/error_of.h: the Error that a call throws, and matchers for it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/runtime/error.h>

namespace yoke {

// Prints an Error in GoogleTest's failure messages.
inline void PrintTo(const Error& error, std::ostream* out) {
  *out << code_name(error.code()) << ": " << error.what();
}

namespace test {

// Fails the test if `call` does not throw an Error.
template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return {ErrorCode::kOk, ""};
}

// Matches an Error with this code whose text contains every part.
template <class... Parts>
::testing::Matcher<const Error&> is_error(ErrorCode code, const Parts&... parts) {
  return ::testing::AllOf(::testing::Property("code", &Error::code, code),
                          ::testing::ResultOf(
                              "its text", [](const Error& error) { return std::string(error.what()); },
                              ::testing::AllOf(::testing::HasSubstr(parts)..., ::testing::A<std::string>())));
}

}  // namespace test
}  // namespace yoke

// Fails the test if the statement does not throw an Error with this code.
#define EXPECT_ERROR(code_, ...) \
  EXPECT_THAT(::yoke::test::error_of([&] { __VA_ARGS__; }), ::yoke::test::is_error(code_))
