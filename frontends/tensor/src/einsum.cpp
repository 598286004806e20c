// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/einsum.cpp: parses "bi,oi->bo" or "b i; o i => b o" and assigns labels to the axes.
#include <yoke/ops.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "node.h"

namespace yoke {
namespace {

using Terms = std::vector<std::string>;  // index names; "..." at most once

struct Spec {
  std::string text;  // `einsum "b i => b"`, for messages
  std::vector<Terms> operands;
  Terms result;
};

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
    detail::fail("einsum \"" + std::string(spec_) + "\", column " + std::to_string(at + 1) + ": " + why);
  }
  [[noreturn]] void refuse_index() const {
    const std::string token(spec_.substr(at_, words_ ? spec_.find_first_of(" \t;", at_ + 1) - at_ : 1));
    refuse(at_, "'" + token + "' is not a valid index; " +
                    (words_ ? "separate letters or words by spaces, as in \"b i; o i => b o\""
                            : "each index is a letter, as in \"bi,oi->bo\""));
  }

  // The indices up to a separator, an arrow, or anything else that is not an index.
  Terms terms() {
    Terms found;
    while (true) {
      while (at_ < spec_.size() && is_space(spec_[at_])) {
        ++at_;
      }
      const std::size_t begin = at_;
      if (spec_.substr(at_, 3) == "...") {
        at_ += 3;
        if (std::find(found.begin(), found.end(), "...") != found.end()) {
          refuse(begin, "`...` appears twice in one term");
        }
      } else if (at_ < spec_.size() && (is_letter(spec_[at_]) || (words_ && spec_[at_] == '_'))) {
        ++at_;
        while (words_ && at_ < spec_.size() && is_part_of_word(spec_[at_])) {
          ++at_;
        }
      } else {
        return found;
      }
      if (words_ && at_ < spec_.size() && !is_end_of_word(spec_[at_])) {
        at_ = begin;
        refuse_index();
      }
      found.emplace_back(spec_.substr(begin, at_ - begin));
    }
  }
  static bool is_part_of_word(char c) { return is_letter(c) || c == '_' || (c >= '0' && c <= '9'); }
  static bool is_end_of_word(char c) { return is_space(c) || c == ';' || c == '='; }

  static Terms implicit_result(const std::vector<Terms>& operands) {
    std::map<std::string, int> counts;  // sorted
    for (const Terms& terms : operands) {
      for (const std::string& term : terms) {
        ++counts[term];
      }
    }
    Terms result;
    for (const auto& [term, count] : counts) {
      if (count == 1 || term == "...") {  // sorts before the letters
        result.push_back(term);
      }
    }
    return result;
  }

  std::string_view spec_;
  bool words_;
  std::size_t at_ = 0;
};

// Numbers the index names and the axes of `...`. Keeps the size of each, and the operand that determined it.
class Labels {
 public:
  Labels(const Spec& spec, const std::vector<Tensor>& args) : spec_(spec) {
    for (std::size_t i = 0; i < args.size(); ++i) {
      const Terms& terms = spec.operands[i];
      const bool rest = std::find(terms.begin(), terms.end(), "...") != terms.end();
      const std::size_t named = terms.size() - (rest ? 1 : 0);
      if (args[i].rank() < named || (!rest && args[i].rank() != named)) {
        detail::fail(spec.text + ": operand " + std::to_string(i + 1) + " has " + std::to_string(named) +
                     " indices" + (rest ? " besides `...`" : "") + ", but " + detail::describe(args[i]) +
                     " has rank " + std::to_string(args[i].rank()));
      }
      rest_rank_ = std::max(rest_rank_, rest ? args[i].rank() - named : 0);
    }
    for (std::size_t k = 0; k < rest_rank_; ++k) {
      extents.push_back(1);  // the axes of `...` have the labels 0, 1, ...
      owners_.emplace_back();
    }
  }

  // One label per axis of the operand.
  std::vector<int> of_operand(const Terms& terms, const Tensor& arg) {
    std::vector<int> labels;
    std::size_t axis = 0;
    for (const std::string& term : terms) {
      if (term != "...") {
        labels.push_back(named(term, arg, arg.dims()[axis++]));
        continue;
      }
      const std::size_t own = arg.rank() - (terms.size() - 1);
      for (std::size_t k = 0; k < own; ++k) {
        labels.push_back(rest(rest_rank_ - own + k, arg, arg.dims()[axis++]));
      }
    }
    return labels;
  }

  std::vector<int> of_result(const Terms& terms) {
    std::vector<int> labels;
    for (const std::string& term : terms) {
      if (term == "...") {
        for (std::size_t k = 0; k < rest_rank_; ++k) {
          labels.push_back(static_cast<int>(k));
        }
        continue;
      }
      const auto found = numbers_.find(term);
      if (found == numbers_.end()) {
        detail::fail(spec_.text + ": index " + term + " of the result does not appear in any operand");
      }
      if (std::find(labels.begin(), labels.end(), found->second) != labels.end()) {
        detail::fail(spec_.text + ": index " + term + " appears twice in the result");
      }
      labels.push_back(found->second);
    }
    return labels;
  }

  Dims extents;

 private:
  int named(const std::string& name, const Tensor& arg, std::uint64_t extent) {
    const auto [found, is_new] = numbers_.try_emplace(name, static_cast<int>(extents.size()));
    if (is_new) {
      extents.push_back(extent);
      owners_.push_back(arg);
    } else if (const auto label = static_cast<std::size_t>(found->second); extents[label] != extent) {
      mismatch("index " + name, extents[label], owners_[label], extent, arg);
    }
    return found->second;
  }

  int rest(std::size_t label, const Tensor& arg, std::uint64_t extent) {
    if (extents[label] == 1) {
      extents[label] = extent;
      owners_[label] = arg;
    } else if (extent != 1 && extents[label] != extent) {
      mismatch("axis " + std::to_string(label) + " of `...`", extents[label], owners_[label], extent, arg);
    }
    return static_cast<int>(label);
  }

  [[noreturn]] void mismatch(const std::string& what, std::uint64_t extent, const Tensor& owner,
                             std::uint64_t other_extent, const Tensor& other) const {
    detail::fail(spec_.text + ": " + what + " is " + std::to_string(extent) + " in " +
                 detail::describe(owner) + " but " + std::to_string(other_extent) + " in " +
                 detail::describe(other));
  }

  const Spec& spec_;
  std::size_t rest_rank_ = 0;
  std::map<std::string, int> numbers_;
  std::vector<Tensor> owners_;
};

// The search for the best order of the products visits all subsets of the operands.
constexpr std::size_t kMaxOperands = 12;

Tensor einsum_of(std::string_view spec, std::vector<Tensor> args) {
  const Spec parsed = Parser(spec).parse();
  if (parsed.operands.size() != args.size()) {
    detail::fail(parsed.text + ": expected " + detail::counted(parsed.operands.size(), "operand") + ", got " +
                 std::to_string(args.size()));
  }
  for (const Tensor& arg : args) {
    detail::require(arg, parsed.text.c_str());
    if (arg.type() != args[0].type() || arg.type() == Type::kBool) {
      detail::fail(parsed.text + ": " + detail::describe(args[0]) + " is " +
                   std::string(program::type_name(args[0].type())) + " and " + detail::describe(arg) +
                   " is " + std::string(program::type_name(arg.type())) +
                   "; all operands must have the same numeric type");
    }
  }
  if (args.size() > kMaxOperands) {
    detail::fail(parsed.text + ": " + std::to_string(args.size()) + " operands exceed the limit of " +
                 std::to_string(kMaxOperands) + "; multiply some of them first");
  }
  Labels labels(parsed, args);
  std::vector<std::vector<int>> of_args;
  for (std::size_t i = 0; i < args.size(); ++i) {
    of_args.push_back(labels.of_operand(parsed.operands[i], args[i]));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    // Broadcasts axes of size 1 that stand for a longer axis of `...`: they need no index.
    detail::drop_axes(args[i], of_args[i], [&](std::size_t k) {
      return args[i].dims()[k] != labels.extents[static_cast<std::size_t>(of_args[i][k])];
    });
  }
  return detail::contract(std::move(args), std::move(of_args), labels.of_result(parsed.result),
                          labels.extents);
}

}  // namespace

Tensor einsum(std::string_view spec, const std::vector<Tensor>& operands) {
  return einsum_of(spec, operands);
}
Tensor matmul(const Tensor& a, const Tensor& b) {
  return einsum_of("... i k; ... k j => ... i j", {a, b});
}

}  // namespace yoke
