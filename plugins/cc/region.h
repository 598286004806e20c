// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region.h: cuts a region, the statements of a hint that names loops, into tiles that fit in the cache.
#pragma once

#include <yoke/program/memory.h>
#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "access.h"

namespace yoke::cc {

// A tile takes one value of each outer loop and `chunk` values of the next loop.
struct Region {
  std::vector<std::int64_t> outer;  // extents
  std::int64_t extent = 1;
  std::int64_t chunk = 1;
  bool parallel = false;        // enough work for several threads
  std::int64_t part_tiles = 0;  // tiles that one thread runs in order, for sums of rows; 0: one

  // The statements over one tile. Temporaries that only the region uses have the tile's size, the other tensors are
  // arguments. After the symbols of the whole program come the first values of the loops above.
  program::Program tile;
  std::optional<program::Program> tail;  // the last tile along the cut loop, if it is shorter
  std::vector<std::uint32_t> tensors;    // of the tile: their numbers in the whole program

  // What a tile touches of an argument and the tile before it did not.
  struct Slice {
    std::uint32_t tensor = 0;  // of the tile
    Form form;                 // only the constant and the symbols count
    std::int64_t byte_count = 0;
  };
  std::vector<Slice> slices;

  std::int64_t chunk_count() const { return (extent + chunk - 1) / chunk; }
  std::int64_t tile_count() const;
  std::int64_t piece_count() const;  // which threads share
};

// Statements that share one pass over their rows: regions, and sums of rows beside them (bias gradients, gradients of
// norms), which are carried from tile to tile.
struct RegionRun {
  std::vector<std::uint32_t> loops;  // per statement: its loop over rows
  std::vector<bool> carried;         // per statement
};
// Returns the run that starts at a statement; empty if none does, or if a product is in it.
RegionRun find_run(const program::Program& program, std::uint32_t first);

// The statement after the last one with the same hint.
std::uint32_t end_of_region(const program::Program& program, std::uint32_t first);

struct RegionOptions {
  int threads = 1;
  std::int64_t tile_bytes = 0;  // what a tile may touch
};

// Cuts the loops of the hint of statements [first, last), or the rows of a run of statements. Returns nothing if the
// statements run as fast one after another.
std::optional<Region> cut_region(const program::Program& program, std::uint32_t first, std::uint32_t last,
                                 std::span<const program::Lifetime> lives, const RegionOptions& options);
std::optional<Region> cut_run(const program::Program& program, std::uint32_t first, const RegionRun& run,
                              std::span<const program::Lifetime> lives, const RegionOptions& options);

}  // namespace yoke::cc
