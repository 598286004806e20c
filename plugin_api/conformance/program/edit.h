// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/edit.h: edits for the shrinker that keep a case valid.
#pragma once

#include <functional>

#include "case.h"

namespace yoke::conformance {

// Calls `visit` for every subexpression, outermost first.
void visit_expressions(program::Expr& expr, const std::function<void(program::Expr&)>& visit);
// Calls `visit` for every affine index of the target and the value, including those in
// gathers, but not for loops used as values.
void visit_affines(program::Statement& statement, const std::function<void(program::Affine&)>& visit);
// Calls `visit` for every access of the target and the value.
void visit_accesses(program::Statement& statement, const std::function<void(program::Access&)>& visit);

// Numbers hints in the order of their statements, and drops unused ones.
void renumber_hints(program::Program& program);

// Replaces a loop or symbol by a number in the whole statement. The loop stays in the list, unused.
void replace_term(program::Statement& statement, bool is_symbol, std::uint32_t id, std::int64_t value);

bool is_valid(const program::Program& program);

// Repairs a case after an edit: updates roles to what is read and written, puts loops in order, and
// removes unused tensors, symbols, loops and hints. Returns whether the case is valid.
bool tidy(Case& one);

// The size that the shrinker minimizes: first the number of statements, then the length of the text and the
// sizes of loops and tensors, then the numbers in indices.
double weight(const Case& one);

}  // namespace yoke::conformance
