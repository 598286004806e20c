// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/type_rules.h: the rules for types, names and ranks that parser and verifier share.
#pragma once

#include <yoke/program/program.h>
#include <yoke/program/text.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace yoke::program {

// The maximum depth of an expression, which keeps recursive functions within the stack.
inline constexpr int kMaxDepth = 200;
inline constexpr std::size_t kMaxLoops = 64;
inline constexpr std::size_t kMaxRank = 8;

// The result type of `op` for these argument types; empty, with `reason` set, if it does not accept them.
// Precondition: `op` is not a leaf and not a cast.
std::optional<Type> result_type(Op op, std::span<const Type> args, std::string& reason);

// The arguments in [first, last) must have the same type.
struct SharedType {
  std::size_t first;
  std::size_t last;
  bool is_result;  // the result has that type, too
};
SharedType shared_type(Op op);

// "tensor 'x' has 2 dimensions, but 3 indices are given"; empty if the count is right.
std::string rank_fault(const Tensor& tensor, std::size_t index_count);

// "1 index", "2 indices"; without `plural`, an `s` is appended.
std::string counted(std::size_t count, const std::string& noun, const std::string& plural = "");

// "exp expects 1 argument, got 2"
std::string argument_fault(std::string_view function, int expected, std::size_t count);

// The message for an expression deeper than kMaxDepth.
std::string depth_fault();

std::string_view reduce_name(Reduce reduce);
std::optional<Reduce> reduce_by_name(std::string_view name);

// The operation that is written as a function of this name ("exp", "max"; not a cast), as a prefix operator,
// or between its operands.
std::optional<Op> op_by_text(std::string_view text, int arity);
inline std::optional<Op> function_by_name(std::string_view name) {
  return op_by_text(name, 0);
}
inline std::optional<Op> prefix_by_mark(std::string_view mark) {
  return op_by_text(mark, 1);
}
inline std::optional<Op> infix_by_mark(std::string_view mark) {
  return op_by_text(mark, 2);
}

// For each loop, the extent of the first dimension that it indexes by itself: first in the target, then in
// the reads from left to right.
std::vector<std::optional<std::uint64_t>> inferred_extents(const Program& program,
                                                           const Statement& statement);

}  // namespace yoke::program
