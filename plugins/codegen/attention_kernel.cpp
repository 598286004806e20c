// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_kernel.cpp: the parts of the text of attention's kernels.
#include "attention_kernel.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace yoke::codegen::attention {

using matmul::fill_in;
using matmul::Values;

namespace {

constexpr std::uint64_t kLargestSize = 128;

std::string text_of(std::int64_t number) {
  return std::to_string(number);
}

// Depends on the row's number within 8 rows.
std::string swizzle_text(std::int64_t pitch, const std::string& row) {
  return pitch >= 8 ? row + " % 8" : pitch == 4 ? row + " / 2 % 4" : row + " / 4 % 2";
}

// Exponents are for base 2, as the instruction has it. A place in shared memory has 32 bits, and instructions add
// constants to places and addresses.
constexpr std::string_view kFunctions = R"(
#ifndef YOKE_FAKE_GPU
typedef unsigned yk_place;
YK_DEVICE yk_place yk_place_of(const void* x) { return yk_shared_address(x); }
YK_DEVICE void yk_load_matrices_at(unsigned* r, yk_place at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
YK_DEVICE void yk_load_transposed_at(unsigned* r, yk_place at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
#define YK_COPY_ASYNC(to, to_bytes, from, from_bytes) \
  asm volatile("cp.async.cg.shared.global [%0 + " #to_bytes "], [%1 + " #from_bytes "], 16;" :: "r"(to), "l"(from) : "memory")
#define YK_COPY_ASYNC_IF(in, to, to_bytes, from, from_bytes) \
  asm volatile("cp.async.cg.shared.global [%0 + " #to_bytes "], [%1 + " #from_bytes "], 16, %2;" :: "r"(to), "l"(from), "r"(in ? 16 : 0) : "memory")
YK_DEVICE float yk_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
YK_DEVICE unsigned yk_pack_bf16(float x, float y) { unsigned r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x)); return r; }
YK_DEVICE unsigned yk_pack_f16(float x, float y) { unsigned r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x)); return r; }
// Whether x is true in any lane of the warp.
YK_DEVICE bool yk_any(bool x) { return __any_sync(0xffffffffu, x); }
#else
typedef const char* yk_place;
YK_DEVICE yk_place yk_place_of(const void* x) { return (yk_place)x; }
YK_DEVICE void yk_load_matrices_at(unsigned* r, yk_place at) { yk_load_matrices(r, (const yk_16_bytes*)at); }
YK_DEVICE void yk_load_transposed_at(unsigned* r, yk_place at) { yk_load_transposed(r, (const yk_16_bytes*)at); }
#define YK_COPY_ASYNC(to, to_bytes, from, from_bytes) YK_COPY_ASYNC_IF(true, to, to_bytes, from, from_bytes)
#define YK_COPY_ASYNC_IF(in, to, to_bytes, from, from_bytes) yk_copy_async((yk_16_bytes*)(to + to_bytes), (const char*)(from) + from_bytes, in)
YK_DEVICE float yk_exp2(float x) { return exp2f(x); }
YK_DEVICE unsigned yk_pack_bf16(float x, float y) { return yk_to_bf16(x) | (unsigned)yk_to_bf16(y) << 16; }
YK_DEVICE unsigned yk_pack_f16(float x, float y) { return yk_to_f16(x) | (unsigned)yk_to_f16(y) << 16; }
YK_DEVICE bool yk_any(bool x) { return x; }  // of this lane only, which is enough where other lanes may skip the work
#endif
YK_DEVICE void yk_store_halves(unsigned short* to, const yk_16_bytes& x, bool is_aligned) {
  if (is_aligned) {
    *(yk_16_bytes*)to = x;
    return;
  }
  const unsigned words[4] = {x.a, x.b, x.c, x.d};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = (unsigned short)words[i];
    to[2 * i + 1] = (unsigned short)(words[i] >> 16);
  }
}
)";

// The place of what a lane loads for four matrices of 8 x 8: 16 rows from 16 * `part` on, elements 16 * `step` to 16 *
// `step` + 15. `along_rows`: the second matrix has the next 8 rows, and not the next 8 elements.
std::string matrices_text(const Rows& rows, const std::string& part, const std::string& step,
                          bool along_rows) {
  const std::string row = along_rows ? "lane % 16" : "(lane / 16 * 8 + lane % 8)";
  const std::string chunk = along_rows ? "lane / 16" : "lane / 8 % 2";
  return fill_in(
      "$place$ + ($row$ * $bytes$ + ($chunk$ ^ $swizzle$) * 16 ^ $step$ * 32) + ($part$) * (16 * $bytes$)",
      {{"place", rows.place},
       {"part", part},
       {"bytes", text_of(rows.pitch() * 16)},
       {"row", row},
       {"step", step},
       {"chunk", chunk},
       {"swizzle", swizzle_text(rows.pitch(), "(lane % 8)")}});
}

}  // namespace

std::int64_t Rows::pitch() const {
  std::int64_t pitch = 2;
  while (pitch < 2 * steps()) {
    pitch *= 2;
  }
  return pitch;
}

std::string kernel_fault(const LibraryAttention& attention, const Target& target) {
  if (target.dialect != Dialect::kCuda || target.capability < 80) {
    return "the device has no mma.sync for 16-bit floats";
  }
  for (std::size_t i = 0; i < attention.volume_count(); ++i) {
    const auto& dims = attention.volumes[i].dims;
    if (dims[3] > kLargestSize || dims[3] % 8 != 0) {
      return "the size of a head is not a multiple of 8 up to 128";
    }
    constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (dims[0] * dims[1] * (dims[2] + kLargestSize) > kMost ||
        attention.volumes[i].strides[2] > kMost / 256) {
      return "a tensor is too large";
    }
  }
  return "";
}

void declare_functions(Builder& builder) {
  builder.function(std::string(matmul::helper_functions()));
  builder.function(matmul::matrix_unit_functions(matmul::Unit::kMma));
  builder.function(std::string(kFunctions));
}

std::string type_text(const LibraryAttention& attention) {
  return attention.type == program::Type::kF16 ? "f16" : "bf16";
}

std::string float_text(double value) {
  return matmul::number_text(static_cast<float>(value), program::Type::kF32);
}

std::string place_text(const LibraryAttention& attention, std::int64_t length, std::int64_t rows,
                       bool last_first) {
  return fill_in(
      R"(  const unsigned tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int batch = blockIdx.x / $tiles$u / $heads$u, head = blockIdx.x / $tiles$u % $heads$u;
  const int first = $tile$ * $rows$;
)",
      {{"tiles", text_of((length + rows - 1) / rows)},
       {"heads", std::to_string(attention.volumes[0].dims[1])},
       {"tile", last_first ? "(int)($tiles$ - 1 - blockIdx.x % $tiles$u)" : "(int)(blockIdx.x % $tiles$u)"},
       {"rows", text_of(rows)}});
}

std::string pointer_text(const Rows& rows, const std::string& parameter) {
  return fill_in(R"(  $element$* $name$ = $parameter$ + ($offset$ll + batch * $batch$ll + head * $head$ll);
  const bool $name$_is_aligned = (unsigned long long)$name$ % 16 == 0;
)",
                 {{"element", parameter[0] == 'p' ? "const unsigned short" : "unsigned short"},
                  {"name", rows.name},
                  {"parameter", parameter},
                  {"offset", std::to_string(rows.volume->offset)},
                  {"batch", std::to_string(rows.volume->strides[0])},
                  {"head", std::to_string(rows.volume->strides[1])}});
}

std::string from_text(const Rows& rows) {
  return fill_in(
      R"(  const unsigned short* $name$_from = $name$ + (tid / $pitch$ * $stride$ull + tid % $pitch$ * 8);
)",
      {{"name", rows.name},
       {"pitch", text_of(rows.pitch())},
       {"stride", std::to_string(rows.volume->strides[2])}});
}

std::string copy_text(const Rows& rows, const std::string& first) {
  const std::int64_t step = kThreads / rows.pitch();
  const bool is_ragged = rows.length() % rows.count != 0;
  const bool is_padded = rows.size() / 8 < rows.pitch();
  std::string copies;
  for (std::int64_t e = 0; e < rows.chunks() / kThreads; ++e) {
    std::string in = is_ragged ? "row + " + text_of(e * step) + " < $length$" : "";
    in += is_padded ? (in.empty() ? "" : " && ") + std::string("has_chunk") : "";
    copies += (in.empty() ? "        YK_COPY_ASYNC(" : "        YK_COPY_ASYNC_IF((" + in + "), ") + "to, " +
              text_of(e * kThreads * 16) + ", from, " +
              std::to_string(static_cast<std::uint64_t>(2 * e * step) * rows.volume->strides[2]) + ");\n";
  }
  return fill_in(R"(    {
      const int row = $first$ + (int)(tid / $pitch$);
      [[maybe_unused]] const bool has_chunk = tid % $pitch$ < $size$ / 8u;
      const yk_place to = $place$ + (tid / $pitch$ * $pitch$ + (tid % $pitch$ ^ $swizzle$)) * 16;
      const unsigned short* from = $name$_from + ($first$) * $stride$ll;
      if ($name$_is_aligned) {
$copies$      } else {
        yk_16_bytes* chunks = shared + (to - place) / 16;
#pragma unroll 1
        for (int e = 0; e < $count$; ++e)
          chunks[e * $threads$] = yk_load_halves(from + e * ($step$ * $stride$ll), false, row + e * $step$ < $length$ && has_chunk);
      }
    }
)",
                 {{"pitch", text_of(rows.pitch())},
                  {"first", first},
                  {"place", rows.place},
                  {"swizzle", swizzle_text(rows.pitch(), "(tid / $pitch$)")},
                  {"name", rows.name},
                  {"stride", std::to_string(rows.volume->strides[2])},
                  {"copies", copies},
                  {"count", text_of(rows.chunks() / kThreads)},
                  {"threads", text_of(kThreads)},
                  {"step", text_of(step)},
                  {"length", text_of(rows.length())},
                  {"size", text_of(rows.size())}});
}

std::string factor_text(const Rows& rows, const std::string& x, std::int64_t parts) {
  return fill_in(R"(#pragma unroll
  for (int i = 0; i < $parts$; ++i)
#pragma unroll
    for (int d = 0; d < $steps$; ++d) yk_load_matrices_at($x$[i][d], $chunk$);
)",
                 {{"parts", text_of(parts)},
                  {"steps", text_of(rows.steps())},
                  {"x", x},
                  {"chunk", matrices_text(rows, "warp * $parts$ + i", "d", true)}});
}

std::string scores_text(const Rows& rows, const std::string& sums, const std::string& x, std::int64_t parts,
                        const std::string& type, const Rows* factors) {
  return fill_in(
      R"(#pragma unroll
    for (int d = 0; d < $steps$; ++d) {
$load$#pragma unroll
      for (int j = 0; j < $columns$; ++j) {
        unsigned y[4];
        yk_load_matrices_at(y, $chunk$);
#pragma unroll
        for (int i = 0; i < $parts$; ++i) {
          yk_multiply_$type$($sums$[i][j * 2], $x$, y);
          yk_multiply_$type$($sums$[i][j * 2 + 1], $x$, y + 2);
        }
      }
    }
)",
      {{"steps", text_of(rows.steps())},
       {"columns", text_of(rows.count / 16)},
       {"parts", text_of(parts)},
       {"type", type},
       {"sums", sums},
       {"x", factors == nullptr ? x + "[i][d]" : "factor[i]"},
       {"load", factors == nullptr ? "" : R"(      unsigned factor[$parts$][4];
#pragma unroll
      for (int i = 0; i < $parts$; ++i) yk_load_matrices_at(factor[i], $factor$);
)"},
       {"factor", factors == nullptr ? "" : matrices_text(*factors, "warp * $parts$ + i", "d", true)},
       {"chunk", matrices_text(rows, "j", "d", false)}});
}

std::string weigh_text(const Rows& rows, const std::string& sums, const std::string& weights,
                       std::int64_t parts, const std::string& type) {
  return fill_in(R"(#pragma unroll
    for (int j = 0; j < $rows$; ++j) {
#pragma unroll
      for (int d = 0; d < $steps$; ++d) {
        unsigned y[4];
        yk_load_transposed_at(y, $chunk$);
#pragma unroll
        for (int i = 0; i < $parts$; ++i) {
          yk_multiply_$type$($sums$[i][d * 2], $weights$[i][j], y);
          yk_multiply_$type$($sums$[i][d * 2 + 1], $weights$[i][j], y + 2);
        }
      }
    }
)",
                 {{"steps", text_of(rows.steps())},
                  {"rows", text_of(rows.count / 16)},
                  {"parts", text_of(parts)},
                  {"type", type},
                  {"sums", sums},
                  {"weights", weights},
                  {"chunk", matrices_text(rows, "j", "d", true)}});
}

std::string round_text(const std::string& weights, const std::string& sums, std::int64_t parts,
                       std::int64_t columns, const std::string& type) {
  return fill_in(R"(#pragma unroll
    for (int i = 0; i < $parts$; ++i)
#pragma unroll
      for (int j = 0; j < $columns$ / 8; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          $weights$[i][j / 2][j % 2 * 2 + r] = yk_pack_$type$($sums$[i][j][r * 2], $sums$[i][j][r * 2 + 1]);
)",
                 {{"parts", text_of(parts)},
                  {"columns", text_of(columns)},
                  {"type", type},
                  {"weights", weights},
                  {"sums", sums}});
}

std::string mask_text(const LibraryAttention& attention, const std::string& sums, std::int64_t parts,
                      std::int64_t columns, const std::string& column, bool rows_are_queries) {
  const auto length = static_cast<std::int64_t>(attention.volumes[rows_are_queries ? 1 : 0].dims[2]);
  std::string some;
  std::string hidden;
  if (attention.is_causal) {
    some = rows_are_queries ? "$column$ + $last$ > warp_first" : "$column$ < warp_first + $rows$ - 1";
    hidden = rows_are_queries ? "column > row" : "row > column";
  }
  if (length % columns != 0) {
    some += (some.empty() ? "" : " || ") + std::string("$column$ + $last$ >= $length$");
    hidden += (hidden.empty() ? "" : " || ") + std::string("column >= $length$");
  }
  if (some.empty()) {
    return "";
  }
  return fill_in(R"(    if ($some$) {
#pragma unroll
      for (int i = 0; i < $parts$; ++i)
#pragma unroll
        for (int j = 0; j < $columns$ / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = warp_first + i * 16 + (int)(lane / 4) + e / 2 * 8;
            const int column = $column$ + j * 8 + (int)(lane % 4 * 2) + e % 2;
            if ($hidden$) $sums$[i][j][e] = -YK_INF_F32;
          }
    }
)",
                 {{"some", some},
                  {"hidden", hidden},
                  {"parts", text_of(parts)},
                  {"rows", text_of(parts * 16)},
                  {"columns", text_of(columns)},
                  {"last", text_of(columns - 1)},
                  {"column", column},
                  {"length", text_of(length)},
                  {"sums", sums}});
}

std::string store_text(const Rows& rows, const std::string& sums, const std::string& factor,
                       std::int64_t parts, const std::string& type) {
  std::string in = rows.length() % rows.count == 0 ? "" : "first + row < $length$";
  if (rows.size() / 8 < rows.pitch()) {
    in += (in.empty() ? "" : " && ") + std::string("chunk < $size$ / 8u");
  }
  return fill_in(R"(  {
#pragma unroll
    for (int i = 0; i < $parts$; ++i)
#pragma unroll
      for (int d = 0; d < $steps$ * 2; ++d)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const unsigned row = (warp * $parts$ + i) * 16 + lane / 4 + r * 8;
          yk_4_bytes* to = (yk_4_bytes*)(shared + (($place$ - place) / 16 + row * $pitch$ + (d ^ $to_swizzle$)));
          to[lane % 4] = yk_pack_$type$($sums$[i][d][r * 2] * $factor$, $sums$[i][d][r * 2 + 1] * $factor$);
        }
    yk_wait_for_warp();
#pragma unroll
    for (int e = 0; e < $parts$ * 16 * $pitch$ / 32; ++e) {
      const unsigned row = warp * ($parts$ * 16) + lane / $pitch$ + e * (32 / $pitch$), chunk = lane % $pitch$;
      const yk_16_bytes value = shared[($place$ - place) / 16 + row * $pitch$ + (chunk ^ $swizzle$)];
      $if$yk_store_halves($name$ + ((first + (int)row) * $stride$ll + chunk * 8), value, $name$_is_aligned);
    }
  }
)",
                 {{"parts", text_of(parts)},
                  {"steps", text_of(rows.steps())},
                  {"place", rows.place},
                  {"pitch", text_of(rows.pitch())},
                  {"to_swizzle", swizzle_text(rows.pitch(), "(lane / 4)")},
                  {"swizzle", swizzle_text(rows.pitch(), "row")},
                  {"type", type},
                  {"sums", sums},
                  {"factor", factor},
                  {"if", in.empty() ? "" : "if (" + in + ") "},
                  {"length", text_of(rows.length())},
                  {"size", text_of(rows.size())},
                  {"name", rows.name},
                  {"stride", std::to_string(rows.volume->strides[2])}});
}

}  // namespace yoke::codegen::attention
