// SPDX-License-Identifier: Apache-2.0
// runtime/passes/cut.cpp: cuts a program into parts that run one after the other.
#include <yoke/backend.h>
#include <yoke/program/memory.h>
#include <yoke/program/text.h>
#include <yoke/runtime/error.h>

#include <algorithm>

#include "graph.h"

namespace yoke::passes {
namespace {

// The first statement in [first, last) that uses the tensor, or `last`.
Place first_use(const Graph& graph, std::uint32_t tensor, Place first, Place last) {
  Place result = last;
  for (const Places* places : {&graph.writers(tensor), &graph.readers(tensor)}) {
    const auto found = std::lower_bound(places->begin(), places->end(), first);
    result = found != places->end() ? std::min(result, *found) : result;
  }
  return result;
}

// The tensor's role in the part [first, last). A temporary that no statement uses is removed from the part.
Role role_in(const Graph& graph, std::uint32_t tensor, Place first, Place last) {
  const Role role = graph.program().tensors[tensor].role;
  const Place use = first_use(graph, tensor, first, last);
  if (use == last) {
    return Role::kTemp;
  }
  const bool is_outside_untouched =
      !graph.is_touched(tensor, 0, first) && !graph.is_touched(tensor, last, graph.size());
  if (is_outside_untouched) {
    return role;
  }
  if (!graph.is_written(tensor, first, last)) {
    return Role::kIn;
  }
  const bool has_all_writes =
      !graph.is_written(tensor, 0, first) && !graph.is_written(tensor, last, graph.size());
  const bool starts_anew = overwrites_target(graph.program(), graph.at(use)) && !graph.reads(use, tensor);
  // As an `out`, the elements that the part does not write would be undefined afterwards.
  return starts_anew || (role == Role::kOut && has_all_writes) ? Role::kOut : Role::kInOut;
}

Program part_of(const Graph& graph, Place first, Place last, std::size_t number) {
  Program part = graph.program();
  const std::string suffix = "_part_" + std::to_string(number);
  part.name = part.name.substr(0, program::kMaxNameBytes - suffix.size()) + suffix;
  for (std::uint32_t t = 0; t < part.tensors.size(); ++t) {
    part.tensors[t].role = role_in(graph, t, first, last);
  }
  std::vector<bool> is_removed(part.statements.size(), true);
  std::fill(is_removed.begin() + first, is_removed.begin() + last, false);
  remove_statements(part, is_removed);
  return part;
}

// Where the parts end, the last one included.
Places ends_of(const Graph& graph, std::span<const std::uint32_t> after) {
  Places ends;
  for (const std::uint32_t place : after) {
    const Place before = ends.empty() ? 0 : ends.back();
    Place end = std::min(std::max(before, place), graph.size());
    end = end > 0 ? graph.end_of_group(end - 1) : 0;
    ends.push_back(end);
  }
  ends.push_back(graph.size());
  return ends;
}

// Places the temporaries that several parts use.
void place_carried(const Graph& graph, const Places& ends, Cut& cut) {
  const auto part_at = [&](Place place) {
    return static_cast<std::uint64_t>(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
  };
  // plan_memory() aligns to 64 bytes only, so each YOKE_BUFFER_ALIGNMENT bytes count as 64.
  constexpr std::uint64_t kUnit = 64;
  std::vector<program::Lifetime> lifetimes;
  for (std::uint32_t t = 0; t < graph.program().tensors.size(); ++t) {
    const Tensor& tensor = graph.program().tensors[t];
    const Place last = graph.end_of(t);
    if (tensor.role != Role::kTemp || last == 0) {
      continue;
    }
    const std::uint64_t first_part = part_at(first_use(graph, t, 0, last));
    const std::uint64_t last_part = part_at(last - 1);
    if (first_part != last_part) {
      const std::uint64_t units = (tensor.byte_count() + YOKE_BUFFER_ALIGNMENT - 1) / YOKE_BUFFER_ALIGNMENT;
      lifetimes.push_back({units * kUnit, first_part, last_part});
      cut.carried.push_back({tensor, 0});
    }
  }
  const program::MemoryPlan plan = program::plan_memory(lifetimes);
  for (std::size_t i = 0; i < cut.carried.size(); ++i) {
    cut.carried[i].offset = plan.offsets[i] / kUnit * YOKE_BUFFER_ALIGNMENT;
  }
  cut.carried_byte_count = plan.byte_count / kUnit * YOKE_BUFFER_ALIGNMENT;
}

}  // namespace

std::vector<std::uint32_t> used_until(const Program& program) {
  Program copy = program;
  Report report;
  const Graph graph(copy, report, Explain::kNo);
  std::vector<std::uint32_t> result;
  for (const std::uint32_t tensor : program.arguments()) {
    const Place end = graph.end_of(tensor);
    result.push_back(end == 0 ? 0 : graph.end_of_group(end - 1));
  }
  return result;
}

Cut cut(Program program, std::span<const std::uint32_t> after) {
  Report report;
  const Graph graph(program, report, Explain::kNo);
  const Places ends = ends_of(graph, after);
  Cut result;
  Place first = 0;
  for (const Place end : ends) {
    result.parts.push_back(part_of(graph, first, end, result.parts.size() + 1));
    verify_result(result.parts.back(), "cut");
    first = end;
  }
  place_carried(graph, ends, result);
  return result;
}

}  // namespace yoke::passes
