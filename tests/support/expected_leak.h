// SPDX-License-Identifier: Apache-2.0
// tests/support/expected_leak.h: makes the leak checker ignore allocations
// of this thread, for tests of deliberate leaks.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace yoke::test {

class ExpectedLeak {
 public:
#if defined(__SANITIZE_ADDRESS__)
  ExpectedLeak() {
    __lsan_disable();
  }
  ~ExpectedLeak() {
    __lsan_enable();
  }
#else
  ExpectedLeak() {}
  ~ExpectedLeak() {}
#endif
  ExpectedLeak(const ExpectedLeak&) = delete;
  ExpectedLeak& operator=(const ExpectedLeak&) = delete;
};

}  // namespace yoke::test
