// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/symbol_table.cpp: values of symbols by name, and launches with them.
#include <yoke/runtime/parallel.h>

#include <algorithm>

#include "schedule/range.h"

namespace yoke {

void SymbolTable::add(std::string name, std::int64_t value) {
  if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
    throw Error(ErrorCode::kAlreadyExists, "symbol '" + name + "' is already in the symbol table");
  }
  names_.push_back(std::move(name));
  values_.push_back(value);
}

void SymbolTable::set(std::string_view name, std::int64_t value) {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at != names_.end()) {
    values_[static_cast<std::size_t>(at - names_.begin())] = value;
  }
}

std::size_t SymbolTable::slot(std::string_view name, const std::string& program) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at != names_.end()) {
    return static_cast<std::size_t>(at - names_.begin());
  }
  std::string known;
  for (const std::string& other : names_) {
    known += (known.empty() ? "" : ", ") + other;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "program '" + program + "' uses the symbol '" + std::string(name) + "', which has no value; " +
                  (known.empty() ? "no symbol has a value" : "symbols with a value: " + known));
}

StepRoutine::StepRoutine(LinkedRoutine routine, const SymbolTable& table) : routine_(std::move(routine)) {
  for (const SymbolInfo& symbol : routine_.symbols()) {
    slots_.push_back(table.slot(symbol.name, routine_.name()));
  }
  values_.resize(slots_.size());
}

void StepRoutine::run(const SymbolTable& table) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] >= table.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "launch of '" + routine_.name() + "': the table has " +
                      detail::counted(table.size(), "symbol") +
                      ", fewer than the one that it was linked with; pass that one");
    }
    values_[i] = table.value(slots_[i]);
  }
  routine_.run(values_);
}

}  // namespace yoke
