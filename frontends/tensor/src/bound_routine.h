// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/bound_routine.h: routines launched with symbol values found by name, once, at set-up.
#pragma once

#include <yoke/runtime/context.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::detail {

// Values of the symbols of one shard's programs.
class SymbolTable {
 public:
  void add(std::string name, std::int64_t value);
  void set(std::string_view name, std::int64_t value);                     // of a name that was added
  void take_values(const SymbolTable& other) { values_ = other.values_; }  // of a table with the same names
  std::int64_t value(std::size_t slot) const { return values_[slot]; }
  // Error kInvalidArgument lists the names that are there.
  std::size_t slot(std::string_view name, const std::string& program) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::int64_t> values_;
};

class BoundRoutine {
 public:
  BoundRoutine() = default;
  BoundRoutine(LinkedRoutine routine, const SymbolTable& table);
  void run(const SymbolTable& table);  // queues it; allocates nothing
  const LinkedRoutine& routine() const { return routine_; }

 private:
  LinkedRoutine routine_;
  std::vector<std::size_t> slots_;
  std::vector<std::int64_t> values_;
};

}  // namespace yoke::detail
