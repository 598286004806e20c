// SPDX-License-Identifier: Apache-2.0
// helpers.cpp: the functions that generated statements call, and the kernels that contain the statements.
#include <algorithm>
#include <string_view>

#include "kernel.h"

namespace ocl {
namespace {

struct Helper {
  std::string_view name;
  std::string_view text;
};

// Sorted so that a function comes before its uses.
constexpr Helper kHelpers[] = {
    // Hides a constant from the compiler; `chunk` is never negative. PoCL 3.1 miscompiles functions of
    // constants, such as floor(nan) and exp(nan), to reads of an uninitialized register.
    {"hidden_f32", "#define hidden_f32(x) as_float(as_int((float)(x)) + (int)(chunk >> 63))\n"},
    {"hidden_f64", "#define hidden_f64(x) as_double(as_long((double)(x)) + (chunk >> 63))\n"},
    {"min_float",
     "#define min_float(x, y) ((x) != (x) || (x) < (y) || ((x) == (y) && signbit(x)) ? (x) : (y))\n"},
    {"max_float",
     "#define max_float(x, y) ((x) != (x) || (x) > (y) || ((x) == (y) && !signbit(x)) ? (x) : (y))\n"},
    {"to_f16", R"(static ushort to_f16(float value) {
  const uint bits = as_uint(value);
  const uint sign = (bits >> 16) & 0x8000u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (ushort)(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return (ushort)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // a subnormal of f16: adding 2^23 * 2^-24 rounds to its last place
    const float half_one = 0x1p-1f;
    return (ushort)(sign | (as_uint(as_float(magnitude) + half_one) - as_uint(half_one)));
  }
  const uint rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return (ushort)(sign | ((rounded - 0x38000000u) >> 13));
}
)"},
    {"from_f16", R"(static float from_f16(ushort bits) {
  const uint sign = ((uint)bits & 0x8000u) << 16;
  const uint exponent = ((uint)bits >> 10) & 0x1fu;
  const uint fraction = (uint)bits & 0x3ffu;
  if (exponent == 0) return as_float(as_uint((float)fraction * 0x1p-24f) | sign);
  return as_float(sign | ((exponent == 31u ? 255u : exponent + 112u) << 23) | (fraction << 13));
}
)"},
    {"round_f16", "#define round_f16(value) from_f16(to_f16(value))\n"},
    {"to_bf16", R"(static ushort to_bf16(float value) {
  const uint bits = as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
)"},
    {"from_bf16", "#define from_bf16(bits) as_float((uint)(bits) << 16)\n"},
    {"round_bf16", "#define round_bf16(value) from_bf16(to_bf16(value))\n"},
    {"divide_f64", "#define divide_f64(x, y) ((double)(x) / (double)(y))\n"},
    {"root_f64", "#define root_f64(x) sqrt((double)(x))\n"},
    {"rsqrt_f32", "#define rsqrt_f32(x) divide_f32(1, root_f32(x))\n"},
    {"rsqrt_f64", "#define rsqrt_f64(x) (1.0 / sqrt((double)(x)))\n"},
    {"sigmoid_f32", R"(static float sigmoid_f32(float x) {
  const float e = exp(-fabs(x));  // never infinite, so that small results stay exact
  return x < 0 ? divide_f32(e, 1.0f + e) : divide_f32(1.0f, 1.0f + e);
}
)"},
    {"sigmoid_f64", "#define sigmoid_f64(x) (1.0 / (1.0 + exp(-(double)(x))))\n"},
    // The compiler may evaluate both sides of `?:`, so the divisor must never be 0, nor -1 where that overflows.
    {"div_i64",
     "#define div_i64(x, y) ((y) == -1 ? (long)(0 - (ulong)(x)) : (y) == 0 ? 0 : (x) / over(y))\n"},
    {"div_i32", "#define div_i32(x, y) ((y) == -1 ? (int)(0 - (uint)(x)) : (y) == 0 ? 0 : (x) / over(y))\n"},
    {"mod_i64", "#define mod_i64(x, y) ((x) % over(y))\n"},
    {"mod_i32", "#define mod_i32(x, y) ((x) % over(y))\n"},
    {"div_u32", "#define div_u32(x, y) ((y) == 0 ? 0 : (x) / ((y) == 0 ? 1 : (y)))\n"},
    {"mod_u32", "#define mod_u32(x, y) ((x) % ((y) == 0 ? 1 : (y)))\n"},
    {"div_u8", "#define div_u8(x, y) ((y) == 0 ? 0 : (x) / ((y) == 0 ? 1 : (y)))\n"},
    {"mod_u8", "#define mod_u8(x, y) ((x) % ((y) == 0 ? 1 : (y)))\n"},
    {"random_bits", R"(#define mix(a, b, r) a += b; b = rotate(b, r) ^ a;
static uint random_bits(long seed, long stream, long counter) {
  const long block = counter >> 2;
  const uint k0 = (uint)seed, k1 = (uint)((ulong)seed >> 32), k2 = (uint)stream, k3 = (uint)((ulong)stream >> 32);
  const uint key[5] = {k0, k1, k2, k3, 0x1BD11BDAu ^ k0 ^ k1 ^ k2 ^ k3};
  uint a = (uint)block + k0, b = (uint)((ulong)block >> 32) + k1, c = k2, d = k3;
  for (uint i = 1; i <= 5; ++i) {
    if (i & 1u) {
      mix(a, b, 10u) mix(c, d, 26u) mix(a, d, 11u) mix(c, b, 21u)
      mix(a, b, 13u) mix(c, d, 27u) mix(a, d, 23u) mix(c, b, 5u)
    } else {
      mix(a, b, 6u) mix(c, d, 20u) mix(a, d, 17u) mix(c, b, 11u)
      mix(a, b, 25u) mix(c, d, 10u) mix(a, d, 18u) mix(c, b, 20u)
    }
    a += key[i % 5]; b += key[(i + 1) % 5]; c += key[(i + 2) % 5]; d += key[(i + 3) % 5] + i;
  }
  const uint word = (uint)counter & 3u;
  return word == 0 ? a : word == 1 ? b : word == 2 ? c : d;
}
#undef mix
)"},
};

// Float to integer: saturates; NaN becomes 0.
struct Saturated {
  std::string_view name;
  std::string_view type;
  // Float literals: values up to `low` become `lowest`, values from `high` on become `highest`.
  std::string_view low;
  std::string_view high;
  std::string_view lowest;
  std::string_view highest;
};
constexpr Saturated kSaturated[] = {
    {"saturated_i64", "long", "-0x1p63", "0x1p63", "LONG_MIN", "LONG_MAX"},
    {"saturated_i32", "int", "-0x1p31", "0x1p31", "INT_MIN", "INT_MAX"},
    {"saturated_u32", "uint", "0x0p0", "0x1p32", "0", "UINT_MAX"},
    {"saturated_u8", "uchar", "0x0p0", "0x1p8", "0", "UCHAR_MAX"},
};

std::string saturated(const Saturated& one, bool wide) {
  const std::string type(one.type);
  const std::string from = wide ? "double" : "float";
  const std::string mark = wide ? "" : "f";
  return "static " + type + " " + std::string(one.name) + (wide ? "_f64(" : "_f32(") + from +
         " x) {\n  return x != x ? 0 : x <= " + std::string(one.low) + mark + " ? " +
         std::string(one.lowest) + " : x >= " + std::string(one.high) + mark + " ? " +
         std::string(one.highest) + " : (" + type + ")x;\n}\n";
}

// Correctly rounded f32 division and square root. If the device does not have them but has f64, they are
// computed in f64; rounding the result to f32 is exact for these operations.
std::string divisions(const Hardware& hardware) {
  if (hardware.divides_exactly || !hardware.has_f64) {
    return "#define divide_f32(x, y) ((float)(x) / (float)(y))\n#define root_f32(x) sqrt((float)(x))\n";
  }
  return "#define divide_f32(x, y) ((float)((double)(x) / (double)(y)))\n"
         "#define root_f32(x) ((float)sqrt((double)(x)))\n";
}

}  // namespace

std::uint64_t parameter_bytes(std::size_t slot_count, std::size_t symbol_count) {
  constexpr std::uint64_t kWhichAndChunk = 16;
  return kWhichAndChunk + 16 * slot_count + 8 * symbol_count;
}

std::string print_kernel(std::size_t number, std::span<const Body* const> bodies,
                         std::uint64_t work_group_size, bool optimized) {
  std::size_t slot_count = 0;
  std::size_t symbol_count = 0;
  for (const Body* body : bodies) {
    slot_count = std::max(slot_count, body->slots.size());
    symbol_count = std::max(symbol_count, body->symbols.size());
  }
  std::string text = optimized ? "" : "#pragma clang optimize off\n";
  text += "__kernel __attribute__((reqd_work_group_size(" + std::to_string(work_group_size) +
          ", 1, 1)))\nvoid yoke_" + std::to_string(number) + "(const int which, const long chunk";
  for (std::size_t i = 0; i < slot_count; ++i) {
    text += ", __global char* s" + std::to_string(i) + ", const ulong o" + std::to_string(i);
  }
  for (std::size_t i = 0; i < symbol_count; ++i) {
    text += ", const long y" + std::to_string(i);
  }
  text += ") {\n  switch (which) {\n";
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    text += "  case " + std::to_string(i) + ": {\n" + bodies[i]->text + "    break;\n  }\n";
  }
  return text + "  }\n}\n" + (optimized ? "" : "#pragma clang optimize on\n");
}

std::string print_helpers(const std::set<std::string>& helpers, const Hardware& hardware) {
  // Products and sums round separately, as in the reference executor.
  std::string text = "#pragma OPENCL FP_CONTRACT OFF\n";
  if (hardware.has_f64) {
    text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  }
  text += divisions(hardware);
  text += "#define over(y) ((y) == 0 || (y) == -1 ? 1 : (y))\n";  // for division of signed integers
  for (const Helper& one : kHelpers) {
    if (helpers.count(std::string(one.name)) != 0) {
      text += one.text;
    }
  }
  for (const Saturated& one : kSaturated) {
    for (const bool wide : {false, true}) {
      if (helpers.count(std::string(one.name) + (wide ? "_f64" : "_f32")) != 0) {
        text += saturated(one, wide);
      }
    }
  }
  return text;
}

}  // namespace ocl
