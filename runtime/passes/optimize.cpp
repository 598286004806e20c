// SPDX-License-Identifier: Apache-2.0
// runtime/passes/optimize.cpp: the public passes, each followed by
// verification, and all of them to a fixed point.
#include <yoke/program/text.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/passes.h>

#include "graph.h"

namespace yoke::passes {
namespace {

// Every round that changes a program removes or shrinks statements. The
// limit guards against passes that undo each other.
constexpr int kMaxRounds = 16;

struct Pass {
  bool (*apply)(Graph&);
  const char* name;
};
constexpr Pass kDead = {remove_dead_statements_in, "remove_dead_statements"};
constexpr Pass kFold = {fold_constants_in, "fold_constants"};
constexpr Pass kCommon = {eliminate_common_in, "eliminate_common"};
constexpr Pass kFuse = {fuse_in, "fuse"};
constexpr Pass kRecompute = {recompute_in, "recompute"};
constexpr Pass kShare = {share_in, "share"};
constexpr Pass kSchedule = {schedule_in, "schedule"};

// Applies the pass to `graph`, which is built if it is empty, and emptied if the program changes.
bool run(const Pass& pass, Program& program, Report& report, std::optional<Graph>& graph,
         Explain explain = Explain::kNo) {
  if (!graph) {
    graph.emplace(program, report, explain);
  }
  if (!pass.apply(*graph)) {
    return false;
  }
  graph->finish();
  graph.reset();
  try {
    program::verify(program);
  } catch (const program::ProgramError& error) {
    throw Error(ErrorCode::kInternal,
                "program '" + program.name + "': pass " + pass.name +
                    " produced an invalid program: " + error.reason() +
                    "; this is a bug in yoke: please report it with the text of the program");
  }
  return true;
}

Program once(const Pass& pass, Program program) {
  Report report;
  std::optional<Graph> graph;
  run(pass, program, report, graph);
  return program;
}

std::vector<std::uint32_t> final_after(const Program& program) {
  std::vector<std::uint32_t> last(program.tensors.size(), 0);
  for (std::uint32_t i = 0; i < program.statements.size(); ++i) {
    last[program.statements[i].target.tensor] = i + 1;
  }
  std::vector<std::uint32_t> result;
  for (const std::uint32_t tensor : program.arguments()) {
    result.push_back(last[tensor]);
  }
  return result;
}

}  // namespace

Program remove_dead_statements(Program program) {
  return once(kDead, std::move(program));
}

Program fold_constants(Program program) {
  return once(kFold, std::move(program));
}

Program eliminate_common(Program program) {
  return once(kCommon, std::move(program));
}

Program fuse(Program program) {
  return once(kFuse, std::move(program));
}

Program schedule(Program program) {
  return once(kSchedule, std::move(program));
}

Program recompute(Program program) {
  return once(kRecompute, std::move(program));
}

Program share(Program program) {
  return once(kShare, std::move(program));
}

Optimized optimize(Program program, Explain explain) {
  Optimized result;
  std::optional<Graph> graph;
  for (bool changed = true; changed && result.report.rounds < kMaxRounds;) {
    changed = false;
    ++result.report.rounds;
    for (const Pass& pass : {kDead, kFold, kCommon, kFuse, kSchedule, kRecompute}) {
      changed = run(pass, program, result.report, graph, explain) || changed;
    }
    // Last, because other passes cannot tell which value a tensor holds once it is shared.
    changed = changed || run(kShare, program, result.report, graph, explain);
  }
  result.final_after = final_after(program);
  result.program = std::move(program);
  return result;
}

}  // namespace yoke::passes
