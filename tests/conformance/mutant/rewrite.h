// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/rewrite.h: plants a bug into a program, so that the reference executor computes
// what a broken backend would.
#pragma once

#include <yoke/program/program.h>

#include <vector>

namespace yoke::mutant {

// What runs in place of `source`: one program, or several that are run in turn. Tensors may be added behind
// those of the source. The same as the source where no bug of programs is on.
std::vector<program::Program> planted_variants(const program::Program& source);

}  // namespace yoke::mutant
