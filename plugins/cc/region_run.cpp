// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region_run.cpp: finds neighboring regions and sums along columns that can share one pass over
// their rows.
#include <yoke/program/access.h>

#include <algorithm>
#include <map>
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
    std::map<std::uint32_t, Use> changed;
    const auto find = [&](std::uint32_t tensor) -> Use& {
      const auto known = uses_.find(tensor);
      return changed.try_emplace(tensor, known == uses_.end() ? Use{} : known->second).first->second;
    };
    bool shares = is_sum || !has_region_;
    for (std::size_t i = 0; i < statements.size(); ++i) {
      const Statement& statement = statements[i];
      const std::vector<program::Use> all = uses_of(statement);
      for (const program::Use& use : std::span(all).subspan(is_sum ? 1 : 0)) {
        Use& one = find(use.tensor);
        shares = shares || uses_.contains(use.tensor);
        one.dims &= use.dims_at(loops[i]);
        one.is_mixed = one.is_mixed || one.is_result;
      }
      Use& target = find(statement.target.tensor);
      if (is_sum) {
        target.is_mixed =
            target.is_mixed || uses_.contains(statement.target.tensor) || target.dims != kAllDims;
        target.is_result = true;
      }
      target.is_written = target.is_written || !is_sum;
    }
    const bool fits = std::all_of(changed.begin(), changed.end(), [](const auto& entry) {
      const Use& one = entry.second;
      return !one.is_mixed && (!one.is_written || one.dims != 0);
    });
    if (fits && shares) {
      for (const auto& [tensor, use] : changed) {
        uses_[tensor] = use;
      }
      has_region_ = has_region_ || !is_sum;
    }
    return fits && shares;
  }

  bool has_region() const { return has_region_; }

 private:
  static constexpr std::uint32_t kAllDims = ~0U;
  struct Use {
    std::uint32_t dims = kAllDims;  // the dimensions that only the loop over rows indexes in every access
    bool is_written = false;        // a region writes it
    bool is_result = false;         // it is the target of a sum
    bool is_mixed = false;          // it is the target of a sum and used in another way
  };

  std::map<std::uint32_t, Use> uses_;
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
        const auto at = std::find_if(one.loops.begin(), one.loops.end(),
                                     [&](const program::Loop& loop) { return loop.name == name; });
        if (is_product(program, one)) {
          return uses.has_region() ? run : RegionRun{};
        }
        loops.push_back(static_cast<std::uint32_t>(at - one.loops.begin()));
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
