// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_tile.cpp: products in tiles, on the ordinary arithmetic units.
#include <yoke/program/program.h>

#include <cstdint>
#include <string>

#include "matmul.h"

namespace yoke::codegen::matmul {

using program::Type;

std::string parameters(const Product& product, const Epilogue& epilogue, const std::string& pointers) {
  std::string text = "(" + pointers + epilogue.parameters;
  text += product.uses(false) || epilogue.reads_symbols ? ", const long long* symbols" : "";
  text += product.uses(true) || epilogue.reads_variable ? ", long long variable" : "";
  return text + ") {\n";
}

std::string block_text(const Product& product, const Tile& tile) {
  const auto tiles = [](const std::vector<Axis>& axes, std::int64_t extent) {
    return (extent_of(axes) + extent - 1) / extent;
  };
  // Blocks that run at the same time share rows and columns: groups of 8 rows of tiles.
  return fill_in(R"(  const int tid = threadIdx.x;
  const int tile_number = blockIdx.x % $tiles$u, block_rest = blockIdx.x / $tiles$u;
  const int part = block_rest % $parts$;
  [[maybe_unused]] const int batch = block_rest / $parts$;
  const int group = tile_number / ($columns$ * 8);
  const int group_rows = $rows$ - group * 8 < 8 ? $rows$ - group * 8 : 8;
  const int within = tile_number - group * ($columns$ * 8);
  const int m0 = (group * 8 + within % group_rows) * $m_tile$, n0 = within / group_rows * $n_tile$;
  const int first = part * $part_depth$;
  const int last = $k_extent$ - first < $part_depth$ ? $k_extent$ : first + $part_depth$;
  $split$
)",
                 {{"tiles", std::to_string(tiles(product.m, tile.rows) * tiles(product.n, tile.columns))},
                  {"columns", std::to_string(tiles(product.n, tile.columns))},
                  {"rows", std::to_string(tiles(product.m, tile.rows))},
                  {"parts", std::to_string(tile.parts)},
                  {"m_tile", std::to_string(tile.rows)},
                  {"n_tile", std::to_string(tile.columns)},
                  {"part_depth", std::to_string(tile.part_depth)},
                  {"k_extent", std::to_string(extent_of(product.k))},
                  {"split", split_text(product.batch, "batch", "z")}});
}

namespace {

// The condition that a result exists: empty where tiles divide the extents.
std::string in_range_text(const Product& product, const Tile& tile) {
  std::string text = extent_of(product.m) % tile.rows == 0 ? "" : "row < $m$";
  if (extent_of(product.n) % tile.columns != 0) {
    text += text.empty() ? "column < $n$" : " && column < $n$";
  }
  return text.empty() ? text : "if (" + text + ") ";
}

Values result_values(const Product& product, const Tile& tile, const Epilogue& epilogue) {
  return {{"m", std::to_string(extent_of(product.m))},
          {"n", std::to_string(extent_of(product.n))},
          {"batch", std::to_string(extent_of(product.batch))},
          {"in_range", in_range_text(product, tile)},
          {"type", element_name(product.sum)},
          {"results",
           tile.parts > 1 ? "  $type$* results = p2 + (part * $batch$ll + batch) * ($m$ll * $n$);\n" : ""},
          {"store", tile.parts > 1 ? "results[row * $n$ll + column] = sum;\n" : epilogue.body}};
}

}  // namespace

std::string result_text(const Product& product, const Tile& tile, const Epilogue& epilogue,
                        const ResultPlaces& places) {
  Values values = result_values(product, tile, epilogue);
  values.insert(values.end(), {{"rows", places.rows},
                               {"columns", places.columns},
                               {"row", places.row},
                               {"column", places.column},
                               {"sum", places.sum}});
  return fill_in(R"($results$#pragma unroll
  for (int i = 0; i < $rows$; ++i) {
#pragma unroll
    for (int j = 0; j < $columns$; ++j) {
      const int row = m0 + $row$, column = n0 + $column$;
      $in_range${
        const $type$ sum = $sum$;
        $store$      }
    }
  }
)",
                 values);
}

std::string band_text(const Product& product, const Tile& tile, const Epilogue& epilogue,
                      const Bands& bands) {
  const bool is_wide = bands.columns >= 32;
  // The padding spreads the lanes' pairs over the banks.
  Values values = result_values(product, tile, epilogue);
  values.insert(values.end(),
                {{"count", bands.count},
                 {"columns", std::to_string(bands.columns)},
                 {"lane_column", is_wide ? "e % ($columns$ / 32) * 32 + lane" : "lane % $columns$"},
                 {"lane_row", is_wide ? "e / ($columns$ / 32)" : "e * (32 / $columns$) + lane / $columns$"},
                 {"pitch", std::to_string(bands.columns + 8)},
                 {"row", bands.row},
                 {"column", bands.column},
                 {"sums", bands.sums}});
  return fill_in(R"($results$  YK_SYNC();
  float* band = (float*)shared + tid / 32 * (16 * $pitch$);
#pragma unroll
  for (int i = 0; i < $count$; ++i) {
#pragma unroll
    for (int j = 0; j < $columns$ / 8; ++j) {
      float* to = band + lane / 4 * $pitch$ + j * 8 + lane % 4 * 2;
      *(yk_8_bytes*)to = *(const yk_8_bytes*)$sums$;
      *(yk_8_bytes*)(to + 8 * $pitch$) = *(const yk_8_bytes*)($sums$ + 2);
    }
    yk_wait_for_warp();
#pragma unroll 8
    for (int e = 0; e < $columns$ / 2; ++e) {
      const int x = $lane_column$, y = $lane_row$;
      const int row = m0 + $row$ + y, column = n0 + $column$ + x;
      $in_range${
        const float sum = band[y * $pitch$ + x];
        $store$      }
    }
    yk_wait_for_warp();
  }
)",
                 values);
}

std::string pointers_text(const Product& product, const Tile& tile) {
  return "const " + element_name(product.a.type) + "* p0, const " + element_name(product.b.type) + "* p1" +
         (tile.parts > 1 ? ", " + element_name(product.sum) + "* p2" : "");
}

namespace {

// Sums of one thread: rows and columns in runs of 16 bytes, so that shared memory is read 16 bytes at a time.
constexpr std::string_view kMultiply = R"(#pragma unroll $unroll$
    for (int depth = 0; depth < $depth$; ++depth) {
      $s$ x[$tm$], y[$tn$];
      const $s$* a_line = a_tile + stage * $a_stage$ + depth * $a_pitch$;
      const $s$* b_line = b_tile + stage * $b_stage$ + depth * $b_pitch$;
#pragma unroll
      for (int i = 0; i < $tm$; i += $w$)
        *(yk_16_bytes*)(x + i) = *(const yk_16_bytes*)(a_line + (i / $w$ * $ty$ + ty) * $w$);
#pragma unroll
      for (int j = 0; j < $tn$; j += $w$)
        *(yk_16_bytes*)(y + j) = *(const yk_16_bytes*)(b_line + (j / $w$ * $tx$ + tx) * $w$);
#pragma unroll
      for (int i = 0; i < $tm$; ++i)
#pragma unroll
        for (int j = 0; j < $tn$; ++j)
          $if$sums[i][j] = yk_multiply_add(x[i], y[j], sums[i][j]);
    }
)";

constexpr std::string_view kDeclarations = R"(
  YK_SHARED yk_16_bytes a_shared[$a_units$];
  YK_SHARED yk_16_bytes b_shared[$b_units$];
  $s$* a_tile = ($s$*)a_shared;
  $s$* b_tile = ($s$*)b_shared;
  const int tx = tid % $tx$, ty = tid / $tx$;
)";

// The next tile is loaded into registers while this one is multiplied. Each round stores one tile; the first
// one has no tile to multiply. 0 times infinity is NaN: once a tile has a value that is not finite, it and
// all later ones are loaded with marks where terms are left out.
constexpr std::string_view kLoop = R"(  int stage = 0;
  for (int k0 = first - $depth$; k0 < last; k0 += $depth$) {
    bool has_tile = k0 >= first;
$check$    const int k1 = k0 + $depth$;
    const bool has_more = k1 < last;
    if (has_more) {
$load$    }
    if (has_tile) {
$multiply$    }
    stage ^= 1;
    if (has_more) {
$store$    }
    YK_SYNC();
  }
)";

constexpr std::string_view kCheck = R"(    if (has_tile && !is_careful && special[stage]) {
      is_careful = true;
      has_tile = false;
      k0 -= $depth$;
    }
)";

}  // namespace

std::string_view loop_text() {
  return kLoop;
}

std::string_view check_text() {
  return kCheck;
}

std::string special_text(const Product& product, const std::string& stages) {
  return !product.a.is_skipped && !product.b.is_skipped ? ""
                                                        : fill_in(R"(  bool is_careful = false;
  YK_SHARED int special[$stages$];  // whether the stage has a value that is not finite
  if (tid < $stages$) special[tid] = 0;
  YK_SYNC();
)",
                                                                  {{"stages", stages}});
}

std::string tile_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue) {
  const bool is_double = product.sum == Type::kF64;
  const std::int64_t width = is_double ? 2 : 4;
  // The padding spreads stores along the depth over the banks.
  const std::int64_t a_pitch = tile.rows + width;
  const std::int64_t b_pitch = tile.columns + width;
  const auto storage = [&](std::int64_t pitch) {
    const std::string line = std::to_string(pitch);
    return Storage{.type = element_name(product.sum),
                   .place = "stage * " + std::to_string(pitch * tile.depth) + " + depth * " + line + " + row",
                   .stage = "stage",
                   .mark = is_double ? "YK_MARK_F64" : "YK_MARK_F32",
                   .special = "yk_is_special"};
  };
  const Loader a(product, tile, true, storage(a_pitch));
  const Loader b(product, tile, false, storage(b_pitch));
  const bool may_skip = product.a.is_skipped || product.b.is_skipped;
  const std::string multiply = fill_in(kMultiply, {{"unroll", "8"}, {"if", ""}});
  const std::string carefully =
      fill_in(kMultiply, {{"unroll", "1"}, {"if", "if (" + exists_text(product, "x[i]", "y[j]") + ") "}});
  const Values values = {
      {"s", element_name(product.sum)},
      {"w", std::to_string(width)},
      {"tm", std::to_string(tile.thread_rows)},
      {"tn", std::to_string(tile.thread_columns)},
      {"tx", std::to_string(tile.columns / tile.thread_columns)},
      {"ty", std::to_string(tile.rows / tile.thread_rows)},
      {"depth", std::to_string(tile.depth)},
      {"a_pitch", std::to_string(a_pitch)},
      {"b_pitch", std::to_string(b_pitch)},
      {"a_stage", std::to_string(a_pitch * tile.depth)},
      {"b_stage", std::to_string(b_pitch * tile.depth)},
      {"a_units", std::to_string(2 * a_pitch * tile.depth / width)},
      {"b_units", std::to_string(2 * b_pitch * tile.depth / width)},
      {"load", a.load("k1") + b.load("k1")},
      {"store", a.store() + b.store()},
      {"check", may_skip ? std::string(kCheck) : ""},
      {"multiply", may_skip ? "    if (is_careful) {\n" + carefully + "    } else {\n" + multiply + "    }\n"
                            : multiply}};
  std::string text = parameters(product, epilogue, pointers_text(product, tile)) + block_text(product, tile);
  text.append(kDeclarations).append(a.setup()).append(b.setup());
  text.append("  $s$ sums[$tm$][$tn$] = {};\n").append(special_text(product, "2")).append(kLoop);
  text += result_text(product, tile, epilogue,
                      {"$tm$", "$tn$", "(i / $w$ * $ty$ + ty) * $w$ + i % $w$",
                       "(j / $w$ * $tx$ + tx) * $w$ + j % $w$", "sums[i][j]"});
  return fill_in(text + "}\n", values);
}

std::string fold_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue) {
  const std::int64_t m = extent_of(product.m);
  const std::int64_t n = extent_of(product.n);
  const std::int64_t total = extent_of(product.batch) * m * n;
  return parameters(product, epilogue, "const " + element_name(product.sum) + "* p0") +
         fill_in(R"(  const int index = blockIdx.x * $threads$ + threadIdx.x;
  if (index >= $total$) return;
  $s$ sum = 0;
  for (int part = 0; part < $parts$; ++part) sum += p0[part * $total$ll + index];
  const int column = index % $n$, row = index / $n$ % $m$;
  [[maybe_unused]] const int batch = index / ($n$ * $m$);
  $store$}
)",
                 {{"threads", std::to_string(kFoldThreads)},
                  {"total", std::to_string(total)},
                  {"parts", std::to_string(tile.parts)},
                  {"m", std::to_string(m)},
                  {"n", std::to_string(n)},
                  {"s", element_name(product.sum)},
                  {"store", epilogue.body}});
}

}  // namespace yoke::codegen::matmul
