// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/parse_expression.cpp: parses values and infers the types of literals.
#include <algorithm>

#include "parser.h"
#include "type_rules.h"

namespace yoke::program {
namespace {

// The type of a literal, or of an operation on literals only, until its context determines it.
constexpr Type kNoType = static_cast<Type>(0);

// Nesting limit of the text: one level of the tree may take a parenthesis, a sign and an operator.
constexpr int kMaxNesting = 3 * kMaxDepth;

std::optional<Op> infix(const Token& token) {
  return token.kind == Token::Kind::kMark ? infix_by_mark(token.text) : std::nullopt;
}

bool is_number(const Token& token) {
  return token.kind == Token::Kind::kNumber || token.is_name("inf") || token.is_name("nan");
}

}  // namespace

// Counts one level of nesting during its lifetime.
class Parser::Level {
 public:
  Level(int& nesting, Location at) : nesting_(nesting) {
    if (nesting_ == kMaxNesting) {
      fail(at, depth_fault());
    }
    ++nesting_;
  }
  ~Level() { --nesting_; }
  Level(const Level&) = delete;
  Level(Level&&) = delete;
  Level& operator=(const Level&) = delete;
  Level& operator=(Level&&) = delete;

 private:
  int& nesting_;
};

Expr Parser::value() {
  pending_.clear();
  Expr expr = binary(1).expr;
  if (expr.type == kNoType) {
    const auto& reduce = statement_.reduce;
    if (statement_.accumulator) {
      give_type(expr, *statement_.accumulator);
    } else if (reduce == Reduce::kArgMax || reduce == Reduce::kArgMin) {
      give_default_type(expr);
    } else {
      give_type(expr, program_.tensors[statement_.target.tensor].type);
    }
  }
  return expr;
}

Parser::Node Parser::binary(int lowest) {
  const Level level(nesting_, lexer_.peek().at);
  Node left = unary();
  for (auto op = infix(lexer_.peek()); op && op_info(*op).precedence >= lowest; op = infix(lexer_.peek())) {
    const Token mark = take_token();
    std::vector<Node> args;
    args.push_back(std::move(left));
    args.push_back(binary(op_info(*op).precedence + 1));
    left = operation(*op, std::move(args), mark.at);
  }
  return left;
}

Parser::Node Parser::unary() {
  const Token token = lexer_.peek();
  const auto op = token.kind == Token::Kind::kMark ? prefix_by_mark(token.text) : std::nullopt;
  if (!op) {
    return primary();
  }
  const Level level(nesting_, token.at);
  take_token();
  if (token.is("-") && is_number(lexer_.peek())) {
    return pending_literal({take_token().text, true}, token.at);
  }
  std::vector<Node> args;
  args.push_back(unary());
  return operation(*op, std::move(args), token.at);
}

Parser::Node Parser::primary() {
  const Token token = lexer_.peek();
  if (is_number(token)) {
    take_token();
    return pending_literal({token.text, false}, token.at);
  }
  if (token.is("(")) {
    return parenthesized();
  }
  if (token.kind == Token::Kind::kName) {
    return named(take_token());
  }
  fail(token.at, "expected a value, found " + token.description());
}

Parser::Node Parser::parenthesized() {
  const Location at = take_token().at;
  Node node = binary(1);
  if (lexer_.peek().is_name("else")) {
    const Token word = take_token();
    if (node.expr.type == kNoType) {
      fail(word.at, "'else' must follow a value that reads a tensor, as in (x[i] else 0)");
    }
    const Literal otherwise = literal_of(node.expr.type);
    node.expr = Expr::guard(std::move(node.expr), otherwise);
    node.expr.at = at;
    if (node.expr.op == Op::kGuard && ++node.height > kMaxDepth) {
      fail(at, depth_fault());
    }
  }
  expect(")", "to match '('");
  return node;
}

Parser::Node Parser::named(const Token& name) {
  if (name.text == "true" || name.text == "false") {
    Expr expr = Expr::constant(Type::kBool, name.text == "true" ? 1 : 0);
    expr.at = name.at;
    return {std::move(expr), 1};
  }
  if (lexer_.peek().is("(")) {
    return call(name);
  }
  const auto tensor = tensors_.find(name.text);
  if (lexer_.peek().is("[")) {
    if (tensor == tensors_.end()) {
      fail(name.at, reduce_by_name(name.text) ? "a reduction must come first in a statement's value"
                                              : "unknown tensor '" + std::string(name.text) + "'");
    }
    Expr expr = Expr::read(program_.tensors[tensor->second].type, access(tensor->second, name.at, false));
    expr.at = name.at;
    return {std::move(expr), 1};
  }
  Expr expr{.op = Op::kIndex, .type = Type::kI64, .at = name.at};
  const auto symbol = symbols_.find(name.text);
  const auto loop = statement_.find_loop(name.text);
  if (symbol != symbols_.end()) {
    expr.affine = Affine::symbol(symbol->second);
  } else if (loop) {
    expr.affine = Affine::loop(*loop);
  } else {
    fail(name.at, tensor == tensors_.end()
                      ? "unknown name '" + std::string(name.text) + "'"
                      : "tensor '" + std::string(name.text) + "' must be indexed ([] for a scalar)");
  }
  return {std::move(expr), 1};
}

Parser::Node Parser::call(const Token& name) {
  const auto type = type_by_name(name.text);
  const auto op = function_by_name(name.text);
  if (!type && !op) {
    fail(name.at, "unknown function '" + std::string(name.text) + "'");
  }
  take_token();
  std::vector<Node> args;
  list(")", [&] { args.push_back(binary(1)); });
  expect(")", "or ',' after an argument of '" + std::string(name.text) + "'");
  return type ? cast(*type, std::move(args), name.at) : operation(*op, std::move(args), name.at);
}

// A number in a cast is a literal of the cast's type: f64(0.1) is not first rounded to f32.
Parser::Node Parser::cast(Type type, std::vector<Node> args, Location at) {
  if (args.size() != 1) {
    fail(at, argument_fault(type_name(type), 1, args.size()));
  }
  Node& arg = args[0];
  if (arg.expr.type == kNoType) {
    if (arg.expr.op == Op::kConst) {
      give_type(arg.expr, type);
      return std::move(arg);
    }
    give_default_type(arg.expr);
  }
  Node node;
  node.height = arg.height + 1;
  node.expr = Expr::cast(type, std::move(arg.expr));
  node.expr.at = at;
  if (node.height > kMaxDepth) {
    fail(at, depth_fault());
  }
  return node;
}

Parser::Node Parser::operation(Op op, std::vector<Node> args, Location at) {
  Node node;
  node.expr.op = op;
  node.expr.at = at;
  for (Node& arg : args) {
    node.height = std::max(node.height, arg.height + 1);
    node.expr.args.push_back(std::move(arg.expr));
  }
  if (node.height > kMaxDepth) {
    fail(at, depth_fault());
  }
  std::vector<Expr>& values = node.expr.args;
  if (static_cast<int>(values.size()) == op_info(op).arity) {
    const SharedType shared = shared_type(op);
    Type type = op_info(op).operands == Operands::kI64s ? Type::kI64 : kNoType;
    for (std::size_t i = shared.first; i < shared.last && type == kNoType; ++i) {
      type = values[i].type;
    }
    if (op == Op::kSelect && values[0].type == kNoType) {
      give_default_type(values[0]);
    }
    if (type == kNoType && shared.is_result) {
      node.expr.type = kNoType;  // the context decides
      return node;
    }
    if (type == kNoType) {
      type = std::any_of(values.begin(), values.end(),
                         [this](const Expr& value) { return has_float_literal(value); })
                 ? Type::kF32
                 : Type::kI64;
    }
    for (Expr& value : values) {
      if (value.type == kNoType) {
        give_type(value, type);
      }
    }
  }
  check_types(node.expr);
  return node;
}

void Parser::check_types(Expr& expr) {
  std::vector<Type> types;
  for (const Expr& arg : expr.args) {
    types.push_back(arg.type == kNoType ? Type::kF32 : arg.type);
  }
  std::string reason;
  const auto type = result_type(expr.op, types, reason);
  if (!type) {
    fail(expr.at, reason);
  }
  expr.type = *type;
}

Parser::Node Parser::pending_literal(NumberText text, Location at) {
  pending_.push_back(text);
  const auto number = static_cast<std::int64_t>(pending_.size() - 1);
  return {{.type = kNoType, .literal = {0, number}, .at = at}, 1};
}

// The number after `else`.
Literal Parser::literal_of(Type type) {
  const Token token = lexer_.peek();
  if (type == Type::kBool && (token.is_name("true") || token.is_name("false"))) {
    take_token();
    return {0, token.text == "true" ? 1 : 0};
  }
  const bool negative = take("-");
  if (!is_number(lexer_.peek())) {
    fail(lexer_.peek().at, "expected a number after 'else', found " + lexer_.peek().description());
  }
  std::string reason;
  const auto literal = literal_from_text(type, {take_token().text, negative}, reason);
  if (!literal) {
    fail(token.at, reason);
  }
  return *literal;
}

void Parser::give_type(Expr& expr, Type type) {
  if (expr.op == Op::kConst) {
    std::string reason;
    const auto literal =
        literal_from_text(type, pending_.at(static_cast<std::size_t>(expr.literal.integer)), reason);
    if (!literal) {
      fail(expr.at, reason);
    }
    expr.literal = *literal;
    expr.type = type;
    return;
  }
  const SharedType shared = shared_type(expr.op);
  for (std::size_t i = shared.first; i < shared.last; ++i) {
    give_type(expr.args[i], type);
  }
  check_types(expr);
}

void Parser::give_default_type(Expr& expr) {
  give_type(expr, has_float_literal(expr) ? Type::kF32 : Type::kI64);
}

bool Parser::has_float_literal(const Expr& expr) const {
  if (expr.op == Op::kConst) {
    return expr.type == kNoType && pending_.at(static_cast<std::size_t>(expr.literal.integer)).is_float();
  }
  const SharedType shared = shared_type(expr.op);
  for (std::size_t i = shared.first; i < shared.last; ++i) {
    if (has_float_literal(expr.args[i])) {
      return true;
    }
  }
  return false;
}

}  // namespace yoke::program
