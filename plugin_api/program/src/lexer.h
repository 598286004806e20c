// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/lexer.h: splits a text into tokens.
#pragma once

#include <yoke/program/program.h>

#include <string>
#include <string_view>

namespace yoke::program {

struct Token {
  enum class Kind { kName, kNumber, kMark, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;
  Location at;

  bool is(std::string_view mark) const { return kind == Kind::kMark && text == mark; }
  bool is_name(std::string_view name) const { return kind == Kind::kName && text == name; }
  // "'exp'", "the number 3", "the end of the text".
  std::string description() const;
};

// Reads one token ahead. To look further ahead, the parser copies the lexer, which is cheap.
class Lexer {
 public:
  // `text` must outlive the lexer and its tokens.
  explicit Lexer(std::string_view text);
  const Token& peek() const { return ahead_; }
  Token next();

 private:
  void skip_blanks();
  Token read();
  std::size_t number_length() const;

  std::string_view rest_;
  Location at_{1, 1};
  Token ahead_;
};

}  // namespace yoke::program
