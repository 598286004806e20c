// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/bound_routine.h: routines whose symbols are looked up by name once, during setup.
#pragma once

#include <yoke/runtime/context.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::detail {

// The values of the symbols of one shard's programs.
class SymbolTable {
 public:
  void add(std::string name, std::int64_t value);
  void set(std::string_view name, std::int64_t value);  // does nothing if `name` was not added
  // Precondition: `other` has the same names in the same order.
  void take_values(const SymbolTable& other) { values_ = other.values_; }
  std::int64_t value(std::size_t slot) const { return values_[slot]; }
  // Error kInvalidArgument: the table has no such name; the message lists the known names.
  std::size_t slot(std::string_view name, const std::string& program) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::int64_t> values_;
};

class BoundRoutine {
 public:
  BoundRoutine() = default;
  BoundRoutine(LinkedRoutine routine, const SymbolTable& table);
  void run(const SymbolTable& table);  // queues a launch; allocates nothing
  const LinkedRoutine& routine() const { return routine_; }

 private:
  LinkedRoutine routine_;
  std::vector<std::size_t> slots_;
  std::vector<std::int64_t> values_;
};

}  // namespace yoke::detail
