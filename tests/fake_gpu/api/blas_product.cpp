// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/blas_product.cpp: products of matrices on the CPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "blas.h"

namespace fake_gpu {
float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25));
}

std::uint16_t to_half(float value) {
  const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | 0x7e00U);
  }
  const float magnitude = std::fabs(value);
  if (magnitude == 0) {
    return static_cast<std::uint16_t>(sign);
  }
  if (magnitude >= 65520.0F) {  // rounds to infinity
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  int exponent = 0;
  (void)std::frexp(magnitude, &exponent);
  const int unit = std::max(exponent - 11, -24);  // the exponent of the last place
  const auto count = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // A count of 2048 carries into the exponent, which comes right before the fraction.
  return static_cast<std::uint16_t>(sign | (static_cast<unsigned>(unit + 24) * 1024U + count));
}

std::uint16_t to_brain(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) {
    return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

float from_brain(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, 4);
  return value;
}

std::uint64_t size_of(int type) {
  return type == kF32 ? 4 : 2;
}

float load(const char* memory, std::uint64_t index, int type) {
  if (type == kF32) {
    float value = 0;
    std::memcpy(&value, memory + 4 * index, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, memory + 2 * index, 2);
  if (type == kF16) {
    return from_half(bits);
  }
  return from_brain(bits);
}

void store(char* memory, std::uint64_t index, int type, float value) {
  if (type == kF32) {
    std::memcpy(memory + 4 * index, &value, 4);
    return;
  }
  const std::uint16_t bits = type == kF16 ? to_half(value) : to_brain(value);
  std::memcpy(memory + 2 * index, &bits, 2);
}

float to_tf32(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0xfffU + (bits >> 13 & 1U)) & ~0x1fffU;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

namespace {

// op(factor) without gaps, column by column.
std::vector<float> packed(const BlasCall& call, std::size_t which, std::int32_t matrix) {
  const BlasLayout& layout = call.layouts[which];
  const bool is_transposed = call.product.operations[which] == kTransposed;
  const char* memory = pointer(call.addresses[which]);
  const auto first = static_cast<std::uint64_t>(matrix * layout.batch_stride);
  std::vector<float> result(layout.rows * layout.columns);
  for (std::uint64_t column = 0; column < layout.columns; ++column) {
    for (std::uint64_t row = 0; row < layout.rows; ++row) {
      const std::uint64_t from = first + column * static_cast<std::uint64_t>(layout.pitch) + row;
      const float value = load(memory, from, layout.type);
      result[is_transposed ? row * layout.columns + column : column * layout.rows + row] =
          call.product.compute_type == kComputeTF32 ? to_tf32(value) : value;
    }
  }
  return result;
}

// Adds the terms [first, last) of a column's sums, in order.
void add_terms(const float* a, const float* b, std::uint64_t rows, std::uint64_t first, std::uint64_t last,
               float* sums) {
  for (std::uint64_t k = first; k < last; ++k) {
    const float factor = b[k];
    const float* column = a + k * rows;
    for (std::uint64_t row = 0; row < rows; ++row) {
      sums[row] += column[row] * factor;
    }
  }
}

void finish(const BlasCall& call, std::int32_t matrix, std::uint64_t column, const float* sums) {
  const BlasLayout& layout = call.layouts[2];
  char* memory = pointer(call.addresses[2]);
  const char* bias = pointer(call.product.bias);
  for (std::uint64_t row = 0; row < layout.rows; ++row) {
    const std::uint64_t at = static_cast<std::uint64_t>(matrix * layout.batch_stride) +
                             column * static_cast<std::uint64_t>(layout.pitch) + row;
    float value = sums[row];
    value += call.accumulates ? load(memory, at, layout.type) : 0.0F;
    value += (call.product.epilogue & kBias) != 0 ? load(bias, row, kF32) : 0.0F;
    // As on a GPU: NaN becomes 0.
    value = (call.product.epilogue & kRelu) != 0 && !(value > 0) ? 0.0F : value;
    store(memory, at, layout.type, value);
  }
}

}  // namespace

std::uint64_t extent_of(const BlasLayout& layout) {
  const std::uint64_t last = static_cast<std::uint64_t>((layout.batch - 1) * layout.batch_stride) +
                             (layout.columns - 1) * static_cast<std::uint64_t>(layout.pitch) + layout.rows -
                             1;
  return (last + 1) * size_of(layout.type);
}

std::uint64_t workspace_of(const BlasCall& call) {
  const BlasLayout& result = call.layouts[2];
  return 2 * result.rows * result.columns * static_cast<std::uint64_t>(result.batch) * sizeof(float);
}

void run_product(const BlasCall& call) {
  const BlasLayout& result = call.layouts[2];
  const std::uint64_t rows = result.rows;
  auto* parts = reinterpret_cast<float*>(pointer(call.workspace));
  std::vector<float> sums(rows);
  for (std::int32_t matrix = 0; matrix < result.batch; ++matrix) {
    const std::vector<float> a = packed(call, 0, matrix);
    const std::vector<float> b = packed(call, 1, matrix);
    for (std::uint64_t column = 0; column < result.columns; ++column) {
      const float* factors = b.data() + column * call.depth;
      std::fill(sums.begin(), sums.end(), 0.0F);
      if (parts == nullptr) {
        add_terms(a.data(), factors, rows, 0, call.depth, sums.data());
      } else {
        std::fill(parts, parts + 2 * rows, 0.0F);
        add_terms(a.data(), factors, rows, 0, call.depth / 2, parts);
        add_terms(a.data(), factors, rows, call.depth / 2, call.depth, parts + rows);
        std::transform(parts, parts + rows, parts + rows, sums.begin(),
                       [](float x, float y) { return x + y; });
        parts += 2 * rows;
      }
      finish(call, matrix, column, sums.data());
    }
  }
}

}  // namespace fake_gpu
