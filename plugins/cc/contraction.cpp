// SPDX-License-Identifier: Apache-2.0
// plugins/cc/contraction.cpp: recognizes sums of products: matrix
// products, batched, transposed, with offsets.
#include "contraction.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace yoke::cc {

using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using program::Type;

std::int64_t extent_of(const std::vector<Axis>& axes) {
  std::int64_t extent = 1;
  for (const Axis& axis : axes) {
    extent *= axis.extent;
  }
  return extent;
}

std::int64_t Contraction::multiplications() const {
  return extent_of(batch) * extent_of(m) * extent_of(n) * extent_of(k);
}

namespace {

// Merges an outer loop with the next inner one if every tensor steps over both with a single stride.
std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  for (const Axis& inner : axes) {
    if (!result.empty()) {
      Axis& outer = result.back();
      if (outer.a == inner.a * inner.extent && outer.b == inner.b * inner.extent &&
          outer.t == inner.t * inner.extent) {
        outer = {outer.extent * inner.extent, inner.a, inner.b, inner.t};
        continue;
      }
    }
    result.push_back(inner);
  }
  return result;
}

Operand operand(const Program& program, const Statement& statement, const program::Access& access) {
  return {access.tensor, program.tensors[access.tensor].type, linear_form(program, statement, access)};
}

// A product without its guard.
const Expr& product_of(const Statement& statement) {
  return statement.value.op == Op::kGuard ? statement.value.args[0] : statement.value;
}

bool is_factor(const Expr& expr) {
  const Expr& read = expr.op == Op::kCast ? expr.args[0] : expr;
  if (read.op != Op::kRead) {
    return false;
  }
  // Only these casts may be skipped: between floats without losing a value, or between integers, which wrap.
  const bool wider = (program::is_float(expr.type) && program::is_float(read.type)) ||
                     (program::is_integer(expr.type) && program::is_integer(read.type));
  return wider && (read.type != Type::kF64 || expr.type == Type::kF64);
}

bool is_product_type(Type type) {
  return type == Type::kF32 || type == Type::kF64 || type == Type::kI32 || type == Type::kU32 ||
         type == Type::kI64;
}

bool contiguous_in_target(const std::vector<Axis>& axes) {
  return std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.t == 1; });
}

// Swaps the operands if that makes rows of the target contiguous along n.
void orient(Contraction& c) {
  if (!contiguous_in_target(c.m)) {
    return;
  }
  std::swap(c.a, c.b);
  std::swap(c.m, c.n);
  for (std::vector<Axis>* axes : {&c.batch, &c.m, &c.n, &c.k}) {
    for (Axis& axis : *axes) {
      std::swap(axis.a, axis.b);
    }
  }
}

}  // namespace

const program::Access& read_of(const Statement& statement, std::size_t factor) {
  const Expr& expr = product_of(statement).args[factor];
  return expr.op == Op::kCast ? expr.args[0].access : expr.access;
}

std::optional<SumOfProducts> sum_of_products(const Program& program, const Statement& statement,
                                             std::string& why_not) {
  const auto no = [&](const char* reason) {
    why_not = reason;
    return std::nullopt;
  };
  const Expr& value = product_of(statement);
  if (statement.reduce != program::Reduce::kSum || value.op != Op::kMul) {
    return no("not a sum of products");
  }
  if (!is_product_type(value.type) || statement.accumulator_type() != value.type) {
    return no("unsupported type of products or sums");
  }
  if (!is_factor(value.args[0]) || !is_factor(value.args[1])) {
    return no("a factor is not a plain read");
  }
  if (has_element_index(statement.target)) {
    return no("the target is a scatter");
  }
  return SumOfProducts{operand(program, statement, read_of(statement, 0)),
                       operand(program, statement, read_of(statement, 1)),
                       operand(program, statement, statement.target), value.type, statement.assign};
}

const char* set_axes(const Statement& statement, const std::vector<bool>& skipped, Contraction& product) {
  for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
    const Axis axis{static_cast<std::int64_t>(statement.loops[i].extent), product.a.form.loops[i],
                    product.b.form.loops[i], product.t.form.loops[i]};
    if (axis.extent == 1 || skipped[i]) {
      continue;
    }
    if (statement.reduces(i)) {
      if (axis.a == 0 || axis.b == 0) {
        return "a summed loop appears in only one factor";
      }
      product.k.push_back(axis);
    } else if (axis.a == 0 && axis.b == 0) {
      return "a loop of the target appears in neither factor";
    } else {
      (axis.b == 0 ? product.m : axis.a == 0 ? product.n : product.batch).push_back(axis);
    }
  }
  for (std::vector<Axis>* axes : {&product.batch, &product.m, &product.n, &product.k}) {
    *axes = merged(*axes);
  }
  return nullptr;
}

std::optional<Contraction> recognize(const Program& program, const Statement& statement,
                                     std::string& why_not) {
  auto sum = sum_of_products(program, statement, why_not);
  if (!sum) {
    return std::nullopt;
  }
  Contraction product{std::move(*sum), {}, {}, {}, {}};
  const char* reason = set_axes(statement, std::vector<bool>(statement.loops.size()), product);
  if (may_be_out_of_range(program, statement, read_of(statement, 0)) ||
      may_be_out_of_range(program, statement, read_of(statement, 1))) {
    reason = "a factor is not a plain read";
  } else if (reason == nullptr && (product.k.empty() || product.m.empty() || product.n.empty())) {
    reason = "not a product of two matrices";
  }
  if (reason != nullptr) {
    why_not = reason;
    return std::nullopt;
  }
  orient(product);
  return product;
}

namespace {

bool is_read_at(const Expr& expr, const program::Access& place) {
  return expr.op == Op::kRead && expr.access.tensor == place.tensor && expr.access.indices == place.indices;
}

// The other operand of a sum or a product with the value at `place`; null if the expression is not one.
const Expr* other_operand(const Expr& expr, Op op, const program::Access& place) {
  for (const std::size_t i : {0U, 1U}) {
    if (expr.op == op && is_read_at(expr.args[i], place)) {
      return &expr.args[1 - i];
    }
  }
  return nullptr;
}

// Recognizes target - scale * z.
bool is_update(const Program& program, const Statement& contraction, const Statement& next,
               Epilogue& epilogue) {
  const std::uint32_t z = contraction.target.tensor;
  const std::uint32_t target = next.target.tensor;
  const Expr* scale = other_operand(next.value.args[1], Op::kMul, contraction.target);
  if (scale == nullptr || target == z || !is_read_at(next.value.args[0], next.target)) {
    return false;
  }
  epilogue.kind = Epilogue::Kind::kUpdate;
  if (scale->op == Op::kConst) {
    epilogue.constant = static_cast<float>(scale->literal.number);
    return true;
  }
  if (scale->op != Op::kRead) {
    return false;
  }
  epilogue.operand = operand(program, next, scale->access);
  return scale->access.indices.empty() && scale->access.tensor != target && scale->access.tensor != z;
}

// Recognizes z + bias[n], and its maximum with 0.
bool adds_bias(const Program& program, const Statement& contraction, const Contraction& shape,
               const Statement& next, Epilogue& epilogue) {
  const Expr* sum = &next.value;
  if (sum->op == Op::kMax && sum->args[1].op == Op::kConst && sum->args[1].literal.number == 0 &&
      !std::signbit(sum->args[1].literal.number)) {
    epilogue.kind = Epilogue::Kind::kRelu;
    sum = &sum->args[0];
  }
  const Expr* bias = other_operand(*sum, Op::kAdd, contraction.target);
  if (bias == nullptr || bias->op != Op::kRead || bias->access.tensor == contraction.target.tensor ||
      bias->access.tensor == next.target.tensor || may_be_out_of_range(program, next, bias->access) ||
      shape.n.size() != 1 || shape.n[0].t != 1) {
    return false;
  }
  epilogue.operand = operand(program, next, bias->access);
  for (std::size_t i = 0; i < next.loops.size(); ++i) {
    const std::int64_t step = shape.a.form.loops[i] == 0 ? shape.t.form.loops[i] : 0;
    if (next.loops[i].extent > 1 && epilogue.operand->form.loops[i] != step) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Epilogue> recognize_epilogue(const Program& program, const Statement& contraction,
                                           const Contraction& shape, const Statement& next) {
  if (contraction.assign != program::Assign::kSet || next.assign != program::Assign::kSet || next.reduce ||
      next.repeat != contraction.repeat || has_element_index(next.target) ||
      next.loops.size() + contraction.reduce_loops.size() != contraction.loops.size()) {
    return std::nullopt;
  }
  Epilogue epilogue{.target = operand(program, next, next.target)};
  for (std::size_t i = 0; i < next.loops.size(); ++i) {
    const std::uint64_t extent = next.loops[i].extent;
    if (extent != contraction.loops[i].extent ||
        (extent > 1 && epilogue.target.form.loops[i] != shape.t.form.loops[i])) {
      return std::nullopt;
    }
  }
  const bool is_known = next.value.op == Op::kSub ? is_update(program, contraction, next, epilogue)
                                                  : adds_bias(program, contraction, shape, next, epilogue);
  return is_known ? std::optional(std::move(epilogue)) : std::nullopt;
}

}  // namespace yoke::cc
