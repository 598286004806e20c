// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_wgmma.cpp: products of 16-bit floats by wgmma of sm_90a. Each group of 4 warps
// multiplies its 64 rows of the tile by all columns; the matrix units read both factors from shared memory
// while the threads go on.
#include <cstdint>
#include <string>
#include <string_view>

#include "matmul.h"

namespace yoke::codegen::matmul {
namespace {

constexpr std::int64_t kBlockBytes = 8192;  // 64 lines of 128 bytes
// One tile is multiplied, one waits for the other groups to finish with it, and two arrive.
constexpr std::int64_t kStages = 4;
constexpr std::int64_t kAhead = 2;

// PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", with swizzling of 128 bytes: blocks of 64
// lines, one for each row (along the depth) or depth. Chunks of 16 bytes are exchanged within their line.
std::string place_text(bool along_depth) {
  return along_depth ? "((row) * 8 + (depth / 8 ^ (row) % 8)) * 8 + depth % 8"
                     : "(((row) / 64 * 64 + depth) * 8 + ((row) / 8 % 8 ^ depth % 8)) * 8 + (row) % 8";
}

std::int64_t stage_elements(const Tile& tile, bool is_a) {
  return (is_a ? tile.rows : tile.columns) * tile.depth;
}

Storage wgmma_storage(const Product& product, const Tile& tile, bool is_a) {
  return {.type = "unsigned short",
          .place = "next % " + std::to_string(kStages) + " * " + std::to_string(stage_elements(tile, is_a)) +
                   " + " + place_text(is_along_depth(product, is_a)),
          .stage = "",
          .mark = "",
          .special = "",
          .is_converted = false,
          .in_registers = false,
          .run = 8};
}

// The instruction for one width, type and order of both factors.
constexpr std::string_view kWgmmaInstruction = R"(
#ifndef YOKE_FAKE_GPU
YK_DEVICE void $name$(yk_units&, float (*c)[4], unsigned long long a, unsigned long long b) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n$columns$k16.f32.$type$.$type$ {$registers$}, %$a$, %$b$, p, 1, 1, $a_order$, $b_order$; }"
      : $sums$ : "l"(a), "l"(b));
}
#else
YK_DEVICE void $name$(yk_units& units, float (*c)[4], unsigned long long a, unsigned long long b) {
  units.queue(c, a, b, $columns$, yk_from_$type$, $a_order$, $b_order$);
}
#endif
)";

std::string instruction_name(const Product& product, const Tile& tile) {
  return "yk_multiply_" + half_name(product) + "_" + std::to_string(tile.columns) +
         (is_along_depth(product, true) ? "_k" : "_m") + (is_along_depth(product, false) ? "k" : "n");
}

// The matrix units read shared memory by descriptors, and run asynchronously until the threads wait. The CPU's
// version multiplies as late as that allows, so that a tile that is replaced too early gives a wrong result.
constexpr std::string_view kWgmmaFunctions = R"(
struct __attribute__((aligned(1024))) yk_1024_bytes { unsigned words[256]; };
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#error "wgmma needs --gpu-architecture=sm_90a"
#endif
#ifndef YOKE_FAKE_GPU
struct yk_units { const void* base; };
YK_DEVICE unsigned yk_shared_offset(const yk_units&, const void* x) { return yk_shared_address(x); }
YK_DEVICE void yk_fence_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
YK_DEVICE void yk_start_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
YK_DEVICE void yk_commit_products(yk_units&) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define YK_WAIT_FOR_PRODUCTS(units, pending) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory")
#else
struct yk_product {
  float (*c)[4];
  unsigned long long a, b;
  int columns, group;
  float (*convert)(unsigned short);
  bool a_order, b_order;
};
// An element of a factor: `line` is its row or column. `is_across`: lines are along the depth.
YK_DEVICE unsigned short yk_element(const void* base, unsigned long long descriptor, bool is_across, int line, int depth) {
  const unsigned start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
  unsigned at = is_across ? start + line / 64 * leading + depth / 8 * stride + depth % 8 * 128 + line % 64 * 2
                          : start + line / 8 * stride + line % 8 * 128 + depth * 2;
  at ^= descriptor >> 62 == 1 ? (at >> 7 & 7) << 4 : 0u;
  return *(const yk_2_bytes*)((const char*)base + at);
}
struct yk_units {
  const void* base;
  yk_product products[16];
  int count, group;
  void queue(float (*c)[4], unsigned long long a, unsigned long long b, int columns, float (*convert)(unsigned short), bool a_order, bool b_order) {
    products[count++] = {c, a, b, columns, group, convert, a_order, b_order};
  }
  void multiply(const yk_product& x) {
    const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    for (int i = 0; i < x.columns / 2; ++i) {
      const int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
      for (int k = 0; k < 16; ++k) {
        x.c[i / 4][i % 4] += x.convert(yk_element(base, x.a, x.a_order, row + i % 4 / 2 * 8, k)) * x.convert(yk_element(base, x.b, x.b_order, column, k));
      }
    }
  }
  void wait(int pending) {
    int done = 0;
    while (done < count && products[done].group < group - pending) multiply(products[done++]);
    for (int i = done; i < count; ++i) products[i - done] = products[i];
    count -= done;
  }
};
YK_DEVICE unsigned yk_shared_offset(const yk_units& units, const void* x) { return (unsigned)((const char*)x - (const char*)units.base); }
YK_DEVICE void yk_fence_copies() {}
YK_DEVICE void yk_start_products() {}
YK_DEVICE void yk_commit_products(yk_units& units) { ++units.group; }
#define YK_WAIT_FOR_PRODUCTS(units, pending) units.wait(pending)
#endif
// 1024 bytes from 8 lines to the next 8; `leading` bytes from 64 rows to the next if lines are along them.
YK_DEVICE unsigned long long yk_descriptor(unsigned address, unsigned leading) {
  return (unsigned long long)(address >> 4 & 0x3fffu) | (unsigned long long)(leading >> 4) << 16 | 64ull << 32 | 1ull << 62;
}
)";

// A tile is complete for the matrix units after the wait, the fence and the barrier. After the barrier of a step,
// all groups have waited for the products of the step before the last one, whose tile the new copies replace.
constexpr std::string_view kWgmmaLoop = R"(
  for (int step = -$ahead$; step < steps; ++step) {
    if (step >= 0) {
      YK_WAIT_FOR_COPIES($ahead$ - 1);
      yk_fence_copies();
      YK_SYNC();
    }
    const int next = step + $ahead$, k1 = first + next * $depth$;
    if (next < steps) {
$load$    }
    yk_commit_copies();
    if (step >= 0) {
      const unsigned stage = step % $stages$;
      yk_start_products();
#pragma unroll
      for (int unit = 0; unit < $depth$ / 16; ++unit)
        $instruction$(units, sums, a_start + (stage * $a_bytes$ + unit * $a_step$) / 16, b_start + (stage * $b_bytes$ + unit * $b_step$) / 16);
      yk_commit_products(units);
      YK_WAIT_FOR_PRODUCTS(units, 1);
    }
  }
  YK_WAIT_FOR_PRODUCTS(units, 0);
)";

}  // namespace

bool can_use_wgmma(const Product& product, const Target& target) {
  return target.wgmma && matrix_unit(product, target) == Unit::kMma && has_runs_of_8(product, true) &&
         has_runs_of_8(product, false) && !product.a.is_skipped && !product.b.is_skipped;
}

std::uint32_t wgmma_shared_bytes(const Tile& tile) {
  return static_cast<std::uint32_t>(kStages * 2 * (tile.rows + tile.columns) * tile.depth);
}

std::string_view wgmma_functions() {
  return kWgmmaFunctions;
}

std::string wgmma_instruction(const Product& product, const Tile& tile) {
  std::string registers;
  std::string sums;
  for (std::int64_t i = 0; i < tile.columns / 2; ++i) {
    registers += (i == 0 ? "%" : ", %") + std::to_string(i);
    sums += std::string(i == 0 ? "" : ", ") + "\"+f\"(c[" + std::to_string(i / 4) + "][" +
            std::to_string(i % 4) + "])";
  }
  return fill_in(kWgmmaInstruction, {{"name", instruction_name(product, tile)},
                                     {"columns", std::to_string(tile.columns)},
                                     {"type", half_name(product)},
                                     {"registers", registers},
                                     {"sums", sums},
                                     {"a", std::to_string(tile.columns / 2)},
                                     {"b", std::to_string(tile.columns / 2 + 1)},
                                     {"a_order", is_along_depth(product, true) ? "0" : "1"},
                                     {"b_order", is_along_depth(product, false) ? "0" : "1"}});
}

std::string wgmma_kernel(const Product& product, const Tile& tile, const Epilogue& epilogue) {
  const Loader a(product, tile, true, wgmma_storage(product, tile, true));
  const Loader b(product, tile, false, wgmma_storage(product, tile, false));
  // 16 elements of the depth: within a line, or 16 lines.
  const auto step = [&](bool is_a) { return is_along_depth(product, is_a) ? 32 : 2048; };
  const std::int64_t a_bytes = 2 * stage_elements(tile, true);
  const Values values = {{"stages", std::to_string(kStages)},
                         {"ahead", std::to_string(kAhead)},
                         {"depth", std::to_string(tile.depth)},
                         {"a_bytes", std::to_string(a_bytes)},
                         {"b_bytes", std::to_string(2 * stage_elements(tile, false))},
                         {"a_step", std::to_string(step(true))},
                         {"b_step", std::to_string(step(false))},
                         {"b_place", std::to_string(kStages * a_bytes / 1024)},
                         {"a_leading", is_along_depth(product, true) ? "0" : "$block$"},
                         {"b_leading", is_along_depth(product, false) ? "0" : "$block$"},
                         {"block", std::to_string(kBlockBytes)},
                         {"columns", std::to_string(tile.columns)},
                         {"instruction", instruction_name(product, tile)},
                         {"load", a.load("k1") + b.load("k1")}};
  std::string text = parameters(product, epilogue, pointers_text(product, tile)) + block_text(product, tile) +
                     R"(
  extern __shared__ yk_1024_bytes shared[];
  unsigned short* a_tile = (unsigned short*)shared;
  unsigned short* b_tile = (unsigned short*)(shared + $b_place$);
  const int lane = tid % 32;
  yk_units units = {shared};
  const unsigned long long a_start = yk_descriptor(yk_shared_offset(units, a_tile) + tid / 128 * $block$, $a_leading$);
  const unsigned long long b_start = yk_descriptor(yk_shared_offset(units, b_tile), $b_leading$);
  const int steps = (last - first + $depth$ - 1) / $depth$;
)" + a.setup() + b.setup() +
                     "  float sums[$columns$ / 8][4] = {};\n";
  text.append(kWgmmaLoop);
  text += band_text(product, tile, epilogue,
                    {std::to_string(tile.columns / 64), 64, "tid / 32 * 16", "i * 64", "sums[i * 8 + j]"});
  return fill_in(text + "}\n", values);
}

}  // namespace yoke::codegen::matmul
