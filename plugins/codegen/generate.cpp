// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/generate.cpp: decides which statements are planned together, and how.
#include <yoke/program/access.h>

#include "builder.h"
#include "codegen.h"
#include "contraction.h"
#include "elementwise.h"
#include "general.h"
#include "group.h"

namespace yoke::codegen {
namespace {

void plan_block(Builder& builder, const program::Block& block) {
  const program::Program& program = builder.program();
  std::size_t at = block.first;
  while (at < block.last) {
    std::size_t end = at;
    while (end < block.last && is_elementwise(program.statements[end])) {
      ++end;
    }
    if (end > at) {
      plan_elementwise(builder, at, end);
      at = end;
      continue;
    }
    builder.begin_step(at);
    std::string why_not;
    if (!plan_contraction(builder, program.statements[at], why_not)) {
      plan_general(builder, at);
    }
    ++at;
  }
}

}  // namespace

std::string_view revision() {
  return "1";
}

Plan generate(const program::Program& program, const Target& target) {
  Builder builder(program, target);
  for (const program::Block& block : program.blocks()) {
    Round round;
    round.first_launch = builder.launch_count();
    plan_block(builder, block);
    round.last_launch = builder.launch_count();
    if (block.repeat >= 0) {
      const program::Symbol& variable = program.symbols[static_cast<std::size_t>(block.repeat)];
      round.low = variable.low;
      round.step = variable.step;
      round.count = variable.value_count();
    }
    builder.round(round);
  }
  return builder.finish();
}

}  // namespace yoke::codegen
