// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/device_each.cpp: every device that is counted is there.
#include "groups.h"

namespace yoke::conformance {
namespace {

// A device may be taken, broken or forbidden, but one that is counted exists.
void opens_each(Kit& kit) {
  kit.device();
  const Plugin& plugin = kit.plugin();
  const std::uint32_t count = plugin.device_count();
  std::uint32_t opened = 0;
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    yoke_device* device = nullptr;
    const Answer answer =
        plugin.call<&yoke_backend_api::device_open>(plugin.get(), ordinal, nullptr, 0U, &device);
    if (answer.ok()) {
      check(device != nullptr, "device_open answered OK without a device");
      expect_ok(plugin.call<&yoke_backend_api::device_close>(device), "closing a device that was not used");
      ++opened;
    } else {
      check(answer.code != YOKE_OUT_OF_RANGE && answer.code != YOKE_INVALID_ARGUMENT &&
                answer.code != YOKE_INTERNAL,
            "device_count is ", count, ", but opening device ", ordinal, ": ", answer.words());
      expect_refused(answer, text("opening device ", ordinal));
    }
  }
  kit.note(text(opened, " of ", count, " devices open"));
}

}  // namespace

std::vector<Test> device_each_tests() {
  return {
      {"opens-each", "each device that is counted opens, or says what is wrong with it", {12}, opens_each}};
}

}  // namespace yoke::conformance
