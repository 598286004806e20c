// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/clang_hip.h: what hiprtc defines before a kernel, for a clang without ROCm. Functions of the
// math library that the GPU lacks are stand-ins with wrong results: the kernels are compiled, and do not run.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))

#define FUNCTION static __device__ __forceinline__

#define COORDINATE(name, intrinsic)                                                       \
  struct name {                                                                           \
    struct X {                                                                            \
      __device__ operator unsigned() const { return __builtin_amdgcn_##intrinsic##_x(); } \
    } x;                                                                                  \
    struct Y {                                                                            \
      __device__ operator unsigned() const { return __builtin_amdgcn_##intrinsic##_y(); } \
    } y;                                                                                  \
    struct Z {                                                                            \
      __device__ operator unsigned() const { return __builtin_amdgcn_##intrinsic##_z(); } \
    } z;                                                                                  \
  };
COORDINATE(ThreadIndex, workitem_id)
COORDINATE(BlockIndex, workgroup_id)
#define threadIdx (ThreadIndex())
#define blockIdx (BlockIndex())

FUNCTION void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

FUNCTION unsigned lane() {
  return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}

template <class T>
FUNCTION T from_lane(T value, unsigned source) {
  int words[(sizeof(T) + 3) / 4] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  for (int& word : words) {
    word = __builtin_amdgcn_ds_bpermute((int)source * 4, word);
  }
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
template <class T>
FUNCTION T __shfl_xor(T value, int mask) {
  return from_lane(value, lane() ^ (unsigned)mask);
}
template <class T>
FUNCTION T __shfl_down(T value, unsigned delta) {
  return from_lane(value, lane() + delta);
}
template <class T>
FUNCTION T atomicAdd(T* element, T value) {
  return __hip_atomic_fetch_add(element, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// clang-format off
#define BUILTIN(name, type, c_name) FUNCTION type name(type x) { return __builtin_##c_name(x); }
#define STAND_IN(name, type, form) FUNCTION type name(type x) { return form; }
#define BOTH(name) BUILTIN(name##f, float, name##f) BUILTIN(name, double, name)
#define STAND_INS(name, form) STAND_IN(name##f, float, form) STAND_IN(name, double, form)
BOTH(fabs) BOTH(floor) BOTH(ceil) BOTH(rint) BOTH(trunc) BOTH(round) BOTH(sqrt)
BUILTIN(expf, float, expf) BUILTIN(exp2f, float, exp2f) BUILTIN(logf, float, logf) BUILTIN(log2f, float, log2f)
BUILTIN(sinf, float, sinf) BUILTIN(cosf, float, cosf)
STAND_IN(exp, double, 1 + x * (1 + x * x)) STAND_IN(exp2, double, 1 + x * x)
STAND_IN(log, double, x - x * x) STAND_IN(log2, double, x - x * x * x)
STAND_IN(sin, double, x - x * x * x) STAND_IN(cos, double, 1 - x * x)
STAND_INS(expm1, x + x * x) STAND_INS(log1p, x - x * x) STAND_INS(tanh, x - x * x * x)
STAND_INS(tan, x + x * x * x) STAND_INS(erf, x - x * x * x) STAND_INS(erfc, 1 - x * x * x)
FUNCTION float powf(float x, float y) { return __builtin_expf(y * __builtin_logf(x)); }
FUNCTION double pow(double x, double y) { return x * y; }
FUNCTION float fmodf(float x, float y) { return x - y * __builtin_truncf(x / y); }
FUNCTION double fmod(double x, double y) { return x - y * __builtin_trunc(x / y); }
FUNCTION float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
FUNCTION double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
// clang-format on

#undef FUNCTION
#undef COORDINATE
#undef BUILTIN
#undef STAND_IN
#undef BOTH
#undef STAND_INS
