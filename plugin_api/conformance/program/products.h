// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/products.h: plain products of two tensors, y[b, i, j] = sum[k] x[b, i, k] * w[b, k, j]
// in every layout. Backends write these by hand and pack, tile, split and special-case them, so they have their own
// tests.
#pragma once

#include <cstdint>

#include "case.h"

namespace yoke::conformance {

// What the products of a family have in common.
enum class ProductFamily : std::uint8_t {
  kLayouts,   // every order of indices, batches, padded and shifted tensors, = and +=
  kBorders,   // one extent is at a border of tiles or a power of two, up to 4,097
  kBeyond16,  // an extent, or the number of elements, exceeds 2^16
  kTypes,     // element types, accumulators, casts, targets of another type
  kSpecial,   // infinities and NaN, also multiplied by zero
  kOperands   // one tensor as both factors, arguments that share memory, a target that is read
};

// Case `index` of a family: valid, and a function of its arguments. f32, or the first type of the mask (compare
// GeneratorOptions) if it lacks f32.
Case product_case(ProductFamily family, std::uint64_t seed, std::uint64_t index, std::uint64_t type_mask);

}  // namespace yoke::conformance
