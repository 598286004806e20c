// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/verify_hint.cpp: the promise of a hint that names loops: its statements may run one
// iteration of these loops after the other.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "verify.h"

namespace yoke::program {

void Verifier::hints() const {
  std::int32_t next = 0;
  std::int32_t open = -1;
  std::int32_t repeat = -1;
  for (const Statement& one : program_.statements) {
    if (one.hint != open && one.hint >= 0 && one.hint != next++) {
      fail(one.at, "the statements of a hint must be consecutive, and hints must be numbered in order");
    }
    const bool continues = one.hint >= 0 && one.hint == open;
    if (continues && one.repeat != repeat) {
      fail(one.at, "the statements of a hint must be in the same repeat block");
    }
    open = one.hint;
    repeat = one.repeat;
  }
  if (static_cast<std::size_t>(next) != program_.hints.size()) {
    fail({}, "a hint contains no statements");
  }
}

void Verifier::hints_with_loops() {
  std::vector<std::vector<const Statement*>> groups(program_.hints.size());
  for (const Statement& one : program_.statements) {
    if (one.hint >= 0) {
      groups[static_cast<std::size_t>(one.hint)].push_back(&one);
    }
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<const Statement*>& group = groups[i];
    const Hint& hint = program_.hints[i];
    if (hint.name == "fused" && hint.loops.empty()) {
      fail(group[0]->at, "the hint @fused must name the loops that its statements share: @fused[n]");
    }
    for (const std::string& loop : hint.loops) {
      shared_loop(hint, loop, group);
    }
  }
  statement_ = nullptr;
}

void Verifier::shared_loop(const Hint& hint, const std::string& name,
                           const std::vector<const Statement*>& group) {
  const std::string what = "'" + name + "' of the hint @" + hint.name;
  std::optional<std::uint64_t> extent;
  // Per tensor: the dimension that the loop indexes where the group writes it.
  std::map<std::uint32_t, std::size_t> written;
  for (const Statement* one : group) {
    statement_ = one;
    const auto loop = one->find_loop(name);
    if (!loop || one->reduces(*loop)) {
      fail(one->at, "the loop " + what + " is not a loop of the target");
    }
    if (extent.value_or(one->loops[*loop].extent) != one->loops[*loop].extent) {
      fail(one->at, "the loop " + what + " has different extents in different statements");
    }
    extent = one->loops[*loop].extent;
    const std::vector<std::uint32_t> loops = use_of(one->target).loops;
    const auto found = std::find(loops.begin(), loops.end(), *loop);
    const auto dim = static_cast<std::size_t>(found - loops.begin());
    if (found == loops.end() || written.emplace(one->target.tensor, dim).first->second != dim) {
      fail(one->at, "the loop " + what + " does not index '" + tensor_of(one->target).name +
                        "' by itself, in the same dimension in every statement");
    }
  }
  for (const Statement* one : group) {
    statement_ = one;
    const std::uint32_t loop = *one->find_loop(name);
    for (const Use& use : uses_of(*one)) {
      const auto dim = written.find(use.tensor);
      if (dim != written.end() && use.loops[dim->second] != loop) {
        fail(one->at, "the statement uses elements of '" + program_.tensors[use.tensor].name +
                          "' that the group writes in other iterations of the loop " + what);
      }
    }
  }
}

}  // namespace yoke::program
