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

std::optional<Operand> factor(const Program& program, const Statement& statement, const Expr& expr) {
  const Expr& read = expr.op == Op::kCast ? expr.args[0] : expr;
  if (read.op != Op::kRead || read.type == Type::kBool) {
    return std::nullopt;
  }
  // Only casts that preserve every value may be skipped: the product is then the same.
  const bool wider = expr.type == read.type ||
                     (program::is_float(expr.type) && program::is_float(read.type)) ||
                     (program::is_integer(expr.type) && program::is_integer(read.type));
  if (!wider || (read.type == Type::kF64 && expr.type != Type::kF64)) {
    return std::nullopt;
  }
  return Operand{read.access.tensor, read.type, linear_form(program, statement, read.access)};
}

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

namespace {

// A factor whose address is a linear form that is in range in every iteration.
std::optional<Operand> operand(const Program& program, const Statement& statement, const Expr& expr) {
  const Expr& read = expr.op == Op::kCast ? expr.args[0] : expr;
  if (read.op != Op::kRead || may_be_out_of_range(program, statement, read.access)) {
    return std::nullopt;
  }
  return factor(program, statement, expr);
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
  const bool swap = contiguous_in_target(c.m) || (!contiguous_in_target(c.n) && c.n.empty() && !c.m.empty());
  if (!swap) {
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

std::optional<Contraction> recognize(const Program& program, const Statement& statement,
                                     std::string& why_not) {
  const auto no = [&](const char* reason) {
    why_not = reason;
    return std::nullopt;
  };
  const bool guarded = statement.value.op == Op::kGuard;
  const Expr& value = guarded ? statement.value.args[0] : statement.value;
  if (statement.reduce != program::Reduce::kSum || value.op != Op::kMul) {
    return no("not a sum of products");
  }
  if (!is_product_type(value.type) || statement.accumulator_type() != value.type) {
    return no("unsupported type of products or sums");
  }
  auto a = operand(program, statement, value.args[0]);
  auto b = operand(program, statement, value.args[1]);
  if (!a || !b) {
    return no("a factor is not a plain read");
  }
  if (has_element_index(statement.target)) {
    return no("the target is a scatter");
  }
  Contraction c;
  c.type = value.type;
  c.assign = statement.assign;
  c.a = std::move(*a);
  c.b = std::move(*b);
  c.t = {statement.target.tensor, program.tensors[statement.target.tensor].type,
         linear_form(program, statement, statement.target)};
  for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
    const Axis axis{static_cast<std::int64_t>(statement.loops[i].extent), c.a.form.loops[i],
                    c.b.form.loops[i], c.t.form.loops[i]};
    if (axis.extent == 1) {
      continue;
    }
    if (statement.reduces(i)) {
      if (axis.a == 0 || axis.b == 0) {
        return no("a summed loop appears in only one factor");
      }
      c.k.push_back(axis);
    } else if (axis.a != 0 && axis.b != 0) {
      c.batch.push_back(axis);
    } else if (axis.a == 0 && axis.b == 0) {
      return no("a loop of the target appears in neither factor");
    } else {
      (axis.a != 0 ? c.m : c.n).push_back(axis);
    }
  }
  if (c.k.empty() || (c.m.empty() && c.n.empty())) {
    return no("not a matrix product");
  }
  for (std::vector<Axis>* axes : {&c.batch, &c.m, &c.n, &c.k}) {
    *axes = merged(*axes);
  }
  orient(c);
  return c;
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
    result.bias = {bias.access.tensor, bias.type, linear_form(program, next, bias.access)};
    result.target = {next.target.tensor, program.tensors[next.target.tensor].type,
                     linear_form(program, next, next.target)};
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
