// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/generate.cpp: plans the kernels of a program, statement by statement.
#include <yoke/program/access.h>

#include "builder.h"
#include "codegen.h"
#include "contraction.h"
#include "general.h"

namespace yoke::codegen {

std::string_view revision() {
  return "1";
}

Plan generate(const program::Program& program, const Target& target) {
  Builder builder(program, target);
  for (const program::Block& block : program.blocks()) {
    Round round;
    round.first_launch = builder.launch_count();
    for (std::size_t i = block.first; i < block.last; ++i) {
      builder.begin_step(i, i + 1);
      std::string why_not;
      if (!plan_contraction(builder, program.statements[i], why_not)) {
        plan_general(builder, i);
      }
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
  return builder.finish();
}

}  // namespace yoke::codegen
