// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/convolution.h: recognizes convolutions and their gradients, for libraries of the vendor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "codegen.h"
#include "matmul.h"

namespace yoke::codegen {

// A LibraryConvolution and the tensors of x, w and y.
struct FoundConvolution {
  LibraryConvolution convolution;
  std::array<std::uint32_t, 3> tensors = {};
};

// Describes a product that is a convolution in one or two dimensions, or the gradient of one. Otherwise returns
// nothing; `why_not` stays empty if the product has no windows at all. Precondition: no symbols in the addresses.
std::optional<FoundConvolution> find_convolution(const program::Program& program,
                                                 const program::Statement& statement,
                                                 const matmul::Product& product, std::string& why_not);

}  // namespace yoke::codegen
