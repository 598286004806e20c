// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/generator_repeat.cpp: puts statements into repeat blocks, and arguments into
// shared memory.
#include <yoke/program/text.h>

#include <algorithm>

#include "edit.h"
#include "generator_impl.h"

namespace yoke::conformance {

using program::Access;
using program::Role;
using program::Statement;

// Some programs get a repeat block around some of their statements, some end with a scan.
void Generator::repeat_statements() {
  auto& statements = case_.program.statements;
  if (chance(15)) {
    std::size_t first = random_.below(statements.size());
    std::size_t last = std::min(statements.size(), first + 1 + random_.below(4));
    const auto in_one_hint = [&](std::size_t i) {
      return i > 0 && i < statements.size() && statements[i].hint >= 0 &&
             statements[i].hint == statements[i - 1].hint;
    };
    for (; in_one_hint(first); --first) {
    }
    for (; in_one_hint(last); ++last) {
    }
    const std::uint32_t variable = add_variable(1 + random_.below(4));
    for (std::size_t i = first; i < last; ++i) {
      statements[i].repeat = static_cast<std::int32_t>(variable);
    }
    move_with(variable, first, last);
  }
  if (chance(10)) {
    scan();
  }
}

bool Generator::verifies() const {
  try {
    program::verify(case_.program);
    return true;
  } catch (const program::ProgramError&) {
    return false;
  }
}

std::uint32_t Generator::add_variable(std::uint64_t rounds) {
  program::Symbol variable;
  const auto number = static_cast<std::uint32_t>(case_.program.symbols.size());
  variable.name = "round" + std::to_string(number);
  variable.step = static_cast<std::int64_t>(1 + random_.below(2));
  variable.low = static_cast<std::int64_t>(random_.below(2));
  variable.high = variable.low + static_cast<std::int64_t>(rounds - 1) * variable.step + 1;
  variable.is_variable = true;
  case_.program.symbols.push_back(variable);
  return number;
}

// Adds the variable to some indices and values, as far as the program stays valid.
void Generator::move_with(std::uint32_t variable, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const Statement before = case_.program.statements[i];
    Statement& statement = case_.program.statements[i];
    visit_affines(statement, [&](Affine& affine) {
      if (chance(30)) {
        add_term(affine, true, variable, 1);
      }
    });
    if (!verifies()) {
      statement = before;
    }
    visit_expressions(statement.value, [&](Expr& expr) {
      if (expr.op == Op::kIndex && chance(50)) {
        expr = Expr::index_symbol(variable);
      }
    });
  }
}

// h[t + 1, i] = h[t, i] op x[t, i], with the first row written before.
void Generator::scan() {
  const Type type = number_type();
  // The verifier visits up to 64 rounds one by one; for more it proves the reads by induction.
  const bool is_long = chance(20);
  const std::uint64_t rounds = is_long ? 65 + random_.below(16) : 2 + random_.below(5);
  const std::uint64_t width = 1 + random_.below(is_long ? 4 : 40);
  const std::uint32_t x = add_tensor(type, {rounds, width}, Role::kIn, DataKind::kDyadic);
  const std::uint32_t h = add_tensor(type, {rounds + 1, width}, Role::kTemp, DataKind::kDyadic);
  const std::uint32_t y = add_tensor(type, {rounds + 1, width}, Role::kOut, DataKind::kDyadic);
  program::Symbol variable;
  variable.name = "round" + std::to_string(case_.program.symbols.size());
  variable.high = static_cast<std::int64_t>(rounds);
  variable.is_variable = true;
  const auto number = static_cast<std::uint32_t>(case_.program.symbols.size());
  case_.program.symbols.push_back(variable);
  const bool backward = chance(40);
  const auto row = [&](std::int64_t offset) {
    Affine affine = Affine::symbol(number);
    affine.terms[0].coefficient = backward ? -1 : 1;
    affine.constant = backward ? static_cast<std::int64_t>(rounds) - offset : offset;
    return program::Index{affine, {}, {}};
  };
  const auto add = [&](Access target, Expr value, std::int32_t repeat) {
    Statement statement;
    for (std::uint32_t loop = 0; loop < target.indices.size(); ++loop) {
      const bool is_loop = target.indices[loop].affine.single_loop().has_value();
      if (is_loop) {
        statement.loops.push_back({loop == 0 ? "j" : "i", loop == 0 ? rounds + 1 : width});
      }
    }
    statement.target = std::move(target);
    statement.value = std::move(value);
    statement.repeat = repeat;
    case_.program.statements.push_back(std::move(statement));
  };
  const std::int64_t start = backward ? static_cast<std::int64_t>(rounds) : 0;
  add({h, {{Affine::number(start), {}, {}}, at(0)}, {}}, constant(type), -1);
  Expr old = Expr::read(type, {h, {row(0), at(0)}, {}});
  Expr term = Expr::read(type, {x, {row(backward ? 1 : 0), at(0)}, {}});
  add({h, {row(1), at(0)}, {}},
      Expr::make(one_of({Op::kAdd, Op::kSub, Op::kMax, Op::kMin}), {std::move(old), std::move(term)}),
      static_cast<std::int32_t>(number));
  add({y, {at(0), at(1)}, {}}, Expr::read(type, {h, {at(0), at(1)}, {}}), -1);
}

// Makes some `in` arguments share memory.
void Generator::share_arguments() {
  const auto& tensors = case_.program.tensors;
  for (std::size_t later = 1; later < tensors.size(); ++later) {
    for (std::size_t before = 0; before < later; ++before) {
      if (tensors[later].role == Role::kIn && tensors[before].role == Role::kIn &&
          tensors[later].type == tensors[before].type && tensors[later].dims == tensors[before].dims &&
          case_.data[later].kind == case_.data[before].kind && case_.data[before].shared < 0 && chance(30)) {
        case_.data[later].shared = static_cast<std::int32_t>(before);
        break;
      }
    }
  }
}

}  // namespace yoke::conformance
