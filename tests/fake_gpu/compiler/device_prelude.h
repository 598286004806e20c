// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/compiler/device_prelude.h: placed before the text of kernels, after engine/kernel_abi.h:
// what NVRTC and hiprtc predefine, for the CPU's compiler. A name that only one of them knows is defined only
// for that one. FGPU_HIP is 0 or 1; FGPU_WARP_SIZE is the number of lanes.
#pragma once

static fgpu_state fgpu;  // of the thread that runs now
static constexpr fgpu_uint3& threadIdx = fgpu.thread;
static constexpr fgpu_uint3& blockIdx = fgpu.block;
static constexpr fgpu_uint3& blockDim = fgpu.block_dim;
static constexpr fgpu_uint3& gridDim = fgpu.grid_dim;

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __syncthreads() fgpu.barrier(__LINE__)

typedef decltype(sizeof(0)) size_t;
#if FGPU_HIP
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef int int32_t;
typedef long int64_t;
static constexpr int warpSize = FGPU_WARP_SIZE;
#else
#define warpSize FGPU_WARP_SIZE
#endif

#define FGPU_VECTORS(type, name, bytes)                                      \
  struct __attribute__((aligned(2 * bytes))) name##2 {                       \
    type x, y;                                                               \
  };                                                                         \
  struct name##3 {                                                           \
    type x, y, z;                                                            \
  };                                                                         \
  struct __attribute__((aligned(4 * bytes < 16 ? 4 * bytes : 16))) name##4 { \
    type x, y, z, w;                                                         \
  };                                                                         \
  static inline name##2 make_##name##2(type x, type y) {                     \
    return {x, y};                                                           \
  }                                                                          \
  static inline name##4 make_##name##4(type x, type y, type z, type w) {     \
    return {x, y, z, w};                                                     \
  }
FGPU_VECTORS(float, float, 4)
FGPU_VECTORS(int, int, 4)
FGPU_VECTORS(unsigned, uint, 4)
FGPU_VECTORS(double, double, 8)
FGPU_VECTORS(unsigned short, ushort, 2)
FGPU_VECTORS(unsigned char, uchar, 1)
FGPU_VECTORS(long long, longlong, 8)

// clang-format off
extern "C" {
float expf(float); float exp2f(float); float expm1f(float); float logf(float); float log2f(float);
float log1pf(float); float log10f(float); float sqrtf(float); float tanhf(float); float erff(float);
float erfcf(float); float powf(float, float); float sinf(float); float cosf(float); float tanf(float);
float atanf(float); float atan2f(float, float); float asinf(float); float acosf(float); float sinhf(float);
float coshf(float); float floorf(float); float ceilf(float); float truncf(float); float rintf(float);
float roundf(float); float nearbyintf(float); float fabsf(float); float fmaxf(float, float);
float fminf(float, float); float fmaf(float, float, float); float copysignf(float, float);
float fmodf(float, float); float ldexpf(float, int); float cbrtf(float); float scalbnf(float, int);
float lgammaf(float); double exp(double); double exp2(double); double expm1(double); double log(double);
double log2(double); double log1p(double); double log10(double); double sqrt(double); double tanh(double);
double erf(double); double erfc(double); double pow(double, double); double sin(double); double cos(double);
double tan(double); double atan(double); double atan2(double, double); double asin(double);
double acos(double); double sinh(double); double cosh(double); double floor(double); double ceil(double);
double trunc(double); double rint(double); double round(double); double nearbyint(double);
double fabs(double); double fmax(double, double); double fmin(double, double);
double fma(double, double, double); double copysign(double, double); double fmod(double, double);
double ldexp(double, int); double cbrt(double); double scalbn(double, int); double lgamma(double);
int abs(int); long long llabs(long long); void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
}
// clang-format on
static inline float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x) {
  return 1.0 / sqrt(x);
}
#define FGPU_OVERLOAD(name)           \
  static inline float name(float x) { \
    return name##f(x);                \
  }
// clang-format off
FGPU_OVERLOAD(exp) FGPU_OVERLOAD(log) FGPU_OVERLOAD(sqrt) FGPU_OVERLOAD(tanh) FGPU_OVERLOAD(sin) FGPU_OVERLOAD(cos)
FGPU_OVERLOAD(floor) FGPU_OVERLOAD(ceil) FGPU_OVERLOAD(fabs) FGPU_OVERLOAD(trunc) FGPU_OVERLOAD(rint)
FGPU_OVERLOAD(erf)
// clang-format on
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

#define FGPU_LESSER(type)                  \
  static inline type min(type x, type y) { \
    return y < x ? y : x;                  \
  }                                        \
  static inline type max(type x, type y) { \
    return x < y ? y : x;                  \
  }
            FGPU_LESSER(int) FGPU_LESSER(unsigned) FGPU_LESSER(long long)
                FGPU_LESSER(unsigned long long) static inline float min(float x, float y) {
  return fminf(x, y);
}
static inline float max(float x, float y) {
  return fmaxf(x, y);
}
static inline double min(double x, double y) {
  return fmin(x, y);
}
static inline double max(double x, double y) {
  return fmax(x, y);
}

#define FGPU_BITS(name, to, from)     \
  static inline to name(from x) {     \
    return __builtin_bit_cast(to, x); \
  }
// clang-format off
FGPU_BITS(__float_as_uint, unsigned, float) FGPU_BITS(__uint_as_float, float, unsigned)
FGPU_BITS(__float_as_int, int, float) FGPU_BITS(__int_as_float, float, int)
FGPU_BITS(__double_as_longlong, long long, double) FGPU_BITS(__longlong_as_double, double, long long)
// clang-format on
#define FGPU_ROUNDED(type, prefix)                    \
  static inline type prefix##add_rn(type x, type y) { \
    return x + y;                                     \
  }                                                   \
  static inline type prefix##sub_rn(type x, type y) { \
    return x - y;                                     \
  }                                                   \
  static inline type prefix##mul_rn(type x, type y) { \
    return x * y;                                     \
  }                                                   \
  static inline type prefix##div_rn(type x, type y) { \
    return x / y;                                     \
  }                                                   \
  static inline type prefix##rcp_rn(type x) {         \
    return 1 / x;                                     \
  }
            FGPU_ROUNDED(float, __f) FGPU_ROUNDED(double, __d) static inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}
static inline double __dsqrt_rn(double x) {
  return sqrt(x);
}
static inline float __fmaf_rn(float x, float y, float z) {
  return fmaf(x, y, z);
}
static inline double __fma_rn(double x, double y, double z) {
  return fma(x, y, z);
}

static inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
static inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz((unsigned)x);
}
static inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
static inline int __ffs(int x) {
  return __builtin_ffs(x);
}
static inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
static inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1u) << (31 - i);
  return r;
}
static inline unsigned __umulhi(unsigned x, unsigned y) {
  return (unsigned)((unsigned long long)x * y >> 32);
}
static inline int __mulhi(int x, int y) {
  return (int)((long long)x * y >> 32);
}
__extension__ typedef unsigned __int128 fgpu_uint128;
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((fgpu_uint128)x * y >> 64);
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return r;
}
template <class T>
static inline T __ldg(const T* p) {
  return *p;
}
static inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline long long clock64() {
  return (long long)__builtin_ia32_rdtsc();
}

// Atomics. Kernels on other streams run at the same time.
template <class T, class F>
static inline T fgpu_update(T* p, F&& f) {
  T old, next;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do {
    next = f(old);
  } while (!__atomic_compare_exchange(p, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
template <class T>
struct fgpu_same {
  typedef T type;
};
#define FGPU_ATOMIC(name, expression)                            \
  template <class T>                                             \
  static inline T name(T* p, typename fgpu_same<T>::type y) {    \
    return fgpu_update(p, [=](T x) -> T { return expression; }); \
  }
// clang-format off
FGPU_ATOMIC(atomicAdd, x + y) FGPU_ATOMIC(atomicSub, x - y) FGPU_ATOMIC(atomicExch, y)
FGPU_ATOMIC(atomicMin, y < x ? y : x) FGPU_ATOMIC(atomicMax, x < y ? y : x)
FGPU_ATOMIC(atomicAnd, x & y) FGPU_ATOMIC(atomicOr, x | y) FGPU_ATOMIC(atomicXor, x ^ y)
FGPU_ATOMIC(atomicInc, x >= y ? 0 : x + 1) FGPU_ATOMIC(atomicDec, x == 0 || x > y ? y : x - 1)
    // clang-format on
    template <class T>
    static inline T atomicCAS(T* p, typename fgpu_same<T>::type compare, typename fgpu_same<T>::type value) {
  T old = compare;
  __atomic_compare_exchange(p, &old, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return old;
}

// Functions of a warp. A lane reads from another one that takes part, or the kernel fails.
static inline int fgpu_lane() {
  return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % FGPU_WARP_SIZE);
}
template <class T>
static inline T fgpu_shuffle(unsigned long long mask, T value, int source, int line) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long bits = 0, lanes = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  const unsigned long long* values = fgpu.exchange(bits, mask, &lanes, line);
  if ((lanes >> source & 1) == 0)
    fgpu.fail("a lane reads from a lane of its warp that has returned or takes no part");
  __builtin_memcpy(&value, &values[source], sizeof(T));
  return value;
}
enum fgpu_direction { fgpu_xor, fgpu_up, fgpu_down, fgpu_index };
static inline int fgpu_source(fgpu_direction direction, int operand, int width) {
  const int lane = fgpu_lane(), first = lane / width * width;
  const int source = direction == fgpu_xor    ? lane ^ operand
                     : direction == fgpu_up   ? lane - operand
                     : direction == fgpu_down ? lane + operand
                                              : first + (operand & (width - 1));
  return source < first || source >= first + width ? lane : source;
}
#if FGPU_HIP
#define FGPU_SHUFFLE(direction, value, operand, width, ...) \
  fgpu_shuffle(0, value, fgpu_source(direction, (int)(operand), width), __LINE__)
#define __shfl_xor(value, ...) FGPU_SHUFFLE(fgpu_xor, value, __VA_ARGS__, FGPU_WARP_SIZE)
#define __shfl_up(value, ...) FGPU_SHUFFLE(fgpu_up, value, __VA_ARGS__, FGPU_WARP_SIZE)
#define __shfl_down(value, ...) FGPU_SHUFFLE(fgpu_down, value, __VA_ARGS__, FGPU_WARP_SIZE)
#define __shfl(value, ...) FGPU_SHUFFLE(fgpu_index, value, __VA_ARGS__, FGPU_WARP_SIZE)
#else
#define FGPU_SHUFFLE(mask, direction, value, operand, width, ...) \
  fgpu_shuffle(mask, value, fgpu_source(direction, (int)(operand), width), __LINE__)
#define __shfl_xor_sync(mask, value, ...) FGPU_SHUFFLE(mask, fgpu_xor, value, __VA_ARGS__, FGPU_WARP_SIZE)
#define __shfl_up_sync(mask, value, ...) FGPU_SHUFFLE(mask, fgpu_up, value, __VA_ARGS__, FGPU_WARP_SIZE)
#define __shfl_down_sync(mask, value, ...) FGPU_SHUFFLE(mask, fgpu_down, value, __VA_ARGS__, FGPU_WARP_SIZE)
#define __shfl_sync(mask, value, ...) FGPU_SHUFFLE(mask, fgpu_index, value, __VA_ARGS__, FGPU_WARP_SIZE)
#endif
static inline unsigned long long fgpu_ballot(unsigned long long mask, bool vote, int line) {
  unsigned long long lanes = 0, result = 0;
  const unsigned long long* values = fgpu.exchange(vote ? 1 : 0, mask, &lanes, line);
  for (int i = 0; i < FGPU_WARP_SIZE; ++i) result |= (lanes >> i & 1) != 0 ? values[i] << i : 0;
  return result;
}
#if FGPU_HIP
#define __ballot(vote) fgpu_ballot(0, (vote) != 0, __LINE__)
#define __any(vote) (__ballot(vote) != 0)
#define __all(vote) (__ballot(!(vote)) == 0)
#else
#define __ballot_sync(mask, vote) ((unsigned)fgpu_ballot(mask, (vote) != 0, __LINE__))
#define __any_sync(mask, vote) (__ballot_sync(mask, vote) != 0)
#define __all_sync(mask, vote) (__ballot_sync(mask, !(vote)) == 0)
static inline void fgpu_syncwarp(int line, unsigned mask = 0xffffffffu) {
  fgpu_ballot(mask, false, line);
}
#define __syncwarp(...) fgpu_syncwarp(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
static inline void __trap() {
  fgpu.fail("the kernel called __trap()");
}
#endif

// What the engine knows about a kernel.
template <class T>
struct fgpu_pointer {
  static constexpr bool value = false;
};
template <class T>
struct fgpu_pointer<T*> {
  static constexpr bool value = true;
};
template <class... A>
struct fgpu_call {
  fgpu_call(void (*kernel)(A...), A... arguments) { kernel(arguments...); }
};
template <class F>
struct fgpu_signature;
template <class... A>
struct fgpu_signature<void (*)(A...)> {
  static constexpr unsigned count = sizeof...(A);
  static constexpr unsigned sizes[] = {sizeof(A)..., 0};
  static constexpr unsigned char pointers[] = {fgpu_pointer<A>::value..., 0};
  // Braces fix the order of evaluation.
  static void run(void (*kernel)(A...), [[maybe_unused]] void** arguments) {
    [[maybe_unused]] unsigned n = 0;
    fgpu_call<A...>{kernel, *static_cast<A*>(arguments[n++])...};
  }
};
template <auto kernel>
void fgpu_run(void** arguments) {
  fgpu_signature<decltype(kernel)>::run(kernel, arguments);
}
#define FGPU_KERNEL(kernel, bound)                                                                  \
  {                                                                                                 \
#kernel, fgpu_run < &kernel>, (unsigned)(bound), fgpu_signature < decltype(&kernel)> ::count,   \
        fgpu_signature < decltype(&kernel)> ::sizes, fgpu_signature < decltype(&kernel)> ::pointers \
  }
extern "C" char __bss_start[], _end[];
