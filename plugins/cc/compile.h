// SPDX-License-Identifier: Apache-2.0
// plugins/cc/compile.h: compiles a program to a list of steps: matrix products and tile kernels.
#pragma once

#include <yoke/program/memory.h>
#include <yoke/program/program.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "contraction.h"
#include "gemm.h"
#include "library.h"
#include "panel.h"
#include "region.h"
#include "tile/kernel.h"

namespace yoke::cc {

// A product or a convolution.
struct LibraryStep {
  Operand a{};
  Operand b{};
  Operand t{};
  std::optional<Epilogue> epilogue{};  // its target is t
  LibraryCalls calls{};                // without pieces if `own` or `panel` computes the product
  std::unique_ptr<const Gemm> own{};
  std::unique_ptr<const PanelProduct> panel{};
};

struct CompiledProgram;

// A region runs tile by tile; every thread has its own tiles and temporaries.
struct RegionStep {
  Region region;  // without its programs, which are compiled into `tile` and `tail`
  std::vector<bool> carried;
  std::shared_ptr<const CompiledProgram> tile;
  std::shared_ptr<const CompiledProgram> tail;  // null if all tiles have the same size
};

struct Step {
  std::vector<std::uint32_t> statements;
  std::int32_t repeat = -1;  // as in program::Statement
  std::variant<LibraryStep, TileKernel, RegionStep> work;
};

// How a statement was compiled.
struct Note {
  bool native = true;
  std::string reason;
  friend bool operator==(const Note&, const Note&) = default;
};

struct CompileOptions {
  const DnnlEngine* engine = nullptr;
  const KernelTable* table = nullptr;
  int threads = 1;                                    // per launch
  std::int64_t tile_bytes = std::int64_t{256} << 10;  // bytes that a tile may touch; 0: no regions
  // Results of at least this many bytes that the program does not read again are written past the caches.
  std::uint64_t large_result_bytes = std::uint64_t{8} << 20;
  Original original{};  // set if the program is a tile of a region
};

struct CompiledProgram {
  program::Program program;
  std::vector<Step> steps;
  std::vector<Note> notes;  // per statement
  // Per tensor, into the workspace. kNotInMemory: the tensor is an argument or is never stored.
  std::vector<std::uint64_t> temp_offset;
  std::uint64_t scratch_offset = 0;  // into the workspace; shared by the steps
  std::uint64_t scratch_stride = 0;  // per thread
  // Into the workspace: what the threads share, such as the results of parts of reductions.
  std::uint64_t shared_offset = 0;
  std::uint64_t workspace_byte_count = 0;
  std::uint64_t results_byte_count = 0;  // of the sums carried over the tiles of a region
  int threads = 1;

  static constexpr std::uint64_t kNotInMemory = ~std::uint64_t{0};
};

CompiledProgram compile_program(program::Program program, const CompileOptions& options);

// How compile_program would compile each statement. Generates no code and allocates no tables.
std::vector<Note> plan_program(program::Program program, const CompileOptions& options);

}  // namespace yoke::cc
