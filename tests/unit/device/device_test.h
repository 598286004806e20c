// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/device_test.h: a fixture that opens a fake device when it is first needed, with the
// options and the control that the test has set by then.
#pragma once

#include <optional>

#include "rig.h"

namespace yoke::test {

class DeviceTest : public testing::Test {
 protected:
  Rig& rig() {
    if (!rig_) {
      rig_.emplace(control_, options_);
    }
    return *rig_;
  }
  const std::shared_ptr<Backend>& backend() { return rig().backend; }
  const std::shared_ptr<Device>& device() { return rig().device; }

  std::shared_ptr<Control> control_ = std::make_shared<Control>();
  RuntimeOptions options_;
  std::optional<Rig> rig_;
};

// Two programs: one with a symbol, one without; `b` is read and written.
inline constexpr std::string_view kTwoPrograms = R"(yoke.program 1
program first(symbol row in 0..100 step 10) {
  arg x : f32[100, 4] in
  arg y : f32[10, 4] out
  y[n, i] = x[row + n, i] * 2.0
}
program second() {
  arg a : f32[8] in
  arg b : f32[8] inout
  b[i] = b[i] + exp(a[i])
}
)";

}  // namespace yoke::test
