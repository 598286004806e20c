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
  bool parallel = false;  // enough work for several threads

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
};

struct RegionOptions {
  int threads = 1;
  std::int64_t tile_bytes = 0;  // what a tile may touch
};

// Returns nothing if statements [first, last), all of one hint with loops, run as fast one after another.
std::optional<Region> cut_region(const program::Program& program, std::uint32_t first, std::uint32_t last,
                                 std::span<const program::Lifetime> lives, const RegionOptions& options);

}  // namespace yoke::cc
