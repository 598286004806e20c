// SPDX-License-Identifier: Apache-2.0
// plugins/cc/routine.h: a compiled program bound to memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compile.h"

namespace yoke::cc {

// Holds everything that a launch needs, so that a launch allocates nothing.
class BoundProgram {
 public:
  // `arguments` are in the order of declaration. `workspace` has
  // workspace_byte_count bytes and is 64-byte aligned.
  BoundProgram(std::shared_ptr<const CompiledProgram> compiled, std::span<std::byte* const> arguments,
               std::byte* workspace);
  void launch(std::span<const std::int64_t> symbol_values);

 private:
  // The last three members have one element per thread.
  struct BoundStep {
    std::vector<BoundCall> calls;
    std::vector<BoundCall> copies;  // of an operand that the calls share
    std::vector<TileState> states;
    std::vector<std::unique_ptr<BoundProgram>> tiles;
    std::vector<std::unique_ptr<BoundProgram>> tails;
  };

  void combine_carried(std::span<const std::int64_t> symbols, std::byte* results);
  void fetch_ahead(std::size_t slice_count);      // makes the kernels fetch the next tile
  void run(std::size_t first, std::size_t last);  // runs steps [first, last)
  void run(const TileKernel& kernel, BoundStep& bound);
  void run(const LibraryStep& step, BoundStep& bound);
  void run(const RegionStep& region, BoundStep& bound);
  void run_tile(const Region& region, std::int64_t tile, std::int64_t last,
                std::span<const std::int64_t> symbols, std::byte* results);
  void set_tile(const Region& region, std::int64_t tile, std::span<const std::int64_t> symbols);
  std::byte* address(const Operand& operand) const;
  std::byte* scratch(std::size_t thread) const { return scratch_ + thread * compiled_->scratch_stride; }

  std::shared_ptr<const CompiledProgram> compiled_;
  std::vector<std::byte*> tensors_;
  std::vector<BoundStep> steps_;
  std::vector<std::int64_t> symbols_;  // of the launch, and the variables of repeat blocks
  std::byte* scratch_;
  std::byte* shared_;
  Ahead ahead_;
  PlaceInPart place_;
};

}  // namespace yoke::cc
