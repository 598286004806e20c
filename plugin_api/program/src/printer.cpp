// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/printer.cpp: prints the canonical text and computes its fingerprint.
#include <yoke/program/access.h>
#include <yoke/program/text.h>

#include <array>
#include <cmath>

#include "number.h"
#include "type_rules.h"
#include "verify.h"

namespace yoke::program {
namespace {

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  void program();
  void statement(const Statement& statement);
  std::string index_of(const Statement& statement, const Index& index) {
    statement_ = &statement;
    return this->index(index);
  }
  std::string text;

 private:
  static std::string head(const Hint& hint);
  void statements(const Block& block, const std::string& indent);
  void ranged_name(const Symbol& symbol);
  void tensor(const Tensor& tensor);
  static std::string list(const std::vector<std::string>& items);
  void loops(const Statement& statement);
  std::string affine(const Affine& affine) const;
  std::string index(const Index& index) const;
  std::string access(const Access& access) const;
  // `given` is the type that the context gives to a bare literal, if any.
  void expr(const Expr& expr, std::optional<Type> given, int lowest);
  void constant(const Expr& expr, std::optional<Type> given);
  void call(const Expr& expr, std::optional<Type> given);
  void infix(const Expr& expr, std::optional<Type> given);
  static std::optional<Type> own_type(const Expr& expr);
  static std::optional<Type> type_for(const Expr& expr, std::size_t arg, std::optional<Type> given);
  std::optional<Type> type_around(const Statement& statement) const;

  const Program& program_;
  const Statement* statement_ = nullptr;
};

void Printer::program() {
  text += "program " + program_.name + "(";
  for (std::size_t i = 0; i < program_.launch_symbol_count(); ++i) {
    text += i == 0 ? "symbol " : ", symbol ";
    ranged_name(program_.symbols[i]);
  }
  text += ") {\n";
  for (const Tensor& one : program_.tensors) {
    tensor(one);
  }
  for (const Block& block : program_.blocks()) {
    if (block.repeat < 0) {
      statements(block, "  ");
      continue;
    }
    text += "  repeat ";
    ranged_name(program_.symbols.at(static_cast<std::size_t>(block.repeat)));
    text += " {\n";
    statements(block, "    ");
    text += "  }\n";
  }
  text += "}\n";
}

std::string Printer::head(const Hint& hint) {
  return "@" + hint.name + (hint.loops.empty() ? "" : list(hint.loops)) + " {\n";
}

void Printer::statements(const Block& block, const std::string& indent) {
  std::int32_t open = -1;
  for (std::size_t i = block.first; i < block.last; ++i) {
    const Statement& one = program_.statements[i];
    if (one.hint != open) {
      text += open >= 0 ? indent + "}\n" : "";
      text += one.hint >= 0 ? indent + head(program_.hints.at(static_cast<std::size_t>(one.hint))) : "";
      open = one.hint;
    }
    text += indent + (open >= 0 ? "  " : "");
    statement(one);
    text += '\n';
  }
  text += open >= 0 ? indent + "}\n" : "";
}

void Printer::ranged_name(const Symbol& symbol) {
  text += symbol.name + " in " + std::to_string(symbol.low) + ".." + std::to_string(symbol.high);
  if (symbol.step != 1) {
    text += " step " + std::to_string(symbol.step);
  }
}

void Printer::tensor(const Tensor& tensor) {
  text += tensor.role == Role::kTemp ? "  temp " : "  arg ";
  text += tensor.name + " : ";
  text += type_name(tensor.type);
  std::vector<std::string> dims;
  for (const std::uint64_t dim : tensor.dims) {
    dims.push_back(std::to_string(dim));
  }
  constexpr std::array<std::string_view, 5> kRoles = {"", " in", " out", " inout", ""};
  text += list(dims);
  text += kRoles.at(static_cast<std::size_t>(tensor.role));
  text += '\n';
}

std::string Printer::list(const std::vector<std::string>& items) {
  std::string list = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    list.append(i == 0 ? "" : ", ").append(items[i]);
  }
  return list + "]";
}

void Printer::statement(const Statement& statement) {
  statement_ = &statement;
  text += access(statement.target);
  loops(statement);
  expr(statement.value, type_around(statement), 0);
}

// Prints everything between the target and the value. An extent is printed only if it cannot be inferred.
void Printer::loops(const Statement& statement) {
  const auto inferred = inferred_extents(program_, statement);
  std::vector<std::string> stated;
  std::vector<std::string> reduced;
  for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
    const Loop& loop = statement.loops[i];
    const bool is_inferred = inferred[i] && *inferred[i] == loop.extent;
    const std::string extent = is_inferred ? "" : ":" + std::to_string(loop.extent);
    if (statement.reduces(i)) {
      reduced.push_back(loop.name + extent);
    } else if (!is_inferred) {
      stated.push_back(loop.name + extent);
    }
  }
  if (!stated.empty()) {
    text += " for" + list(stated);
  }
  constexpr std::array<std::string_view, 5> kAssign = {" = ", " += ", " *= ", " max= ", " min= "};
  text += kAssign.at(static_cast<std::size_t>(statement.assign));
  if (statement.reduce) {
    text += reduce_name(*statement.reduce);
    if (statement.accumulator) {
      text += ':';
      text += type_name(*statement.accumulator);
    }
    text += list(reduced) + ' ';
  }
}

// Symbols, loops, then the number: `row + 2*i - 1`.
std::string Printer::affine(const Affine& affine) const {
  std::string sum;
  const auto add = [&](std::int64_t value, const std::string& name) {
    const std::uint64_t magnitude =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    if (sum.empty()) {
      sum += value < 0 ? "-" : "";
    } else {
      sum += value < 0 ? " - " : " + ";
    }
    const std::string number = std::to_string(magnitude);
    sum += name.empty() ? number : magnitude == 1 ? name : number + "*" + name;
  };
  for (const bool symbols : {true, false}) {
    for (const Affine::Term& term : affine.terms) {
      if (term.is_symbol == symbols) {
        add(term.coefficient,
            symbols ? program_.symbols.at(term.id).name : statement_->loops.at(term.id).name);
      }
    }
  }
  if (affine.constant != 0 || affine.terms.empty()) {
    add(affine.constant, "");
  }
  return sum;
}

std::string Printer::index(const Index& index) const {
  if (!index.element_of) {
    const std::string dividend = affine(index.affine);
    return index.divisor == 1 ? dividend : "(" + dividend + ") / " + std::to_string(index.divisor);
  }
  return access(access_of(index));
}

std::string Printer::access(const Access& access) const {
  std::vector<std::string> indices;
  for (const Index& one : access.indices) {
    indices.push_back(index(one));
  }
  return program_.tensors.at(access.tensor).name + list(indices);
}

void Printer::expr(const Expr& expr, std::optional<Type> given, int lowest) {
  const bool parentheses = op_info(expr.op).precedence < lowest;
  text += parentheses ? "(" : "";
  switch (expr.op) {
    case Op::kConst:
      constant(expr, given);
      break;
    case Op::kRead:
      text += expr.access.otherwise ? "(" + access(expr.access) + " else " +
                                          literal_to_text(expr.type, *expr.access.otherwise) + ")"
                                    : access(expr.access);
      break;
    case Op::kIndex:
      text += affine(expr.affine);
      break;
    case Op::kGuard:
      text += '(';
      this->expr(expr.args[0], std::nullopt, 0);
      text += " else " + literal_to_text(expr.type, expr.literal) + ")";
      break;
    default:
      op_info(expr.op).is_operator() ? infix(expr, given) : call(expr, given);
      break;
  }
  text += parentheses ? ")" : "";
}

void Printer::constant(const Expr& expr, std::optional<Type> given) {
  const std::string number = literal_to_text(expr.type, expr.literal);
  if (expr.type == Type::kBool || given == expr.type) {
    text += number;
  } else {
    text += std::string(type_name(expr.type)) + "(" + number + ")";
  }
}

void Printer::call(const Expr& expr, std::optional<Type> given) {
  text += expr.op == Op::kCast ? type_name(expr.type) : op_info(expr.op).name;
  text += '(';
  for (std::size_t i = 0; i < expr.args.size(); ++i) {
    text += i == 0 ? "" : ", ";
    this->expr(expr.args[i], type_for(expr, i, given), 0);
  }
  text += ')';
}

void Printer::infix(const Expr& expr, std::optional<Type> given) {
  const std::string mark(op_info(expr.op).name);
  const int own = op_info(expr.op).precedence;
  if (expr.args.size() == 1) {
    // `-1.0` is a literal; `-(1.0)` negates a literal.
    const auto type = type_for(expr, 0, given);
    const bool is_number = expr.op == Op::kNeg && expr.args[0].op == Op::kConst && type == expr.args[0].type;
    text += mark + (is_number ? "(" : "");
    this->expr(expr.args[0], type, own);
    text += is_number ? ")" : "";
    return;
  }
  this->expr(expr.args.at(0), type_for(expr, 0, given), own);
  text += " " + mark + " ";
  this->expr(expr.args.at(1), type_for(expr, 1, given), own + 1);
}

// The type of `expr` if its text determines it without context; empty for
// literals and operations on literals only.
std::optional<Type> Printer::own_type(const Expr& expr) {
  if (expr.op == Op::kConst) {
    return expr.type == Type::kBool ? std::optional(Type::kBool) : std::nullopt;
  }
  const SharedType shared = shared_type(expr.op);
  if (shared.first == shared.last || !shared.is_result) {
    return expr.type;
  }
  for (std::size_t i = shared.first; i < shared.last; ++i) {
    if (const auto type = own_type(expr.args.at(i))) {
      return type;
    }
  }
  return std::nullopt;
}

// The type of a bare literal that is argument `arg` of `expr`.
std::optional<Type> Printer::type_for(const Expr& expr, std::size_t arg, std::optional<Type> given) {
  if (op_info(expr.op).operands == Operands::kI64s) {
    return Type::kI64;
  }
  const SharedType shared = shared_type(expr.op);
  if (arg < shared.first || arg >= shared.last) {
    return std::nullopt;
  }
  for (std::size_t i = shared.first; i < shared.last; ++i) {
    if (const auto type = own_type(expr.args.at(i))) {
      return type;
    }
  }
  return shared.is_result ? given : std::nullopt;
}

std::optional<Type> Printer::type_around(const Statement& statement) const {
  if (statement.accumulator) {
    return statement.accumulator;
  }
  if (statement.reduce == Reduce::kArgMax || statement.reduce == Reduce::kArgMin) {
    return std::nullopt;
  }
  return program_.tensors.at(statement.target.tensor).type;
}

}  // namespace

std::string print(const Module& module) {
  std::string text = "yoke.program 1\n";
  for (const Program& program : module.programs) {
    Printer printer(program);
    printer.program();
    text += printer.text;
  }
  return text;
}

std::string print(const Program& program) {
  Printer printer(program);
  printer.program();
  return "yoke.program 1\n" + printer.text;
}

std::string print(const Program& program, const Statement& statement) {
  Printer printer(program);
  printer.statement(statement);
  return printer.text;
}

std::string index_text(const Program& program, const Statement& statement, const Index& index) {
  return Printer(program).index_of(statement, index);
}

std::string digest(std::string_view bytes) {
  // FNV-1a, 128 bits.
  __extension__ using Wide = unsigned __int128;
  const Wide prime = (Wide{1} << 88) + 0x13b;
  Wide hash = (Wide{0x6c62272e07bb0142U} << 64) + 0x62b821756295c58dU;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * prime;
  }
  std::string digits;
  for (int shift = 124; shift >= 0; shift -= 4) {
    digits += "0123456789abcdef"[static_cast<unsigned>(hash >> shift) & 15U];
  }
  return digits;
}

std::string fingerprint(const Module& module) {
  return digest(print(module));
}

}  // namespace yoke::program
