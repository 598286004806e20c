// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/edit.h: changes to a case that keep it a valid one, for the shrinker.
#pragma once

#include <functional>

#include "case.h"

namespace yoke::conformance {

// Calls `visit` on every expression of a statement, outermost first.
void visit_expressions(program::Expr& expr, const std::function<void(program::Expr&)>& visit);
// On every affine index of target and value, also those inside of gathers; not on loops as values.
void visit_affines(program::Statement& statement, const std::function<void(program::Affine&)>& visit);
// On every access of target and value.
void visit_accesses(program::Statement& statement, const std::function<void(program::Access&)>& visit);

// The loop (or symbol) becomes a number everywhere in the statement; the loop stays in the list, unused.
void replace_term(program::Statement& statement, bool is_symbol, std::uint32_t id, std::int64_t value);

// Gives back whether the case is a valid one after: roles that fit what is read and written now, loops in
// order, and no tensor, symbol, loop or hint that nothing uses.
bool tidy(Case& one);

// What the shrinker makes smaller: statements first, then operations, tensors, indices, sizes.
double weight(const Case& one);

}  // namespace yoke::conformance
