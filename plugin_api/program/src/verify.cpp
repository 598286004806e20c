// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/verify.cpp: checks names, sizes, types and reductions.
#include "verify.h"

#include <limits>
#include <set>

#include "number.h"
#include "type_rules.h"

namespace yoke::program {
namespace {

__extension__ using WideSize = unsigned __int128;

constexpr WideSize kHighestSize = static_cast<WideSize>(std::numeric_limits<std::int64_t>::max());

constexpr const char* kLoopOrder =
    "loops must be numbered in order of first use in the target, followed by those of the reduction";

bool is_type(Type type) {
  return type >= Type::kF64 && type <= Type::kBool;
}

std::string quoted(std::string_view name) {
  return "'" + std::string(name) + "'";
}

std::string name_of(Type type) {
  return std::string(type_name(type));
}

}  // namespace

void verify(const Program& program) {
  Verifier(program).run();
}

void verify(const Module& module) {
  if (module.programs.empty()) {
    throw ProgramError({}, "the text contains no program");
  }
  std::set<std::string_view> names;
  for (const Program& program : module.programs) {
    if (!names.insert(program.name).second) {
      throw ProgramError({}, "program '" + program.name + "' is defined twice");
    }
    verify(program);
  }
}

Module parse_and_verify(std::string_view text) {
  Module module = parse(text);
  verify(module);
  return module;
}

void Verifier::fail(Location at, const std::string& reason) const {
  if (at.line != 0) {
    throw ProgramError(at, reason);
  }
  std::string where = "program " + quoted(program_.name);
  if (statement_ != nullptr) {
    if (statement_->at.line != 0) {
      throw ProgramError(statement_->at, reason);
    }
    where += ", statement " + std::to_string(statement_ - program_.statements.data() + 1);
  }
  throw ProgramError(at, where + ": " + reason);
}

void Verifier::run() {
  names();
  for (const Symbol& one : program_.symbols) {
    symbol(one);
  }
  for (const Tensor& one : program_.tensors) {
    tensor(one);
    written_.emplace_back();
    if (one.role == Role::kIn || one.role == Role::kInOut) {
      written_.back().add(whole(one));
    }
  }
  hints();
  repeats();
  for (const Block& one : program_.blocks()) {
    block(one);
  }
  statement_ = nullptr;
  hints_with_loops();
  outputs_are_written();
}

void Verifier::names() {
  std::set<std::string_view> seen;
  const auto check = [&](const std::string& name, Location at, bool is_unique) {
    fail_if(at, name_fault(name));
    if (is_unique && !seen.insert(name).second) {
      fail(at, "the name " + quoted(name) + " is declared twice");
    }
  };
  check(program_.name, {}, false);
  for (const Symbol& one : program_.symbols) {
    check(one.name, one.at, !one.is_variable);
  }
  for (const Tensor& one : program_.tensors) {
    check(one.name, one.at, true);
    tensor_names_.insert(one.name);
  }
  for (const Hint& hint : program_.hints) {
    check(hint.name, {}, false);
    for (const std::string& loop : hint.loops) {
      check(loop, {}, false);
    }
  }
  for (const Symbol& one : program_.symbols) {
    if (one.is_variable && seen.contains(one.name)) {
      fail(one.at, "the name " + quoted(one.name) + " is declared twice");
    }
  }
}

void Verifier::symbol(const Symbol& symbol) const {
  const std::string what = (symbol.is_variable ? "variable " : "symbol ") + quoted(symbol.name);
  if (symbol.low >= symbol.high) {
    fail(symbol.at, "the range " + std::to_string(symbol.low) + ".." + std::to_string(symbol.high) + " of " +
                        what + " is empty; the upper bound is excluded");
  }
  if (symbol.step < 1) {
    fail(symbol.at, "the step of " + what + " is " + std::to_string(symbol.step) + "; it must be at least 1");
  }
}

void Verifier::tensor(const Tensor& tensor) const {
  if (!is_type(tensor.type) || tensor.role < Role::kIn || tensor.role > Role::kTemp) {
    fail(tensor.at, "tensor " + quoted(tensor.name) + " has an unknown type or role");
  }
  if (tensor.dims.size() > kMaxRank) {
    fail(tensor.at, "tensor " + quoted(tensor.name) + " has " + std::to_string(tensor.dims.size()) +
                        " dimensions; the limit is " + std::to_string(kMaxRank));
  }
  WideSize bytes = byte_size(tensor.type);
  for (const std::uint64_t dim : tensor.dims) {
    if (dim == 0) {
      fail(tensor.at, "tensor " + quoted(tensor.name) + " has a dimension of 0; it must be at least 1");
    }
    bytes *= dim;  // at most 2^63 * 2^64
    if (bytes > kHighestSize) {
      fail(tensor.at, "tensor " + quoted(tensor.name) + " is larger than 2^63 - 1 bytes");
    }
  }
}

void Verifier::statement() {
  const Statement& statement = *statement_;
  if (statement.hint < -1 || statement.assign > Assign::kMin ||
      (statement.reduce && *statement.reduce > Reduce::kArgMin)) {
    fail(statement.at, "unknown hint, assignment or reduction");
  }
  loops();
  shape_of(statement.target, statement.at);
  order_of_loops();
  expr(statement.value, 1, false);
  assignment();
  target();
  own_target(statement.value);
}

void Verifier::loops() const {
  const Statement& statement = *statement_;
  if (statement.loops.size() > kMaxLoops) {
    fail(statement.at, "the statement has more than " + std::to_string(kMaxLoops) + " loops");
  }
  std::set<std::string_view> seen;
  WideSize iterations = 1;
  for (const Loop& loop : statement.loops) {
    fail_if(statement.at, name_fault(loop.name));
    if (!seen.insert(loop.name).second) {
      fail(statement.at, "loop " + quoted(loop.name) + " is declared twice");
    }
    if (program_.find_symbol(loop.name)) {
      fail(statement.at, "loop " + quoted(loop.name) + " has the name of a symbol");
    }
    if (tensor_names_.contains(loop.name)) {
      fail(statement.at, "loop " + quoted(loop.name) + " has the name of a tensor");
    }
    if (statement.repeat >= 0 && variable_of(statement).name == loop.name) {
      fail(statement.at, "loop " + quoted(loop.name) + " has the name of the repeat block's variable");
    }
    if (loop.extent == 0) {
      fail(statement.at, "loop " + quoted(loop.name) + " has extent 0; it must be at least 1");
    }
    iterations *= loop.extent;
    if (iterations > kHighestSize) {
      fail(statement.at, "the statement has more than 2^63 - 1 iterations");
    }
  }
}

// A program built by code must have the loop order that parsing its text
// gives; otherwise printing would change it.
void Verifier::order_of_loops() const {
  const Statement& statement = *statement_;
  std::uint32_t next = 0;
  const auto visit = [&](const Affine& affine) {
    for (const Affine::Term& term : affine.terms) {
      if (!term.is_symbol && term.id > next) {
        fail(statement.at, kLoopOrder);
      }
      next += !term.is_symbol && term.id == next ? 1 : 0;
    }
  };
  visit_affines(statement.target, visit);
  if (statement.reduce.has_value() == statement.reduce_loops.empty()) {
    fail(statement.at, "reduction loops without a reduction, or a reduction without loops");
  }
  for (const std::uint32_t loop : statement.reduce_loops) {
    if (loop != next++) {
      fail(statement.at, kLoopOrder);
    }
  }
  if (next < statement.loops.size()) {
    fail(statement.at, "loop " + quoted(statement.loops[next].name) +
                           " is used neither in the target nor in the reduction");
  }
}

void Verifier::assignment() const {
  const Statement& statement = *statement_;
  const Tensor& tensor = tensor_of(statement.target);
  if (statement.assign != Assign::kSet && tensor.type == Type::kBool) {
    fail(statement.at, "bool tensor " + quoted(tensor.name) + " can only be assigned with =");
  }
  if (statement.reduce) {
    reduction();
  } else if (statement.accumulator) {
    fail(statement.at, "an accumulator type requires a reduction");
  }
  const bool is_arg = statement.reduce == Reduce::kArgMax || statement.reduce == Reduce::kArgMin;
  if (!statement.accumulator && !is_arg && tensor.type != statement.value.type) {
    fail(statement.at, "cannot assign a value of type " + name_of(statement.value.type) + " to " +
                           quoted(tensor.name) + " of type " + name_of(tensor.type) + "; cast the value");
  }
}

void Verifier::reduction() const {
  const Statement& statement = *statement_;
  const std::string reduce(reduce_name(*statement.reduce));
  const Tensor& tensor = tensor_of(statement.target);
  const Type value = statement.value.type;
  switch (*statement.reduce) {
    case Reduce::kAny:
    case Reduce::kAll:
      if (value != Type::kBool) {
        fail(statement.at, reduce + " requires bool, got " + name_of(value));
      }
      break;
    case Reduce::kArgMax:
    case Reduce::kArgMin:
      if (statement.reduce_loops.size() != 1) {
        fail(statement.at,
             reduce + " requires exactly one loop, got " + std::to_string(statement.reduce_loops.size()));
      }
      if (tensor.type != Type::kI32 && tensor.type != Type::kI64) {
        fail(statement.at, "the target of " + reduce + " must be i32 or i64, but " + quoted(tensor.name) +
                               " is " + name_of(tensor.type));
      }
      if (statement.assign != Assign::kSet) {
        fail(statement.at, reduce + " can only be assigned with =");
      }
      if (statement.loops[statement.reduce_loops[0]].extent - 1 >
          static_cast<std::uint64_t>(highest_integer(tensor.type))) {
        fail(statement.at, "the indices of loop " + quoted(statement.loops[statement.reduce_loops[0]].name) +
                               " do not fit in " + name_of(tensor.type));
      }
      [[fallthrough]];
    default:
      if (value == Type::kBool) {
        fail(statement.at, reduce + " requires numbers, got bool");
      }
      break;
  }
  accumulator();
}

void Verifier::accumulator() const {
  const Statement& statement = *statement_;
  const std::string reduce(reduce_name(*statement.reduce));
  const Tensor& tensor = tensor_of(statement.target);
  const Type value = statement.value.type;
  const bool accumulates = *statement.reduce <= Reduce::kMax;
  if (!accumulates && statement.accumulator) {
    fail(statement.at, reduce + " does not accept an accumulator type");
  }
  if (!statement.accumulator) {
    if (accumulates && byte_size(value) == 2) {
      fail(statement.at, reduce + " of " + name_of(value) + " must state an accumulator type, " + reduce +
                             ":f32[...] or " + reduce + ":f64[...]");
    }
    return;
  }
  const Type type = *statement.accumulator;
  if (!is_type(type) || is_float(type) != is_float(value) || !holds_all(type, value)) {
    fail(statement.at, "accumulator type " + (is_type(type) ? name_of(type) : "") +
                           " cannot hold every value of type " + name_of(value));
  }
  if (is_float(type) != is_float(tensor.type) || tensor.type == Type::kBool) {
    fail(statement.at, "accumulator type " + name_of(type) + " cannot be converted to " +
                           name_of(tensor.type) + ", the type of " + quoted(tensor.name) +
                           "; both must be floats or both integers");
  }
}

void Verifier::expr(const Expr& expr, int depth, bool guarded) const {
  if (depth > kMaxDepth) {
    fail(expr.at, depth_fault());
  }
  if (static_cast<std::size_t>(expr.op) >= kOpCount || !is_type(expr.type)) {
    fail(expr.at, "unknown operation or type");
  }
  if (op_info(expr.op).arity < 0) {
    leaf(expr, guarded);
    return;
  }
  std::vector<Type> types;
  for (const Expr& arg : expr.args) {
    this->expr(arg, depth + 1, guarded || expr.op == Op::kGuard);
    types.push_back(arg.type);
  }
  if (expr.op == Op::kCast) {
    if (types.size() != 1) {
      fail(expr.at, argument_fault(name_of(expr.type), 1, types.size()));
    }
    return;
  }
  std::string reason;
  const auto type = result_type(expr.op, types, reason);
  if (!type) {
    fail(expr.at, reason);
  }
  if (expr.op == Op::kGuard) {
    literal(expr, expr.type, expr.literal);
    if (expr.args[0].op == Op::kRead && !expr.args[0].access.otherwise) {
      fail(expr.at, "a guard of a single read must be the `else` of the read");
    }
  }
  if (*type != expr.type) {
    fail(expr.at, "the result of " + std::string(op_info(expr.op).name) + " is " + name_of(*type) + ", not " +
                      name_of(expr.type));
  }
}

void Verifier::leaf(const Expr& expr, bool guarded) const {
  if (!expr.args.empty()) {
    fail(expr.at, "a leaf of an expression must not have arguments");
  }
  if (expr.op == Op::kConst) {
    literal(expr, expr.type, expr.literal);
  } else if (expr.op == Op::kRead) {
    read(expr, guarded);
  } else {
    shape_of(expr.affine, expr.at);
    const Affine& affine = expr.affine;
    if (affine.constant != 0 || affine.terms.size() != 1 || affine.terms[0].coefficient != 1 ||
        expr.type != Type::kI64) {
      fail(expr.at, "an index used as a value must be a single loop or symbol of type i64");
    }
  }
}

void Verifier::literal(const Expr& expr, Type type, const Literal& literal) const {
  if (!literal_fits(type, literal)) {
    fail(expr.at, "the constant " +
                      (is_float(type) ? std::to_string(literal.number) : std::to_string(literal.integer)) +
                      " is not representable in " + name_of(type) + "; round it first");
  }
}

}  // namespace yoke::program
