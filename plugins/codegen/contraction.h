// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/contraction.h: tiled kernels for sums of products: matrix products and convolutions.
//
// Any sum of products of two reads qualifies. Its loops are those of the batch (in both factors), the rows m
// (in the first factor), the columns n (in the second) and the depth k (summed). A convolution qualifies too
// (implicit GEMM): the address of an element has a part for the row and a part for the depth, and elements in
// the padding count as 0.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <span>
#include <string>

#include "builder.h"

namespace yoke::codegen {

// Plans the first of these statements of one block, which is a sum of products, and those after it that use
// each element of the result by itself. Returns how many statements it planned; none if the first is
// something else, too small for tiles, or has a vector as a factor: `why_not` is then the reason. The parts
// of a sum depend on extents and on the target only: results have the same bits from run to run.
std::size_t plan_contraction(Builder& builder, std::span<const std::size_t> statements, std::string& why_not);

}  // namespace yoke::codegen
