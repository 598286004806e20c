// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernel.h: a group of statements as a short list of operations over whole tiles.
//
// A kernel walks its loops in tiles of rows x columns elements. Values of one tile lie in registers (a few
// KiB of scratch each) or, where an access is contiguous, in the tensor itself. A value that does not depend
// on rows or on columns has fewer elements: its mask says on which of the two it depends.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../access.h"
#include "kernels.h"

namespace yoke::cc {

constexpr std::uint8_t kRows = 1;
constexpr std::uint8_t kColumns = 2;
constexpr std::int64_t kTileElements = 1024;
constexpr std::int64_t kFoldRows =
    64;  // terms that a sum of rows adds up in its own type before the block goes into f64

struct TileLoop {
  std::int64_t extent = 1;
  std::int64_t chunk = 1;  // of the tile: rows or columns per tile; other loops: 1
  bool reduce = false;
};

// How the loops of statements become loops of a kernel.
struct Schedule {
  std::vector<TileLoop> loops;       // target loops, then reduced ones; outer first
  std::vector<std::int32_t> source;  // per loop of the kernel: the statement's loop whose coefficients it has
  std::int32_t rows = -1;            // into loops
  std::int32_t columns = -1;
  bool rows_reduced() const { return rows >= 0 && loops[static_cast<std::size_t>(rows)].reduce; }
  bool columns_reduced() const { return columns >= 0 && loops[static_cast<std::size_t>(columns)].reduce; }
};

struct ScheduleInput {
  std::vector<program::Loop> loops;
  std::vector<bool> reduce;
  std::vector<Form> all;      // every form: loops merge only where all of them allow it
  std::vector<Form> streams;  // element numbers of the accesses: contiguous ones make good columns
  bool ordered = false;       // iterations keep their order
};
Schedule make_schedule(const ScheduleInput& input);

// Memory that a slot points into, at the tile's first element.
struct Stream {
  std::uint32_t tensor = 0;
  std::int64_t element_size = 4;
  Form form;  // over the kernel's loops
};

// An access whose elements are checked one by one, or row by row.
struct Bounded {
  struct Dim {
    std::int64_t extent = 1;
    std::int64_t stride = 1;
    bool element = false;
    std::uint32_t form = 0;  // affine: into TileKernel::forms
    std::uint16_t slot = 0;  // element: i64 values
    std::uint8_t mask = 0;   // what those depend on
  };
  std::uint32_t tensor = 0;
  std::int64_t element_size = 4;
  std::vector<Dim> dims;
  std::uint64_t otherwise = 0;  // bytes of one element
  bool by_row = true;           // no element index depends on the column
  GatherFn gather = nullptr;
  CopyFn copy = nullptr;
  ScatterFn scatter = nullptr;
  std::uint16_t offsets = 0;  // slot of i64
};

struct Instr {
  enum class Kind : std::uint8_t { kMap, kConst, kCopyIn, kCopyOut, kExpand, kBounded, kScatter, kIota };
  Kind kind = Kind::kMap;
  std::uint8_t mask = 0;    // of the result
  std::uint8_t a_mask = 0;  // kExpand, kCopyOut: of the source
  std::uint16_t dst = 0;
  std::uint16_t a = 0;
  std::uint16_t b = 0;
  std::uint16_t c = 0;
  std::uint32_t extra =
      0;  // kConst, kBounded, kScatter: into the list of the kind; kIota: form; copies: stream
  MapFn map = nullptr;
  CopyFn copy = nullptr;
};

struct Reduction {
  ReduceFn fn = nullptr;
  Reg type = Reg::kF32;       // of the values
  Reg acc_type = Reg::kF32;   // of the accumulators
  std::uint64_t neutral = 0;  // bytes of one accumulator
  bool by_columns = false;
  bool arg = false;
  bool folds = false;           // rows of floats are summed in blocks, the blocks in f64
  std::uint8_t value_mask = 0;  // of the tile that is folded
  std::uint8_t mask = 0;        // of the accumulators
  std::uint16_t value = 0;      // slots
  std::uint16_t acc = 0;
  std::uint16_t total = 0;
  std::uint16_t index = 0;
};

struct TileKernel {
  Schedule schedule;
  std::vector<Form> forms;  // of bounded accesses and loop values, over the kernel's loops
  std::vector<Stream> streams;
  std::vector<Bounded> bounded;
  std::vector<std::uint64_t> constants;
  std::vector<Instr> prologue;  // once per launch
  std::vector<Instr> body;      // per tile
  std::vector<Instr> epilogue;  // per tile of targets, after a reduction
  std::optional<Reduction> reduction;
  const KernelTable* table = nullptr;

  std::uint16_t register_count = 0;            // slots below are registers, from there on streams
  std::vector<std::uint32_t> register_offset;  // bytes into the thread's scratch
  std::uint64_t scratch_byte_count = 0;        // per thread
  bool parallel = true;                        // targets of different tiles are independent
  std::int64_t tile_count = 1;                 // tiles of targets
  std::int64_t element_count = 1;              // whole space of loops
  bool element_wise = false;                   // has a gather or scatter that goes one element at a time
};

// Builds one kernel of the statements, in order; a reducing statement comes alone. `kept` says per tensor
// whether a value written is needed in memory.
TileKernel build_tile_kernel(const program::Program& program, std::span<const std::uint32_t> statements,
                             const std::vector<bool>& kept, const KernelTable& table);

// What a thread needs to run a kernel; made at link, so that a launch allocates nothing.
struct TileState {
  std::vector<void*> slots;
  std::vector<std::int64_t> stream_bases;
  std::vector<std::int64_t> form_bases;
  std::vector<std::int64_t> index;  // per loop: first iteration of the tile
  std::int64_t nr = 1;
  std::int64_t nc = 1;
};
TileState make_state(const TileKernel& kernel);

// Runs tiles [first, last) of targets. `tensors` holds one address per tensor of the program.
void run_tiles(const TileKernel& kernel, TileState& state, std::span<std::byte* const> tensors,
               std::span<const std::int64_t> symbol_values, std::byte* scratch, std::int64_t first,
               std::int64_t last);

}  // namespace yoke::cc
