// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/loading.cpp: the checks of yoke's own loader, so
// that an author reads the same error as a user.
#include <yoke/runtime/runtime.h>

#include "plugin.h"

namespace yoke::conformance {

void check_loadable(const std::filesystem::path& file) {
  current_function().store(kDlopen, std::memory_order_relaxed);
  try {
    open_plugin_file(file);
  } catch (const Error& error) {
    fail(error.what());
  }
  current_function().store(kNoFunction, std::memory_order_relaxed);
}

}  // namespace yoke::conformance
