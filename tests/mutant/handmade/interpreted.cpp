// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/interpreted.cpp: statements that the reference executor runs, with the bugs of kernels
// for their types and operations.
#include <yoke/program/execute.h>

#include "kernels.h"

namespace yoke::handmade {
namespace {

using program::Expr;
using program::Op;
using program::Type;

bool is_operation(const Expr& expr) {
  return !expr.args.empty() && expr.op != Op::kCast && expr.op != Op::kGuard && expr.op != Op::kSelect;
}

// The value with the promotions of C: u8 becomes i32.
Expr promoted(const Expr& expr) {
  if (expr.type != Type::kU8 || !is_operation(expr)) {
    return Expr::cast(Type::kI32, expr);
  }
  std::vector<Expr> args;
  for (const Expr& arg : expr.args) {
    args.push_back(promoted(arg));
  }
  return Expr::make(expr.op, std::move(args));
}

// The value as a kernel with the active bug computes it.
Expr with_bug(const Expr& from) {
  Expr expr = from;
  if (bug("u8_promotion") && is_operation(from) && from.args[0].type == Type::kU8) {
    for (Expr& arg : expr.args) {
      arg = promoted(arg);
    }
    expr = Expr::make(from.op, std::move(expr.args));
    return expr.type == Type::kI32 ? Expr::cast(Type::kU8, std::move(expr)) : expr;
  }
  for (Expr& arg : expr.args) {
    arg = with_bug(arg);
  }
  const std::vector<Expr>& args = expr.args;
  if (bug("u8_wrap") && expr.op == Op::kCast && expr.type == Type::kU8 && is_float(args[0].type)) {
    return Expr::cast(Type::kU8, Expr::cast(Type::kI32, args[0]));
  }
  if (bug("signed_cast") && expr.op == Op::kCast && is_float(expr.type) && args[0].type == Type::kU32) {
    return Expr::cast(expr.type, Expr::cast(Type::kI32, args[0]));
  }
  if (bug("cast_by_f32") && expr.op == Op::kCast && is_integer(expr.type) && args[0].type == Type::kF64) {
    return Expr::cast(expr.type, Expr::cast(Type::kF32, args[0]));  // which has 24 bits
  }
  if (bug("bool_by_int") && expr.op == Op::kCast && expr.type == Type::kBool && is_float(args[0].type)) {
    return Expr::cast(Type::kBool, Expr::cast(Type::kI64, args[0]));
  }
  if (bug("i64_in_double") && expr.type == Type::kBool && is_operation(expr) && args[0].type == Type::kI64) {
    return Expr::make(expr.op, {Expr::cast(Type::kF64, args[0]), Expr::cast(Type::kF64, args[1])});
  }
  if (bug("random_counter32") && expr.op == Op::kRandomBits) {
    return Expr::make(expr.op, {args[0], args[1], Expr::cast(Type::kI64, Expr::cast(Type::kU32, args[2]))});
  }
  if (bug("mod_quotient") && expr.op == Op::kMod && is_float(expr.type)) {
    const Expr quotient = Expr::make(Op::kTrunc, {Expr::make(Op::kDiv, args)});
    return Expr::make(Op::kSub, {args[0], Expr::make(Op::kMul, {args[1], quotient})});
  }
  if (bug("symbol_value32") && expr.op == Op::kIndex) {
    return Expr::cast(Type::kI64, Expr::cast(Type::kI32, expr));
  }
  if (bug("guard_factors") && expr.op == Op::kGuard && args[0].op == Op::kMul && expr.literal.number == 0) {
    const std::vector<Expr>& factors = args[0].args;
    return Expr::make(Op::kMul,
                      {Expr::guard(factors[0], expr.literal), Expr::guard(factors[1], expr.literal)});
  }
  return expr;
}

// A program of one statement whose arguments are all tensors.
class InterpretedKernel final : public Kernel {
 public:
  InterpretedKernel(const program::Program& program, const program::Statement& statement) {
    source_.name = program.name;
    source_.symbols = program.symbols;
    source_.tensors = program.tensors;
    source_.statements = {statement};
    source_.statements[0].repeat = source_.statements[0].hint = -1;
    source_.statements[0].value = with_bug(statement.value);
    for (program::Symbol& symbol : source_.symbols) {
      symbol.is_variable = false;
    }
    for (program::Tensor& tensor : source_.tensors) {
      tensor.role = program::Role::kInOut;
    }
  }
  void run(const Launch& launch) const override {
    const std::vector<void*> arguments(launch.tensors.begin(), launch.tensors.end());
    program::execute(source_, arguments, launch.symbols);
  }
  bool is_native() const override { return false; }

 private:
  program::Program source_;
};

}  // namespace

std::unique_ptr<Kernel> interpreted_kernel(const program::Program& program,
                                           const program::Statement& statement) {
  return std::make_unique<InterpretedKernel>(program, statement);
}

}  // namespace yoke::handmade
