// SPDX-License-Identifier: Apache-2.0
// runtime/passes/without_memory.cpp: computes chosen temporaries wherever they are read, whatever that costs.
#include <yoke/runtime/error.h>

#include <algorithm>

#include "compose.h"

namespace yoke::passes {
namespace {

[[noreturn]] void refuse(ErrorCode code, const Program& program, const std::string& reason) {
  throw Error(code, "program '" + program.name + "': " + reason);
}

void substitute_all(Graph& graph, const std::string& name) {
  const Program& program = graph.program();
  const std::optional<std::uint32_t> tensor = program.find_tensor(name);
  if (!tensor) {
    refuse(ErrorCode::kNotFound, program, "it has no tensor '" + name + "'");
  }
  if (program.tensors[*tensor].role != Role::kTemp) {
    refuse(ErrorCode::kInvalidArgument, program,
           "'" + name + "' is an argument, which is always in memory; remove it from the outputs");
  }
  for (const Place i : Places(graph.writers(*tensor))) {
    if (!is_producer(graph, i)) {
      refuse(ErrorCode::kInvalidArgument, program,
             "'" + name +
                 "' needs memory, because it is a reduction or is written in parts; choose a tensor that is "
                 "computed element by element");
    }
    for (const Place j : Places(graph.readers(*tensor))) {
      std::optional<Substitution> result = substitution(graph, i, j);
      if (!result) {
        refuse(ErrorCode::kInvalidArgument, program,
               "'" + name + "' needs memory, because the statement that computes '" +
                   graph.target_of(j).name + "' cannot compute it as well; leave it to the passes");
      }
      graph.replace(j, std::move(result->statement));
    }
    graph.remove(i);
  }
}

}  // namespace

Program without_memory(Program program, std::span<const std::string> temporaries) {
  if (temporaries.empty()) {
    return program;
  }
  Report report;
  Graph graph(program, report, Explain::kNo);
  for (const std::string& name : temporaries) {
    substitute_all(graph, name);
  }
  graph.finish();
  verify_result(program, "without memory");
  return program;
}

}  // namespace yoke::passes
