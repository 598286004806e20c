// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/sum_program.h: the programs that add up the tensors of several shards.
#pragma once

#include <yoke/program/program.h>
#include <yoke/runtime/context.h>

#include <string>

namespace yoke::detail {

inline constexpr const char* kSumEntry = "merge_sum";

inline program::Type type_of(const TensorSpec& spec) {
  return static_cast<program::Type>(spec.type);
}
std::uint64_t flat_count(const TensorSpec& spec);

// A program over flat tensors: own = (((own + incoming1) + incoming2) + ...) * scale.
// Precondition: `terms`, which counts `own`, is at most 100, because an expression may be 200 operations deep.
std::string sum_text(program::Type type, std::uint64_t element_count, std::uint32_t terms, double scale = 1);

}  // namespace yoke::detail
