// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region_run.cpp: finds neighboring regions and sums along columns that can share one pass over
// their rows.
#include <yoke/program/access.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "contraction.h"
#include "convolution.h"
#include "region.h"
#include "tile/kernel.h"

namespace yoke::cc {

using program::Program;
using program::Statement;

namespace {

constexpr std::size_t kLongestRun = 64;

// Returns true for a reduction over one loop, also for a product.
bool reduces_one_loop(const Statement& statement) {
  return statement.reduce && statement.reduce != program::Reduce::kArgMax &&
         statement.reduce != program::Reduce::kArgMin && statement.reduce_loops.size() == 1 &&
         statement.hint < 0 && !has_element_index(statement.target);
}

// Returns true if the reduction also combines whole rows with its target.
bool is_sum_of_rows(const Program& program, const Statement& statement) {
  return reduces_one_loop(statement) && reduces_rows(program, statement) && !is_product(program, statement);
}

// Returns true if the hint of the statement makes a region.
bool is_in_region(const Program& program, const Statement& statement) {
  return statement.hint >= 0 && !program.hints[static_cast<std::size_t>(statement.hint)].loops.empty();
}

// Returns whether a region follows the reductions that start at a statement, without the work of collecting
// a run.
bool may_reach_region(const Program& program, std::uint32_t first) {
  const Statement& start = program.statements[first];
  const std::size_t last = std::min(first + kLongestRun, program.statements.size());
  for (std::size_t id = first; id < last; ++id) {
    const Statement& one = program.statements[id];
    if (one.repeat != start.repeat || is_in_region(program, one)) {
      return one.repeat == start.repeat;
    }
    if (!reduces_one_loop(one) ||
        one.loops[one.reduce_loops[0]].extent != start.loops[start.reduce_loops[0]].extent) {
      return false;
    }
  }
  return false;
}

// Collects statements and checks that a tile of rows needs nothing that other tiles write.
class RowUses {
 public:
  // Adds statements; loops[i] is the loop of statements[i] over rows. Returns false and changes nothing if
  // the statements do not fit.
  bool add(std::span<const Statement> statements, std::span<const std::uint32_t> loops, bool is_sum) {
    const std::uint32_t target = statements[0].target.tensor;
    std::map<std::uint32_t, Use> changed;
    bool shares = is_sum || !has_region_;
    bool fits = !is_sum || (!uses_.contains(target) && !sums_.contains(target));
    for (std::size_t i = 0; i < statements.size(); ++i) {
      const std::vector<program::Use> all = uses_of(statements[i]);
      for (const program::Use& use : std::span(all).subspan(is_sum ? 1 : 0)) {
        const auto known = uses_.find(use.tensor);
        const bool is_known = known != uses_.end();
        Use& one = changed.try_emplace(use.tensor, is_known ? known->second : Use{}).first->second;
        one.dims &= use.dims_at(loops[i]);
        one.is_written = one.is_written || &use == &all[0];
        shares = shares || is_known;
        fits = fits && !sums_.contains(use.tensor);
      }
    }
    fits = fits && !(is_sum && changed.contains(target)) &&
           std::all_of(changed.begin(), changed.end(),
                       [](const auto& entry) { return !entry.second.is_written || entry.second.dims != 0; });
    if (fits && shares) {
      for (const auto& [tensor, use] : changed) {
        uses_[tensor] = use;
      }
      if (is_sum) {
        sums_.insert(target);
      }
      has_region_ = has_region_ || !is_sum;
    }
    return fits && shares;
  }

  bool has_region() const { return has_region_; }

 private:
  struct Use {
    std::uint32_t dims = ~0U;  // the dimensions that only the loop over rows indexes in every access
    bool is_written = false;
  };
  std::map<std::uint32_t, Use> uses_;  // of tensors by row
  std::set<std::uint32_t> sums_;       // the targets of sums, which nothing else may use
  bool has_region_ = false;
};

}  // namespace

std::uint32_t end_of_region(const Program& program, std::uint32_t first) {
  std::uint32_t last = first;
  while (last < program.statements.size() &&
         program.statements[last].hint == program.statements[first].hint) {
    ++last;
  }
  return last;
}

RegionRun run_of_hint(const Program& program, std::uint32_t first) {
  const auto& names = program.hints[static_cast<std::size_t>(program.statements[first].hint)].loops;
  RegionRun run;
  run.loop_count = names.size();
  for (std::uint32_t id = first; id < end_of_region(program, first); ++id) {
    std::vector<std::size_t>& places = run.places.emplace_back();
    for (const program::Loop& loop : program.statements[id].loops) {
      const auto place = std::find(names.begin(), names.end(), loop.name) - names.begin();
      places.push_back(static_cast<std::size_t>(place));
    }
  }
  run.carried.assign(run.places.size(), false);
  return run;
}

RegionRun find_run(const Program& program, std::uint32_t first) {
  const std::span<const Statement> statements = program.statements;
  RegionRun run;
  if (!may_reach_region(program, first)) {
    return run;
  }
  RowUses uses;
  std::uint64_t rows = 0;
  for (std::uint32_t next = first; next < statements.size() && run.places.size() < kLongestRun;) {
    const Statement& statement = statements[next];
    if (statement.repeat != statements[first].repeat) {
      break;
    }
    std::uint32_t last = next + 1;
    std::vector<std::uint32_t> loops;
    const bool is_sum = is_sum_of_rows(program, statement);
    if (is_sum) {
      loops = statement.reduce_loops;
    } else if (is_in_region(program, statement)) {
      last = end_of_region(program, next);
      const std::string& name = program.hints[static_cast<std::size_t>(statement.hint)].loops[0];
      for (const Statement& one : statements.subspan(next, last - next)) {
        if (is_product(program, one)) {
          return uses.has_region() ? run : RegionRun{};
        }
        loops.push_back(*one.find_loop(name));
      }
    } else {
      break;
    }
    const std::uint64_t extent = statement.loops[loops[0]].extent;
    if ((rows != 0 && extent != rows) || !uses.add(statements.subspan(next, last - next), loops, is_sum)) {
      break;
    }
    rows = extent;
    for (std::size_t i = 0; i < loops.size(); ++i) {
      run.places.emplace_back(statements[next + i].loops.size(), 1)[loops[i]] = 0;
    }
    run.carried.insert(run.carried.end(), loops.size(), is_sum);
    next = last;
  }
  return uses.has_region() ? run : RegionRun{};
}

}  // namespace yoke::cc
