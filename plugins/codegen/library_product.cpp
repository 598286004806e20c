// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/library_product.cpp: describes products in the terms of the vendors' libraries.
#include "library_product.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "group.h"

namespace yoke::codegen {
namespace {

using matmul::Product;
using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using program::Type;

// The rows of a library's result are the columns n of the product: libraries store matrices column by column.
class Describer {
 public:
  Describer(const Program& program, const Statement& statement, const Product& product)
      : product_(product), statement_(statement), result_type_(program.tensors[product.target].type) {}

  // Returns null, or why libraries do not compute the product.
  const char* run(LibraryProduct& out) const;

 private:
  std::int64_t step(const std::vector<matmul::Axis>& axes, std::size_t form) const {
    return axes.empty() ? 0 : axes[0].steps[form];
  }
  // The matrix whose op() has these axes. Empty if its elements are not neighbors along either.
  std::optional<Matrix> matrix(Type type, std::size_t form, const std::vector<matmul::Axis>& rows,
                               const std::vector<matmul::Axis>& columns) const;

  const Product& product_;
  const Statement& statement_;
  Type result_type_;
};

std::optional<Matrix> Describer::matrix(Type type, std::size_t form, const std::vector<matmul::Axis>& rows,
                                        const std::vector<matmul::Axis>& columns) const {
  const bool is_transposed = step(rows, form) != 1;
  const std::vector<matmul::Axis>& inner = is_transposed ? columns : rows;
  const std::vector<matmul::Axis>& outer = is_transposed ? rows : columns;
  const std::int64_t pitch = step(outer, form);
  if (step(inner, form) != 1 || pitch < inner[0].extent || step(product_.batch, form) < 0) {
    return std::nullopt;
  }
  Matrix matrix;
  matrix.type = type;
  matrix.rows = static_cast<std::uint64_t>(inner[0].extent);
  matrix.columns = static_cast<std::uint64_t>(outer[0].extent);
  matrix.pitch = static_cast<std::uint64_t>(pitch);
  matrix.batch_stride = static_cast<std::uint64_t>(step(product_.batch, form));
  matrix.offset = static_cast<std::uint64_t>(product_.forms[form].constant);
  matrix.is_transposed = is_transposed;
  return matrix;
}

const char* Describer::run(LibraryProduct& out) const {
  if (!product_.a.checks.empty() || !product_.b.checks.empty()) {
    return "reads may be out of range";
  }
  if (product_.m.size() != 1 || product_.n.size() != 1 || product_.k.size() != 1 ||
      product_.batch.size() > 1) {
    return "the loops are not those of matrices";
  }
  const auto a = matrix(product_.b.type, product_.b.address, product_.n, product_.k);
  const auto b = matrix(product_.a.type, product_.a.address, product_.k, product_.m);
  const auto result = matrix(result_type_, matmul::kTarget, product_.n, product_.m);
  if (!a || !b || !result || result->is_transposed) {
    return "the strides are not those of matrices";
  }
  out.a = *a;
  out.b = *b;
  out.result = *result;
  out.depth = static_cast<std::uint64_t>(product_.k[0].extent);
  out.batch = static_cast<std::uint64_t>(extent_of(product_.batch));
  out.accumulates = statement_.assign == program::Assign::kAdd;
  return nullptr;
}

// The number of the element that the access reads or writes; nothing for accesses with element indices.
std::optional<program::Affine> element(const Program& program, const program::Access& access) {
  const std::vector<std::uint64_t> strides = strides_of(program.tensors[access.tensor]);
  program::Affine sum;
  for (std::size_t i = 0; i < access.indices.size(); ++i) {
    const program::Index& index = access.indices[i];
    if (index.element_of || index.divisor != 1 ||
        !program::add_scaled(sum, index.affine, static_cast<std::int64_t>(strides[i]))) {
      return std::nullopt;
    }
  }
  return sum;
}

// A product and the statements after it that a library may compute with it.
struct Fused {
  LibraryProduct product;
  std::vector<std::size_t> statements;
  std::uint32_t target = 0;
  std::uint32_t bias = 0;
};

// Adds statements that apply a bias or relu to each element of the result, or round it to the factors' type.
class Fuser {
 public:
  Fuser(const Program& program, const Product& product, const Fused& start)
      : program_(program), product_(product), fused_(start) {}

  // Returns whether the library may compute this statement too, right after the others.
  bool add(std::size_t number);
  const Fused& fused() const { return fused_; }

 private:
  const Statement& first() const { return program_.statements[fused_.statements[0]]; }
  bool has_same_loops(const Statement& next) const;
  bool is_result(const Expr& expr) const;
  bool is_bias(const Expr& expr) const;
  bool match_sum(const Expr& expr);

  const Program& program_;
  const Product& product_;
  Fused fused_;
};

bool Fuser::has_same_loops(const Statement& next) const {
  if (next.loops.size() + first().reduce_loops.size() != first().loops.size()) {
    return false;
  }
  for (std::uint32_t i = 0; i < next.loops.size(); ++i) {
    if (next.loops[i].extent != first().loops[i].extent || first().reduces(i)) {
      return false;
    }
  }
  return true;
}

bool Fuser::is_result(const Expr& expr) const {
  return expr.op == Op::kRead && expr.access.tensor == fused_.target &&
         element(program_, expr.access) == element(program_, first().target);
}

// Whether the expression is an element of a vector over the columns n of the product.
bool Fuser::is_bias(const Expr& expr) const {
  if (expr.op != Op::kRead || expr.type != Type::kF32 || has_element_index(expr.access)) {
    return false;
  }
  const auto at = element(program_, expr.access);
  const matmul::Axis& columns = product_.n[0];
  const std::vector<std::uint32_t>& loops = columns.loops;
  if (!at || at->terms.size() != loops.size() || may_be_out_of_range(program_, first(), expr.access)) {
    return false;
  }
  std::int64_t stride = 1;
  for (std::size_t i = loops.size(); i-- > 0;) {
    const auto term = std::find_if(at->terms.begin(), at->terms.end(), [&](const auto& one) {
      return !one.is_symbol && one.id == loops[i] && one.coefficient == stride;
    });
    if (term == at->terms.end()) {
      return false;
    }
    stride *= static_cast<std::int64_t>(first().loops[loops[i]].extent);
  }
  return true;
}

bool Fuser::match_sum(const Expr& expr) {
  if (is_result(expr)) {
    return true;
  }
  if (expr.op != Op::kAdd || fused_.product.has_bias || fused_.product.has_relu) {
    return false;
  }
  const bool is_first = is_result(expr.args[0]);
  const Expr& other = expr.args[is_first ? 1 : 0];
  if (!is_result(expr.args[is_first ? 0 : 1]) || !is_bias(other)) {
    return false;
  }
  fused_.product.has_bias = true;
  fused_.product.bias_offset = static_cast<std::uint64_t>(element(program_, other.access)->constant);
  fused_.bias = other.access.tensor;
  return true;
}

bool Fuser::add(std::size_t number) {
  const Statement& next = program_.statements[number];
  const std::uint32_t target = next.target.tensor;
  const Type type = program_.tensors[target].type;
  const bool is_rounded = type != Type::kF32;  // a library rounds last
  if (!is_elementwise(next) || next.assign != program::Assign::kSet || fused_.product.accumulates ||
      fused_.product.result.type != Type::kF32 || !has_same_loops(next) ||
      element(program_, next.target) != element(program_, first().target) || target == product_.a.tensor ||
      target == product_.b.tensor) {
    return false;
  }
  if (is_rounded && (type != product_.a.type || next.value.op != Op::kCast)) {
    return false;
  }
  const Fused before = fused_;
  fused_.statements.push_back(number);
  const bool is_kept =
      target != fused_.target && !private_tensors(program_, fused_.statements).contains(fused_.target);
  const Expr& value = is_rounded ? next.value.args[0] : next.value;
  const auto is_zero = [](const Expr& expr) { return expr.op == Op::kConst && expr.literal.number == 0; };
  const bool is_relu = value.op == Op::kMax && (is_zero(value.args[0]) || is_zero(value.args[1]));
  const Expr& sum = is_relu ? value.args[is_zero(value.args[0]) ? 1 : 0] : value;
  if (is_kept || !match_sum(sum) || (is_relu && fused_.product.has_relu) ||
      (fused_.product.has_bias && (is_rounded || fused_.bias == target))) {
    fused_ = before;
    return false;
  }
  fused_.product.has_relu = fused_.product.has_relu || is_relu;
  fused_.product.result.type = type;
  fused_.target = target;
  return true;
}

// The product alone, then with one more statement each time.
std::vector<Fused> choices(const Program& program, std::span<const std::size_t> statements,
                           const Product& product, const LibraryProduct& alone) {
  std::vector<Fused> all = {{alone, {statements[0]}, product.target, 0}};
  Fuser fuser(program, product, all[0]);
  for (const std::size_t number : statements.subspan(1)) {
    if (!fuser.add(number)) {
      break;
    }
    all.push_back(fuser.fused());
  }
  return all;
}

std::string matrix_text(const LibraryProduct& product) {
  std::string text = std::to_string(product.result.columns) + " x " + std::to_string(product.result.rows) +
                     " x " + std::to_string(product.depth);
  return product.batch == 1 ? text : text + ", batch " + std::to_string(product.batch);
}

}  // namespace

const char* library_fault(const Program& program, const Statement& statement, const Product& product) {
  const Type type = product.a.type;
  const Type result_type = program.tensors[product.target].type;
  if (product.sum != Type::kF32 || type == Type::kF64) {
    return "f64";
  }
  if (type != product.b.type) {
    return "the factors have different types";
  }
  if (result_type != Type::kF32 && result_type != type) {
    return "the result has another type than the factors";
  }
  if (statement.assign != program::Assign::kSet && statement.assign != program::Assign::kAdd) {
    return "the assignment is neither = nor +=";
  }
  if (statement.assign == program::Assign::kAdd && result_type != Type::kF32) {
    return "+= rounds the sum before it adds it";
  }
  return product.uses(false) || product.uses(true) ? "addresses depend on symbols" : nullptr;
}

RoundedResult rounded_result(const Program& program, std::span<const std::size_t> statements,
                             const Product& product) {
  LibraryProduct alone;
  alone.result.type = program.tensors[product.target].type;
  alone.accumulates = program.statements[statements[0]].assign == program::Assign::kAdd;
  for (const Fused& one : choices(program, statements, product, alone)) {
    if (one.product.result.type != alone.result.type && !one.product.has_bias && !one.product.has_relu) {
      return {one.statements.size(), one.target, one.product.result.type};
    }
  }
  return {1, product.target, alone.result.type};
}

std::size_t plan_library_product(Builder& builder, std::span<const std::size_t> statements,
                                 const Product& product, std::string& remark) {
  VendorLibrary<LibraryProduct>* library = builder.libraries().products;
  if (library == nullptr || !library->is_available()) {
    return 0;
  }
  const Program& program = builder.program();
  LibraryProduct alone;
  const Statement& statement = program.statements[statements[0]];
  const char* reason = library_fault(program, statement, product);
  reason = reason == nullptr ? Describer(program, statement, product).run(alone) : reason;
  if (reason != nullptr) {
    remark = std::string("not by ") + library->name() + ": " + reason;
    return 0;
  }
  std::vector<Fused> all = choices(program, statements, product, alone);
  std::optional<std::uint64_t> workspace;
  while (!all.empty() && !(workspace = library->workspace_for(all.back().product))) {
    all.pop_back();
  }
  if (!workspace) {
    remark = std::string("not by ") + library->name() + ": it does not support the product";
    return 0;
  }
  Fused& chosen = all.back();
  builder.begin_step(chosen.statements);
  Launch launch;
  launch.slots = {builder.slot(product.b.tensor), builder.slot(product.a.tensor),
                  builder.slot(chosen.target)};
  if (chosen.product.has_bias) {
    launch.slots.push_back(builder.slot(chosen.bias));
  }
  if (*workspace != 0) {
    launch.slots.push_back(builder.scratch(*workspace));
  }
  chosen.product.workspace_byte_count = *workspace;
  launch.remark = std::string("by ") + library->name() + ": " + matrix_text(chosen.product) +
                  (chosen.product.has_bias ? ", bias" : "") + (chosen.product.has_relu ? ", relu" : "") +
                  (chosen.product.result.type != Type::kF32 ? ", rounded" : "");
  launch.product = chosen.product;
  builder.launch(std::move(launch));
  return chosen.statements.size();
}

}  // namespace yoke::codegen
