// SPDX-License-Identifier: Apache-2.0
// tests/mutant/rewrite_parts.h: what rewrite.cpp and rewrite_indices.cpp share.
#pragma once

#include <yoke/program/program.h>

#include <functional>

namespace yoke::mutant {

using Change = std::function<void(program::Expr&)>;

// Visits arguments first, so that the result of a change is not changed again.
inline void change_each(program::Expr& expr, const Change& change) {
  for (program::Expr& arg : expr.args) {
    change_each(arg, change);
  }
  change(expr);
}

inline void change_each(program::Program& program, const Change& change) {
  for (program::Statement& statement : program.statements) {
    change_each(statement.value, change);
  }
}

inline program::Expr number(program::Type type, double value) {
  return program::Expr::constant(type, value);
}

void plant_in_indices(program::Program& program);

}  // namespace yoke::mutant
