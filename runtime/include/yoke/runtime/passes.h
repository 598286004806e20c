// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/passes.h: optimization of programs before they are compiled. Every pass maps
// a verified program to a verified program with the same results.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <string>
#include <vector>

namespace yoke::passes {

// Removes statements whose results are not read, and unused temporaries.
program::Program remove_dead_statements(program::Program program);
// Evaluates operations on constants, and applies identities that are exact for every input, NaN and
// -0.0 included: x*1, select(true,..).
program::Program fold_constants(program::Program program);
// Computes equal statements over equal inputs once. Equal subexpressions
// within a statement are left to the backend.
program::Program eliminate_common(program::Program program);
// Substitutes elementwise temporaries in their only consumer, or in several if that costs no more
// than reading them. A contraction's operands never become computed values, and no element is
// computed more often than before.
program::Program fuse(program::Program program);

// Runs all passes until none changes the program.
program::Program optimize(program::Program program);

}  // namespace yoke::passes
