// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_units.cpp: products of 16-bit floats with sums in f32 on the tensor cores of CUDA.
#include <yoke/program/program.h>

#include <cstdint>
#include <string>

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

// What the lane loads for a 16 x 16 part of the tile at `start` and `depth`: four matrices of 8 x 8.
std::string fragment_text(const Layout& layout, bool is_a, const std::string& start) {
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

constexpr std::string_view kUnitMultiply = R"(#pragma unroll
    for (int depth = 0; depth < $depth$; depth += 16) {
      unsigned x[$tm$][4], y[$tn$][4];
#pragma unroll
      for (int i = 0; i < $tm$; ++i) $load_a$#pragma unroll
      for (int j = 0; j < $tn$; ++j) $load_b$#pragma unroll
      for (int i = 0; i < $tm$; ++i)
#pragma unroll
        for (int j = 0; j < $tn$ * 2; ++j) yk_multiply_$type$(sums[i][j], x[i], y[j / 2] + j % 2 * 2);
    }
)";

// One product after another, from the shared tiles; the sums are where kUnitMultiply has them.
constexpr std::string_view kUnitMultiplyCarefully = R"(#pragma unroll 1
    for (int depth = 0; depth < $depth$; ++depth) {
      unsigned short x[$tm$ * 2], y[$tn$ * 4];
#pragma unroll
      for (int i = 0; i < $tm$ * 2; ++i) {
        const int row = $row$;
        x[i] = a_tile[stage * $a_stage$ + $a_place$];
      }
#pragma unroll
      for (int j = 0; j < $tn$ * 4; ++j) {
        const int row = $column$;
        y[j] = b_tile[stage * $b_stage$ + $b_place$];
      }
#pragma unroll
      for (int i = 0; i < $tm$ * 2; ++i)
#pragma unroll
        for (int j = 0; j < $tn$ * 4; ++j)
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

}  // namespace

bool has_matrix_units(const Product& product, const Target& target) {
  const Type type = product.a.type;
  return target.dialect == Dialect::kCuda && target.capability >= 80 && type == product.b.type &&
         (type == Type::kF16 || type == Type::kBF16) && product.sum == Type::kF32 && product.a.fill == 0 &&
         product.b.fill == 0;
}

std::string matrix_unit_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue) {
  const std::string type = product.a.type == Type::kF16 ? "f16" : "bf16";
  const bool may_skip = product.a.is_skipped || product.b.is_skipped;
  const bool has_runs = has_runs_of_8(product, true) && has_runs_of_8(product, false);
  const std::int64_t stages = has_runs ? 3 : 2;
  const auto stage_size = [&](bool is_a) { return (is_a ? tile.rows : tile.columns) * tile.depth; };
  const Layout a_layout = layout_of(product, tile, true);
  const Layout b_layout = layout_of(product, tile, false);
  const auto storage = [&](const Layout& layout, bool is_a) {
    return Storage{.type = "unsigned short",
                   .place = "next_stage * " + std::to_string(stage_size(is_a)) + " + " + layout.place(),
                   .stage = "next_stage",
                   .mark = "0x7fe5",
                   .special = "yk_is_special_" + type,
                   .is_converted = false,
                   .in_registers = false,
                   .run = has_runs_of_8(product, is_a) ? 8 : 1};
  };
  const Loader a(product, tile, true, storage(a_layout, true));
  const Loader b(product, tile, false, storage(b_layout, false));
  const std::string row = "warp_row + i / 2 * 16 + i % 2 * 8 + lane / 4";
  const std::string column = "warp_column + j / 2 * 8 + lane % 4 * 2 + j % 2";
  const std::string sum = "sums[i / 2][j / 2][i % 2 * 2 + j % 2]";
  const Values values = {
      {"type", type},
      {"stages", std::to_string(stages)},
      {"depth", std::to_string(tile.depth)},
      {"tm", std::to_string(tile.thread_rows / 16)},
      {"tn", std::to_string(tile.thread_columns / 16)},
      {"warp_rows", std::to_string(tile.rows / tile.thread_rows)},
      {"warp_height", std::to_string(tile.thread_rows)},
      {"warp_width", std::to_string(tile.thread_columns)},
      {"a_stage", std::to_string(stage_size(true))},
      {"b_stage", std::to_string(stage_size(false))},
      {"a_place", a_layout.place()},
      {"b_place", b_layout.place()},
      {"row", row},
      {"column", column},
      {"sum", sum},
      {"load_a", fragment_text(a_layout, true, "warp_row + i * 16")},
      {"load_b", fragment_text(b_layout, false, "warp_column + j * 16")},
      {"load", a.load("k1") + b.load("k1")},
      {"exists", exists_text(product, "x[i]", "y[j]")},
      {"check", may_skip ? std::string(kUnitCheck) : ""},
      {"multiply", may_skip ? "    if (is_careful) {\n" + std::string(kUnitMultiplyCarefully) +
                                  "    } else {\n" + std::string(kUnitMultiply) + "    }\n"
                            : std::string(kUnitMultiply)}};
  std::string text = parameters(product, epilogue, pointers_text(product, tile)) + block_text(product, tile) +
                     R"(
  YK_SHARED yk_16_bytes a_shared[$stages$ * $a_stage$ / 8];
  YK_SHARED yk_16_bytes b_shared[$stages$ * $b_stage$ / 8];
  unsigned short* a_tile = (unsigned short*)a_shared;
  unsigned short* b_tile = (unsigned short*)b_shared;
  const int lane = tid % 32;
  const int warp_row = tid / 32 % $warp_rows$ * $warp_height$, warp_column = tid / 32 / $warp_rows$ * $warp_width$;
)" + a.setup() + b.setup() +
                     "  float sums[$tm$][$tn$ * 2][4] = {};\n";
  text.append(special_text(product, std::to_string(stages))).append(kUnitLoop);
  text += result_text(product, tile, epilogue, {"$tm$ * 2", "$tn$ * 4", row, column, sum});
  return fill_in(text + "}\n", values);
}

}  // namespace yoke::codegen::matmul
