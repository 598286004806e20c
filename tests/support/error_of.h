// SPDX-License-Identifier: Apache-2.0
// tests/support/error_of.h: the Error that a call throws.
#pragma once

#include <gtest/gtest.h>
#include <yoke/runtime/error.h>

namespace yoke::test {

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

}  // namespace yoke::test
