// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region.h: cuts a region (the statements of a hint that names loops) into tiles that fit in the
// cache.
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
    std::uint32_t tensor = 0;  // of `tile`
    Form form;                 // only the constant and the symbols count
    std::int64_t byte_count = 0;
  };
  std::vector<Slice> slices;

  std::int64_t chunk_count() const { return (extent + chunk - 1) / chunk; }
  std::int64_t tile_count() const;
  std::int64_t piece_count() const;  // pieces of work that threads share
};

// Consecutive statements that share one pass over their rows: regions and sums of rows (bias gradients,
// gradients of norms), which are carried from tile to tile.
struct RegionRun {
  std::vector<std::uint32_t> loops;  // per statement: the loop over rows
  std::vector<bool> carried;         // per statement: whether it is a sum of rows
};
// Returns the run that starts at statement `first`; empty if none does, or if it would contain a product.
RegionRun find_run(const program::Program& program, std::uint32_t first);

// The end of the consecutive statements that have the hint of statement `first`.
std::uint32_t end_of_region(const program::Program& program, std::uint32_t first);

struct RegionOptions {
  int threads = 1;
  std::int64_t tile_bytes = 0;  // bytes that a tile may touch
};

// These cut the loops of the hint of statements [first, last), or the rows of a run. They return nothing if
// the statements run as fast one after another.
std::optional<Region> cut_region(const program::Program& program, std::uint32_t first, std::uint32_t last,
                                 std::span<const program::Lifetime> lives, const RegionOptions& options);
std::optional<Region> cut_run(const program::Program& program, std::uint32_t first, const RegionRun& run,
                              std::span<const program::Lifetime> lives, const RegionOptions& options);

}  // namespace yoke::cc
