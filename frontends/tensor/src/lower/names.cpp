// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/names.cpp: chooses identifiers for tensors and loops.
#include <yoke/program/text.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "graph.h"

namespace yoke {

std::string program_identifier(const std::string& name) {
  constexpr std::size_t kLongest = program::kMaxNameBytes - 27;  // leaves room for a prefix and a number
  std::string text = name.substr(0, kLongest);
  for (char& c : text) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    c = fits ? c : '_';
  }
  if (text.empty()) {
    return "t";
  }
  if (text[0] >= '0' && text[0] <= '9') {
    return "p_" + text;
  }
  return program::name_fault(text).empty() ? text : text + "_";  // not a reserved word
}

namespace detail::lowering {
namespace {

class Names {
 public:
  explicit Names(const std::vector<program::Symbol>& symbols) {
    for (const program::Symbol& symbol : symbols) {
      taken_.insert(symbol.name);
    }
  }

  std::string unique(const std::string& base) {
    std::string name = base;
    for (int number = 2; !taken_.insert(name).second; ++number) {
      name = base + "_" + std::to_string(number);
    }
    return name;
  }

  // The name of a statement's loop with this number.
  const std::string& loop(std::size_t number) {
    constexpr std::array kLetters = {"i", "j", "k", "l", "m", "n", "p", "q", "r", "s", "u", "v"};
    for (; loops_.size() <= number; ++next_) {
      std::string name = next_ < kLetters.size() ? kLetters[next_] : "i" + std::to_string(next_);
      if (taken_.insert(name).second) {
        loops_.push_back(std::move(name));
      }
    }
    return loops_[number];
  }

 private:
  std::set<std::string> taken_;
  std::vector<std::string> loops_;
  std::size_t next_ = 0;  // the number of the next letter to try
};

}  // namespace

void choose_names(std::vector<Slot>& slots, program::Program& program) {
  Names names(program.symbols);
  const auto name_group = [&](program::Role role, bool leaves) {
    for (Slot& slot : slots) {
      if (slot.role == role && static_cast<bool>(slot.leaf) == leaves) {
        slot.name = names.unique(program_identifier(slot.name));
      }
    }
  };
  name_group(program::Role::kOut, false);  // outputs first, so that they keep the caller's names
  name_group(program::Role::kIn, true);
  name_group(program::Role::kInOut, true);
  int number = 0;
  for (Slot& slot : slots) {
    if (slot.role == program::Role::kTemp) {
      const bool has_name = !slot.name.empty();
      slot.name = names.unique(has_name ? program_identifier(slot.name) : "t" + std::to_string(++number));
    }
  }
  for (program::Symbol& symbol : program.symbols) {
    symbol.name = symbol.is_variable ? names.unique("t") : symbol.name;
  }
  for (program::Statement& statement : program.statements) {
    for (std::size_t loop = 0; loop < statement.loops.size(); ++loop) {
      statement.loops[loop].name = names.loop(loop);
    }
  }
}

}  // namespace detail::lowering
}  // namespace yoke
