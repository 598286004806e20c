// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_tile.cpp: products in tiles, on the ordinary arithmetic units.
#include <yoke/program/program.h>

#include <cstdint>
#include <string>

#include "matmul.h"

namespace yoke::codegen::matmul {

using program::Type;

std::string_view helper_functions() {
  // A term that is left out is marked by a NaN that no factor has.
  return R"(
#define YK_MARK_F32 YK_BITS(float, 0x7fe5a5a5u)
#define YK_MARK_F64 YK_BITS(double, 0x7ffca5a5a5a5a5a5ull)
YK_DEVICE bool yk_is_mark(float x) { return YK_BITS(unsigned, x) == 0x7fe5a5a5u; }
YK_DEVICE bool yk_is_mark(double x) { return YK_BITS(unsigned long long, x) == 0x7ffca5a5a5a5a5a5ull; }
YK_DEVICE float yk_unmarked(float x) { return yk_is_mark(x) ? YK_NAN_F32 : x; }
YK_DEVICE double yk_unmarked(double x) { return yk_is_mark(x) ? YK_NAN_F64 : x; }
YK_DEVICE bool yk_is_special(float x) { return !(x - x == 0); }
YK_DEVICE bool yk_is_special(double x) { return !(x - x == 0); }
#ifdef YOKE_FAKE_GPU
YK_DEVICE float yk_multiply_add(float x, float y, float z) { return x * y + z; }
YK_DEVICE double yk_multiply_add(double x, double y, double z) { return x * y + z; }
#else
YK_DEVICE float yk_multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
YK_DEVICE double yk_multiply_add(double x, double y, double z) { return fma(x, y, z); }
#endif
)";
}

std::string parameters(const Product& product, const std::string& pointers) {
  std::string text = "(" + pointers;
  text += product.uses(false) ? ", const long long* symbols" : "";
  text += product.uses(true) ? ", long long variable" : "";
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

std::string result_text(const Product& product, const Tile& tile, const ResultPlaces& places) {
  const std::string m = std::to_string(extent_of(product.m));
  const std::string n = std::to_string(extent_of(product.n));
  Values values = {{"m", m},
                   {"n", n},
                   {"int", product.integer()},
                   {"rows", places.rows},
                   {"columns", places.columns},
                   {"row", places.row},
                   {"column", places.column},
                   {"sum", places.sum}};
  std::string text;
  if (tile.parts > 1) {
    const std::int64_t batch = extent_of(product.batch);
    text = R"(  $type$* results = p2 + (part * $batch$ll + batch) * ($m$ll * $n$);
#pragma unroll
  for (int i = 0; i < $rows$; ++i) {
#pragma unroll
    for (int j = 0; j < $columns$; ++j) {
      const int row = m0 + $row$, column = n0 + $column$;
      if (row < $m$ && column < $n$) results[row * $n$ll + column] = $sum$;
    }
  }
)";
    values.emplace_back("type", element_name(product.sum));
    values.emplace_back("batch", std::to_string(batch));
  } else {
    text = base_text(product, kTarget, "t_base") + R"(  $type$* results = p2 + t_base;
  const $int$ z_at = $z_steps$;
#pragma unroll
  for (int i = 0; i < $rows$; ++i) {
    const int row = m0 + $row$;
    $r_split$
    const $int$ row_at = z_at + $r_steps$;
#pragma unroll
    for (int j = 0; j < $columns$; ++j) {
      const int column = n0 + $column$;
      $c_split$
      const $int$ at = row_at + $c_steps$;
      if (row < $m$ && column < $n$) { $assign$ }
    }
  }
)";
    values.emplace_back("type", element_name(product.target_type));
    values.emplace_back("z_steps", steps_text(product, product.batch, kTarget, "z"));
    values.emplace_back("r_split", split_text(product.m, "row", "r"));
    values.emplace_back("r_steps", steps_text(product, product.m, kTarget, "r"));
    values.emplace_back("c_split", split_text(product.n, "column", "c"));
    values.emplace_back("c_steps", steps_text(product, product.n, kTarget, "c"));
    values.emplace_back("assign", assign_text(product, "results[at]", "$sum$"));
  }
  return fill_in(text, values);
}

std::string pointers_text(const Product& product, const Tile& tile) {
  return "const " + element_name(product.a.type) + "* p0, const " + element_name(product.b.type) + "* p1, " +
         element_name(tile.parts > 1 ? product.sum : product.target_type) + "* p2";
}

namespace {

// Sums of one thread: rows and columns in runs of 16 bytes, so that shared memory is read 16 bytes at a time.
std::string multiply_text(bool is_careful) {
  return std::string(R"(#pragma unroll
    for (int depth = 0; depth < $depth$; ++depth) {
      $s$ x[$tm$], y[$tn$];
#pragma unroll
      for (int i = 0; i < $tm$; i += $w$)
        *(yk_16_bytes*)(x + i) = *(const yk_16_bytes*)(a_tile + stage * $a_stage$ + depth * $a_pitch$ + (i / $w$ * $ty$ + ty) * $w$);
#pragma unroll
      for (int j = 0; j < $tn$; j += $w$)
        *(yk_16_bytes*)(y + j) = *(const yk_16_bytes*)(b_tile + stage * $b_stage$ + depth * $b_pitch$ + (j / $w$ * $tx$ + tx) * $w$);
#pragma unroll
      for (int i = 0; i < $tm$; ++i)
#pragma unroll
        for (int j = 0; j < $tn$; ++j)
)") + (is_careful ? "          if (!yk_is_mark(x[i]) && !yk_is_mark(y[j])) " : "          ") +
         "sums[i][j] = yk_multiply_add(x[i], y[j], sums[i][j]);\n    }\n";
}

}  // namespace

std::string tile_kernel(const Product& product, const Tile& tile) {
  const bool is_double = product.sum == Type::kF64;
  const std::int64_t width = is_double ? 2 : 4;
  const std::int64_t a_pitch =
      tile.rows + width;  // the padding spreads stores along the depth over the banks
  const std::int64_t b_pitch = tile.columns + width;
  const auto storage = [&](std::int64_t pitch) {
    return Storage{
        element_name(product.sum),
        "stage * " + std::to_string(pitch * tile.depth) + " + depth * " + std::to_string(pitch) + " + row",
        "stage", is_double ? "YK_MARK_F64" : "YK_MARK_F32", "yk_is_special"};
  };
  const Loader a(product, tile, true, storage(a_pitch));
  const Loader b(product, tile, false, storage(b_pitch));
  const std::string next = "k0 + " + std::to_string(tile.depth);
  const bool may_skip = product.a.is_skipped || product.b.is_skipped;
  const Values values = {{"s", element_name(product.sum)},
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
                         {"load_first", a.load("first", false) + b.load("first", false)},
                         {"load", a.load(next, false) + b.load(next, false)},
                         {"load_careful", a.load("k0", true) + b.load("k0", true)},
                         {"store", a.store() + b.store()},
                         {"multiply", multiply_text(false)},
                         {"multiply_careful", multiply_text(true)}};
  std::string text =
      parameters(product, pointers_text(product, tile)) + block_text(product, tile) + R"(
  YK_SHARED yk_16_bytes a_shared[$a_units$];
  YK_SHARED yk_16_bytes b_shared[$b_units$];
  $s$* a_tile = ($s$*)a_shared;
  $s$* b_tile = ($s$*)b_shared;
  const int tx = tid % $tx$, ty = tid / $tx$;
)" + a.setup() +
      b.setup() + R"(  $s$ sums[$tm$][$tn$] = {};
)" +
      (may_skip ? R"(  YK_SHARED int special[2];  // whether the stage has a value that is not finite
  if (tid < 2) special[tid] = 0;
  YK_SYNC();
)"
                : "") +
      R"(  int stage = 0, k0 = first;
  {
$load_first$$store$  }
  YK_SYNC();
  for (; k0 < last; k0 += $depth$) {
)" + (may_skip ? "    if (special[stage]) break;\n" : "") +
      R"(    const bool has_more = k0 + $depth$ < last;
    if (has_more) {
$load$    }
$multiply$    stage ^= 1;
    if (has_more) {
$store$    }
    YK_SYNC();
  }
)" +
      (may_skip
           ? R"(  // 0 times infinity is NaN: once a factor is not finite, terms out of range are skipped one by one.
  for (; k0 < last; k0 += $depth$) {
$load_careful$    YK_SYNC();
$store$    YK_SYNC();
$multiply_careful$  }
)"
           : "");
  text += result_text(product, tile,
                      {"$tm$", "$tn$", "(i / $w$ * $ty$ + ty) * $w$ + i % $w$",
                       "(j / $w$ * $tx$ + tx) * $w$ + j % $w$", "sums[i][j]"});
  return fill_in(text + "}\n", values);
}

std::string fold_kernel(const Product& product, const Tile& tile) {
  const std::int64_t m = extent_of(product.m);
  const std::int64_t n = extent_of(product.n);
  const std::int64_t total = extent_of(product.batch) * m * n;
  return parameters(product, "const " + element_name(product.sum) + "* p0, " +
                                 element_name(product.target_type) + "* p1") +
         fill_in(base_text(product, kTarget, "t_base") + R"(
  const int index = blockIdx.x * $threads$ + threadIdx.x;
  if (index >= $total$) return;
  $s$ sum = 0;
  for (int part = 0; part < $parts$; ++part) sum += p0[part * $total$ll + index];
  const int column = index % $n$, row = index / $n$ % $m$;
  [[maybe_unused]] const int batch = index / ($n$ * $m$);
  $split$
  $type$* results = p1 + t_base;
  const $int$ at = $at$;
  $assign$
}
)",
                 {{"threads", std::to_string(kFoldThreads)},
                  {"total", std::to_string(total)},
                  {"parts", std::to_string(tile.parts)},
                  {"m", std::to_string(m)},
                  {"n", std::to_string(n)},
                  {"s", element_name(product.sum)},
                  {"type", element_name(product.target_type)},
                  {"int", product.integer()},
                  {"split", split_text(product.batch, "batch", "z") + split_text(product.m, "row", "r") +
                                split_text(product.n, "column", "c")},
                  {"at", steps_text(product, product.batch, kTarget, "z") + " + " +
                             steps_text(product, product.m, kTarget, "r") + " + " +
                             steps_text(product, product.n, kTarget, "c")},
                  {"assign", assign_text(product, "results[at]", "sum")}});
}

}  // namespace yoke::codegen::matmul
