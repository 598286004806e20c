// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/einsum_spec.cpp: parses the specifications of einsum.
#include "einsum_spec.h"

#include <algorithm>
#include <map>

#include "node.h"

namespace yoke::detail::einsum_spec {

Term plain(const std::string& name) {
  return {.text = name, .name = name, .other = {}};
}

bool has_rest(const Terms& terms) {
  return std::any_of(terms.begin(), terms.end(), [](const Term& term) { return term.is_rest(); });
}

std::size_t axis_of(const Terms& terms, std::size_t i, const Tensor& arg) {
  const bool is_after = has_rest({terms.begin(), terms.begin() + static_cast<std::ptrdiff_t>(i)});
  return is_after ? arg.rank() - (terms.size() - i) : i;
}

namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_space(char c) {
  return c == ' ' || c == '\t';
}

class Parser {
 public:
  // In the notation of words, spaces separate indices; in numpy's, every letter is one.
  explicit Parser(std::string_view spec)
      : spec_(spec),
        words_(spec.find("=>") != std::string_view::npos || spec.find(';') != std::string_view::npos) {}

  Spec parse() {
    Spec parsed{"einsum \"" + std::string(spec_) + "\"", {}, {}};
    const std::string_view arrow = words_ ? "=>" : "->";
    const char separator = words_ ? ';' : ',';
    const std::size_t end = spec_.find(arrow);
    if (end == std::string_view::npos && words_) {
      refuse(spec_.size(), "expected `=>` and the indices of the result");
    }
    while (true) {
      parsed.operands.push_back(terms());
      if (at_ == spec_.size() || spec_.substr(at_, 2) == arrow) {
        break;
      }
      if (spec_[at_] != separator) {
        refuse_index();
      }
      ++at_;
    }
    if (end == std::string_view::npos) {
      parsed.result = implicit_result(parsed.operands);
      return parsed;
    }
    at_ += arrow.size();
    parsed.result = terms();
    if (at_ != spec_.size()) {
      refuse_index();
    }
    return parsed;
  }

 private:
  [[noreturn]] void refuse(std::size_t at, const std::string& why) const {
    fail("einsum \"" + std::string(spec_) + "\", column " + std::to_string(at + 1) + ": " + why);
  }
  [[noreturn]] void refuse_index() const {
    const std::string token(spec_.substr(at_, words_ ? spec_.find_first_of(" \t;", at_ + 1) - at_ : 1));
    refuse(at_, "'" + token + "' is not a valid index; " +
                    (words_ ? "separate letters or words by spaces, as in \"b i; o i => b o\""
                            : "each index is a letter, as in \"bi,oi->bo\""));
  }

  char next(std::size_t ahead = 0) const { return at_ + ahead < spec_.size() ? spec_[at_ + ahead] : '\0'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  // The indices up to a separator, an arrow, or anything else that is not an index.
  Terms terms() {
    Terms found;
    while (true) {
      while (is_space(next())) {
        ++at_;
      }
      const std::size_t begin = at_;
      if (spec_.substr(at_, 3) == "...") {
        at_ += 3;
        if (has_rest(found)) {
          refuse(begin, "`...` appears twice in one term");
        }
        found.push_back(plain("..."));
      } else if (is_letter(next()) || (words_ && (next() == '_' || is_digit(next())))) {
        found.push_back(words_ ? sum() : plain(std::string(1, spec_[at_++])));
      } else {
        return found;
      }
      if (words_ && at_ < spec_.size() && !is_end_of_word()) {
        at_ = begin;
        refuse_index();
      }
      found.back().text = spec_.substr(begin, at_ - begin);
    }
  }

  // 3, o, 2*o, 2*o+k, o<+3*k or 2*o=+k.
  Term sum() {
    const std::size_t begin = at_;
    Term term;
    product(&term.factor, &term.name);
    term.is_padded = next() == '=' && next(1) == '+';
    const bool is_marked = term.is_padded || (next() == '<' && next(1) == '+');
    if (!term.name.empty() && (next() == '+' || is_marked)) {
      at_ += is_marked ? 2 : 1;
      product(&term.other_factor, &term.other);
      if (term.other.empty() || term.other == term.name) {
        at_ = begin;
        refuse_index();
      }
    }
    return term;
  }

  // A number, a name, or number*name.
  void product(std::uint64_t* factor, std::string* name) {
    constexpr std::uint64_t kMost = 1'000'000'000;
    const std::size_t begin = at_;
    for (*factor = is_digit(next()) ? 0 : 1; is_digit(next()); ++at_) {
      *factor = *factor * 10 + static_cast<std::uint64_t>(next() - '0');
      if (*factor > kMost) {
        refuse(begin, "a number is greater than 1000000000");
      }
    }
    if (at_ != begin && next() != '*') {
      return;
    }
    at_ += at_ != begin ? 1 : 0;
    const std::size_t start = at_;
    while (is_letter(next()) || next() == '_' || (at_ != start && is_digit(next()))) {
      ++at_;
    }
    *name = spec_.substr(start, at_ - start);
    if (name->empty() || *factor == 0) {
      at_ = begin;
      refuse_index();
    }
  }
  bool is_end_of_word() const {
    return is_space(next()) || next() == ';' || (next() == '=' && next(1) == '>');
  }

  static Terms implicit_result(const std::vector<Terms>& operands) {
    std::map<std::string, int> counts;  // sorted
    for (const Terms& terms : operands) {
      for (const Term& term : terms) {
        ++counts[term.name];
      }
    }
    Terms result;
    for (const auto& [term, count] : counts) {
      if (count == 1 || term == "...") {  // sorts before the letters
        result.push_back(plain(term));
      }
    }
    return result;
  }

  std::string_view spec_;
  bool words_;
  std::size_t at_ = 0;
};

}  // namespace

Spec parse(std::string_view spec) {
  return Parser(spec).parse();
}

}  // namespace yoke::detail::einsum_spec
