// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/gradient_parts.h: gradient programs in parts, between which a step merges buckets.
#pragma once

#include <yoke/runtime/parallel.h>
#include <yoke/runtime/passes.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace yoke {

// A program that computes the gradients of one shard, and what its arguments mean to a StepPlan.
struct GradientProgram {
  program::Program program;
  // The names of its arguments, by the position of the parameter in the plan; "": it has no such argument.
  std::vector<std::string> gradients;
  std::vector<std::string> parameters;
};

// The parts of gradient programs. A step launches part i of all programs and then, for each element of after[i] in
// turn, calls StepPlan::merge_bucket if `merges` and then update_bucket if `updates`.
struct GradientParts {
  struct Bucket {
    std::size_t number = 0;
    bool merges = false;
    bool updates = false;
    friend bool operator==(const Bucket&, const Bucket&) = default;
  };
  std::vector<passes::Cut> programs;  // each with one part per element of `after`
  std::vector<std::vector<Bucket>> after;
};

// Cuts the programs into at most 8 parts where the plan's buckets become final: where no later part uses their
// gradients. Throws Error kInvalidArgument: there are no programs, or a name is not that of an argument.
GradientParts cut_at_buckets(const StepPlan& plan, std::span<const GradientProgram> programs);

}  // namespace yoke
