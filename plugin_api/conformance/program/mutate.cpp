// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/mutate.cpp: removes, duplicates, swaps and replaces tokens and lines.
#include "mutate.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <cctype>
#include <numeric>
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
constexpr const char* kFigures[] = {"0 ",
                                    "1 ",
                                    "2 ",
                                    "7 ",
                                    "255 ",
                                    "65504 ",
                                    "65536 ",
                                    "0.5 ",
                                    "1e300 ",
                                    "1e-310 ",
                                    "2147483648 ",
                                    "inf ",
                                    "nan ",
                                    "-1 ",
                                    "-3 ",
                                    "1 * ",
                                    "9223372036854775807 ",
                                    "-9223372036854775808 "};

enum class Kind { kFigure, kName, kMark };

Kind kind_of(const std::string& token) {
  const auto first = static_cast<unsigned char>(token[0]);
  return std::isdigit(first) != 0 ? Kind::kFigure : std::isalpha(first) != 0 ? Kind::kName : Kind::kMark;
}

// Returns a random token of the same kind.
std::string alike(const std::vector<std::string>& tokens, const std::string& token, Random& random) {
  if (kind_of(token) == Kind::kFigure && random.chance(2)) {
    return kFigures[random.below(std::size(kFigures))];
  }
  std::string other = token;
  for (int attempt = 0; attempt < 16 && other == token; ++attempt) {
    const std::string& drawn = tokens[random.below(tokens.size())];
    other = kind_of(drawn) == kind_of(token) ? drawn : other;
  }
  return other;
}

// Swaps two lines, or repeats one.
std::string with_moved_line(const std::string& text, Random& random) {
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
  }
  std::string& one = lines[random.below(lines.size())];
  std::string& other = lines[random.below(lines.size())];
  if (random.chance(2)) {
    one.swap(other);
  } else {
    one += std::string(other);
  }
  return std::accumulate(lines.begin(), lines.end(), std::string());
}

}  // namespace

std::string change_tokens(std::string_view text, Random& random) {
  std::vector<std::string> tokens = tokens_of(text);
  const std::uint64_t changes = 1 + random.below(2);
  for (std::uint64_t i = 0; i < changes && tokens.size() > 3; ++i) {
    // The first three tokens are the format's name and version.
    const std::size_t at = 3 + random.below(tokens.size() - 3);
    switch (random.below(10)) {
      case 0:
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(at), std::string(tokens[at]));
        break;
      case 2:
        std::swap(tokens[at], tokens[random.below(tokens.size())]);
        break;
      case 3:
        tokens[at] = tokens[random.below(tokens.size())];
        break;
      case 4:
        tokens[at] = kOthers[random.below(std::size(kOthers))];
        break;
      default:
        tokens[at] = alike(tokens, tokens[at], random);
    }
  }
  const std::string changed = std::accumulate(tokens.begin(), tokens.end(), std::string());
  return random.chance(4) && !changed.empty() ? with_moved_line(changed, random) : changed;
}

std::optional<Invalid> mutate(std::string_view valid, Random& random) {
  Invalid invalid{change_tokens(valid, random), {}};
  try {
    program::parse_and_verify(invalid.text);
    return std::nullopt;
  } catch (const program::ProgramError& error) {
    invalid.reason = error.what();
    return error.at().line == 0 ? std::nullopt : std::optional(std::move(invalid));
  }
}

}  // namespace yoke::conformance
