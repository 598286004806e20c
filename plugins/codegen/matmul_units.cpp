// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_units.cpp: products of 16-bit floats with sums in f32 on matrix units:
// the tensor cores of CUDA, the matrix cores of AMD.
#include <yoke/program/program.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "matmul.h"

namespace yoke::codegen::matmul {

using program::Type;

namespace {

// Shared tiles have rows of 16-byte chunks, along the depth or along the rows. A chunk's place within its row
// depends on the row's number, so that the 8 chunks of a matrix that ldmatrix loads lie in different banks.
struct Layout {
  bool is_along_depth = false;
  std::int64_t row_chunks = 4;

  std::string chunk(const std::string& line, const std::string& chunk) const {
    const std::string swizzle = row_chunks >= 8   ? "(" + line + ") % 8"
                                : row_chunks == 4 ? "(" + line + ") / 2 % 4"
                                                  : "(" + line + ") / 4 % 2";
    return "(" + line + ") * " + std::to_string(row_chunks) + " + ((" + chunk + ") ^ (" + swizzle + "))";
  }
  std::string place() const {
    return is_along_depth ? "(" + chunk("row", "depth / 8") + ") * 8 + depth % 8"
                          : "(" + chunk("depth", "row / 8") + ") * 8 + row % 8";
  }
};

Layout layout_of(const Product& product, const Tile& tile, bool is_a) {
  const bool along = is_along_depth(product, is_a);
  return {along, (along ? tile.depth : is_a ? tile.rows : tile.columns) / 8};
}

// How the lanes of a warp hold 16 x 16 parts: of A and B along the depth, and of the sums. The texts use the
// numbers i and j of a sum within its lane.
struct Lanes {
  std::int64_t count = 32;
  std::int64_t words = 4;        // of the lane's part of A, or of two neighboring parts of B
  std::string_view rows;         // of the lane's sums
  std::string_view columns;      // likewise
  std::string_view row;          // of the sum, within the tile
  std::string_view column;       // likewise
  std::string_view sum;          // where it is
  std::string_view sums;         // the declaration of all
  std::string_view first_depth;  // of the lane's elements of A and B, which are neighbors; not for mma.sync
  std::string_view width;        // how many products of units lie beside each other
  std::string_view product;      // of two units
  bool copies_async = false;     // from global to shared memory
};

// PTX ISA, "Matrix Fragments for mma.m16n8k16"; ldmatrix loads the lanes' parts.
constexpr Lanes kMmaLanes = {
    .rows = "$tm$ * 2",
    .columns = "$tn$ * 4",
    .row = "warp_row + i / 2 * 16 + i % 2 * 8 + lane / 4",
    .column = "warp_column + j / 2 * 8 + lane % 4 * 2 + j % 2",
    .sum = "sums[i / 2][j / 2][i % 2 * 2 + j % 2]",
    .sums = "float sums[$tm$][$tn$ * 2][4]",
    .first_depth = "",
    .width = "$tn$ * 2",
    .product = "yk_multiply_$type$(sums[i][j], x[i], y[j / 2] + j % 2 * 2)",
    .copies_async = true,
};

// v_mfma_f32_16x16x16_f16 and _bf16_1k, as AMD's amd_matrix_instruction_calculator prints them
// (--detail-instruction, for cdna1, cdna2 and cdna3): A[i][k] is element k % 4 of lane i + 16 * (k / 4), B[k][j]
// likewise with j, and D[i][j] is element i % 4 of lane j + 16 * (i / 4). Instructions of 32 x 32 x 8 do the same
// work per cycle and do not fit small tiles.
constexpr Lanes kMfmaLanes = {
    .count = 64,
    .words = 2,
    .rows = "$tm$ * 4",
    .columns = "$tn$",
    .row = "warp_row + i / 4 * 16 + lane / 16 * 4 + i % 4",
    .column = "warp_column + j * 16 + lane % 16",
    .sum = "sums[i / 4][j][i % 4]",
    .sums = "yk_sums sums[$tm$][$tn$]",
    .first_depth = "lane / 16 * 4",
    .width = "$tn$",
    .product = "sums[i][j] = yk_multiply_$type$(x[i], y[j], sums[i][j])",
};

// v_wmma_f32_16x16x16_f16 and _bf16 for warps of 32 lanes, as the same tool prints them for rdna3. Lanes n and
// n + 16 both hold row n of A and column n of B; D[i][j] is element i / 2 of lane j + 16 * (i % 2).
constexpr Lanes kWmmaLanes = {
    .count = 32,
    .words = 8,
    .rows = "$tm$ * 8",
    .columns = "$tn$",
    .row = "warp_row + i / 8 * 16 + i % 8 * 2 + lane / 16",
    .column = "warp_column + j * 16 + lane % 16",
    .sum = "sums[i / 8][j][i % 8]",
    .sums = "yk_sums sums[$tm$][$tn$]",
    .first_depth = "0",
    .width = "$tn$",
    .product = "sums[i][j] = yk_multiply_$type$(x[i], y[j], sums[i][j])",
};

const Lanes& lanes_of(Unit unit) {
  return unit == Unit::kMma ? kMmaLanes : unit == Unit::kMfma ? kMfmaLanes : kWmmaLanes;
}

// What the lane loads for a 16 x 16 part of the tile at `start` and `depth`: four matrices of 8 x 8.
std::string ldmatrix_text(const Layout& layout, bool is_a, const std::string& start) {
  // A: matrices step along the rows first; B: along the depth first.
  const std::string fast = "lane / 8 % 2 * 8";
  const std::string slow = "lane / 16 * 8";
  const std::string row = start + " + " + (is_a ? fast : slow);
  const std::string depth = "depth + " + (is_a ? slow : fast);
  const std::string chunk = layout.is_along_depth ? layout.chunk(row + " + lane % 8", "(" + depth + ") / 8")
                                                  : layout.chunk(depth + " + lane % 8", "(" + row + ") / 8");
  return std::string(layout.is_along_depth ? "yk_load_matrices(" : "yk_load_transposed(") +
         (is_a ? "x[i]" : "y[j]") + ", (const yk_16_bytes*)" + (is_a ? "a" : "b") + "_tile + (stage * $" +
         (is_a ? "a" : "b") + "_stage$ / 8 + " + chunk + "));\n";
}

// The same with ordinary loads: of 8 or 16 bytes along the depth, or of single elements.
std::string fragment_text(const Lanes& lanes, const Layout& layout, bool is_a, const std::string& start) {
  const std::int64_t step = !layout.is_along_depth ? 1 : lanes.words == 2 ? 4 : 8;
  const std::string tile = is_a ? "a_tile" : "b_tile";
  const std::string at = tile + " + (stage * $" + (is_a ? "a" : "b") + "_stage$ + " + layout.place() + ")";
  const std::string part = is_a ? "x[i]" : "y[j]";
  const std::string bytes = "yk_" + std::to_string(step * 2) + "_bytes";
  return fill_in(R"({
        const int row = $start$ + lane % 16, unit = depth + $first$;
#pragma unroll
        for (int e = 0; e < $elements$; e += $step$) {
          const int depth = unit + e;
          $move$;
        }
      }
)",
                 {{"start", start},
                  {"first", std::string(lanes.first_depth)},
                  {"elements", std::to_string(lanes.words * 2)},
                  {"step", std::to_string(step)},
                  {"move", step == 1 ? "const unsigned value = *(" + at + ");\n          " + part +
                                           "[e / 2] = e % 2 == 0 ? value : " + part + "[e / 2] | value << 16"
                                     : "*(" + bytes + "*)(" + part + " + e / 2) = *(const " + bytes + "*)(" +
                                           at + ")"}});
}

constexpr std::string_view kUnitMultiply = R"(#pragma unroll
    for (int depth = 0; depth < $depth$; depth += 16) {
      unsigned x[$tm$][$words$], y[$tn$][$words$];
#pragma unroll
      for (int i = 0; i < $tm$; ++i) $load_a$#pragma unroll
      for (int j = 0; j < $tn$; ++j) $load_b$#pragma unroll
      for (int i = 0; i < $tm$; ++i)
#pragma unroll
        for (int j = 0; j < $width$; ++j) $product$;
    }
)";

// One product after another, from the shared tiles; the sums are where kUnitMultiply has them.
constexpr std::string_view kUnitMultiplyCarefully = R"(#pragma unroll 1
    for (int depth = 0; depth < $depth$; ++depth) {
      unsigned short x[$lane_rows$], y[$lane_columns$];
#pragma unroll
      for (int i = 0; i < $lane_rows$; ++i) {
        const int row = $row$;
        x[i] = a_tile[stage * $a_stage$ + $a_place$];
      }
#pragma unroll
      for (int j = 0; j < $lane_columns$; ++j) {
        const int row = $column$;
        y[j] = b_tile[stage * $b_stage$ + $b_place$];
      }
#pragma unroll
      for (int i = 0; i < $lane_rows$; ++i)
#pragma unroll
        for (int j = 0; j < $lane_columns$; ++j)
          if ($exists$) $sum$ = yk_multiply_add(yk_from_$type$(x[i]), yk_from_$type$(y[j]), $sum$);
    }
)";

// The next tiles arrive while this one is multiplied; the first rounds have no tile to multiply yet. See
// matmul_tile.cpp for values that are not finite.
constexpr std::string_view kUnitLoop = R"(
  int stage = 1 % $stages$, resumed = first;
  for (int k0 = first - ($stages$ - 1) * $depth$; k0 < last; k0 += $depth$) {
    YK_WAIT_FOR_COPIES($stages$ - 2);
    YK_SYNC();
$check$    const int next_stage = (stage + $stages$ - 1) % $stages$, k1 = k0 + ($stages$ - 1) * $depth$;
    if (k1 < last) {
$load$    }
    yk_commit_copies();
    if (k0 >= resumed) {
$multiply$    }
    stage = (stage + 1) % $stages$;
  }
)";

constexpr std::string_view kUnitCheck = R"(    if (!is_careful && k0 >= resumed && special[stage]) {
      is_careful = true;
      resumed = k0;
      k0 -= ($stages$ - 1) * $depth$;
      stage = (stage + 1) % $stages$;
    }
)";

std::int64_t stage_size(const Tile& tile, bool is_a) {
  return (is_a ? tile.rows : tile.columns) * tile.depth;
}

Storage storage_of(const Product& product, const Tile& tile, const Lanes& lanes, bool is_a) {
  const std::string stage = lanes.copies_async ? "next_stage" : "stage";
  return {.type = "unsigned short",
          .place = stage + " * " + std::to_string(stage_size(tile, is_a)) + " + " +
                   layout_of(product, tile, is_a).place(),
          .stage = stage,
          .mark = "0x7fe5",
          .special = "yk_is_special_" + half_name(product),
          .is_converted = false,
          .in_registers = !lanes.copies_async,
          .run = has_runs_of_8(product, is_a) ? 8 : 1};
}

// What depends on the unit and the tile alone.
Values values_of(const Lanes& lanes, const Tile& tile) {
  return {{"depth", std::to_string(tile.depth)},
          {"tm", std::to_string(tile.thread_rows / 16)},
          {"tn", std::to_string(tile.thread_columns / 16)},
          {"lanes", std::to_string(lanes.count)},
          {"words", std::to_string(lanes.words)},
          {"lane_rows", std::string(lanes.rows)},
          {"lane_columns", std::string(lanes.columns)},
          {"width", std::string(lanes.width)},
          {"product", std::string(lanes.product)},
          {"sums", std::string(lanes.sums)},
          {"warp_rows", std::to_string(tile.rows / tile.thread_rows)},
          {"warp_height", std::to_string(tile.thread_rows)},
          {"warp_width", std::to_string(tile.thread_columns)},
          {"a_stage", std::to_string(stage_size(tile, true))},
          {"b_stage", std::to_string(stage_size(tile, false))},
          {"row", std::string(lanes.row)},
          {"column", std::string(lanes.column)},
          {"sum", std::string(lanes.sum)}};
}

bool is_one_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name.substr(0, name.find(':'))) != names.end();
}

}  // namespace

std::string half_name(const Product& product) {
  return product.a.type == Type::kF16 ? "f16" : "bf16";
}

Unit matrix_unit(const Product& product, const Target& target) {
  const Type type = product.a.type;
  if (type != product.b.type || (type != Type::kF16 && type != Type::kBF16) || product.sum != Type::kF32 ||
      product.a.fill != 0 || product.b.fill != 0) {
    return Unit::kNone;
  }
  if (target.dialect == Dialect::kCuda) {
    return target.capability >= 80 ? Unit::kMma : Unit::kNone;
  }
  if (target.warp_size == 64) {
    return is_one_of(target.architecture, {"gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
               ? Unit::kMfma
               : Unit::kNone;
  }
  return is_one_of(target.architecture,
                   {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152"})
             ? Unit::kWmma
             : Unit::kNone;
}

std::string matrix_unit_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue,
                               Unit unit) {
  const Lanes& lanes = lanes_of(unit);
  const bool may_skip = product.a.is_skipped || product.b.is_skipped;
  const bool has_runs = has_runs_of_8(product, true) && has_runs_of_8(product, false);
  const std::int64_t stages = lanes.copies_async && has_runs ? 3 : 2;
  const Layout a_layout = layout_of(product, tile, true);
  const Layout b_layout = layout_of(product, tile, false);
  const Loader a(product, tile, true, storage_of(product, tile, lanes, true));
  const Loader b(product, tile, false, storage_of(product, tile, lanes, false));
  const auto fragment = [&](const Layout& layout, bool is_a, const std::string& start) {
    return unit == Unit::kMma ? ldmatrix_text(layout, is_a, start)
                              : fragment_text(lanes, layout, is_a, start);
  };
  Values values = values_of(lanes, tile);
  const Values own = {
      {"type", half_name(product)},
      {"stages", std::to_string(stages)},
      {"a_place", a_layout.place()},
      {"b_place", b_layout.place()},
      {"load_a", fragment(a_layout, true, "warp_row + i * 16")},
      {"load_b", fragment(b_layout, false, "warp_column + j * 16")},
      {"load", a.load("k1") + b.load("k1")},
      {"exists", exists_text(product, "x[i]", "y[j]")},
      {"store", lanes.copies_async ? "" : a.store() + b.store()},
      {"check", !may_skip ? "" : std::string(lanes.copies_async ? kUnitCheck : check_text())},
      {"multiply", may_skip ? "    if (is_careful) {\n" + std::string(kUnitMultiplyCarefully) +
                                  "    } else {\n" + std::string(kUnitMultiply) + "    }\n"
                            : std::string(kUnitMultiply)}};
  values.insert(values.end(), own.begin(), own.end());
  std::string text = parameters(product, epilogue, pointers_text(product, tile)) + block_text(product, tile) +
                     R"(
  YK_SHARED yk_16_bytes shared[$stages$ * ($a_stage$ + $b_stage$) / 8];
  unsigned short* a_tile = (unsigned short*)shared;
  unsigned short* b_tile = a_tile + $stages$ * $a_stage$;
  const int lane = tid % $lanes$;
  const int warp_row = tid / $lanes$ % $warp_rows$ * $warp_height$, warp_column = tid / $lanes$ / $warp_rows$ * $warp_width$;
)" + a.setup() + b.setup() +
                     "  $sums$ = {};\n";
  text.append(special_text(product, std::to_string(stages)))
      .append(lanes.copies_async ? kUnitLoop : loop_text());
  text += unit == Unit::kMma
              ? band_text(product, tile, epilogue,
                          {"$tm$", tile.thread_columns, "warp_row + i * 16", "warp_column", "sums[i][j]"})
              : result_text(product, tile, epilogue,
                            {"$lane_rows$", "$lane_columns$", std::string(lanes.row),
                             std::string(lanes.column), std::string(lanes.sum)});
  return fill_in(text + "}\n", values);
}

}  // namespace yoke::codegen::matmul
