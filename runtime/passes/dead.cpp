// SPDX-License-Identifier: Apache-2.0
// runtime/passes/dead.cpp: removes statements whose results are never read, by liveness from the end.
#include "rewrite.h"

namespace yoke::passes {
namespace {

// Whether the statement is `t[i] = t[i]`, which changes nothing.
bool is_self_copy(const Statement& statement) {
  return statement.assign == Assign::kSet && !statement.reduce && statement.value.op == Op::kRead &&
         statement.value.access.tensor == statement.target.tensor && !statement.value.access.otherwise &&
         statement.value.access.indices == statement.target.indices;
}

}  // namespace

bool remove_dead_statements_in(Program& program) {
  const std::size_t tensor_count = program.tensors.size();
  std::vector<bool> live(tensor_count, false);
  for (std::size_t i = 0; i < tensor_count; ++i) {
    live[i] = program.tensors[i].role == Role::kOut || program.tensors[i].role == Role::kInOut;
  }
  std::vector<bool> dead(program.statements.size(), false);
  bool changed = false;
  for (std::size_t i = program.statements.size(); i-- > 0;) {
    const Statement& statement = program.statements[i];
    const std::uint32_t target = statement.target.tensor;
    if (!live[target] || is_self_copy(statement)) {
      dead[i] = true;
      changed = true;
      continue;
    }
    // A partial or accumulating write keeps earlier elements, so the tensor stays live.
    if (writes_whole(program, statement)) {
      live[target] = false;
    }
    for (const std::uint32_t tensor : tensors_read(statement)) {
      live[tensor] = true;
    }
  }
  if (changed) {
    remove_statements(program, dead);
  }
  remove_unused_temporaries(program);
  return changed || program.tensors.size() != tensor_count;
}

}  // namespace yoke::passes
