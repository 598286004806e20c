// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/audit.h: checks the verifier's guarantees iteration by iteration. The reference executor checks
// accesses while it runs, which would hide errors of backends that do not.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <span>

namespace yoke::fuzz {

// Walks through every iteration of a verified program with these symbol values. Throws Finding when an
// affine index is out of range, a gather has no `else`, two iterations write one element, an element is
// read that was never written or that another iteration writes, or an `out` argument is not fully written.
void audit(const program::Program& program, std::span<const std::int64_t> symbols);

}  // namespace yoke::fuzz
