// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/usage.h: exit codes and the error for a wrong command line.
#pragma once

#include <stdexcept>

namespace yoke::conformance {

inline constexpr int kAllPassed = 0;
inline constexpr int kSomeFailed = 1;
inline constexpr int kWrongUsage = 2;
inline constexpr int kNothingTested = 3;  // every test is unsupported

// A wrong command line or expectations file; main prints the text and exits with kWrongUsage.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace yoke::conformance
