// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fold.h: the two ways to shrink an expression: evaluate it, or apply a rule.
#pragma once

#include <optional>

#include "rewrite.h"

namespace yoke::passes {

// Evaluates a node whose arguments are constants. Returns nothing for a
// NaN, because a literal does not keep its bits.
std::optional<Expr> computed(const Expr& expr);

// Returns an equal but simpler node: equal bit for bit for all values of its
// arguments (a NaN may become a different NaN).
std::optional<Expr> simplified(const Expr& expr);

}  // namespace yoke::passes
