// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/parser.cpp: parses blocks, declarations and statements.
#include "parser.h"

#include <charconv>
#include <unordered_set>

#include "type_rules.h"

namespace yoke::program {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;

}  // namespace

ProgramError::ProgramError(Location at, const std::string& reason)
    : std::runtime_error(at.line == 0 ? reason
                                      : "line " + std::to_string(at.line) + ", column " +
                                            std::to_string(at.column) + ": " + reason),
      at_(at),
      reason_(reason) {}

Module parse(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    throw ProgramError({1, 1}, "the text is " + std::to_string(text.size()) + " bytes long; the limit is " +
                                   std::to_string(kMaxTextBytes));
  }
  return Parser(text).module();
}

void Parser::fail(Location at, const std::string& reason) {
  throw ProgramError(at, reason);
}

void Parser::fail_if(Location at, const std::string& fault) {
  if (!fault.empty()) {
    fail(at, fault);
  }
}

Token Parser::take_token() {
  last_line_ = lexer_.peek().at.line;
  return lexer_.next();
}

Token Parser::expect(std::string_view mark, std::string_view where) {
  if (!lexer_.peek().is(mark)) {
    fail(lexer_.peek().at, "expected '" + std::string(mark) + "' " + std::string(where) + ", found " +
                               lexer_.peek().description());
  }
  return take_token();
}

Token Parser::expect_name(std::string_view what) {
  if (lexer_.peek().kind != Token::Kind::kName) {
    fail(lexer_.peek().at, "expected " + std::string(what) + ", found " + lexer_.peek().description());
  }
  return take_token();
}

bool Parser::take_word(std::string_view word) {
  if (!lexer_.peek().is_name(word)) {
    return false;
  }
  take_token();
  return true;
}

bool Parser::take(std::string_view mark) {
  if (!lexer_.peek().is(mark)) {
    return false;
  }
  take_token();
  return true;
}

std::uint32_t Parser::tensor_named(const Token& name) const {
  const auto found = tensors_.find(name.text);
  if (found == tensors_.end()) {
    fail(name.at, "unknown tensor '" + std::string(name.text) + "'");
  }
  return found->second;
}

std::string Parser::declared_name(std::string_view what, Location& at) {
  const Token name = expect_name(what);
  at = name.at;
  fail_if(at, name_fault(name.text));
  if (tensors_.contains(name.text) || symbols_.contains(name.text)) {
    fail(at, "the name '" + std::string(name.text) + "' is declared twice");
  }
  return std::string(name.text);
}

Module Parser::module() {
  const Location start = lexer_.peek().at;
  const bool yoke = lexer_.peek().is_name("yoke");
  const Token first = take_token();
  if (!yoke || !take(".") || !lexer_.peek().is_name("program")) {
    fail(start, "expected 'yoke.program 1' at the start of the text, found " + first.description());
  }
  take_token();
  if (lexer_.peek().kind != Token::Kind::kNumber || lexer_.peek().text != "1") {
    fail(lexer_.peek().at,
         "expected format version 1, the only supported version, found " + lexer_.peek().description());
  }
  take_token();
  Module module;
  std::unordered_set<std::string_view> names;
  while (lexer_.peek().kind != Token::Kind::kEnd) {
    if (!take_word("program")) {
      fail(lexer_.peek().at, "expected 'program', found " + lexer_.peek().description());
    }
    const Token name = lexer_.peek();
    if (!names.insert(name.text).second) {
      fail(name.at, "program '" + std::string(name.text) + "' is defined twice");
    }
    module.programs.push_back(program_block());
  }
  return module;
}

Program Parser::program_block() {
  program_ = Program{};
  tensors_.clear();
  symbols_.clear();
  loop_names_.clear();
  Location at;
  program_.name = declared_name("the program's name", at);
  expect("(", "after the program's name");
  list(")", [&] { symbol(); });
  expect(")", "after the symbols");
  expect("{", "before the program's tensors and statements");
  items([&] {
    if (lexer_.peek().is_name("arg") || lexer_.peek().is_name("temp")) {
      tensor();
    } else if (lexer_.peek().is_name("repeat")) {
      repeat();
    } else {
      statement_or_hint();
    }
  });
  return std::move(program_);
}

// Calls item() until the closing brace. Each statement and declaration starts on a new line.
template <class Item>
void Parser::items(const Item& item) {
  for (bool is_first = true; !lexer_.peek().is("}"); is_first = false) {
    const Token& token = lexer_.peek();
    if (token.kind != Token::Kind::kEnd && token.at.line == last_line_ && !is_first) {
      fail(token.at, "expected an operator or a new line, found " + token.description());
    }
    item();
  }
  take_token();
}

void Parser::statement_or_hint() {
  if (lexer_.peek().is("@")) {
    hint();
  } else {
    statement(-1);
  }
}

void Parser::symbol() {
  if (!take_word("symbol")) {
    fail(lexer_.peek().at, "expected 'symbol', found " + lexer_.peek().description());
  }
  const std::string_view name = lexer_.peek().text;
  program_.symbols.push_back(ranged_name("symbol"));
  symbols_.emplace(name, static_cast<std::uint32_t>(program_.symbols.size() - 1));
}

// A name and its range, as in `row in 0..60000 step 500`.
Symbol Parser::ranged_name(std::string_view what) {
  const std::string owner = std::string(what) + "'s";
  Symbol symbol;
  symbol.name = declared_name("the " + owner + " name", symbol.at);
  if (!take_word("in")) {
    fail(lexer_.peek().at,
         "expected 'in' and the " + owner + " range, as in 0..10, found " + lexer_.peek().description());
  }
  symbol.low = integer();
  expect("..", "between the bounds of the " + owner + " range");
  symbol.high = integer();
  if (take_word("step")) {
    symbol.step = integer();
  }
  return symbol;
}

void Parser::repeat() {
  take_token();
  const Token name = lexer_.peek();
  Symbol variable = ranged_name("variable");
  variable.is_variable = true;
  repeat_ = static_cast<std::int32_t>(program_.symbols.size());
  program_.symbols.push_back(std::move(variable));
  symbols_.emplace(name.text, static_cast<std::uint32_t>(repeat_));
  expect("{", "before the repeated statements");
  if (lexer_.peek().is("}")) {
    fail(lexer_.peek().at, "the repeat block of '" + std::string(name.text) + "' contains no statements");
  }
  items([&] {
    if (lexer_.peek().is_name("repeat")) {
      fail(lexer_.peek().at, "repeat blocks cannot be nested");
    }
    statement_or_hint();
  });
  symbols_.erase(name.text);
  repeat_ = -1;
}

void Parser::tensor() {
  const bool is_arg = take_token().text == "arg";
  Tensor tensor;
  const std::string_view name = lexer_.peek().text;
  tensor.name = declared_name("the tensor's name", tensor.at);
  if (loop_names_.contains(name)) {
    fail(tensor.at, "tensor '" + tensor.name + "' has the name of a loop above");
  }
  expect(":", "after the tensor's name");
  tensor.type = type("an element type");
  tensor.dims = dims();
  if (is_arg) {
    const Token role = lexer_.peek();
    tensor.role = role.is_name("in") ? Role::kIn : role.is_name("out") ? Role::kOut : Role::kInOut;
    if (tensor.role == Role::kInOut && !role.is_name("inout")) {
      fail(role.at, "expected the argument's role, in, out or inout, found " + role.description());
    }
    take_token();
  }
  tensors_.emplace(name, static_cast<std::uint32_t>(program_.tensors.size()));
  program_.tensors.push_back(std::move(tensor));
}

Type Parser::type(std::string_view what) {
  const Token name = expect_name(what);
  const std::optional<Type> known = type_by_name(name.text);
  if (!known) {
    fail(name.at,
         "unknown type '" + std::string(name.text) + "'; the types are f64 f32 f16 bf16 i64 i32 u32 u8 bool");
  }
  return *known;
}

std::vector<std::uint64_t> Parser::dims() {
  std::vector<std::uint64_t> dims;
  expect("[", "before the tensor's dimensions ([] for a scalar)");
  list("]", [&] { dims.push_back(extent()); });
  expect("]", "after the tensor's dimensions");
  return dims;
}

std::uint64_t Parser::extent() {
  const Token token = lexer_.peek();
  std::uint64_t value = 0;
  if (token.kind != Token::Kind::kNumber || token.text.find_first_of(".e") != std::string_view::npos) {
    fail(token.at, "expected a whole number, found " + token.description());
  }
  const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (result.ec != std::errc()) {
    fail(token.at, token.description() + " does not fit in 64 bits");
  }
  take_token();
  return value;
}

std::int64_t Parser::integer() {
  const Location at = lexer_.peek().at;
  const bool negative = take("-");
  const Token token = lexer_.peek();
  if (token.kind != Token::Kind::kNumber) {
    fail(token.at, "expected a whole number, found " + token.description());
  }
  std::string reason;
  const auto literal = literal_from_text(Type::kI64, {token.text, negative}, reason);
  if (!literal) {
    fail(at, reason);
  }
  take_token();
  return literal->integer;
}

void Parser::hint() {
  take_token();
  const Token name = expect_name("the hint's name");
  fail_if(name.at, name_fault(name.text));
  Hint hint{std::string(name.text), {}};
  if (take("[")) {
    do {
      const Token loop = expect_name("a loop that the statements share");
      hint.loops.emplace_back(loop.text);
    } while (take(","));
    expect("]", "after the shared loops");
  }
  expect("{", "after the hint's name");
  if (lexer_.peek().is("}")) {
    fail(lexer_.peek().at, "the hint @" + std::string(name.text) + " contains no statements");
  }
  const auto number = static_cast<std::int32_t>(program_.hints.size());
  program_.hints.push_back(std::move(hint));
  items([&] { statement(number); });
}

void Parser::statement(std::int32_t hint) {
  statement_ = Statement{};
  statement_.hint = hint;
  statement_.repeat = repeat_;
  extents_.clear();
  loop_places_.clear();
  const Token name = expect_name("a statement or '}'");
  statement_.at = name.at;
  statement_.target = access(tensor_named(name), name.at, true);
  if (take_word("for")) {
    loops_of_target();
  }
  statement_.assign = assign();
  reduction();
  statement_.value = value();
  settle_extents();
  program_.statements.push_back(std::move(statement_));
}

void Parser::loops_of_target() {
  expect("[", "after 'for'");
  do {
    const Token name = expect_name("a loop of the target");
    const auto loop = statement_.find_loop(name.text);
    if (!loop) {
      fail(name.at, "'" + std::string(name.text) + "' is not a loop of the target");
    }
    if (extents_[*loop]) {
      fail(name.at, "the extent of loop '" + std::string(name.text) + "' is stated twice");
    }
    expect(":", "and an extent after the loop's name");
    extents_[*loop] = extent();
  } while (take(","));
  expect("]", "after the extents");
}

Assign Parser::assign() {
  const Token token = lexer_.peek();
  for (const auto& [mark, kind] :
       {std::pair("=", Assign::kSet), std::pair("+=", Assign::kAdd), std::pair("*=", Assign::kMul)}) {
    if (take(mark)) {
      return kind;
    }
  }
  if (token.is_name("max") || token.is_name("min")) {
    take_token();
    expect("=", "after '" + std::string(token.text) + "' as an assignment");
    return token.text == "max" ? Assign::kMax : Assign::kMin;
  }
  fail(token.at, "expected one of = += *= max= min=, found " + token.description());
}

void Parser::reduction() {
  const Token name = lexer_.peek();
  const auto reduce = name.kind == Token::Kind::kName ? reduce_by_name(name.text) : std::nullopt;
  Lexer further = lexer_;
  further.next();
  if (!reduce || further.peek().is("(")) {
    return;
  }
  take_token();
  statement_.reduce = reduce;
  if (take(":")) {
    statement_.accumulator = type("the accumulator's type");
  }
  reduction_loops();
}

void Parser::reduction_loops() {
  const std::string reduce(reduce_name(*statement_.reduce));
  expect("[", "and the loops of '" + reduce + "'");
  do {
    const Token name = expect_name("a loop of '" + reduce + "'");
    if (statement_.find_loop(name.text)) {
      fail(name.at,
           "'" + std::string(name.text) + "' is already a loop; " + reduce + " must introduce a new one");
    }
    const std::uint32_t loop = add_loop(name);
    statement_.reduce_loops.push_back(loop);
    if (take(":")) {
      extents_[loop] = extent();
    }
  } while (take(","));
  expect("]", "after the loops of '" + reduce + "'");
}

}  // namespace yoke::program
