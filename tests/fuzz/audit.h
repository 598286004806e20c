// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/audit.h: counts out what the verifier promises. The reference executor checks as it goes, and
// would hide what a backend without checks runs into.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <span>

namespace yoke::fuzz {

// Walks through every iteration of a verified program with these symbol values. Throws Finding where an
// affine index leaves its tensor, a gather has no `else`, two iterations write one element, an element is
// read that was never written or that another iteration writes, or an `out` argument is not wholly written.
void audit(const program::Program& program, std::span<const std::int64_t> symbols);

}  // namespace yoke::fuzz
