// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/generate.cpp: decides which statements are planned together, and how.
#include <yoke/program/access.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

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

}  // namespace

Plan generate(const program::Program& program, const Target& target, const Libraries& libraries) {
  const SplitProgram split = split_reductions(program);
  Builder builder(split.program, target, libraries);
  for (const program::Block& block : split.program.blocks()) {
    Round round;
    round.first_launch = builder.launch_count();
    std::vector<std::size_t> statements(block.last - block.first);
    std::iota(statements.begin(), statements.end(), block.first);
    while (!statements.empty()) {
      plan_first(builder, statements);
    }
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
  for (Launch& launch : plan.launches) {
    launch.first_statement = split.origins[launch.first_statement];
    launch.last_statement = split.origins[launch.last_statement - 1] + 1;
  }
  for (Kernel& kernel : plan.kernels) {
    kernel.statement = split.origins[kernel.statement];
  }
  return plan;
}

}  // namespace yoke::codegen
