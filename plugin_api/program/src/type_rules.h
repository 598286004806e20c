// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/type_rules.h: which types an operation takes and gives; shared by parser and
// verifier.
#pragma once

#include <yoke/program/program.h>
#include <yoke/program/text.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace yoke::program {

// Operations of one expression lie at most this deep, in the text and in the tree, so that recursion over it
// is safe.
inline constexpr int kMaxDepth = 200;
inline constexpr std::size_t kMaxLoops = 64;
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::size_t kMaxNameLength = 255;

// The type that `op` (not a leaf, not a cast) gives for these argument types; nothing, and why, where it does
// not take them.
std::optional<Type> result_type(Op op, std::span<const Type> args, std::string& reason);

// The arguments that must have one type among themselves: the half-open range [first, last).
struct SharedType {
  std::size_t first;
  std::size_t last;
  bool is_result;  // and the result has it as well
};
SharedType shared_type(Op op);

// "x takes 2 indices, 3 given"; empty: the count is right.
std::string rank_fault(const Tensor& tensor, std::size_t index_count);

std::string_view reduce_name(Reduce reduce);
std::optional<Reduce> reduce_by_name(std::string_view name);

// The operation called like a function: "exp", "max", ... not infix, not a cast.
std::optional<Op> function_by_name(std::string_view name);

// For each loop the extent of the first dimension (target first, then reads left to right) that it alone
// indexes.
std::vector<std::optional<std::uint64_t>> inferred_extents(const Program& program,
                                                           const Statement& statement);

}  // namespace yoke::program
