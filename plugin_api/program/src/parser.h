// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/parser.h: a recursive descent parser with one function
// per rule of the grammar in ../FORMAT.md.
#pragma once

#include <yoke/program/text.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lexer.h"
#include "number.h"

namespace yoke::program {

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}
  Module module();

 private:
  // An expression and the height of its tree.
  struct Node {
    Expr expr;
    int height = 1;
  };
  class Level;

  // parser.cpp
  Program program_block();
  void symbol();
  Symbol ranged_name(std::string_view what);
  void tensor();
  Type type(std::string_view what);
  std::vector<std::uint64_t> dims();
  template <class Item>
  void items(const Item& item);
  void statement_or_hint();
  void repeat();
  void hint();
  void statement(std::int32_t hint);
  void loops_of_target();
  void reduction();
  void reduction_loops();
  Assign assign();
  std::uint64_t extent();
  std::int64_t integer();

  // parse_index.cpp
  Access access(std::uint32_t tensor, Location at, bool declares_loops);
  Index index(bool declares_loops);
  template <class ParseIndex>
  void indices(std::uint32_t tensor, Location at, const ParseIndex& index);
  Affine affine(bool declares_loops);
  void affine_term(std::vector<Affine::Term>& terms, std::int64_t& constant, bool negative,
                   bool declares_loops);
  Affine::Term index_name(const Token& name, bool declares_loops);
  std::uint32_t add_loop(const Token& name);
  void settle_extents();

  // parse_expression.cpp
  Expr value();
  Node binary(int lowest);
  Node unary();
  Node primary();
  Node parenthesized();
  Node named(const Token& name);
  Node call(const Token& name);
  Node cast(Type type, std::vector<Node> args, Location at);
  Node operation(Op op, std::vector<Node> args, Location at);
  Node pending_literal(NumberText text, Location at);
  Literal literal_of(Type type);
  void give_type(Expr& expr, Type type);
  void give_default_type(Expr& expr);
  bool has_float_literal(const Expr& expr) const;
  static void check_types(Expr& expr);

  // Shared.
  [[noreturn]] static void fail(Location at, const std::string& reason);
  static void fail_if(Location at, const std::string& fault);  // unless `fault` is empty
  Token expect(std::string_view mark, std::string_view where);
  Token expect_name(std::string_view what);
  bool take(std::string_view mark);
  bool take_word(std::string_view word);
  // Calls item() for each item of a list that ends with the mark.
  template <class Item>
  void list(std::string_view end, const Item& item) {
    if (!lexer_.peek().is(end)) {
      do {
        item();
      } while (take(","));
    }
  }
  std::uint32_t tensor_named(const Token& name) const;
  std::string declared_name(std::string_view what, Location& at);

  Lexer lexer_;
  std::uint32_t last_line_ = 0;  // of the last token taken
  Program program_;
  std::unordered_map<std::string_view, std::uint32_t> tensors_;
  std::unordered_map<std::string_view, std::uint32_t> symbols_;
  std::unordered_set<std::string_view> loop_names_;  // of all statements of the program
  Statement statement_;
  std::vector<std::optional<std::uint64_t>> extents_;  // per loop, if the text states it
  std::vector<Location> loop_places_;
  // Literals without a type so far; Literal::integer of their Expr is an index into this.
  std::vector<NumberText> pending_;
  int nesting_ = 0;
  std::int32_t repeat_ = -1;  // the variable of the open repeat block

  Token take_token();
};

}  // namespace yoke::program
