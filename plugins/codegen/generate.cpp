// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/generate.cpp: decides which statements are planned together, and how.
#include <yoke/program/access.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attention_plan.h"
#include "builder.h"
#include "codegen.h"
#include "contraction.h"
#include "elementwise.h"
#include "general.h"
#include "group.h"
#include "rows.h"
#include "scatter.h"
#include "split.h"

namespace yoke::codegen {
namespace {

// Plans the first statements of the list, and removes them from it.
void plan_first(Builder& builder, std::vector<std::size_t>& statements) {
  const program::Program& program = builder.program();
  std::size_t end = 0;
  while (end < statements.size() && is_elementwise(program.statements[statements[end]])) {
    ++end;
  }
  std::optional<RowGroup> rows;
  for (std::size_t skipped = 0; skipped <= end && end < statements.size() && !rows; ++skipped) {
    rows = find_rows(program, std::span(statements).subspan(skipped));
    end = rows ? skipped : end;
  }
  if (end > 0) {
    plan_elementwise(builder, std::span(statements).first(end));
    statements.erase(statements.begin(), statements.begin() + static_cast<std::ptrdiff_t>(end));
    return;
  }
  if (rows) {
    plan_rows(builder, *rows);
    std::erase_if(statements, [&](std::size_t number) {
      const std::vector<std::size_t>& planned = rows->group.statements;
      return std::find(planned.begin(), planned.end(), number) != planned.end();
    });
    return;
  }
  std::string why_not;
  std::size_t planned = plan_contraction(builder, statements, why_not);
  if (planned == 0) {
    builder.begin_step(statements[0]);
    if (!plan_scatter(builder, statements[0])) {
      plan_general(builder, statements[0]);
    }
    planned = 1;
  }
  statements.erase(statements.begin(), statements.begin() + static_cast<std::ptrdiff_t>(planned));
}

// Plans a block: what a library computes of its attention, and the statements before, between and after.
void plan_block(Builder& builder, const program::Block& block,
                std::vector<std::pair<std::size_t, std::string>>& remarks) {
  const AttentionPlan attention = plan_attention(builder, block);
  remarks.insert(remarks.end(), attention.remarks.begin(), attention.remarks.end());
  std::set<std::size_t> replaced;
  for (const AttentionCall& call : attention.calls) {
    replaced.insert(call.statements.begin(), call.statements.end());
  }
  std::size_t next = block.first;
  const auto plan_until = [&](std::size_t end) {
    std::vector<std::size_t> statements;
    for (; next < end; ++next) {
      if (!replaced.contains(next)) {
        statements.push_back(next);
      }
    }
    while (!statements.empty()) {
      plan_first(builder, statements);
    }
  };
  for (const AttentionCall& call : attention.calls) {
    plan_until(call.place);
    launch_attention(builder, call);
  }
  plan_until(block.last);
}

void add_remark(std::vector<Launch>& launches, std::size_t statement, const std::string& remark) {
  for (Launch& launch : launches) {
    if (std::find(launch.statements.begin(), launch.statements.end(), statement) != launch.statements.end()) {
      launch.remark += (launch.remark.empty() ? "" : "; ") + remark;
    }
  }
}

}  // namespace

Plan generate(const program::Program& program, const Target& target, const Libraries& libraries) {
  const SplitProgram split = split_reductions(program);
  Builder builder(split.program, target, libraries);
  std::vector<std::pair<std::size_t, std::string>> remarks;
  for (const program::Block& block : split.program.blocks()) {
    Round round;
    round.first_launch = builder.launch_count();
    plan_block(builder, block, remarks);
    round.last_launch = builder.launch_count();
    if (block.repeat >= 0) {
      const program::Symbol& variable = program.symbols[static_cast<std::size_t>(block.repeat)];
      round.low = variable.low;
      round.step = variable.step;
      round.count = variable.value_count();
    }
    builder.round(round);
  }
  Plan plan = builder.finish();
  for (const auto& [statement, remark] : remarks) {
    add_remark(plan.launches, statement, remark);
  }
  for (Launch& launch : plan.launches) {
    for (std::uint32_t& statement : launch.statements) {
      statement = split.origins[statement];
    }
    const auto end = std::unique(launch.statements.begin(), launch.statements.end());
    launch.statements.erase(end, launch.statements.end());
  }
  for (Kernel& kernel : plan.kernels) {
    kernel.statement = split.origins[kernel.statement];
  }
  return plan;
}

}  // namespace yoke::codegen
