// SPDX-License-Identifier: Apache-2.0
// runtime/passes/regions.cpp: groups statements that a backend can run tile by tile into `@fused[n] { .. }`.
#include <yoke/runtime/counted.h>

#include <unordered_set>

#include "region.h"

namespace yoke::passes {
namespace {

using Names = std::unordered_set<std::string>;  // of tensors and symbols

Names declared_in(const Program& program) {
  Names names;
  for (const Tensor& one : program.tensors) {
    names.insert(one.name);
  }
  for (const program::Symbol& one : program.symbols) {
    names.insert(one.name);
  }
  return names;
}

// Gives `loops` of the statement these names, and new names to other loops that have one of these names.
void rename_loops(const Names& declared, Statement& statement, const Numbers& loops,
                  const std::vector<std::string>& names) {
  const auto is_taken = [&](const std::string& name) {
    const auto has_name = [&](const auto& one) { return one.name == name; };
    return std::any_of(statement.loops.begin(), statement.loops.end(), has_name) || declared.contains(name);
  };
  for (std::size_t c = 0; c < loops.size(); ++c) {
    statement.loops[loops[c]].name = names[c];
  }
  for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
    std::string& name = statement.loops[i].name;
    const bool is_named = std::find(loops.begin(), loops.end(), i) != loops.end();
    if (is_named || std::find(names.begin(), names.end(), name) == names.end()) {
      continue;
    }
    int number = 2;
    while (is_taken(name + std::to_string(number))) {
      ++number;
    }
    name += std::to_string(number);
  }
}

// For the first n statements: the worth of the best regions, and the first statement of the last region.
struct Best {
  std::uint64_t worth = 0;
  Place first = 0;
};

void mark(Graph& graph, const Region& region, const Names& declared) {
  const Place first = region.statements()[0];
  program::Hint hint = {"fused", {}};
  std::string names;
  for (const std::uint32_t loop : region.named()) {
    hint.loops.push_back(graph.at(first).loops[loop].name);
    names += (names.empty() ? "" : ", ") + hint.loops.back();
  }
  const std::int32_t number = graph.add_hint(hint);
  for (std::size_t k = 0; k < region.statements().size(); ++k) {
    const Place i = region.statements()[k];
    graph.note(i, [&] {
      return i != first
                 ? "runs with " + line_of(graph.at(first)) + " for each [" + names + "]"
                 : "starts a region of " + detail::counted(region.statements().size(), "statement") +
                       ", which run together for each [" + names +
                       "]: " + std::to_string(region.saved_bytes()) + " bytes need not go through memory";
    });
    graph.edit(i, [&](Statement& statement) {
      statement.hint = number;
      rename_loops(declared, statement, region.loops_of(k), hint.loops);
    });
  }
  Report& report = graph.report();
  ++report.regions;
  report.grouped += region.statements().size();
  report.saved_bytes += region.saved_bytes();
}

}  // namespace

std::vector<Span> best_regions(const Graph& graph, const Summaries& summaries) {
  std::vector<Best> best(graph.size() + 1);
  // Among equals, the shortest last region is best: statements that share nothing stay outside.
  const auto consider = [&](Place first, Place end, std::uint64_t worth) {
    if (best[first].worth + worth >= best[end].worth) {
      best[end] = {best[first].worth + worth, first};
    }
  };
  Region region(graph, summaries);
  for (Place i = 0; i < graph.size(); ++i) {
    consider(i, i + 1, 0);
    Place next = i + 1;
    for (bool grows = region.start(i); grows && next < graph.size() && region.add(next); ++next) {
      consider(i, next + 1, region.worth());
    }
  }
  std::vector<Span> regions;
  for (Place end = graph.size(); end > 0; end = best[end].first) {
    if (best[end].worth > best[best[end].first].worth) {  // a single statement saves nothing
      regions.push_back({best[end].first, end});
    }
  }
  return regions;
}

bool form_regions_in(Graph& graph) {
  const Summaries summaries(graph);
  const std::vector<Span> regions = best_regions(graph, summaries);
  const Names declared = declared_in(graph.program());
  Region region(graph, summaries);
  for (const Span& span : regions) {
    region.start(span.first);
    for (Place next = span.first + 1; next < span.end; ++next) {
      region.add(next);
    }
    mark(graph, region, declared);
  }
  return !regions.empty();
}

}  // namespace yoke::passes
