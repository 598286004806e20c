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

std::string unique_name(const std::string& base, std::set<std::string>& taken) {
  std::string name = base;
  for (int number = 2; !taken.insert(name).second; ++number) {
    name = base + "_" + std::to_string(number);
  }
  return name;
}

}  // namespace

void name_slots(std::vector<Slot>& slots, const std::vector<program::Symbol>& symbols) {
  std::set<std::string> taken;
  for (const program::Symbol& symbol : symbols) {
    taken.insert(symbol.name);
  }
  const auto name_group = [&](program::Role role, bool leaves) {
    for (Slot& slot : slots) {
      if ((slot.role == role) && static_cast<bool>(slot.leaf) == leaves) {
        slot.name = unique_name(program_identifier(slot.name), taken);
      }
    }
  };
  name_group(program::Role::kOut, false);  // outputs first, so that they keep the caller's names
  name_group(program::Role::kIn, true);
  name_group(program::Role::kInOut, true);
  int number = 0;
  for (Slot& slot : slots) {
    if (slot.role == program::Role::kTemp) {
      slot.name = unique_name(
          slot.name.empty() ? "t" + std::to_string(++number) : program_identifier(slot.name), taken);
    }
  }
}

void name_variables(std::vector<program::Symbol>& symbols, const std::vector<Slot>& slots) {
  std::set<std::string> taken;
  for (const program::Symbol& symbol : symbols) {
    taken.insert(symbol.name);
  }
  for (const Slot& slot : slots) {
    taken.insert(slot.name);
  }
  for (program::Symbol& symbol : symbols) {
    symbol.name = symbol.is_variable ? unique_name("t", taken) : symbol.name;
  }
}

void name_loops(program::Program& program) {
  constexpr std::array kLetters = {"i", "j", "k", "l", "m", "n", "p", "q", "r", "s", "u", "v"};
  std::set<std::string> taken;
  for (const program::Tensor& tensor : program.tensors) {
    taken.insert(tensor.name);
  }
  for (const program::Symbol& symbol : program.symbols) {
    taken.insert(symbol.name);
  }
  std::vector<std::string> names;
  const auto name = [&](std::size_t loop) {
    for (std::size_t next = 0; names.size() <= loop; ++next) {
      std::string candidate = next < kLetters.size() ? kLetters[next] : "i" + std::to_string(next);
      if (taken.insert(candidate).second) {
        names.push_back(std::move(candidate));
      }
    }
    return names[loop];
  };
  for (program::Statement& statement : program.statements) {
    for (std::size_t loop = 0; loop < statement.loops.size(); ++loop) {
      statement.loops[loop].name = name(loop);
    }
  }
}

}  // namespace detail::lowering
}  // namespace yoke
