// SPDX-License-Identifier: Apache-2.0
// plugins/cc/contraction.cpp: recognizes sums of products: matrix
// products, batched, transposed, with offsets.
#include "contraction.h"

#include <algorithm>
#include <cstdlib>
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
  if (read.op != Op::kRead || read.type == Type::kBool) {
    return false;
  }
  // Only these casts may be skipped: between floats without losing a value, or between integers, which wrap.
  const bool wider = expr.type == read.type ||
                     (program::is_float(expr.type) && program::is_float(read.type)) ||
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

std::optional<BiasAdd> recognize_bias(const Program& program, const Statement& contraction,
                                      const Contraction& shape, const Statement& next) {
  if (contraction.assign != program::Assign::kSet || next.assign != program::Assign::kSet || next.reduce ||
      next.value.op != Op::kAdd || shape.n.size() != 1 || shape.n[0].t != 1) {
    return std::nullopt;
  }
  const std::size_t loops = next.loops.size();
  if (loops + contraction.reduce_loops.size() != contraction.loops.size() ||
      next.target.indices != contraction.target.indices) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < loops; ++i) {
    if (next.loops[i].extent != contraction.loops[i].extent) {
      return std::nullopt;
    }
  }
  for (const std::size_t place : {std::size_t{0}, std::size_t{1}}) {
    const Expr& sum = next.value.args[place];
    const Expr& bias = next.value.args[1 - place];
    if (sum.op != Op::kRead || bias.op != Op::kRead || sum.access.tensor != contraction.target.tensor ||
        bias.access.tensor == contraction.target.tensor || sum.access.indices != contraction.target.indices ||
        may_be_out_of_range(program, next, bias.access)) {
      continue;
    }
    BiasAdd result;
    result.bias = operand(program, next, bias.access);
    result.target = operand(program, next, next.target);
    bool fits = bias.access.tensor != next.target.tensor;
    for (std::size_t i = 0; i < loops; ++i) {
      const std::int64_t t = shape.t.form.loops[i];
      const bool along_n = t != 0 && next.loops[i].extent > 1 && shape.a.form.loops[i] == 0;
      fits = fits && (next.loops[i].extent == 1 ||
                      (result.target.form.loops[i] == t && result.bias.form.loops[i] == (along_n ? t : 0)));
    }
    if (fits) {
      return result;
    }
  }
  return std::nullopt;
}

}  // namespace yoke::cc
