// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/all_reduce.h: how all-reduces are found in programs.
#pragma once

#include <yoke/all_reduce.h>

#include <string>
#include <vector>

namespace yoke::detail {

// Where a program's tensor is reduced.
struct ReducePoint {
  std::uint32_t after = 0;  // this many statements
  std::string tensor;
  Reduction reduction = Reduction::kSum;
};

// In the order of the statements. Error kInvalidArgument: a repeat block, which cannot be split, computes a
// reduced tensor.
std::vector<ReducePoint> reduce_points(const program::Program& program);
bool has_all_reduce(const program::Program& program);

}  // namespace yoke::detail
