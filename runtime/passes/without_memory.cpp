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
  const auto found = std::find_if(program.tensors.begin(), program.tensors.end(),
                                  [&](const Tensor& tensor) { return tensor.name == name; });
  if (found == program.tensors.end()) {
    refuse(ErrorCode::kNotFound, program, "it has no tensor '" + name + "'");
  }
  if (found->role != Role::kTemp) {
    refuse(ErrorCode::kInvalidArgument, program,
           "'" + name + "' is an argument, which is always in memory; remove it from the outputs");
  }
  const auto tensor = static_cast<std::uint32_t>(found - program.tensors.begin());
  for (const Place i : Places(graph.writers(tensor))) {
    if (!is_producer(graph, i)) {
      refuse(ErrorCode::kInvalidArgument, program,
             "'" + name +
                 "' needs memory, because it is a reduction or is written in parts; choose a tensor that is "
                 "computed element by element");
    }
    for (const Place j : Places(graph.readers(tensor))) {
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
