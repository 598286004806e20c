// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/accesses.cpp: visits and renames the tensors that a unit's statements access.
#include "graph.h"

namespace yoke::detail::lowering {

using program::Access;
using program::Affine;
using program::Expr;
using program::Index;
using program::Op;
using program::Statement;

namespace {

void visit_reads(const Expr& expr, const std::function<void(const Access&)>& visit) {
  if (expr.op == Op::kRead) {
    visit(expr.access);
  }
  for (const Expr& arg : expr.args) {
    visit_reads(arg, visit);
  }
}

void rename_access(Access& access, const std::function<std::uint32_t(Id)>& rename) {
  access.tensor = rename(access.tensor);
  for (Index& index : access.indices) {
    if (index.element_of) {
      index.element_of = rename(*index.element_of);
    }
  }
}

void rename_expr(Expr& expr, const std::function<std::uint32_t(Id)>& rename) {
  if (expr.op == Op::kRead) {
    rename_access(expr.access, rename);
  }
  for (Expr& arg : expr.args) {
    rename_expr(arg, rename);
  }
}

}  // namespace

void for_each_read(const Unit& unit, const std::function<void(const Access&)>& visit) {
  const auto visit_elements = [&](const Access& access) {
    for (const Index& index : access.indices) {
      if (index.element_of) {
        Access element{*index.element_of, {}, std::nullopt};
        for (const Affine& affine : index.element_indices) {
          element.indices.push_back({affine, std::nullopt, {}});
        }
        visit(element);
      }
    }
  };
  for (const Statement& statement : unit.statements) {
    visit_elements(statement.target);
    visit_reads(statement.value, [&](const Access& access) {
      visit(access);
      visit_elements(access);
    });
  }
}

void rename_tensors(Unit& unit, const std::function<std::uint32_t(Id)>& rename) {
  for (Statement& statement : unit.statements) {
    rename_access(statement.target, rename);
    rename_expr(statement.value, rename);
  }
}

}  // namespace yoke::detail::lowering
