// SPDX-License-Identifier: Apache-2.0
// runtime/passes/recompute.cpp: computes a value again after the peak of memory instead of keeping it.
#include <numeric>

#include "compose.h"
#include "cost.h"
#include "region.h"

namespace yoke::passes {
namespace {

// Smaller temporaries stay in a cache, and reading them is faster than computing them again.
constexpr std::uint64_t kWorthwhileBytes = 1 << 20;

// For each statement, the number of its region; 0 for statements outside regions.
std::vector<std::size_t> region_numbers(const Graph& graph) {
  std::vector<std::size_t> numbers(graph.size(), 0);
  const std::vector<Span> regions = best_regions(graph, Summaries(graph));
  for (std::size_t number = 1; number <= regions.size(); ++number) {
    const Span& span = regions[number - 1];
    std::fill(numbers.begin() + span.first, numbers.begin() + span.end, number);
  }
  return numbers;
}

// Lets the statements from `peak` on compute the value of temporary t, if none of its operands has to be kept
// for that. A temporary that only one region uses stays in a cache and takes no memory.
bool recompute(Graph& graph, Place i, Place peak, const std::vector<std::size_t>& regions) {
  const std::uint32_t tensor = graph.at(i).target.tensor;
  const Places readers = graph.readers(tensor);
  if (readers.empty() || readers.back() < peak ||
      graph.program().tensors[tensor].byte_count() < kWorthwhileBytes ||
      (regions[i] != 0 && regions[i] == regions[readers.back()]) || !is_producer(graph, i) ||
      !inputs_live_until(graph, i, readers.back())) {
    return false;
  }
  std::vector<std::pair<Place, Statement>> changed;
  for (auto j = std::lower_bound(readers.begin(), readers.end(), peak); j != readers.end(); ++j) {
    std::optional<Substitution> result = substitution(graph, i, *j);
    if (!result || graph.is_grouped(*j) || !result->each_once || is_contraction(graph.at(*j))) {
      return false;
    }
    changed.emplace_back(*j, std::move(result->statement));
  }
  graph.report().recomputed += changed.size();
  for (auto& [j, statement] : changed) {
    graph.note(i, [&, at = line_of(graph.at(j))] {
      return "computed again in " + at + ": keeping it until then would take memory at the peak";
    });
    graph.replace(j, std::move(statement));
  }
  return true;
}

}  // namespace

bool recompute_in(Graph& graph) {
  Places order(graph.size());
  std::iota(order.begin(), order.end(), Place{0});
  const std::vector<std::uint64_t> bytes = bytes_in_use(graph, order);
  const auto peak = static_cast<Place>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  const std::vector<std::size_t> regions = region_numbers(graph);
  bool changed = false;
  // In reverse order, because earlier values may be operands of later ones.
  for (Place i = peak; i-- > 0;) {
    changed = recompute(graph, i, peak, regions) || changed;
  }
  return changed;
}

}  // namespace yoke::passes
