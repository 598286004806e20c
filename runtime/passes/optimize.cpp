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
constexpr Pass kGather = {gather_in, "gather"};
constexpr Pass kRegions = {form_regions_in, "form_regions"};

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

// The passes form all regions again at the end. Other hints stay.
void dissolve_regions(Program& program) {
  for (Statement& statement : program.statements) {
    if (statement.hint >= 0 && program.hints[static_cast<std::size_t>(statement.hint)].name == "fused") {
      statement.hint = -1;
    }
  }
  remove_statements(program, std::vector<bool>(program.statements.size(), false));  // numbers the hints
}

std::vector<std::uint32_t> final_after(const Program& program) {
  const std::vector<Statement>& statements = program.statements;
  const auto count = static_cast<std::uint32_t>(statements.size());
  std::vector<std::uint32_t> last(program.tensors.size(), 0);
  std::uint32_t end = count;  // of the group, whose statements may run again until then
  for (std::uint32_t i = count; i-- > 0;) {
    const Statement& one = statements[i];
    const bool continues = i + 1 < count && ((one.hint >= 0 && one.hint == statements[i + 1].hint) ||
                                             (one.repeat >= 0 && one.repeat == statements[i + 1].repeat));
    end = continues ? end : i + 1;
    last[one.target.tensor] = std::max(last[one.target.tensor], end);
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

Program form_regions(Program program) {
  return once(kRegions, std::move(program));
}

Optimized optimize(Program program, Explain explain) {
  Optimized result;
  std::optional<Graph> graph;
  dissolve_regions(program);
  // kGather waits until kFuse changes nothing, so that it does not move statements that may still be fused.
  // kRecompute runs after kGather, so that it does not recompute values within a region.
  std::vector<Pass> passes = {kDead, kFold, kCommon, kFuse, kSchedule};
  bool gathers = false;
  for (bool changed = true; changed && result.report.rounds < kMaxRounds;) {
    changed = false;
    ++result.report.rounds;
    for (const Pass& pass : passes) {
      changed = run(pass, program, result.report, graph, explain) || changed;
    }
    if (!changed && !gathers) {
      passes = {kDead, kFold, kCommon, kFuse, kGather, kRecompute};
      changed = gathers = true;
      continue;
    }
    // Last, because other passes cannot tell which value a tensor holds once it is shared.
    changed = changed || run(kShare, program, result.report, graph, explain);
  }
  graph.reset();
  run(kRegions, program, result.report, graph, explain);
  result.final_after = final_after(program);
  result.program = std::move(program);
  return result;
}

}  // namespace yoke::passes
