// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul.h: how plan_contraction describes a product, and the parts of its kernels' text.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen.h"

namespace yoke::codegen::matmul {

// constant + sum of loops[i] * loop i + sum of symbols[i] * symbol i.
struct Form {
  std::int64_t constant = 0;
  std::vector<std::int64_t> loops;
  std::vector<std::int64_t> symbols;
  friend bool operator==(const Form&, const Form&) = default;
};

// An index that may be out of range: valid if 0 <= value < divisor * extent and the divisor divides it. A
// divided index contributes `stride` * quotient to the address; others are part of it already.
struct Check {
  std::size_t form = 0;  // into Product::forms
  std::int64_t divisor = 1;
  std::int64_t extent = 1;
  std::int64_t stride = 1;
};

struct Factor {
  std::uint32_t tensor = 0;
  program::Type type = program::Type::kF32;
  std::size_t address = 0;  // into Product::forms
  std::vector<Check> checks;
  bool is_skipped = false;  // if out of range, the term is left out; otherwise the element counts as `fill`
  double fill = 0;
  const program::Access* access = nullptr;  // in the program
};

// One loop, or several that every form steps over with a single stride.
struct Axis {
  std::int64_t extent = 1;
  std::vector<std::int64_t> steps;   // by form
  std::vector<std::uint32_t> loops;  // from outer to inner
};

inline constexpr std::size_t kTarget = 0;  // the form of the target's address

// target assign sum over k of a * b. Axes are listed from outer to inner.
struct Product {
  Factor a;
  Factor b;
  std::uint32_t target = 0;
  program::Type sum = program::Type::kF32;  // f32 or f64
  std::vector<Form> forms;
  std::vector<Axis> batch;
  std::vector<Axis> m;
  std::vector<Axis> n;
  std::vector<Axis> k;
  bool is_wide = false;  // indices or addresses need 64 bits
  std::size_t launch_symbols = 0;

  bool uses(bool variable) const;  // the repeat block's variable, or launch symbols
  std::string integer() const { return is_wide ? "long long" : "int"; }
};
std::int64_t extent_of(const std::vector<Axis>& axes);

// Returns nothing and sets `why_not` if the statement is not a sum of products in f32 or f64.
std::optional<Product> recognize(const program::Program& program, const program::Statement& statement,
                                 std::string& why_not);

// What a block computes at once, and how its threads share it.
struct Tile {
  std::int64_t rows = 64;
  std::int64_t columns = 64;
  std::int64_t depth = 16;
  std::int64_t thread_rows = 4;  // of a warp, with matrix units
  std::int64_t thread_columns = 4;
  std::int64_t threads = 256;
  std::int64_t parts = 1;  // of the sums, each of `part_depth` terms, a multiple of `depth`
  std::int64_t part_depth = 0;
  bool is_wgmma = false;
};

// Replaces each $name$ in the text by its value. Values may contain names too.
using Values = std::vector<std::pair<std::string_view, std::string>>;
std::string fill_in(std::string_view text, const Values& values);

std::string element_name(program::Type type);  // in memory: "float", "unsigned short"
std::string number_text(double value, program::Type type);
std::string load_text(program::Type from, program::Type sum, const std::string& element);
// Declares `name`: the part of a form that depends on no loop.
std::string base_text(const Product& product, std::size_t form, const std::string& name);
// Declares PREFIX0, PREFIX1, ...: the values of `axes` at `index`.
std::string split_text(const std::vector<Axis>& axes, const std::string& index, const std::string& prefix);
// The sum of the form's steps times these values.
std::string steps_text(const Product& product, const std::vector<Axis>& axes, std::size_t form,
                       const std::string& prefix);

// What the kernel does with a sum: statements that use the value `sum` at the loops' values loop0, loop1, ...
struct Epilogue {
  std::string body;
  std::string parameters;  // pointers, each with ", " before it
  std::vector<Slot> slots;
  bool is_wide = false;  // the loops' values are long long
  bool reads_symbols = false;
  bool reads_variable = false;
};
// Declares the loops' values at row, column and batch.
std::string loops_text(const program::Statement& statement, const Product& product, const Epilogue& epilogue);

// Whether neighboring threads load neighbors along the depth, not along the rows, of a factor.
bool is_along_depth(const Product& product, bool is_a);
// Whether 8 neighbors in that direction are always neighbors in memory, and either all in range or none.
bool has_runs_of_8(const Product& product, bool is_a);

// How a tile keeps its elements in shared memory.
struct Storage {
  std::string type;
  std::string place;         // the index of an element, from the variables row, depth and the stage
  std::string stage;         // the variable that is the number of the stage to store to
  std::string mark;          // the value that stands for an element out of range
  std::string special;       // a function: whether a value is infinite or NaN
  bool is_converted = true;  // to the type of the sums
  bool in_registers = true;  // loads go to registers and store() to the tile; otherwise loads go to the tile
  std::int64_t run = 1;      // elements that move at once: 1, or 8 of 16 bits, not converted
};

// Text that moves one factor's part of a tile. The names in it start with "a" or "b".
class Loader {
 public:
  Loader(const Product& product, const Tile& tile, bool is_a, Storage storage);

  std::string setup() const;  // declares the places of the thread's elements
  // Loads from the depth `from` on. Elements out of range of a skipped factor become 0, or marks if the
  // variable is_careful is true.
  std::string load(const std::string& from) const;
  std::string store() const;  // from registers into the shared tile

 private:
  std::string text(std::string_view pattern, Values more = {}) const;
  std::string row_text() const;  // declares the parts of the places that belong to row `r`
  std::string value_text(const std::string& in, bool is_async) const;

  const Product& product_;
  const Factor& factor_;
  const Factor& other_;
  const std::vector<Axis>& axes_;
  Storage storage_;
  bool is_along_depth_ = false;
  bool is_ragged_ = false;
  bool has_tail_ = false;
  bool keeps_rows_ = true;  // in registers; otherwise each load computes them again
  std::int64_t rows_ = 1;   // of one thread
  Values values_;
};

// Whether the marks say that a term x * y exists.
std::string exists_text(const Product& product, const std::string& x, const std::string& y);
// Functions that the kernels call.
std::string_view helper_functions();
// The list of parameters and the opening brace. `pointers` are those before the epilogue's.
std::string parameters(const Product& product, const Epilogue& epilogue, const std::string& pointers);
std::string pointers_text(const Product& product, const Tile& tile);
// Declares the block's place: m0, n0, part, first and last of the depth, and the values of the batch.
std::string block_text(const Product& product, const Tile& tile);
// Declares is_careful and special[] if terms may be left out.
std::string special_text(const Product& product, const std::string& stages);
// Runs the epilogue for the sums of a thread, or stores parts of sums.
struct ResultPlaces {
  std::string rows;  // how many sums: i below `rows`, j below `columns`
  std::string columns;
  std::string row;  // within the tile, from i and j
  std::string column;
  std::string sum;
};
std::string result_text(const Product& product, const Tile& tile, const Epilogue& epilogue,
                        const ResultPlaces& places);
// The same for the lanes of mma.m16n8k16, which hold two neighbors in each of two rows, 8 rows apart. A warp moves
// bands of 16 rows through shared memory, so that its lanes load and store neighbors in memory.
struct Bands {
  std::string count;
  std::int64_t columns = 64;
  std::string row;     // of the first, within the tile, from the band i
  std::string column;  // likewise
  std::string sums;    // the four of 8 columns, from i and j
};
std::string band_text(const Product& product, const Tile& tile, const Epilogue& epilogue, const Bands& bands);

// A loop over the depth that loads a tile into registers while it multiplies another. It uses the values
// check (empty, or check_text() if terms may be left out), load, multiply, store and depth.
std::string_view loop_text();
std::string_view check_text();

std::string tile_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue);

// "f16" or "bf16".
std::string half_name(const Product& product);

// Instructions that a warp runs together: mma.sync of CUDA, MFMA of AMD's CDNA, WMMA of AMD's RDNA3.
enum class Unit : std::uint8_t { kNone, kMma, kMfma, kWmma };
// kNone: the target has no instructions for these types, or no known ones.
Unit matrix_unit(const Product& product, const Target& target);
// The functions that the kernels call, and a kernel. Precondition: the unit is not kNone.
std::string matrix_unit_functions(Unit unit);
std::string_view amd_functions(Unit unit);  // the part for MFMA or WMMA
std::string matrix_unit_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue, Unit unit);

// Products by wgmma, for which groups of 4 warps work together; the unit is kMma. Its tiles are 64 deep, and have 128
// threads for each 64 rows. The kernel calls both functions, besides those of the unit.
bool can_use_wgmma(const Product& product, const Target& target);
std::string_view wgmma_functions();
std::string wgmma_instruction(const Product& product, const Tile& tile);
std::uint32_t wgmma_shared_bytes(const Tile& tile);
std::string wgmma_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue);

// Adds the parts of each sum in order.
std::string fold_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue);
inline constexpr std::int64_t kFoldThreads = 256;

}  // namespace yoke::codegen::matmul
