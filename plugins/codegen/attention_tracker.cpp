// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_tracker.cpp: evaluates statements in terms of scores.
#include "attention_tracker.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cmath>

namespace yoke::codegen::attention {

using program::Access;
using program::Expr;
using program::Op;
using program::Statement;
using program::Type;

namespace {

// exp of it is 0 in f32, whatever the largest score is.
bool is_lowest(const Formula& formula) {
  constexpr double kLow = -1e30;
  const auto number = formula.as_number();
  return number && *number <= kLow;
}

bool is_half(Type type) {
  return type == Type::kBF16 || type == Type::kF16;
}

}  // namespace

Tracker::Tracker(const program::Program& program, std::uint32_t scores)
    : program_(program), dims_(program.tensors[scores].dims) {
  track(scores, Value(Formula::atom(Atom::kScore)));
}

Formula Tracker::weights() {
  return Formula::atom(Atom::kExp) * Formula::atom(Atom::kTotal, -1);
}

Formula Tracker::score_gradient() const {
  const Formula difference =
      Formula::atom(Atom::kGradient) + Formula::number(-1) * Formula::atom(Atom::kRows);
  return Formula::number(*scale_) * weights() * difference;
}

bool Tracker::reads_tracked(const Expr& expr) const {
  bool found = false;
  program::visit_read_tensors(expr, [&](std::uint32_t tensor) { found = found || is_tracked(tensor); });
  return found;
}

// Whether the index is the loop of the dimension, which it becomes if it has none yet.
bool Tracker::assign(const program::Index& index, const std::vector<program::Loop>& loops,
                     std::size_t dimension, Frame& frame) const {
  if (index.element_of || index.divisor != 1) {
    return false;
  }
  const std::uint64_t extent = dimension < dims_.size() ? dims_[dimension] : 1;
  if (extent == 1 && index.affine == program::Affine::number(0)) {
    return true;
  }
  const auto loop = index.affine.single_loop();
  if (!loop || loops[*loop].extent != extent) {
    return false;
  }
  int& assigned = frame.dimension_of[*loop];
  if (extent == 1) {
    return true;
  }
  const int wanted = static_cast<int>(dimension);
  if (assigned < 0 &&
      std::find(frame.dimension_of.begin(), frame.dimension_of.end(), wanted) == frame.dimension_of.end()) {
    assigned = wanted;
  }
  return assigned == wanted;
}

std::optional<Frame> Tracker::frame_of(const Statement& statement, const Access& access) const {
  Frame frame;
  frame.dimension_of.assign(statement.loops.size(), -1);
  const std::vector<std::uint64_t>& dims = program_.tensors[access.tensor].dims;
  std::vector<std::uint64_t> row = dims_;
  row.back() = 1;
  const bool is_short = dims.size() + 1 == rank() && std::equal(dims.begin(), dims.end(), row.begin());
  frame.is_row = dims != dims_ && (is_short || dims == row);
  if (!frame.is_row && dims != dims_) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t dimension = frame.is_row && i + 1 == rank() ? rank() : i;
    if (!assign(access.indices[i], statement.loops, dimension, frame)) {
      return std::nullopt;
    }
  }
  return frame;
}

// Of a statement that computes one element per query and key, or reduces them to one per query.
std::optional<Frame> Tracker::target_frame(const Statement& statement) const {
  auto frame = frame_of(statement, statement.target);
  if (!frame || statement.assign != program::Assign::kSet) {
    return std::nullopt;
  }
  for (const std::uint32_t loop : statement.reduce_loops) {
    if (!frame->is_row || statement.loops[loop].extent != dims_.back() ||
        statement.reduce_loops.size() != 1) {
      return std::nullopt;
    }
    frame->dimension_of[loop] = static_cast<int>(rank() - 1);
  }
  return frame;
}

std::optional<Value> Tracker::of_read(const Access& access, const Frame& frame) const {
  if (!is_tracked(access.tensor) || access.otherwise) {
    return std::nullopt;
  }
  const std::vector<std::uint64_t>& dims = program_.tensors[access.tensor].dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const program::Index& index = access.indices[i];
    if (dims[i] == 1 && !index.element_of && index.divisor == 1) {
      continue;  // any index in range is 0
    }
    const auto loop = index.element_of || index.divisor != 1 ? std::nullopt : index.affine.single_loop();
    if (!loop || frame.dimension_of[*loop] != static_cast<int>(i)) {
      return std::nullopt;
    }
  }
  return values_.at(access.tensor);
}

std::optional<Value> Tracker::of_exp(const Value& argument) const {
  if (!scale_ || argument.is_masked != is_causal_) {
    return std::nullopt;
  }
  const Formula top = Formula::atom(Atom::kTop);
  const Formula seen = Formula::number(*scale_) * Formula::atom(Atom::kScore) + Formula::number(-1) * top;
  if (!is_close(argument.seen, seen) || (is_causal_ && !is_lowest(argument.hidden + top))) {
    return std::nullopt;
  }
  return Value(Formula::atom(Atom::kExp));
}

bool Tracker::is_comparison(const Expr& expr, const Frame& frame) const {
  const auto is_index = [&](const Expr& index, std::size_t dimension) {
    const auto loop = index.op == Op::kIndex ? index.affine.single_loop() : std::nullopt;
    return loop && frame.dimension_of[*loop] == static_cast<int>(dimension);
  };
  const std::size_t key = rank() - 1;
  return (expr.op == Op::kGreaterEqual && is_index(expr.args[0], key - 1) && is_index(expr.args[1], key)) ||
         (expr.op == Op::kLessEqual && is_index(expr.args[0], key) && is_index(expr.args[1], key - 1));
}

// Whether the expression is true for the keys up to the query.
bool Tracker::is_mask(const Expr& expr, const Frame& frame) const {
  if (expr.op != Op::kRead) {
    return is_comparison(expr, frame);
  }
  const Access& read = expr.access;
  const program::Tensor& tensor = program_.tensors[read.tensor];
  const Statement* only = nullptr;
  for (const Statement& statement : program_.statements) {
    if (statement.target.tensor == read.tensor) {
      if (only != nullptr) {
        return false;
      }
      only = &statement;
    }
  }
  if (only == nullptr || tensor.role != program::Role::kTemp || read.otherwise || tensor.dims.size() != 2 ||
      !program::overwrites_target(program_, *only) || only->reduce) {
    return false;
  }
  Frame of_mask;
  of_mask.dimension_of.assign(only->loops.size(), -1);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t dimension = rank() - 2 + i;
    const program::Index& index = read.indices[i];
    const auto loop = index.element_of || index.divisor != 1 ? std::nullopt : index.affine.single_loop();
    if (!loop || frame.dimension_of[*loop] != static_cast<int>(dimension) ||
        !assign(only->target.indices[i], only->loops, dimension, of_mask)) {
      return false;
    }
  }
  return is_comparison(only->value, of_mask);
}

// Whether the program may round the value to 16 bits although the library need not.
bool Tracker::may_round(const Value& value) const {
  return is_close(value.seen, weights()) || is_close(value.seen, Formula::atom(Atom::kScore)) ||
         is_close(value.seen, Formula::atom(Atom::kGradient)) ||
         (scale_ && is_close(value.seen, score_gradient()));
}

std::optional<Value> Tracker::of_arithmetic(const Expr& expr, const Frame& frame) const {
  const auto a = evaluate(expr.args[0], frame);
  const auto b = expr.args.size() > 1 ? evaluate(expr.args[1], frame) : a;
  if (!a || !b || expr.type != Type::kF32) {
    return std::nullopt;
  }
  const Value both = a->is_masked ? *a : *b;  // masked if one of them is
  const Formula minus = Formula::number(-1);
  switch (expr.op) {
    case Op::kNeg:
      return both.with(minus * a->seen, minus * a->hidden);
    case Op::kAdd:
      return both.with(a->seen + b->seen, a->hidden + b->hidden);
    case Op::kSub:
      return both.with(a->seen + minus * b->seen, a->hidden + minus * b->hidden);
    case Op::kMul:
      return both.with(a->seen * b->seen, a->hidden * b->hidden);
    case Op::kDiv:
    case Op::kRecip: {
      const Value& divisor = expr.op == Op::kDiv ? *b : *a;
      const auto reciprocal = divisor.seen.reciprocal();
      if (!reciprocal || divisor.is_masked) {
        return std::nullopt;
      }
      return expr.op == Op::kRecip ? Value(*reciprocal)
                                   : a->with(a->seen * *reciprocal, a->hidden * *reciprocal);
    }
    case Op::kExp:
      return of_exp(*a);
    default:
      return std::nullopt;
  }
}

std::optional<Value> Tracker::evaluate(const Expr& expr, const Frame& frame) const {
  std::optional<Value> value;
  if (expr.op == Op::kConst && program::is_float(expr.type)) {
    value = Value(Formula::number(expr.literal.number));
  } else if (expr.op == Op::kRead) {
    value = of_read(expr.access, frame);
  } else if (expr.op == Op::kCast && program::is_float(expr.type)) {
    value = evaluate(expr.args[0], frame);
    if (value && is_half(expr.type) && !may_round(*value)) {
      return std::nullopt;
    }
  } else if (expr.op == Op::kSelect) {
    const auto seen = evaluate(expr.args[1], frame);
    const auto hidden = evaluate(expr.args[2], frame);
    if (seen && hidden && is_mask(expr.args[0], frame)) {
      value = Value(seen->seen, hidden->hidden);
    }
  } else if (!expr.args.empty()) {
    value = of_arithmetic(expr, frame);
  }
  return value && value->seen.is_short() && value->hidden.is_short() ? value : std::nullopt;
}

// The first maximum defines the scale and the mask, the first sum the total.
std::optional<Value> Tracker::reduced(const Statement& statement, const Value& value) {
  if (statement.reduce == program::Reduce::kSum) {
    // Without the mask in the softmax, kTotal and kRows are sums over all keys.
    const bool is_partial = value.is_masked && !(is_causal_ && value.hides());
    const auto sum = is_partial ? std::nullopt : value.seen.sum_over_keys();
    return sum && statement.accumulator_type() == Type::kF32 ? std::optional(Value(*sum)) : std::nullopt;
  }
  const Formula score = Formula::atom(Atom::kScore);
  const double scale = value.seen.coefficient(score);
  if (statement.reduce != program::Reduce::kMax || !is_close(value.seen, Formula::number(scale) * score) ||
      (value.is_masked && !is_lowest(value.hidden)) || !(scale > 0) ||
      (scale_ && (scale != *scale_ || value.is_masked != is_causal_))) {
    return std::nullopt;
  }
  scale_ = scale;
  is_causal_ = value.is_masked;
  return Value(Formula::atom(Atom::kTop));
}

bool Tracker::follow(const Statement& statement) {
  const auto frame = target_frame(statement);
  auto value = frame ? evaluate(statement.value, *frame) : std::nullopt;
  if (value && statement.reduce) {
    value = reduced(statement, *value);
  }
  const program::Tensor& target = program_.tensors[statement.target.tensor];
  // Only sums round on their own, and no library rounds its sums to 16 bits.
  const bool rounds = statement.reduce == program::Reduce::kSum && is_half(target.type);
  if (!value || rounds || target.role != program::Role::kTemp) {
    return false;
  }
  if (total_ < 0 && target.type == Type::kF32 && is_close(value->seen, Formula::atom(Atom::kTotal))) {
    total_ = statement.target.tensor;
  }
  track(statement.target.tensor, *value);
  return true;
}

}  // namespace yoke::codegen::attention
