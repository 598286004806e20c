// SPDX-License-Identifier: Apache-2.0
// runtime/passes/optimize.cpp: the public passes, each followed by
// verification, and all of them to a fixed point.
#include <yoke/program/text.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/passes.h>

#include "graph.h"

namespace yoke::passes {
namespace {

// Every sweep that changes a program removes or shrinks statements. The limit guards against passes that
// undo each other.
constexpr int kMaxSweeps = 16;

// Indexed by Pass.
constexpr struct {
  bool (*apply)(Graph&);
  const char* name;
} kPasses[] = {{remove_dead_in, "remove dead"},  {fold_in, "fold"},
               {merge_equal_in, "merge equal"},  {fuse_in, "fuse"},
               {schedule_in, "schedule"},        {gather_in, "gather"},
               {recompute_in, "recompute"},      {share_in, "share"},
               {form_regions_in, "form regions"}};

// Applies the pass to `graph`, which is built if it is empty, and emptied if the program changes.
bool apply(Pass pass, Program& program, Report& report, std::optional<Graph>& graph, Explain explain) {
  if (!graph) {
    graph.emplace(program, report, explain);
  }
  const auto& [apply, name] = kPasses[static_cast<std::size_t>(pass)];
  if (!apply(*graph)) {
    return false;
  }
  graph->finish();
  graph.reset();
  verify_result(program, name);
  return true;
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

std::vector<std::uint32_t> final_after(const Graph& graph) {
  std::vector<std::uint32_t> result;
  for (const std::uint32_t tensor : graph.program().arguments()) {
    const Places& writers = graph.writers(tensor);
    result.push_back(writers.empty() ? 0 : graph.end_of_group(writers.back()));
  }
  return result;
}

}  // namespace

void verify_result(const Program& program, const char* pass) {
  try {
    program::verify(program);
  } catch (const program::ProgramError& error) {
    throw Error(ErrorCode::kInternal,
                "program '" + program.name + "': pass '" + pass + "' produced an invalid program: " +
                    error.reason() + "; this is a bug in yoke: please report it with the program's text");
  }
}

Program run(Pass pass, Program program) {
  Report report;
  std::optional<Graph> graph;
  apply(pass, program, report, graph, Explain::kNo);
  return program;
}

Optimized optimize(Program program, Explain explain) {
  Optimized result;
  std::optional<Graph> graph;
  dissolve_regions(program);
  const auto run = [&](Pass pass) { return apply(pass, program, result.report, graph, explain); };
  // kGather waits until kFuse changes nothing, so that it does not move statements that may still be fused.
  // kRecompute runs after kGather, so that it does not recompute values within a region. kShare is last,
  // because other passes cannot tell which value a tensor holds once it is shared.
  std::vector<Pass> passes = {Pass::kRemoveDead, Pass::kFold, Pass::kMergeEqual, Pass::kFuse,
                              Pass::kSchedule};
  bool gathers = false;
  for (bool changed = true; changed && result.report.sweeps < kMaxSweeps;) {
    changed = false;
    ++result.report.sweeps;
    for (const Pass pass : passes) {
      changed = run(pass) || changed;
    }
    if (!changed && !gathers) {
      passes.back() = Pass::kGather;
      passes.push_back(Pass::kRecompute);
      changed = gathers = true;
      continue;
    }
    changed = changed || run(Pass::kShare);
  }
  graph.reset();
  run(Pass::kFormRegions);
  result.final_after = final_after(Graph(program, result.report, Explain::kNo));
  result.program = std::move(program);
  return result;
}

}  // namespace yoke::passes
