// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/lexer.cpp: splits a text into tokens.
#include "lexer.h"

#include <yoke/program/text.h>

namespace yoke::program {
namespace {

constexpr std::string_view kMarks[] = {
    "..", "+=", "*=", "(", ")", "[", "]", "{", "}", ",", ":", "=", "@", ".",
#define YOKE_OP(id, function, text, arity, precedence, ...) (precedence) < kCall ? text : "",
#include <yoke/program/ops.def>
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

std::size_t digits_at(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_digit(text[end])) {
    ++end;
  }
  return end - from;
}

}  // namespace

std::string Token::description() const {
  switch (kind) {
    case Kind::kEnd:
      return "the end of the text";
    case Kind::kNumber:
      return "the number " + std::string(text.substr(0, 40));
    default:
      return "'" + std::string(text.substr(0, 40)) + "'";
  }
}

Lexer::Lexer(std::string_view text) : rest_(text) {
  ahead_ = read();
}

Token Lexer::next() {
  Token token = ahead_;
  ahead_ = read();
  return token;
}

void Lexer::skip_blanks() {
  while (!rest_.empty()) {
    const char c = rest_.front();
    if (c == '#') {
      const std::size_t end = rest_.find('\n');
      const std::size_t length = end == std::string_view::npos ? rest_.size() : end;
      at_.column += static_cast<std::uint32_t>(length);
      rest_.remove_prefix(length);
      continue;
    }
    if (c == '\n') {
      ++at_.line;
      at_.column = 1;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_.column;
    } else {
      return;
    }
    rest_.remove_prefix(1);
  }
}

// Length of the number at the front. A dot without a digit after it is not part of the number (`0..10`).
std::size_t Lexer::number_length() const {
  std::size_t length = digits_at(rest_, 0);
  if (length < rest_.size() && rest_[length] == '.') {
    const std::size_t fraction = digits_at(rest_, length + 1);
    length += fraction == 0 ? 0 : fraction + 1;
  }
  if (length < rest_.size() && rest_[length] == 'e') {
    std::size_t exponent = length + 1;
    if (exponent < rest_.size() && (rest_[exponent] == '+' || rest_[exponent] == '-')) {
      ++exponent;
    }
    const std::size_t digits = digits_at(rest_, exponent);
    length = digits == 0 ? length : exponent + digits;
  }
  return length;
}

Token Lexer::read() {
  skip_blanks();
  Token token;
  token.at = at_;
  if (rest_.empty()) {
    return token;
  }
  std::size_t length = 0;
  if (is_digit(rest_.front())) {
    token.kind = Token::Kind::kNumber;
    length = number_length();
    if (length < rest_.size() && is_name_part(rest_[length])) {
      throw ProgramError(at_, "the number " +
                                  std::string(rest_.substr(0, std::min<std::size_t>(length, 40))) +
                                  " is followed by '" + rest_[length] + "'");
    }
  } else if (is_name_part(rest_.front())) {
    token.kind = Token::Kind::kName;
    while (length < rest_.size() && is_name_part(rest_[length])) {
      ++length;
    }
  } else {
    token.kind = Token::Kind::kMark;
    for (const std::string_view mark : kMarks) {  // the longest match wins
      if (mark.size() > length && rest_.substr(0, mark.size()) == mark) {
        length = mark.size();
      }
    }
    if (length == 0) {
      const char c = rest_.front();
      const auto byte = static_cast<unsigned>(static_cast<unsigned char>(c));
      throw ProgramError(at_, c > ' ' && byte < 0x7f ? std::string("unexpected character '") + c + "'"
                                                     : "unexpected byte " + std::to_string(byte) +
                                                           "; a program is plain ASCII text");
    }
  }
  token.text = rest_.substr(0, length);
  rest_.remove_prefix(length);
  at_.column += static_cast<std::uint32_t>(length);
  return token;
}

}  // namespace yoke::program
