// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region.h: cuts a region (the statements of a hint that names loops) into tiles that fit in the
// cache.
#pragma once

#include <yoke/program/memory.h>
#include <yoke/program/program.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "contraction.h"

namespace yoke::cc {

// A tile takes one value of each outer loop and `chunk` values of the next loop.
struct Region {
  std::vector<std::int64_t> outer;  // extents of the outer loops
  std::int64_t extent = 1;
  std::int64_t chunk = 1;
  bool parallel = false;        // has enough work for several threads
  std::int64_t part_tiles = 0;  // tiles per part of a sum of rows; 0: no such sums

  // The statements over one tile. Temporaries that only the region uses have the tile's size; the other
  // tensors are arguments. The symbols are those of the whole program, followed by the tile's first value of
  // each loop above.
  program::Program tile;
  std::optional<program::Program> tail;  // the last tile along the cut loop, if it is shorter
  std::vector<std::uint32_t> tensors;    // of `tile`: the number of each in the whole program

  // A range of an argument that a tile touches and the previous tile does not.
  struct Slice {
    Operand operand;  // of `tile`; only the constant and the symbols of its form count
    std::int64_t byte_count = 0;
  };
  std::vector<Slice> slices;

  std::int64_t chunk_count() const { return (extent + chunk - 1) / chunk; }
  std::int64_t tile_count() const {
    return std::accumulate(outer.begin(), outer.end(), chunk_count(), std::multiplies<>());
  }
  // Pieces of work that threads share.
  std::int64_t piece_count() const {
    return part_tiles == 0 ? tile_count() : (tile_count() + part_tiles - 1) / part_tiles;
  }
};

// Consecutive statements that may run tile by tile.
struct RegionRun {
  // For each statement and loop: the loop's place among the `loop_count` loops that may be cut; for other
  // loops, loop_count.
  std::vector<std::vector<std::size_t>> places;
  std::size_t loop_count = 1;
  std::vector<bool>
      carried;  // per statement: whether it is a sum of rows, which is carried from tile to tile
};
// The statements of the hint of statement `first`, which names loops.
RegionRun run_of_hint(const program::Program& program, std::uint32_t first);
// Returns the run that starts at statement `first` and shares one pass over its rows: regions and sums of
// rows (bias gradients, gradients of norms). Empty if none does, or if it would contain a product.
RegionRun find_run(const program::Program& program, std::uint32_t first);

// The end of the consecutive statements that have the hint of statement `first`.
std::uint32_t end_of_region(const program::Program& program, std::uint32_t first);

struct RegionOptions {
  int threads = 1;
  std::int64_t tile_bytes = 0;  // bytes that a tile may touch
};

// Returns nothing if the statements from `first` on run as fast one after another.
std::optional<Region> cut_run(const program::Program& program, std::uint32_t first, const RegionRun& run,
                              std::span<const program::Lifetime> lives, const RegionOptions& options);

}  // namespace yoke::cc
