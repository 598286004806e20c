// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_plan.h: attention that a library or a few kernels compute without storing scores.
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
      remarks;  // why the scores of these statements are computed
};

// Finds the attention of a block that the builder's library or, with Target::fused_attention, yoke's kernels compute.
AttentionPlan plan_attention(const Builder& builder, const program::Block& block);
// Adds the launches.
void launch_attention(Builder& builder, const AttentionCall& call);

}  // namespace yoke::codegen
