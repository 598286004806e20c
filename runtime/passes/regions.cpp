// SPDX-License-Identifier: Apache-2.0
// runtime/passes/regions.cpp: groups statements that a backend can run tile by tile into `@fused[n] { .. }`.
#include "region.h"

namespace yoke::passes {
namespace {

// Names `loops` of the statement, and gives other loops with these names new ones.
void rename_loops(const Program& program, Statement& statement, const Numbers& loops,
                  const std::vector<std::string>& names) {
  const auto is_taken = [&](const std::string& name) {
    const auto has_name = [&](const auto& one) { return one.name == name; };
    return std::find(names.begin(), names.end(), name) != names.end() ||
           std::any_of(statement.loops.begin(), statement.loops.end(), has_name) ||
           std::any_of(program.symbols.begin(), program.symbols.end(), has_name) ||
           program.find_tensor(name).has_value();
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

// The cuts between statements that save the most.
class Cuts {
 public:
  explicit Cuts(Graph& graph)
      : graph_(graph), summaries_(graph), best_(graph.size() + 1, 0), from_(graph.size() + 1, 0) {
    Region region(graph, summaries_);
    for (Place i = 0; i < graph.size(); ++i) {
      consider(i, i + 1, 0);
      Place next = i + 1;
      for (bool grows = region.start(i); grows && next < graph.size() && region.add(next); ++next) {
        consider(i, next + 1, region.worth());
      }
    }
  }

  bool apply() {
    Region region(graph_, summaries_);
    bool changed = false;
    for (Place end = graph_.size(); end > 0; end = from_[end]) {
      if (best_[end] == best_[from_[end]]) {
        continue;  // a single statement
      }
      region.start(from_[end]);
      for (Place next = from_[end] + 1; next < end; ++next) {
        region.add(next);
      }
      mark(region);
      changed = true;
    }
    return changed;
  }

 private:
  // Among equals, the shortest last region is best: nothing is gained by statements that share nothing.
  void consider(Place first, Place end, std::uint64_t worth) {
    if (best_[first] + worth >= best_[end]) {
      best_[end] = best_[first] + worth;
      from_[end] = first;
    }
  }

  void mark(const Region& region) {
    const Place first = region.statements()[0];
    program::Hint hint = {"fused", {}};
    std::string names;
    for (const std::uint32_t loop : region.named()) {
      hint.loops.push_back(graph_.at(first).loops[loop].name);
      names += (names.empty() ? "" : ", ") + hint.loops.back();
    }
    const std::int32_t number = graph_.add_hint(hint);
    for (std::size_t k = 0; k < region.statements().size(); ++k) {
      const Place i = region.statements()[k];
      graph_.note(i, [&] {
        return i != first
                   ? "runs with " + line_of(graph_.at(first)) + " for each [" + names + "]"
                   : "starts a region of " + std::to_string(region.statements().size()) +
                         " statements, which run together for each [" + names +
                         "]: " + std::to_string(region.saved_bytes()) + " bytes need not go through memory";
      });
      graph_.edit(i, [&](Statement& statement) {
        statement.hint = number;
        rename_loops(graph_.program(), statement, region.loops_of(k), hint.loops);
        return true;
      });
    }
    Report& report = graph_.report();
    ++report.regions;
    report.grouped += region.statements().size();
    report.saved_bytes += region.saved_bytes();
  }

  Graph& graph_;
  Summaries summaries_;
  std::vector<std::uint64_t> best_;  // by number of statements from the start: what the best cuts save
  std::vector<Place> from_;          // the first statement of the last region
};

}  // namespace

bool form_regions_in(Graph& graph) {
  return Cuts(graph).apply();
}

}  // namespace yoke::passes
