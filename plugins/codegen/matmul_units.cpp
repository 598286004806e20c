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

constexpr std::string_view kMultiply = R"(#pragma unroll
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

// One product after another, from the shared tiles; the sums are where kMultiply has them.
constexpr std::string_view kMultiplyCarefully = R"(#pragma unroll 1
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

constexpr std::string_view kLoop = R"(
  int stage = 0, k0 = first;
#pragma unroll
  for (int s = 0; s < $stages$ - 1; ++s) {
    const int next_stage = s, k1 = first + s * $depth$;
    if (k1 < last) {
$load$    }
    yk_commit_copies();
  }
  for (; k0 < last; k0 += $depth$) {
    YK_WAIT_FOR_COPIES($stages$ - 2);
    YK_SYNC();
$leave$    const int next_stage = (stage + $stages$ - 1) % $stages$, k1 = k0 + ($stages$ - 1) * $depth$;
    if (k1 < last) {
$load$    }
    yk_commit_copies();
$multiply$    stage = (stage + 1) % $stages$;
  }
)";

constexpr std::string_view kCarefulLoop =
    R"(  // 0 times infinity is NaN: once a factor is not finite, terms out of range are skipped one by one.
  YK_WAIT_FOR_COPIES(0);
  stage = 0;
  for (; k0 < last; k0 += $depth$) {
    const int next_stage = 0, k1 = k0;
    YK_SYNC();
$load_careful$    yk_commit_copies();
    YK_WAIT_FOR_COPIES(0);
    YK_SYNC();
$multiply_careful$  }
)";

}  // namespace

bool has_matrix_units(const Product& product, const Target& target) {
  const Type type = product.a.type;
  return target.dialect == Dialect::kCuda && target.capability >= 80 && type == product.b.type &&
         (type == Type::kF16 || type == Type::kBF16) && product.sum == Type::kF32 && product.a.fill == 0 &&
         product.b.fill == 0;
}

std::string_view matrix_unit_functions() {
  return R"(
YK_DEVICE bool yk_is_mark(unsigned short x) { return x == 0x7fe5; }
YK_DEVICE unsigned short yk_unmarked(unsigned short x) { return yk_is_mark(x) ? (unsigned short)0x7fff : x; }
YK_DEVICE bool yk_is_special_f16(unsigned short x) { return (x & 0x7c00) == 0x7c00; }
YK_DEVICE bool yk_is_special_bf16(unsigned short x) { return (x & 0x7f80) == 0x7f80; }
YK_DEVICE bool yk_is_special_f16(const yk_16_bytes& x) {
  const unsigned words[4] = {x.a, x.b, x.c, x.d};
  bool found = false;
  for (int i = 0; i < 4; ++i) found = found || yk_is_special_f16((unsigned short)words[i]) || yk_is_special_f16((unsigned short)(words[i] >> 16));
  return found;
}
YK_DEVICE bool yk_is_special_bf16(const yk_16_bytes& x) {
  const unsigned words[4] = {x.a, x.b, x.c, x.d};
  bool found = false;
  for (int i = 0; i < 4; ++i) found = found || yk_is_special_bf16((unsigned short)words[i]) || yk_is_special_bf16((unsigned short)(words[i] >> 16));
  return found;
}
YK_DEVICE yk_16_bytes yk_load_halves(const unsigned short* from, bool is_aligned, bool in) {
  yk_16_bytes x = {0u, 0u, 0u, 0u};
  if (!in) return x;
  if (is_aligned) return *(const yk_16_bytes*)from;
#pragma unroll 1
  for (int i = 3; i >= 0; --i) {
    x.d = x.c;
    x.c = x.b;
    x.b = x.a;
    x.a = from[2 * i] | (unsigned)from[2 * i + 1] << 16;
  }
  return x;
}
#ifndef YOKE_FAKE_GPU
YK_DEVICE unsigned yk_shared_address(const void* x) {
  unsigned result;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(result) : "l"(x));
  return result;
}
YK_DEVICE void yk_copy_async(yk_16_bytes* to, const void* from, bool in) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(yk_shared_address(to)), "l"(from), "r"(in ? 16 : 0) : "memory");
}
YK_DEVICE void yk_commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define YK_WAIT_FOR_COPIES(pending) asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory")
YK_DEVICE void yk_load_matrices(unsigned* r, const yk_16_bytes* chunk) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(yk_shared_address(chunk)) : "memory");
}
YK_DEVICE void yk_load_transposed(unsigned* r, const yk_16_bytes* chunk) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(yk_shared_address(chunk)) : "memory");
}
#define YK_MULTIPLY(name, type) \
  YK_DEVICE void name(float* c, const unsigned* a, const unsigned* b) { \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
YK_MULTIPLY(yk_multiply_bf16, "bf16")
YK_MULTIPLY(yk_multiply_f16, "f16")
#else
// The same instructions for a CPU. A shuffle makes the lanes of a warp wait for each other.
YK_DEVICE void yk_copy_async(yk_16_bytes* to, const void* from, bool in) {
  yk_16_bytes x = {0u, 0u, 0u, 0u};
  *to = in ? *(const yk_16_bytes*)from : x;
}
YK_DEVICE void yk_commit_copies() {}
#define YK_WAIT_FOR_COPIES(pending)
YK_DEVICE void yk_load_from_lanes(unsigned* r, const yk_16_bytes* chunk, bool is_transposed) {
  YK_SHARED const unsigned short* chunks[1024];
  const int lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  chunks[threadIdx.x] = (const unsigned short*)chunk;
  YK_SHUFFLE_XOR(0, 1);
  for (int i = 0; i < 4; ++i) {
    const unsigned short* const* rows = chunks + warp + 8 * i;
    const int g = lane / 4, t = lane % 4;
    r[i] = is_transposed ? rows[2 * t][g] | (unsigned)rows[2 * t + 1][g] << 16
                         : rows[g][2 * t] | (unsigned)rows[g][2 * t + 1] << 16;
  }
  YK_SHUFFLE_XOR(0, 1);
}
YK_DEVICE void yk_load_matrices(unsigned* r, const yk_16_bytes* chunk) { yk_load_from_lanes(r, chunk, false); }
YK_DEVICE void yk_load_transposed(unsigned* r, const yk_16_bytes* chunk) { yk_load_from_lanes(r, chunk, true); }
#define YK_MULTIPLY(name, convert) \
  YK_DEVICE void name(float* c, const unsigned* a, const unsigned* b) { \
    YK_SHARED unsigned lanes[1024][6]; \
    const int lane = threadIdx.x % 32, warp = threadIdx.x - lane, g = lane / 4, t = lane % 4; \
    for (int i = 0; i < 6; ++i) lanes[threadIdx.x][i] = i < 4 ? a[i] : b[i - 4]; \
    YK_SHUFFLE_XOR(0, 1); \
    for (int e = 0; e < 4; ++e) { \
      for (int k = 0; k < 16; ++k) { \
        const unsigned x = lanes[warp + g * 4 + k % 8 / 2][e / 2 + k / 8 * 2]; \
        const unsigned y = lanes[warp + (2 * t + e % 2) * 4 + k % 8 / 2][4 + k / 8]; \
        c[e] += convert((unsigned short)(x >> k % 2 * 16)) * convert((unsigned short)(y >> k % 2 * 16)); \
      } \
    } \
    YK_SHUFFLE_XOR(0, 1); \
  }
YK_MULTIPLY(yk_multiply_bf16, yk_from_bf16)
YK_MULTIPLY(yk_multiply_f16, yk_from_f16)
#endif
)";
}

std::string matrix_unit_kernel(const Product& product, const Tile& tile) {
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
  const Values values = {{"type", type},
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
                         {"load", a.load("k1", false) + b.load("k1", false)},
                         {"load_careful", a.load("k1", true) + b.load("k1", true)},
                         {"multiply", std::string(kMultiply)},
                         {"multiply_careful", std::string(kMultiplyCarefully)},
                         {"exists", !product.b.is_skipped   ? "!yk_is_mark(x[i])"
                                    : !product.a.is_skipped ? "!yk_is_mark(y[j])"
                                                            : "!yk_is_mark(x[i]) && !yk_is_mark(y[j])"},
                         {"leave", may_skip ? "    if (special[stage]) break;\n" : ""}};
  std::string text = parameters(product, pointers_text(product, tile)) + block_text(product, tile) + R"(
  YK_SHARED yk_16_bytes a_shared[$stages$ * $a_stage$ / 8];
  YK_SHARED yk_16_bytes b_shared[$stages$ * $b_stage$ / 8];
  unsigned short* a_tile = (unsigned short*)a_shared;
  unsigned short* b_tile = (unsigned short*)b_shared;
  const int lane = tid % 32;
  const int warp_row = tid / 32 % $warp_rows$ * $warp_height$, warp_column = tid / 32 / $warp_rows$ * $warp_width$;
)" + a.setup() + b.setup() +
                     "  float sums[$tm$][$tn$ * 2][4] = {};\n";
  if (may_skip) {
    text += R"(  YK_SHARED int special[$stages$];  // whether the stage has a value that is not finite
  if (tid < $stages$) special[tid] = 0;
  YK_SYNC();
)";
  }
  text.append(kLoop).append(may_skip ? kCarefulLoop : "");
  text += result_text(product, tile, {"$tm$ * 2", "$tn$ * 4", row, column, sum});
  return fill_in(text + "}\n", values);
}

}  // namespace yoke::codegen::matmul
