// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/library_product.h: products that a library of the vendor computes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "builder.h"
#include "matmul.h"

namespace yoke::codegen {

// Plans the first of these statements, which computes `product`, as a launch of the builder's library, and the
// statements after it that add a bias, apply relu or round the result. Returns how many statements it planned. If that is none,
// `remark` says why the library is not used; it is empty if there is none.
std::size_t plan_library_product(Builder& builder, std::span<const std::size_t> statements,
                                 const matmul::Product& product, std::string& remark);

}  // namespace yoke::codegen
