// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/library_product.h: products and convolutions that libraries of the vendor compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

// Plans a launch of the builder's library for the first of these statements, which computes `product`, and for a
// statement after it that rounds the result. Returns how many statements it planned. If it planned none although
// a library is available, it adds to `remark` why the library does not compute the convolution.
std::size_t plan_library_convolution(Builder& builder, std::span<const std::size_t> statements,
                                     const matmul::Product& product, std::string& remark);

// Why no library computes the sum in these types, or with symbols in its addresses; null: libraries may.
const char* library_fault(const program::Program& program, const program::Statement& statement,
                          const matmul::Product& product);

// The number of the last element after the first. Empty if elements overlap, or if numbers of elements exceed an int,
// which the libraries take.
std::optional<std::uint64_t> last_element(const Volume& volume);

// The result of `product`, which the first of these statements computes, or what the second one rounds it to.
struct RoundedResult {
  std::size_t statement_count = 1;
  std::uint32_t target = 0;
  program::Type type = program::Type::kF32;
};
RoundedResult rounded_result(const program::Program& program, std::span<const std::size_t> statements,
                             const matmul::Product& product);

}  // namespace yoke::codegen
