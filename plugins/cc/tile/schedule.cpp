// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/schedule.cpp: merges loops and picks the two that a tile spans.
#include <algorithm>
#include <cstdlib>

#include "kernel.h"

namespace yoke::cc {
namespace {

// Appends the loops with the given `reduce`. Merges an outer loop with the next inner one if every form
// steps over both with a single stride.
void append_merged(const ScheduleInput& input, bool reduce, bool keep, Schedule& schedule) {
  const std::size_t begin = schedule.loops.size();
  for (std::size_t i = 0; i < input.loops.size(); ++i) {
    const auto extent = static_cast<std::int64_t>(input.loops[i].extent);
    if (input.reduce[i] != reduce || extent == 1) {
      continue;
    }
    bool merges = !keep && schedule.loops.size() > begin;
    if (merges) {
      const auto outer = static_cast<std::size_t>(schedule.source.back());
      merges = std::all_of(input.all.begin(), input.all.end(),
                           [&](const Form& form) { return form.loops[outer] == form.loops[i] * extent; });
    }
    if (merges) {
      schedule.loops.back().extent *= extent;
      schedule.source.back() = static_cast<std::int32_t>(i);
    } else {
      schedule.loops.push_back({extent, 1, reduce});
      schedule.source.push_back(static_cast<std::int32_t>(i));
    }
  }
}

std::int64_t stride_of(const Form& form, const Schedule& schedule, std::size_t loop) {
  return form.loops[static_cast<std::size_t>(schedule.source[loop])];
}

// Picks the loop along which most accesses are contiguous, the innermost one of equals. With `reduced`, picks
// only among the loops that are reduced, or only among those that are not.
std::int32_t pick_columns(const ScheduleInput& input, const Schedule& schedule, std::optional<bool> reduced) {
  std::int32_t best = -1;
  std::int64_t best_cost = 0;
  for (std::size_t i = 0; i < schedule.loops.size(); ++i) {
    if (schedule.loops[i].reduce != reduced.value_or(schedule.loops[i].reduce)) {
      continue;
    }
    std::int64_t cost = 0;
    for (const Form& form : input.streams) {
      const std::int64_t stride = std::abs(stride_of(form, schedule, i));
      cost += stride > 1 ? 8 : stride == 0 ? 1 : 0;
    }
    if (best < 0 || cost <= best_cost) {
      best = static_cast<std::int32_t>(i);
      best_cost = cost;
    }
  }
  return best;
}

// Picks the loop that continues the columns in memory for most accesses, unless tiles would be too short. The order of
// reduced terms must not depend on other loops. Therefore, if columns are reduced, rows are the last other reduced
// loop, if one exists; otherwise, rows are the last reduced loop or a loop that is not reduced.
std::int32_t pick_rows(const ScheduleInput& input, const Schedule& schedule) {
  const auto columns = static_cast<std::size_t>(schedule.columns);
  std::size_t last_reduced = schedule.loops.size();
  while (last_reduced > 0 && (!schedule.loops[last_reduced - 1].reduce || last_reduced - 1 == columns)) {
    --last_reduced;
  }
  if (schedule.columns < 0 || (schedule.columns_reduced() && last_reduced > 0)) {
    return static_cast<std::int32_t>(last_reduced) - 1;
  }
  constexpr std::int64_t kShortTile = 64;
  const std::int64_t width = schedule.loops[columns].extent;
  std::int32_t best = -1;
  std::int64_t best_cost = 0;
  for (std::size_t i = 0; i < schedule.loops.size(); ++i) {
    if (i == columns || (schedule.loops[i].reduce && i + 1 != last_reduced)) {
      continue;
    }
    const bool is_short = width * schedule.loops[i].extent < kShortTile;
    std::int64_t cost = is_short ? 4 * static_cast<std::int64_t>(input.streams.size()) : 0;
    for (const Form& form : input.streams) {
      const std::int64_t stride = stride_of(form, schedule, i);
      const bool continues = stride == stride_of(form, schedule, columns) * width;
      cost += continues ? 0 : stride == 0 ? 1 : 4;
    }
    if (best < 0 || cost <= best_cost) {
      best = static_cast<std::int32_t>(i);
      best_cost = cost;
    }
  }
  return best;
}

// Elementwise work on data that is too large for the caches. Tiles are short, and each thread prefetches its next tile:
// AdamW on 25 million parameters takes about 0.8 times as long as without prefetching, and 0.9 times as long as with
// tiles of 1024 elements (tests/bench/update_bench.cpp).
constexpr std::int64_t kStreamElements = 512;
bool is_long_stream(const Schedule& schedule, std::int64_t width) {
  constexpr std::int64_t kLong = std::int64_t{1} << 20;
  return width >= kLong && std::none_of(schedule.loops.begin(), schedule.loops.end(),
                                        [](const TileLoop& loop) { return loop.reduce; });
}

}  // namespace

Schedule make_schedule(const ScheduleInput& own, const ScheduleInput* original) {
  ScheduleInput input = own;
  std::optional<bool> reduced = own.reduces_columns;
  if (original != nullptr) {
    input.all.insert(input.all.end(), original->all.begin(), original->all.end());
    input.streams = original->streams;
    input.ordered = input.ordered || original->ordered;
    reduced = make_schedule(*original).columns_reduced();
  }
  Schedule schedule;
  append_merged(input, false, input.ordered, schedule);
  append_merged(input, true, false, schedule);
  if (schedule.loops.empty()) {
    return schedule;
  }
  const auto last = static_cast<std::int32_t>(schedule.loops.size()) - 1;
  // To keep the order, the tile must span the innermost loops. (A reduction visits its targets in order for
  // any columns, as long as the tile spans no target loop but the last.)
  schedule.columns = input.ordered ? last : pick_columns(input, schedule, reduced);
  if (input.columns >= 0) {
    const auto found = std::find(schedule.source.begin(), schedule.source.end(), input.columns);
    schedule.columns = static_cast<std::int32_t>(found - schedule.source.begin());
  }
  std::int64_t width = 1;
  if (schedule.columns >= 0) {
    TileLoop& columns = schedule.loops[static_cast<std::size_t>(schedule.columns)];
    width = columns.extent;
    schedule.is_long_stream = is_long_stream(schedule, width);
    const std::int64_t most = schedule.is_long_stream ? kStreamElements : kTileElements;
    const std::int64_t pieces = (width + most - 1) / most;
    columns.chunk = pieces == 1 ? width : ((width + pieces - 1) / pieces + 15) / 16 * 16;
    if (width > kTileElements / 2 || schedule.loops.size() < 2) {
      return schedule;
    }
  }
  schedule.rows = input.ordered ? last - 1 : pick_rows(input, schedule);
  TileLoop& rows = schedule.loops[static_cast<std::size_t>(schedule.rows)];
  rows.chunk = std::min(rows.extent, std::max<std::int64_t>(kTileElements / width, 1));
  return schedule;
}

}  // namespace yoke::cc
