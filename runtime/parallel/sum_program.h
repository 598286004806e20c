// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/sum_program.h: the programs that add up the tensors of several shards, and round them for sending.
#pragma once

#include <yoke/program/program.h>
#include <yoke/runtime/collective.h>

#include <string>
#include <string_view>

namespace yoke::detail {

inline constexpr const char* kSumEntry = "merge_sum";

inline program::Type type_of(const TensorSpec& spec) {
  return static_cast<program::Type>(spec.type);
}
std::uint64_t flat_count(const TensorSpec& spec);

// A program over flat tensors: own = (((own + incoming1) + incoming2) + ...) * scale.
// Precondition: `terms`, which counts `own`, is at most 100, because an expression may be 200 operations deep.
std::string sum_text(program::Type type, std::uint64_t element_count, std::uint32_t terms, double scale = 1);

// A program over flat tensors that rounds gradients for sending: wire = bf16(gradient + residual). The residual becomes
// the rounding error, or 0 where that is not finite.
inline constexpr const char* kPackEntry = "merge_pack";
std::string pack_text(std::uint64_t element_count);
// own = own + f32(incoming1). Its entry is kSumEntry.
std::string unpack_text(std::uint64_t element_count);

// The update of running states, flat tensors: value = ((value + gradient_0) + gradient_1) + ..., or next_value with
// `has_next`.
inline constexpr const char* kRunningEntry = "update_running_state";
std::string running_text(program::Type type, std::uint64_t element_count, std::uint32_t terms, bool has_next);

// The tensors of these names, for the tensor `node`.
inline std::string wire_tensor(std::string_view node) {
  return "wire/" + std::string(node);
}
inline std::string residual_tensor(std::string_view node) {
  return "residual/" + std::string(node);
}
// Throws Error kInvalidArgument for a number that is not an enumerator, or a strategy that cannot round.
void check_wire(Wire wire, MergeStrategy strategy);

}  // namespace yoke::detail
