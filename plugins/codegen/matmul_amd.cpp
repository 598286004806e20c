// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_amd.cpp: the matrix instructions of AMD, and the same for a CPU. See matmul_units.cpp for
// the lanes that hold an element.
#include "matmul.h"

namespace yoke::codegen::matmul {
namespace {

// gfx908 multiplies bf16 in two steps, each of 8 along the depth: A[i][k] is element k % 2 of lane i + 16 * (k / 2).
// A step may take any 8 of the 16, as long as they are the same of A and B.
constexpr std::string_view kMfma = R"(
typedef float __attribute__((vector_size(16))) yk_sums;
struct yk_half_of_unit { unsigned a, b; };
#ifndef YOKE_FAKE_GPU
typedef _Float16 __attribute__((vector_size(8))) yk_4_f16;
typedef short __attribute__((vector_size(8))) yk_4_bf16;
typedef short __attribute__((vector_size(4))) yk_2_bf16;
YK_DEVICE yk_sums yk_multiply_f16(const unsigned* a, const unsigned* b, yk_sums c) {
  const yk_half_of_unit x = {a[0], a[1]}, y = {b[0], b[1]};
  return __builtin_amdgcn_mfma_f32_16x16x16f16(YK_BITS(yk_4_f16, x), YK_BITS(yk_4_f16, y), c, 0, 0, 0);
}
#ifdef __gfx908__
YK_DEVICE yk_sums yk_multiply_8(unsigned a, unsigned b, yk_sums c) {
  return __builtin_amdgcn_mfma_f32_16x16x8bf16(YK_BITS(yk_2_bf16, a), YK_BITS(yk_2_bf16, b), c, 0, 0, 0);
}
#else
YK_DEVICE yk_sums yk_multiply_bf16(const unsigned* a, const unsigned* b, yk_sums c) {
  const yk_half_of_unit x = {a[0], a[1]}, y = {b[0], b[1]};
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(YK_BITS(yk_4_bf16, x), YK_BITS(yk_4_bf16, y), c, 0, 0, 0);
}
#endif
#else
// A shuffle makes the lanes of a warp wait for each other. `per_lane` neighbors along the depth are in one lane.
#define YK_EMULATED(name, convert, per_lane) \
  YK_DEVICE yk_sums name(const unsigned* a, const unsigned* b, yk_sums c) { \
    YK_SHARED unsigned lanes[1024][per_lane]; \
    const int lane = threadIdx.x % 64, warp = threadIdx.x - lane; \
    for (int i = 0; i < per_lane / 2; ++i) { \
      lanes[threadIdx.x][i] = a[i]; \
      lanes[threadIdx.x][per_lane / 2 + i] = b[i]; \
    } \
    YK_SHUFFLE_XOR(0, 1); \
    for (int r = 0; r < 4; ++r) { \
      for (int k = 0; k < 4 * per_lane; ++k) { \
        const int from = 16 * (k / per_lane), e = k % per_lane; \
        const unsigned x = lanes[warp + 4 * (lane / 16) + r + from][e / 2]; \
        const unsigned y = lanes[warp + lane % 16 + from][per_lane / 2 + e / 2]; \
        c[r] += convert((unsigned short)(x >> e % 2 * 16)) * convert((unsigned short)(y >> e % 2 * 16)); \
      } \
    } \
    YK_SHUFFLE_XOR(0, 1); \
    return c; \
  }
YK_EMULATED(yk_multiply_f16, yk_from_f16, 4)
#ifdef __gfx908__
YK_EMULATED(yk_multiply_pair, yk_from_bf16, 2)
YK_DEVICE yk_sums yk_multiply_8(unsigned a, unsigned b, yk_sums c) { return yk_multiply_pair(&a, &b, c); }
#else
YK_EMULATED(yk_multiply_bf16, yk_from_bf16, 4)
#endif
#endif
#ifdef __gfx908__
YK_DEVICE yk_sums yk_multiply_bf16(const unsigned* a, const unsigned* b, yk_sums c) {
  return yk_multiply_8(a[1], b[1], yk_multiply_8(a[0], b[0], c));
}
#endif
)";

constexpr std::string_view kWmma = R"(
typedef float __attribute__((vector_size(32))) yk_sums;
struct yk_unit { unsigned words[8]; };
#ifndef YOKE_FAKE_GPU
typedef _Float16 __attribute__((vector_size(32))) yk_16_f16;
typedef short __attribute__((vector_size(32))) yk_16_bf16;
YK_DEVICE yk_unit yk_unit_of(const unsigned* x) { return {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}; }
YK_DEVICE yk_sums yk_multiply_f16(const unsigned* a, const unsigned* b, yk_sums c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(YK_BITS(yk_16_f16, yk_unit_of(a)), YK_BITS(yk_16_f16, yk_unit_of(b)), c);
}
YK_DEVICE yk_sums yk_multiply_bf16(const unsigned* a, const unsigned* b, yk_sums c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(YK_BITS(yk_16_bf16, yk_unit_of(a)), YK_BITS(yk_16_bf16, yk_unit_of(b)), c);
}
#else
// A shuffle makes the lanes of a warp wait for each other. The result is NaN if lanes n and n + 16 disagree.
#define YK_EMULATED(name, convert) \
  YK_DEVICE yk_sums name(const unsigned* a, const unsigned* b, yk_sums c) { \
    YK_SHARED unsigned lanes[1024][16]; \
    const int lane = threadIdx.x % 32, warp = threadIdx.x - lane; \
    for (int i = 0; i < 16; ++i) lanes[threadIdx.x][i] = i < 8 ? a[i] : b[i - 8]; \
    YK_SHUFFLE_XOR(0, 1); \
    for (int r = 0; r < 8; ++r) { \
      const unsigned* x = lanes[warp + 2 * r + lane / 16]; \
      const unsigned* y = lanes[warp + lane % 16] + 8; \
      for (int k = 0; k < 16; ++k) \
        c[r] += convert((unsigned short)(x[k / 2] >> k % 2 * 16)) * convert((unsigned short)(y[k / 2] >> k % 2 * 16)); \
    } \
    for (int i = 0; i < 16; ++i) \
      if (lanes[threadIdx.x][i] != lanes[warp + (lane ^ 16)][i]) c[0] = YK_NAN_F32; \
    YK_SHUFFLE_XOR(0, 1); \
    return c; \
  }
YK_EMULATED(yk_multiply_f16, yk_from_f16)
YK_EMULATED(yk_multiply_bf16, yk_from_bf16)
#endif
)";

}  // namespace

std::string_view amd_functions(Unit unit) {
  return unit == Unit::kMfma ? kMfma : kWmma;
}

}  // namespace yoke::codegen::matmul
