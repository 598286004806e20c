// SPDX-License-Identifier: Apache-2.0
// tests/mutant/rewrite.h: plants a bug in a program, so that the reference
// executor computes the result of a broken backend.
#pragma once

#include <yoke/program/program.h>

#include <vector>

namespace yoke::mutant {

// Returns the program that runs in place of `source`, or several that run in turn. New tensors follow
// those of the source. Returns the source itself if no bug of programs is switched on.
std::vector<program::Program> planted_variants(const program::Program& source);

}  // namespace yoke::mutant
