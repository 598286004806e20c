// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/split.h: rewrites long reductions.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <vector>

namespace yoke::codegen {

// A program with the same arguments and meaning, except for the order of long reductions. The loops of a column
// reduction (rows.h) come first; other long reductions are split into parts that a second statement folds in order.
// The parts depend on extents only, those of column reductions also on the size of a warp.
struct SplitProgram {
  program::Program program;
  std::vector<std::uint32_t> origins;  // by statement: its number in the original program
};
SplitProgram split_reductions(const program::Program& program);

}  // namespace yoke::codegen
