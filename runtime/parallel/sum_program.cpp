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

std::string pack_text(std::uint64_t element_count) {
  const std::string n = "[" + std::to_string(element_count) + "]";
  const std::string lost = "(gradient[i] + residual[i]) - f32(wire[i])";
  return "yoke.program 1\nprogram " + std::string(kPackEntry) + "() {\n  arg gradient : f32" + n +
         " in\n  arg residual : f32" + n + " inout\n  arg wire : bf16" + n +
         " out\n  wire[i] = bf16(gradient[i] + residual[i])\n  residual[i] = select(abs(" + lost +
         ") < inf, " + lost + ", 0)\n}\n";
}

std::string unpack_text(std::uint64_t element_count) {
  const std::string n = "[" + std::to_string(element_count) + "]";
  return "yoke.program 1\nprogram " + std::string(kSumEntry) + "() {\n  arg own : f32" + n +
         " inout\n  arg incoming1 : bf16" + n + " in\n  own[i] = own[i] + f32(incoming1[i])\n}\n";
}

std::string running_text(program::Type type, std::uint64_t element_count, std::uint32_t terms,
                         bool has_next) {
  const std::string spec =
      " : " + std::string(program::type_name(type)) + "[" + std::to_string(element_count) + "]";
  std::string text = "yoke.program 1\nprogram " + std::string(kRunningEntry) + "() {\n  arg value" + spec +
                     (has_next ? " in\n" : " inout\n");
  std::string sum = "value[i]";
  for (std::uint32_t k = 0; k < terms; ++k) {
    const std::string gradient = "gradient_" + std::to_string(k);
    text += "  arg " + gradient + spec + " in\n";
    sum += " + " + gradient + "[i]";
  }
  text += has_next ? "  arg next_value" + spec + " out\n" : "";
  return text + (has_next ? "  next_value[i] = " : "  value[i] = ") + sum + "\n}\n";
}

void check_wire(Wire wire, MergeStrategy strategy) {
  if (wire_name(wire) == std::string_view("unknown")) {
    throw Error(ErrorCode::kInvalidArgument,
                "wire format " + std::to_string(static_cast<int>(wire)) + " does not exist");
  }
  if (wire == Wire::kBF16 && (strategy == MergeStrategy::kDirect || strategy == MergeStrategy::kNative)) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("wire format bf16: the merge strategy ") + merge_strategy_name(strategy) +
                    (strategy == MergeStrategy::kDirect ? " sends nothing" : " would also add up in bf16") +
                    "; use owner, tree or ring, or the wire format full");
  }
}

}  // namespace yoke::detail
