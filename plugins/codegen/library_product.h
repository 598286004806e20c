// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/library_product.h: products that a library of the vendor computes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "builder.h"
#include "matmul.h"

namespace yoke::codegen {

// Plans a launch of the builder's library for the first of these statements, which computes `product`, and
// for the statements after it that add a bias, apply relu or round the result. Returns how many statements it
// planned. If it planned none, `remark` says why the library does not compute the product; it is empty if no
// library is available.
std::size_t plan_library_product(Builder& builder, std::span<const std::size_t> statements,
                                 const matmul::Product& product, std::string& remark);

}  // namespace yoke::codegen
