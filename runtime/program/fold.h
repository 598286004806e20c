// SPDX-License-Identifier: Apache-2.0
// runtime/program/fold.h: the two ways in which an expression gets smaller: computed, or by a rule.
#pragma once

#include <optional>

#include "rewrite.h"

namespace yoke::passes {

// A node whose arguments are constants, computed by the reference executor. Nothing where the result is NaN,
// whose bits a literal does not carry.
std::optional<Expr> computed(const Expr& expr);

// What the node equals, bit for bit, for every value of its arguments (a NaN may become another NaN).
std::optional<Expr> simplified(const Expr& expr);

}  // namespace yoke::passes
