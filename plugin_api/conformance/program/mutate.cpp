// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/mutate.cpp: removes, duplicates, swaps and replaces tokens.
#include "mutate.h"

#include <yoke/program/text.h>

#include <cctype>
#include <vector>

namespace yoke::conformance {
namespace {

// Splits a text into words, numbers and other single characters; blanks belong to the token before them.
std::vector<std::string> tokens_of(std::string_view text) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && is_word(text[at]) && is_word(text[end])) {
      ++end;
    }
    while (end < text.size() && text[end] == ' ') {
      ++end;
    }
    tokens.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

constexpr const char* kOthers[] = {"0 ",  "1 ",    "-1 ",  "4000000 ", "i ",   "j ",   "k ",
                                   "x1 ", "y0 ",   "f32 ", "bool ",    "i64 ", "sum ", "else ",
                                   "in ", "temp ", "out ", "+ ",       "* ",   "[",    "] ",
                                   "(",   ") ",    "=",    "nan ",     "\n",   "for "};

}  // namespace

std::optional<Invalid> mutate(std::string_view valid, Random& random) {
  std::vector<std::string> tokens = tokens_of(valid);
  const std::uint64_t changes = 1 + random.below(2);
  for (std::uint64_t i = 0; i < changes && tokens.size() > 2; ++i) {
    // The first three tokens are the format's name and version.
    const std::size_t at = 3 + random.below(tokens.size() - 3);
    switch (random.below(5)) {
      case 0:
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(at), tokens[at]);
        break;
      case 2:
        std::swap(tokens[at], tokens[random.below(tokens.size())]);
        break;
      case 3:
        tokens[at] = tokens[random.below(tokens.size())];
        break;
      default:
        tokens[at] = kOthers[random.below(std::size(kOthers))];
    }
  }
  Invalid invalid;
  for (const std::string& token : tokens) {
    invalid.text += token;
  }
  try {
    program::parse_and_verify(invalid.text);
    return std::nullopt;
  } catch (const program::ProgramError& error) {
    invalid.reason = error.what();
    return error.at().line == 0 ? std::nullopt : std::optional(std::move(invalid));
  }
}

}  // namespace yoke::conformance
