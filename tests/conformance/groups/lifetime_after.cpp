// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/lifetime_after.cpp: what a plugin does when it is gone.
#include <chrono>
#include <thread>

#include "basic_use.h"
#include "groups.h"

namespace yoke::conformance {
namespace {

// The host's table is borrowed until destroy returns.
void host_is_left_alone(Kit& kit) {
  const std::vector<yoke_option> options = kit.device_options();
  const std::size_t threads = thread_count();
  auto owned = std::make_unique<Host>();
  const Host& host = *owned;  // lives as long as `plugin`
  const yoke_entry_args args = owned->args();
  Plugin plugin(kit.library(), args, std::move(owned));
  if (plugin.device_count() > kit.settings().device) {
    Device device(kit, plugin, kit.settings().device, options);
    use_everything(device);
    device.close();
  }
  plugin.leave();
  const std::vector<std::string> before = host.lines();
  const std::uint64_t allocations = host.allocations_made();
  // As long as a thread is left that may still call. A library's pool stays, so not for ever.
  for (int i = 0; i < 200 && thread_count() > threads; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::vector<std::string> after = host.lines();
  check(after.size() == before.size(), "the plugin logged after its destroy had returned: '",
        after.empty() ? "" : after.back(), "'");
  check_equal(host.allocations_made(), allocations, "host allocations after destroy had returned");
  check(host.faults().empty(), "after destroy had returned: ", host.faults().empty() ? "" : host.faults()[0]);
}

}  // namespace

std::vector<Test> lifetime_after_tests() {
  return {{"host-is-left-alone",
           "nothing of the host is called after destroy has returned",
           {22, 35},
           host_is_left_alone}};
}

}  // namespace yoke::conformance
