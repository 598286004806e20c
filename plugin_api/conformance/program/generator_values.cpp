// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/generator_values.cpp: indices, in range or
// deliberately out of range; reads; expressions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "generator_impl.h"
#include "scalar.h"

namespace yoke::conformance {

using program::Access;
using program::Affine;
using program::Expr;
using program::Family;
using program::Index;
using program::Literal;
using program::Op;
using program::Role;
using program::Type;

namespace {

bool any_type(Type) {
  return true;
}

Family family_of(Op op) {
  return program::op_info(op).family;
}

// Whether backends may compute different floats.
bool is_inexact(Op op) {
  return program::op_info(op).f32_units > 0 || op == Op::kFma;
}

bool is_discontinuous(Op op) {
  return family_of(op) == Family::kStep || family_of(op) == Family::kComparison || op == Op::kMod;
}

// Whether the function is NaN for some negative arguments.
bool needs_positive(Op op) {
  const program::Scalar negative[] = {{-2, -2}, {0.5, 0}, {0, 0}};
  return family_of(op) == Family::kFunction && std::isnan(program::apply(op, Type::kF64, negative).number);
}

}  // namespace

// An operation of one of the families that takes `type`.
Op Generator::op_in(std::initializer_list<Family> families, Type type) {
  static const std::vector<Op> kAll = [] {
    std::vector<Op> all;
    for (std::size_t i = 0; i < program::kOpCount; ++i) {
      all.push_back(static_cast<Op>(i));
    }
    return all;
  }();
  const auto fits = [&](Op op) {
    return std::find(families.begin(), families.end(), family_of(op)) != families.end() &&
           program::accepts(program::op_info(op).operands, type);
  };
  auto left = random_.below(static_cast<std::uint64_t>(std::count_if(kAll.begin(), kAll.end(), fits)));
  return *std::find_if(kAll.begin(), kAll.end(), [&](Op op) { return fits(op) && left-- == 0; });
}

void Generator::add_term(Affine& affine, bool is_symbol, std::uint32_t id, std::int64_t coefficient) {
  const Affine::Term term{is_symbol, id, coefficient};
  const auto at = std::find_if(affine.terms.begin(), affine.terms.end(), [&](const Affine::Term& other) {
    return std::pair(other.is_symbol, other.id) >= std::pair(is_symbol, id);
  });
  if (at == affine.terms.end() || at->is_symbol != is_symbol || at->id != id) {
    affine.terms.insert(at, term);
  } else if (at->coefficient + coefficient == 0) {
    affine.terms.erase(at);
  } else {
    at->coefficient += coefficient;
  }
}

Generator::Range Generator::range(const Affine& affine) const {
  Range values{affine.constant, affine.constant};
  for (const Affine::Term& term : affine.terms) {
    std::int64_t first = 0;
    std::int64_t last = 0;
    if (term.is_symbol) {
      const program::Symbol& symbol = case_.program.symbols[term.id];
      first = symbol.low;
      last = symbol.low + (symbol.high - 1 - symbol.low) / symbol.step * symbol.step;
    } else {
      last = static_cast<std::int64_t>(statement_.loops[term.id].extent) - 1;
    }
    values.low += std::min(term.coefficient * first, term.coefficient * last);
    values.high += std::max(term.coefficient * first, term.coefficient * last);
  }
  return values;
}

// An index that stays in range of a dimension, at a random offset.
std::optional<Affine> Generator::inside(std::uint64_t dim) {
  const auto limit = static_cast<std::int64_t>(dim);
  std::vector<std::uint32_t> same;
  for (std::uint32_t loop = 0; loop < statement_.loops.size(); ++loop) {
    if (statement_.loops[loop].extent == dim) {
      same.push_back(loop);
    }
  }
  if (!same.empty() && chance(70)) {
    return Affine::loop(same[random_.below(same.size())]);
  }
  for (int attempt = 0; attempt < 4; ++attempt) {
    Affine affine;
    const std::uint64_t terms = 1 + random_.below(3) / 2;
    for (std::uint64_t i = 0; i < terms; ++i) {
      const bool symbol = !case_.program.symbols.empty() && chance(20);
      const std::size_t count = symbol ? case_.program.symbols.size() : statement_.loops.size();
      if (count != 0) {
        add_term(affine, symbol, static_cast<std::uint32_t>(random_.below(count)),
                 one_of<std::int64_t>({1, 1, 1, -1, 2, 3}));
      }
    }
    const Range values = range(affine);
    if (values.high - values.low < limit) {
      affine.constant = random_.between(-values.low, limit - 1 - values.high);
      return affine;
    }
  }
  return std::nullopt;
}

Index Generator::anywhere() {
  Index index;
  Affine& affine = index.affine;
  affine.constant = random_.between(-4, 4);
  for (std::uint32_t loop = 0; loop < statement_.loops.size(); ++loop) {
    if (chance(100 / (1 + statement_.loops.size()))) {
      add_term(affine, false, loop, one_of<std::int64_t>({1, 1, -1, 2, -3}));
    }
  }
  if (!case_.program.symbols.empty() && chance(30)) {
    add_term(affine, true, 0, one_of<std::int64_t>({1, -1, 2}));
  }
  index.divisor = chance(35) ? random_.between(2, 4) : 1;
  return index;
}

// An element of a new integer argument whose values are mostly in range of `dim`.
Index Generator::gather_index(std::uint64_t dim) {
  const auto type = type_where(program::is_integer);
  if (!type) {
    return anywhere();
  }
  Index index;
  Dims size;
  for (std::uint32_t loop = 0; loop < statement_.loops.size() && size.size() < 3; ++loop) {
    if (chance(60)) {
      const std::uint64_t pad = random_.below(8) / 7;
      Affine affine = Affine::loop(loop);
      affine.constant = static_cast<std::int64_t>(pad);
      index.element_indices.push_back(affine);
      size.push_back(statement_.loops[loop].extent + pad);
    }
  }
  index.element_of = add_tensor(*type, size, Role::kIn, DataKind::kIndex, static_cast<std::int64_t>(dim));
  return index;
}

Literal Generator::literal(Type type) {
  return constant(type).literal;
}

Expr Generator::constant(Type type) {
  if (program::is_float(type)) {
    if (chance(4)) {
      constexpr double kInf = std::numeric_limits<double>::infinity();
      return Expr::constant(type, one_of({kInf, -kInf, std::numeric_limits<double>::quiet_NaN()}));
    }
    return Expr::constant(type, one_of({0.0, 1.0, -1.0, 0.5, 2.0, 0.25, 3.0, 10.0, -0.125, 1e-3, 0.1}));
  }
  if (type == Type::kBool) {
    return Expr::constant(type, chance(50) ? 1 : 0);
  }
  return Expr::constant(type, one_of({0.0, 1.0, 2.0, 3.0, -1.0, 7.0, 255.0, 1000.0, -2147483648.0}));
}

DataKind Generator::any_kind() {
  const std::uint64_t draw = random_.below(100);
  return draw < 35   ? DataKind::kDyadic
         : draw < 65 ? DataKind::kUniform
         : draw < 77 ? DataKind::kPositive
         : draw < 85 ? DataKind::kWide
         : draw < 93 ? DataKind::kSpecial
         : draw < 96 ? DataKind::kSparse
                     : DataKind::kUnit;
}

std::optional<std::uint32_t> Generator::readable(Type type, bool exact) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < known_.size(); ++i) {
    if (known_[i].whole && case_.program.tensors[i].type == type && i != statement_.target.tensor &&
        (known_[i].exact || !exact) && case_.data[i].kind != DataKind::kIndex) {
      found.push_back(i);
    }
  }
  if (found.empty()) {
    return std::nullopt;
  }
  if (options_.chains && chance(60)) {  // one of the latest three
    return found[found.size() - 1 - random_.below(std::min<std::size_t>(found.size(), 3))];
  }
  return found[random_.below(found.size())];
}

Expr Generator::read_of(std::uint32_t tensor) {
  const Type type = case_.program.tensors[tensor].type;
  const Dims size = case_.program.tensors[tensor].dims;
  Access access{tensor, {}, {}};
  bool leaves = false;
  for (const std::uint64_t dim : size) {
    const auto stays = chance(in_guard_ ? 60 : 90) ? inside(dim) : std::nullopt;
    if (stays) {
      access.indices.push_back({*stays, {}, {}});
      continue;
    }
    leaves = true;
    access.indices.push_back(may_add_tensor() && chance(35) ? gather_index(dim) : anywhere());
  }
  if (in_guard_ ? chance(25) : leaves || chance(3)) {
    access.otherwise = literal(type);
  }
  return Expr::read(type, std::move(access));
}

// A read of a new argument whose dimensions are some of the loops in any order,
// some padded, strided, or shifted by a symbol.
Expr Generator::read_new(Type type, DataKind kind) {
  std::vector<std::uint32_t> loops;
  for (std::uint32_t loop = 0; loop < statement_.loops.size(); ++loop) {
    if (chance(80)) {
      loops.insert(loops.begin() + static_cast<std::ptrdiff_t>(random_.below(loops.size() + 1)), loop);
    }
  }
  loops.resize(std::min<std::size_t>(loops.size(), 8));
  Access access;
  Dims size;
  std::uint64_t elements = 1;
  for (const std::uint32_t loop : loops) {
    Affine affine = Affine::loop(loop);
    const std::uint64_t draw = random_.below(100);
    if (draw < 8) {
      affine.terms[0].coefficient = -1;
    } else if (draw < 16 && elements < 4000) {
      affine.terms[0].coefficient = random_.between(2, 3);
    } else if (draw < 26 && !case_.program.symbols.empty()) {
      add_term(affine, true, static_cast<std::uint32_t>(random_.below(case_.program.symbols.size())), 1);
    }
    const Range values = range(affine);
    const auto pad = static_cast<std::int64_t>(chance(15) ? random_.below(3) : 0);
    affine.constant = -values.low + pad;
    access.indices.push_back({affine, {}, {}});
    size.push_back(static_cast<std::uint64_t>(values.high - values.low + 1 + pad));
    elements *= size.back();
  }
  if (chance(6) && size.size() < 8) {
    size.push_back(1 + random_.below(3));
    access.indices.push_back({Affine::number(static_cast<std::int64_t>(random_.below(size.back()))), {}, {}});
  }
  access.tensor = add_tensor(type, size, Role::kIn, kind);
  return Expr::read(type, std::move(access));
}

Expr Generator::read(Type type, bool exact) {
  const auto existing = readable(type, exact);
  if (existing && (chance(options_.chains || in_guard_ ? 85 : 55) || !may_add_tensor())) {
    return read_of(*existing);
  }
  return may_add_tensor() ? read_new(type, any_kind()) : constant(type);
}

Expr Generator::leaf(Type type, bool exact) {
  const std::uint64_t draw = random_.below(100);
  if (draw < 12) {
    return constant(type);
  }
  if (draw < (type == Type::kI64 ? 40U : 17U) && has(Type::kI64)) {
    const std::size_t symbols = case_.program.symbols.size();
    const std::size_t count = statement_.loops.size() + symbols;
    if (count != 0) {
      const auto number = static_cast<std::uint32_t>(random_.below(count));
      Expr index = number < symbols ? Expr::index_symbol(number)
                                    : Expr::index_loop(number - static_cast<std::uint32_t>(symbols));
      return type == Type::kI64 ? index : Expr::cast(type, std::move(index));
    }
  }
  return read(type, exact);
}

Op Generator::op_giving(Type type) {
  if (type == Type::kBool) {
    return chance(60) ? op_in({Family::kComparison}, Type::kI64) : op_in({Family::kLogic}, type);
  }
  if (has(Type::kBool) && chance(12)) {
    return Op::kSelect;
  }
  if (program::is_float(type)) {
    const std::uint64_t draw = random_.below(100);
    return draw < 30   ? op_in({Family::kFunction, Family::kDivision}, type)
           : draw < 40 ? op_in({Family::kStep}, type)
                       : op_in({Family::kArithmetic}, type);
  }
  if (type == Type::kU32 && has(Type::kI64) && chance(5)) {
    return op_in({Family::kRandom}, Type::kI64);
  }
  return chance(50) ? op_in({Family::kDivision, Family::kStep, Family::kBits}, type)
                    : op_in({Family::kArithmetic}, type);
}

Expr Generator::in_domain(Op op, Expr argument) {
  if (needs_positive(op) && chance(75)) {
    return Expr::make(Op::kAbs, {std::move(argument)});
  }
  return argument;
}

// `op` with arguments of type `over`.
Expr Generator::apply(Op op, Type over, int depth, bool exact) {
  const int below = depth - 1 - static_cast<int>(random_.below(2));
  if (op == Op::kCast) {
    const Type from = type_where(any_type).value_or(over);
    return Expr::cast(over, value(from, below, exact || !program::is_float(over)));
  }
  if (op == Op::kGuard) {
    return guarded(over, below, exact);
  }
  if (op == Op::kSelect) {
    Expr condition = value(Type::kBool, std::max(below, 0), true);
    Expr then = value(over, below, exact);
    return Expr::make(op, {std::move(condition), std::move(then), value(over, below, exact)});
  }
  const bool function = family_of(op) == Family::kFunction || op == Op::kDiv;
  const bool exact_arguments =
      exact || (is_discontinuous(op) && chance(92)) || (function && program::is_float(over) && chance(70));
  std::vector<Expr> arguments;
  const bool shows_zeros = (op == Op::kMin || op == Op::kMax) && program::is_float(over) && chance(40);
  for (int i = 0; i < program::op_info(op).arity; ++i) {
    Expr argument = shows_zeros && may_add_tensor() ? read_new(over, DataKind::kSpecial)
                                                    : value(over, below, exact_arguments);
    arguments.push_back(i == 0 ? in_domain(op, std::move(argument)) : std::move(argument));
  }
  return Expr::make(op, std::move(arguments));
}

// `exact`: the value must be the same on every correct backend, so that
// discontinuous operations can be applied to it.
Expr Generator::value(Type type, int depth, bool exact) {
  if (depth <= 0 || chance(12)) {
    return leaf(type, exact);
  }
  if (chance(18)) {
    return apply(chance(55) ? Op::kCast : Op::kGuard, type, depth, exact);
  }
  Op op = op_giving(type);
  while (exact && program::is_float(type) && is_inexact(op)) {
    op = op_in({Family::kArithmetic}, type);
  }
  Type over = type;
  if (family_of(op) == Family::kRandom) {
    over = Type::kI64;
  } else if (family_of(op) == Family::kComparison) {
    const bool takes_bool = takes_type(op, Type::kBool);
    over = type_where(takes_bool ? any_type : is_number).value_or(Type::kBool);
    op = over == Type::kBool ? Op::kNotEqual : op;
  }
  return apply(op, over, depth, exact);
}

bool Generator::is_exact(const Expr& expr) const {
  if (expr.op == Op::kRead) {
    return known_[expr.access.tensor].exact;
  }
  if (program::is_float(expr.type) && is_inexact(expr.op)) {
    return false;
  }
  return std::all_of(expr.args.begin(), expr.args.end(), [&](const Expr& arg) { return is_exact(arg); });
}

}  // namespace yoke::conformance
