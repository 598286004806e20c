// SPDX-License-Identifier: Apache-2.0
// runtime/loader/sanitizer.h: plugins that were built with a sanitizer whose runtime this process lacks.
#pragma once

#include <string_view>

#include "loader/file_check.h"

namespace yoke::loader {

// Refuses a file that needs the runtime of a sanitizer that is not loaded. Loading it with the plugin would be too
// late: these runtimes end the process if they are not loaded first. The undefined behavior sanitizer may be loaded
// late.
Refusal check_sanitizer(const Admission& admitted);

// A refusal if the linker's message names a function of a sanitizer's runtime: Clang leaves these functions undefined.
Refusal sanitizer_of(std::string_view linker_message);

}  // namespace yoke::loader
