// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/results.h: runs a program before and after a pass on the same data.
#pragma once

#include <yoke/program/execute.h>

#include <cmath>
#include <vector>

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

// The bytes of all arguments of `program` after it ran with the data of `one`, which has the same arguments.
inline conformance::Contents results_of(const conformance::Case& one, const program::Program& program,
                                        std::span<const std::int64_t> symbols) {
  conformance::Contents memory = conformance::initial_arguments(one);
  std::vector<void*> pointers;
  const std::vector<std::uint32_t> arguments = one.program.arguments();
  for (auto& bytes : memory) {
    pointers.push_back(bytes.data());
  }
  program::execute(program, pointers, symbols);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    unify_nans(one.program.tensors[arguments[i]], memory[i]);
  }
  return memory;
}

}  // namespace yoke::passes
