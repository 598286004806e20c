// SPDX-License-Identifier: Apache-2.0
// runtime/loader/private_libraries.h: checks a plugin's private libraries, those that the linker finds in
// folders that the plugin names itself, such as $ORIGIN.
#pragma once

#include <filesystem>
#include <vector>

#include "loader/file_check.h"

namespace yoke::loader {

// Checks each private library with admit_alone, recursively, and adds it to `admission`. Also refuses a
// folder that depends on the working directory or on the machine, whose libraries cannot be checked in
// advance. Does not check the system's folders, ld.so.cache, LD_LIBRARY_PATH and the application's folders.
// Precondition: `plugin` passed admit_alone, with the result `admission`.
Refusal admit_private_libraries(const std::filesystem::path& plugin, const Trust& trust,
                                Admission& admission);

}  // namespace yoke::loader
