// SPDX-License-Identifier: Apache-2.0
// plugins/cc/contraction.h: recognizes sums of products: matrix products, batched, transposed, with offsets.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "access.h"

namespace yoke::cc {

// Below this many multiplications, calling a library costs more than the product itself.
inline constexpr std::int64_t kSmallProduct = 1024;

// One loop of a contraction, or several merged loops, and its stride in each tensor, in elements.
struct Axis {
  std::int64_t extent = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t t = 0;
};

struct Operand {
  std::uint32_t tensor = 0;
  program::Type type = program::Type::kF32;
  Form form;  // over the statement's loops; its constant and symbols give the offset
};

// t assign sum of a * b.
struct SumOfProducts {
  Operand a;
  Operand b;
  Operand t;
  program::Type type = program::Type::kF32;  // of products and sums
  program::Assign assign = program::Assign::kSet;
};
// A factor may be cast between float types without losing a value, or between integer types, which wrap.
// Does not check that the factors' indices are in range. Returns nothing and sets `why_not` if the
// statement does something else.
std::optional<SumOfProducts> sum_of_products(const program::Program& program,
                                             const program::Statement& statement, std::string& why_not);
// The read of factor 0 or 1 of a sum of products.
const program::Access& read_of(const program::Statement& statement, std::size_t factor);

// t[batch, m, n] assign sum over k of a[batch, m, k] * b[batch, n, k].
struct Contraction : SumOfProducts {
  std::vector<Axis> batch;  // in both operands and the target. All axes are listed from outer to inner.
  std::vector<Axis> m;      // in a and the target
  std::vector<Axis> n;  // in b and the target; if any axis is contiguous in the target, the last one here is
  std::vector<Axis> k;  // in a and b

  std::int64_t multiplications() const;
};

// Returns nothing and sets `why_not` if the statement is not a product of matrices. Tile kernels compute the
// products of a matrix and a vector.
std::optional<Contraction> recognize(const program::Program& program, const program::Statement& statement,
                                     std::string& why_not);

// Sets the axes of `product` from the statement's loops, except from those in `skipped`, and merges the axes
// over which every tensor steps with a single stride. Returns null, or why a loop does not fit.
const char* set_axes(const program::Statement& statement, const std::vector<bool>& skipped,
                     Contraction& product);

// What the statement right after a contraction computes from its result z, with the strides of z.
struct Epilogue {
  enum class Kind : std::uint8_t {
    kBias,   // target = z + bias[n]
    kRelu,   // target = max(z + bias[n], 0)
    kUpdate  // target = target - scale * z
  };
  Kind kind = Kind::kBias;
  Operand target{};
  std::optional<Operand> operand{};  // the bias, contiguous along n, or the scale if it is a scalar tensor
  float constant = 0;                // otherwise the scale
};
std::optional<Epilogue> recognize_epilogue(const program::Program& program,
                                           const program::Statement& contraction, const Contraction& shape,
                                           const program::Statement& next);

std::int64_t extent_of(const std::vector<Axis>& axes);

}  // namespace yoke::cc
