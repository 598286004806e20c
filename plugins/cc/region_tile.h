// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region_tile.h: rewrites the statements of a region as the statements of one tile.
#pragma once

#include <map>
#include <vector>

#include "region.h"

namespace yoke::cc {

// The new number of each loop: its own, or for a sum of rows those that put the loop over rows first, as in
// the other statements of a run.
std::vector<std::uint32_t> loops_in_tile(const program::Statement& statement, bool rows_first);

struct TileNames {
  // For each loop of the statement: the symbol that gives its first value, or -1.
  const std::vector<std::int32_t>& symbol_of;
  // For each loop of the statement: its number in the tile's statement.
  const std::vector<std::uint32_t>& loop_of;
  // For each tensor: its number in the tile's program.
  const std::map<std::uint32_t, std::uint32_t>& numbers;
  // For each temporary of the tile's size: the dimensions whose indices count from the start of the tile.
  const std::map<std::uint32_t, std::vector<std::size_t>>& kept;
};
void rewrite_for_tile(program::Statement& statement, const TileNames& names);

// The dense parts of arguments that the statements of a tile access and that differ from tile to tile. The
// symbols of the tile start at `first_symbol`.
std::vector<Region::Slice> slices_of(const program::Program& tile, std::size_t first_symbol);

}  // namespace yoke::cc
