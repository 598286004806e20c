// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/results.h: runs a program before and after a pass on the same data.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/execute.h>
#include <yoke/program/execute_statement.h>
#include <yoke/program/memory.h>

#include <cmath>
#include <vector>

#include "../../support/shared_buffer.h"
#include "case.h"
#include "scalar.h"

namespace yoke::passes {

// Replaces every NaN by the same NaN.
inline void unify_nans(const program::Tensor& tensor, std::vector<std::byte>& bytes) {
  for (std::uint64_t i = 0; program::is_float(tensor.type) && i < tensor.element_count(); ++i) {
    const auto element = static_cast<std::int64_t>(i);
    program::Scalar value = program::load(tensor.type, bytes.data(), element);
    if (std::isnan(value.number)) {
      value.number = std::nan("");
      program::store(tensor.type, bytes.data(), element, value);
    }
  }
}

inline void unify_nans(const program::Program& program, conformance::Contents& contents) {
  const std::vector<std::uint32_t> arguments = program.arguments();
  for (std::size_t i = 0; i < contents.size(); ++i) {
    unify_nans(program.tensors[arguments[i]], contents[i]);
  }
}

// Runs the program on `memory` and returns the bytes of all arguments.
inline conformance::Contents results_of(const program::Program& program, conformance::Contents memory,
                                        std::span<const std::int64_t> symbols) {
  std::vector<void*> pointers;
  for (auto& bytes : memory) {
    pointers.push_back(bytes.data());
  }
  program::execute(program, pointers, symbols);
  unify_nans(program, memory);
  return memory;
}

// The bytes of all arguments of `program` after it ran with the data of `one`, which has the same arguments.
inline conformance::Contents results_of(const conformance::Case& one, const program::Program& program,
                                        std::span<const std::int64_t> symbols) {
  return results_of(program, conformance::initial_arguments(one), symbols);
}

// The size of the arena that a backend would plan for the temporaries.
inline std::uint64_t arena_byte_count(const program::Program& program) {
  return program::plan_memory(program::lifetimes(program)).byte_count;
}

// Like results_of(), but the arguments are in `buffer`, and the temporaries in its arena of arena_byte_count() bytes.
inline conformance::Contents results_in(const test::SharedBuffer& buffer, const program::Program& program,
                                        std::span<const std::int64_t> symbols) {
  const program::MemoryPlan plan = program::plan_memory(program::lifetimes(program));
  const std::vector<std::byte*> arguments = buffer.addresses();
  std::vector<void*> pointers;
  std::size_t next = 0;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const bool is_temporary = program.tensors[i].role == program::Role::kTemp;
    pointers.push_back(is_temporary ? buffer.arena() + plan.offsets[i] : arguments[next++]);
  }
  std::vector<std::int64_t> values(symbols.begin(), symbols.end());
  values.resize(program.symbols.size());  // the variables of repeat blocks too
  program::run_in_order(program, values, [&](std::size_t statement) {
    program::execute(program, statement, pointers, values);
  });
  conformance::Contents contents = buffer.contents();
  unify_nans(program, contents);
  return contents;
}

}  // namespace yoke::passes
