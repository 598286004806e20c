// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernel.h: a group of statements as a short list of operations over whole tiles.
//
// A kernel walks its loops in tiles of rows x columns elements. Values of a tile lie in registers (a
// few KiB of scratch each) or, if the access is contiguous, in the tensor itself. A value that
// depends only on rows, only on columns, or on neither has fewer elements than the tile; its mask
// (kRows, kColumns) lists the axes that it depends on.
#pragma once

#include <yoke/program/program.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../access.h"
#include "ahead.h"
#include "kernels.h"

namespace yoke::cc {

constexpr std::uint8_t kRows = 1;
constexpr std::uint8_t kColumns = 2;
constexpr std::int64_t kTileElements = 1024;
// Work on fewer elements runs on the launching thread: waking other threads would cost more.
constexpr std::int64_t kParallelElements = std::int64_t{1} << 15;
// Rows that a sum adds in its own type before it adds the block to an f64 total.
constexpr std::int64_t kFoldRows = 64;

// What happens to the values that a kernel writes.
enum class Store : std::uint8_t {
  kNever,      // nothing reads them later
  kMemory,     // they go to memory
  kPastCaches  // they go to memory, but nothing reads them soon
};

// The program that a region's tile was cut from: statement i of the tile is its statement first + i. Sums add
// their terms in the same order in both programs.
struct Original {
  const program::Program* program = nullptr;
  std::uint32_t first = 0;
  // For each statement of the tile: whether it is a sum of rows over all tiles.
  const std::vector<bool>* carried = nullptr;
  // For each tensor of the tile.
  const std::vector<Store>* stores = nullptr;
};

struct TileLoop {
  std::int64_t extent = 1;
  std::int64_t chunk = 1;  // iterations per tile: more than 1 only for the tile's rows and columns
  bool reduce = false;
};

// How the loops of statements become loops of a kernel.
struct Schedule {
  std::vector<TileLoop> loops;       // the target's loops, then the reduced ones, each from outer to inner
  std::vector<std::int32_t> source;  // per loop of the kernel: the statement's loop that provides its strides
  std::int32_t rows = -1;            // index into loops; -1: the tile has one row (or column)
  std::int32_t columns = -1;
  bool is_long_stream = false;  // elementwise work on data that is too large for the caches
  // The steps of a form over the kernel's loops to the next row and column.
  std::int64_t row_step(const Form& form) const {
    return rows < 0 ? 0 : form.loops[static_cast<std::size_t>(rows)];
  }
  std::int64_t column_step(const Form& form) const {
    return columns < 0 ? 0 : form.loops[static_cast<std::size_t>(columns)];
  }
  bool rows_reduced() const { return rows >= 0 && loops[static_cast<std::size_t>(rows)].reduce; }
  bool columns_reduced() const { return columns >= 0 && loops[static_cast<std::size_t>(columns)].reduce; }
};

struct ScheduleInput {
  std::vector<program::Loop> loops;
  std::vector<bool> reduce;
  std::vector<Form> all;      // every form; loops are merged only if all of them allow it
  std::vector<Form> streams;  // forms of the accesses; columns are the loop along which most are contiguous
  bool ordered = false;       // iterations must run in order
  std::int32_t columns = -1;  // the loop that must be the columns; -1: any
  std::optional<bool> reduces_columns{};  // whether the columns must be reduced
};
// The order in which a reduction adds its terms depends only on its reduced loops and, if `original` is
// given, on that statement's loops.
Schedule make_schedule(const ScheduleInput& input, const ScheduleInput* original = nullptr);

// A tensor that a slot points into, at the tile's first element.
struct Stream {
  std::uint32_t tensor = 0;
  std::int64_t element_size = 4;
  Form form;                 // over the kernel's loops
  bool past_caches = false;  // only written, past the caches
};

// An access that may be out of range. Its elements are checked one by one, or row by row.
struct Bounded {
  struct Dim {
    std::int64_t extent = 1;
    std::int64_t stride = 1;
    std::int64_t divisor = 1;
    bool element = false;    // the index is read from a tensor; otherwise it is affine
    std::uint32_t form = 0;  // affine: index into TileKernel::forms
    std::uint16_t slot = 0;  // element: slot of the i64 indices
    std::uint8_t mask = 0;   // element: mask of the indices
  };
  std::uint32_t tensor = 0;
  std::int64_t element_size = 4;
  std::vector<Dim> dims;
  std::uint64_t otherwise = 0;  // bytes of the value of an element that is out of range
  bool by_row = true;           // no index that is read from a tensor depends on the column
  // The distance between columns at which all divisions are exact, if such columns exist; at most a row.
  std::int64_t period = 1;
  GatherFn gather = nullptr;
  CopyFn copy = nullptr;
  ScatterFn scatter = nullptr;
  std::int64_t value_size = 0;  // scattered: bytes of a value in its register
  bool is_contiguous = false;   // scattered: neighboring columns are neighbors in the tensor
  std::uint16_t offsets = 0;    // slot of the i64 offsets
  bool tells_inside = false;    // also writes, per element, a byte that is 1 if it is in range
  std::uint16_t inside = 0;     // slot of these bytes
};

// The place in one dimension, before any division, of a row's first column, and the step to the next column.
struct Line {
  std::int64_t place = 0;
  std::int64_t step = 0;
};
using Lines = std::array<Line, 8>;  // per dimension

// The columns of a row that are in range: `count` of them, from `first` on, Bounded::period apart.
struct Columns {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
Columns columns_inside(const Bounded& bounded, const Lines& lines, std::int64_t column_count);

struct Instr {
  enum class Kind : std::uint8_t {
    kMap,
    kConst,
    kCopyIn,
    kCopyOut,
    kCopyPast,  // like kCopyOut, but contiguous and past the caches
    kExpand,
    kBounded,
    kScatter,
    kIota,
    kReduce,  // each row to one value
    kCarry    // adds the rows to a sum that is carried from tile to tile
  };
  Kind kind = Kind::kMap;
  std::uint8_t mask = 0;    // of the result
  std::uint8_t a_mask = 0;  // kExpand, kCopyOut: of the source
  std::uint16_t dst = 0;
  std::uint16_t a = 0;
  std::uint16_t b = 0;
  std::uint16_t c = 0;
  // Index into constants (kConst), bounded (kBounded, kScatter), forms (kIota), streams (copies),
  // row_reductions (kReduce) or carries (kCarry).
  std::uint32_t extra = 0;
  MapFn map = nullptr;
  CopyFn copy = nullptr;
  ProductSumFn product_sum = nullptr;  // kReduce, kCarry: if not null, adds a * b
};

// A reduction runs in parts, which several threads may share. Sums and products of floats are always computed
// part by part, so that the number of threads does not change the result.
struct Reduction {
  ReduceFn fn = nullptr;
  ReduceFn combine = nullptr;  // combines the results of the parts, one part per row
  std::int64_t units = 1;      // iterations of the reduced loops, or tiles if columns are reduced
  std::int64_t part_units = 1;
  std::int64_t part_count = 1;
  bool by_parts = false;     // runs in parts on one thread, too
  Reg type = Reg::kF32;      // of the values
  Reg acc_type = Reg::kF32;  // of the accumulators
  Reg result_type = Reg::kF32;
  std::uint64_t neutral = 0;  // bytes of one accumulator
  bool by_columns = false;
  bool arg = false;
  bool folds = false;       // rows of floats are summed in blocks, and the blocks in f64
  std::uint8_t mask = 0;    // of the accumulators
  std::uint16_t value = 0;  // slots
  std::uint16_t acc = 0;
  std::uint16_t total = 0;  // the total of the blocks, if `folds`
  std::uint16_t whole = 0;  // the total of the parts, if `by_parts`
  std::uint16_t index = 0;
  std::uint16_t result() const { return folds ? total : acc; }
};

// A reduction of each row within a tile.
struct RowReduction {
  ReduceFn fn = nullptr;
  Reg acc_type = Reg::kF32;
  std::uint64_t neutral = 0;
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
  std::vector<RowReduction> row_reductions;
  std::optional<Reduction> reduction;
  const KernelTable* table = nullptr;

  std::uint16_t register_count = 0;            // slots below this are registers, the others streams
  std::vector<std::uint32_t> register_offset;  // bytes into the thread's scratch
  std::uint64_t scratch_byte_count = 0;        // per thread
  bool parallel = true;                        // tiles of the target are independent
  std::int64_t tile_count = 1;                 // tiles of the target
  std::int64_t element_count = 1;              // iterations of all loops
  // If `carried`: a sum over the rows of all tiles of a region. The offsets are into the thread's current
  // sums and into the results of the parts.
  bool carried = false;
  bool fed = false;  // another kernel of the tile adds the rows
  std::uint64_t carry_offset = 0;
  std::uint64_t results_offset = 0;
  std::vector<std::size_t> carries;  // the steps of the sums that this kernel adds rows to
  bool element_wise = false;         // a gather or a scatter runs one element at a time
};

// What a statement does in a kernel whose tiles hold whole rows, that is all values of the last loop.
enum class RowRole : std::uint8_t {
  kNone,        // cannot be part of the kernel
  kElements,    // computes every element
  kRowValues,   // computes one value per row
  kReduction,   // reduces each row
  kCarriedSum,  // adds rows to a sum that is carried from tile to tile
};
// `loops` are those of the kernel. Returns kNone unless the statement has all of them, or all but the last.
RowRole row_role(const program::Program& program, std::uint32_t statement,
                 std::span<const program::Loop> loops, const Original& original);

// Whether the statement is a reduction that combines whole rows of values and may compute its targets in any
// order.
bool reduces_rows(const program::Program& program, const program::Statement& statement);
// The rows of one part of such a reduction.
std::int64_t rows_per_part(std::int64_t rows);

// Builds one kernel that runs the statements in order. Precondition: there is only one statement; or all
// have the same loops and none reduces; or all have a row role. `stores` states for each tensor what
// happens to written values.
TileKernel build_tile_kernel(const program::Program& program, std::span<const std::uint32_t> statements,
                             const std::vector<Store>& stores, const KernelTable& table,
                             const Original& original = {});

// Returns false if a kernel does not access the tensor, or only writes it past the caches.
bool caches_tensor(const TileKernel& kernel, std::uint32_t tensor);

// The part of a sum of rows that a tile of a region belongs to, and the tile's place in it.
struct PlaceInPart {
  std::int64_t part = 0;
  std::int64_t row = 0;
  bool begins = true;            // the tile is the first of the part
  bool ends = true;              // the tile is the last of the part
  std::byte* results = nullptr;  // the results of all parts
};

// A sum that a kernel of the same tile adds rows to.
struct Carry {
  const TileKernel* kernel = nullptr;
  std::byte* sums = nullptr;
  std::int64_t pending = 0;  // rows since the last fold
};

// A thread's working data for one kernel. Created at link time, so that a launch allocates nothing.
struct TileState {
  std::vector<void*> slots;
  std::vector<std::int64_t> stream_bases;
  std::vector<std::int64_t> form_bases;
  std::vector<std::int64_t> index;  // per loop: the tile's first iteration
  std::int64_t nr = 1;
  std::int64_t nc = 1;
  Ahead next_tile;         // of a long stream
  Ahead* ahead = nullptr;  // if not null: what the kernel fetches while it computes
  std::vector<Carry> carries;
};
TileState make_state(const TileKernel& kernel);

// If a reduction has few targets and many terms, threads run its parts, and one thread then combines the
// results. Returns the bytes that the results of the parts need; 0 if the target has enough tiles for all
// threads.
std::uint64_t part_byte_count(const TileKernel& kernel, int threads);
// The bytes that a sum carried over the tiles of a region needs per thread, and its results of all parts.
std::uint64_t carry_byte_count(const TileKernel& kernel);
std::uint64_t results_byte_count(const TileKernel& kernel);

}  // namespace yoke::cc
