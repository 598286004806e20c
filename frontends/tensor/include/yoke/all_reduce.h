// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/all_reduce.h: all-reduce as an operation of expressions, and programs that contain it.
#pragma once

#include <yoke/lower.h>
#include <yoke/runtime/collective.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <memory>
#include <span>

namespace yoke {

// The sum or mean of `x` over the members of a group that compute this expression; x itself in a program that runs alone.
// Its gradient is the same reduction of the gradients of all members' results. A Trainer refuses a loss with it, because
// a Trainer reduces gradients by itself. Error kInvalidArgument: x is not of floating-point type.
Tensor all_reduce(const Tensor& x, Reduction reduction);

// Programs with all_reduce, one per member of a group, which run together: each is cut after its all-reduces, and between
// the parts the members' tensors are reduced. Created once and run many times. Not thread-safe.
class DistributedProgram {
 public:
  // `programs` has one program per context. They may differ, but have the same all-reduces in the same order. The
  // contexts have the tensors of the arguments, by context_name().
  // Errors: kInvalidArgument: the numbers of contexts or of all-reduces differ, or a shape or type that is reduced does;
  // those of compile(), Context::link and resolve_strategy().
  DistributedProgram(std::span<const Context> members, std::span<const Lowered> programs,
                     MergeStrategy merge = MergeStrategy::kAuto);
  ~DistributedProgram();
  DistributedProgram(const DistributedProgram&) = delete;
  DistributedProgram& operator=(const DistributedProgram&) = delete;
  DistributedProgram(DistributedProgram&&) = delete;
  DistributedProgram& operator=(DistributedProgram&&) = delete;

  // Queues the programs on the members' streams. `symbol_values` are in the order of the programs' symbols.
  void run(std::span<const std::int64_t> symbol_values = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke
