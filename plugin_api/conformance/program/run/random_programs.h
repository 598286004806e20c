// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/random_programs.h: runs random programs in child
// processes, and shrinks a program that fails.
#pragma once

#include <cstdint>

#include "../generator.h"
#include "kit.h"

namespace yoke::conformance {

// Runs the programs part, part + parts, part + 2 * parts ... below settings().programs. Fails
// with the first program that has a wrong result, after shrinking it. Precondition: the
// plugin has not been loaded in this process.
void run_random_programs(Kit& kit, std::uint64_t part, std::uint64_t parts);

// Generator options for the types of the device.
GeneratorOptions generator_options(Device& device);

// Random cases without unsupported statements. Throws Unsupported if there are none among many.
std::vector<Case> supported_cases(Device& device, std::size_t count);

// Whether the backend supports every statement of many random programs.
bool runs_everything(Device& device);

}  // namespace yoke::conformance
