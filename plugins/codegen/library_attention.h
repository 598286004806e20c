// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/library_attention.h: attention that a library of the vendor computes.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "attention.h"
#include "builder.h"

namespace yoke::codegen {

struct AttentionPlan {
  std::vector<AttentionCall> calls;  // by place, with the sizes of their workspaces
  std::vector<std::pair<std::size_t, std::string>>
      remarks;  // why kernels compute the scores of these statements
};

// What the builder's library computes of a block.
AttentionPlan plan_attention(const Builder& builder, const program::Block& block);
// Adds the launch.
void launch_attention(Builder& builder, const AttentionCall& call);

}  // namespace yoke::codegen
