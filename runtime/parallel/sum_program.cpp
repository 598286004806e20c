// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/sum_program.cpp: writes the programs that add up tensors.
#include "parallel/sum_program.h"

#include <yoke/program/text.h>

namespace yoke::detail {

std::uint64_t flat_count(const TensorSpec& spec) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : spec.dims) {
    count *= dim;
  }
  return count;
}

std::string sum_text(program::Type type, std::uint64_t element_count, std::uint32_t terms, double scale) {
  using program::Expr;
  using program::Role;
  program::Program result;
  result.name = kSumEntry;
  const program::Access own{0, {program::Index{program::Affine::loop(0), {}, {}}}, {}};
  Expr value = Expr::read(type, own);
  result.tensors.push_back({"own", type, {element_count}, Role::kInOut, {}});
  for (std::uint32_t k = 1; k < terms; ++k) {
    result.tensors.push_back({"incoming" + std::to_string(k), type, {element_count}, Role::kIn, {}});
    program::Access read = own;
    read.tensor = k;
    value = Expr::make(program::Op::kAdd, {std::move(value), Expr::read(type, read)});
  }
  if (scale != 1) {
    value = Expr::make(program::Op::kMul, {std::move(value), Expr::constant(type, scale)});
  }
  program::Statement statement;
  statement.loops = {{"i", element_count}};
  statement.target = own;
  statement.value = std::move(value);
  result.statements.push_back(std::move(statement));
  return program::print(result);
}

}  // namespace yoke::detail
