// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/passes.h: programs made fast before a backend sees them. Every pass keeps the
// meaning and the verifier's rules.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <string>
#include <vector>

namespace yoke::passes {

// Statements whose results nobody reads, and temporaries that nobody uses, are removed.
program::Program remove_dead_statements(program::Program program);
// Constant operands are computed; x+0, x*1, select(true,..) and the like vanish where exact for every input
// (NaN, -0.0 included).
program::Program fold_constants(program::Program program);
// Equal statements over equal inputs are computed once, equal subexpressions within a statement are left to
// the backend.
program::Program eliminate_common(program::Program program);
// Elementwise temporaries move into their only consumer (or several, when that costs no more than reading
// them), never into a contraction's operands, never where an element would be computed more often than
// before.
program::Program fuse(program::Program program);

// All of them, until nothing changes; the result verifies.
program::Program optimize(program::Program program);

}  // namespace yoke::passes
