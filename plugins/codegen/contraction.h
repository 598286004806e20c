// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/contraction.h: tiled kernels for sums of products: matrix products and convolutions.
//
// Every sum of products of two reads is one: its loops are those of the batch (in both factors), the rows m
// (in the first factor), the columns n (in the second) and the depth k (summed). A convolution is one too
// (implicit GEMM): the address of an element has a part for the row and a part for the depth, and elements in
// the padding count as 0.
#pragma once

#include <yoke/program/program.h>

#include <string>

#include "builder.h"

namespace yoke::codegen {

// Adds the kernels and launches of a sum of products to the current step. The parts of a sum depend on extents
// and on the target only: results have the same bits from run to run. Returns false and sets `why_not` if the
// statement is something else, too small for tiles, or has a vector as a factor.
bool plan_contraction(Builder& builder, const program::Statement& statement, std::string& why_not);

}  // namespace yoke::codegen
