// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/all_reduce.h: all-reduce as a tensor operation, and programs that contain it.
#pragma once

#include <yoke/lower.h>
#include <yoke/runtime/collective.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <memory>
#include <span>

namespace yoke {

// The sum or mean of `x` over all group members that compute this expression. In a program that runs alone, it is `x`.
// Its gradient is the same reduction of the gradients of all members' results. The loss of a Trainer may use it only
// with Reduction::kSum, because shards may have different numbers of rows; the group is the shards that have rows in
// the current batch. DistributedProgram and Trainer throw Error kInvalidArgument if it is used in a loop, such as a
// recurrent layer. Error kInvalidArgument: x is not of floating-point type.
Tensor all_reduce(const Tensor& x, Reduction reduction);

// Programs that contain all_reduce, one per group member, which run together. Each program is split after its
// all-reduces; the members' tensors are reduced between the parts. Created once, run many times. Not thread-safe.
class DistributedProgram {
 public:
  // `programs` has one program per context. They may differ, but must have the same all-reduces in the same order.
  // The contexts must have the tensors of the arguments, named by context_name().
  // Errors: kInvalidArgument: there are not as many programs as contexts, or the programs differ in the number of
  // all-reduces or in the shape or type of a reduced tensor; those of compile(), Context::link and resolve_strategy().
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
