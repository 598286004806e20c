// SPDX-License-Identifier: Apache-2.0
// runtime/loader/private_libraries.h: the libraries that a plugin brings along: what the linker finds in
// folders that the plugin names itself, such as $ORIGIN.
#pragma once

#include <filesystem>
#include <vector>

#include "loader/file_check.h"

namespace yoke::loader {

// Passes each of them, and what they bring along in turn, through the gate that `plugin` has passed
// (admit_alone), and adds those that did to `admission`. Refused as well: a folder that depends on the
// working directory or on the machine, because nobody can say beforehand what lies there. Left to the system:
// its own folders, ld.so.cache, LD_LIBRARY_PATH and the application's folders.
Refusal admit_private_libraries(const std::filesystem::path& plugin, const Trust& trust,
                                Admission& admission);

}  // namespace yoke::loader
