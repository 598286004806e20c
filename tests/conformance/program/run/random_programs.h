// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/run/random_programs.h: draws, runs, and on failure shrinks, in processes that may
// die.
#pragma once

#include <cstdint>

#include "../generator.h"
#include "kit.h"

namespace yoke::conformance {

// Runs the programs part, part + parts, part + 2 * parts ... below settings().programs. Must be the first to
// touch the plugin. Failed: the first program that is wrong, made small; Unsupported: there are no programs.
void run_random_programs(Kit& kit, std::uint64_t part, std::uint64_t parts);

// What the device computes with, for the generator.
GeneratorOptions generator_options(Device& device);

}  // namespace yoke::conformance
