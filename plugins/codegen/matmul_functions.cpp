// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_functions.cpp: the functions that the kernels of products call.
#include "matmul.h"

namespace yoke::codegen::matmul {

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

namespace {

// Elements of 16 bits.
constexpr std::string_view kHalves = R"(
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
)";

constexpr std::string_view kMma = R"(#ifndef YOKE_FAKE_GPU
YK_DEVICE unsigned yk_shared_address(const void* x) {
  unsigned result;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(result) : "l"(x));
  return result;
}
YK_DEVICE void yk_copy_async(yk_16_bytes* to, const void* from, bool in) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(yk_shared_address(to)), "l"(from), "r"(in ? 16 : 0) : "memory");
}
// Lanes may have branched to start copies. ldmatrix and mma, which follow, need all lanes at once.
YK_DEVICE void yk_wait_for_warp() { __syncwarp(); }
YK_DEVICE void yk_commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); __syncwarp(); }
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
YK_DEVICE void yk_wait_for_warp() { YK_SHUFFLE_XOR(0, 1); }
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

}  // namespace

std::string matrix_unit_functions(Unit unit) {
  std::string text(kHalves);
  return text.append(unit == Unit::kMma ? kMma : amd_functions(unit));
}

}  // namespace yoke::codegen::matmul
