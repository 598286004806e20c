// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/steps.cpp: computes expressions, with bounds instead of numbers.
#include "steps.h"

#include <algorithm>

namespace yoke::conformance {

using program::Access;
using program::Affine;
using program::Expr;
using program::Index;
using program::Op;
using program::Tensor;
using program::Type;

namespace {

Position position_of(const Surroundings& around, const Affine& affine) {
  Position position;
  position.start = affine.constant;
  for (const Affine::Term& term : affine.terms) {
    if (term.is_symbol) {
      position.start += term.coefficient * around.symbols[term.id];
    } else if (around.statement.loops[term.id].extent > 1) {
      position.steps.push_back({term.id, term.coefficient});
    }
  }
  return position;
}

// Makes a dimension of `size` elements the innermost one. Neither position is ever out of range, so nothing overflows.
void append(Position& outer, const Position& inner, std::int64_t size) {
  outer.start = outer.start * size + inner.start;
  for (Position::Step& step : outer.steps) {
    step.stride *= size;
  }
  for (const Position::Step& added : inner.steps) {
    const auto same = std::find_if(outer.steps.begin(), outer.steps.end(),
                                   [&](const Position::Step& step) { return step.loop == added.loop; });
    if (same == outer.steps.end()) {
      outer.steps.push_back(added);
    } else {
      same->stride += added.stride;
    }
  }
}

bool is_inside(const Surroundings& around, const Position& position, std::int64_t size) {
  std::int64_t low = position.start;
  std::int64_t high = position.start;
  for (const Position::Step& step : position.steps) {
    const auto last = static_cast<std::int64_t>(around.statement.loops[step.loop].extent) - 1;
    (step.stride < 0 ? low : high) += step.stride * last;
  }
  return low >= 0 && high < size;
}

Bound literal(Type type, const program::Literal& value) {
  Bound bound = bound_of(type, value);
  bound.zero_is_signed = false;
  return bound;
}

}  // namespace

Place::Place(const Surroundings& around, const Access& access)
    : bounds_(around.memory[access.tensor].data()), is_inside_(true) {
  const Tensor& tensor = around.program.tensors[access.tensor];
  for (std::size_t i = 0; i < access.indices.size(); ++i) {
    const Index& index = access.indices[i];
    Dim dim{static_cast<std::int64_t>(tensor.dims[i]), index.divisor, nullptr, {}};
    if (index.element_of) {
      const Tensor& indices = around.program.tensors[*index.element_of];
      dim.element_of = around.memory[*index.element_of].data();
      for (std::size_t inner = 0; inner < indices.dims.size(); ++inner) {
        append(dim.position, position_of(around, index.element_indices[inner]),
               static_cast<std::int64_t>(indices.dims[inner]));
      }
    } else {
      dim.position = position_of(around, index.affine);
    }
    is_inside_ = is_inside_ && dim.element_of == nullptr && dim.divisor == 1 &&
                 is_inside(around, dim.position, dim.size);
    dims_.push_back(std::move(dim));
  }
  if (is_inside_) {
    for (const Dim& dim : dims_) {
      append(whole_, dim.position, dim.size);
    }
  }
}

std::int64_t Place::checked(std::span<const std::int64_t> counters) const {
  std::int64_t number = 0;
  bool unknown = false;
  for (const Dim& dim : dims_) {
    std::int64_t at = dim.position.at(counters);
    if (dim.element_of != nullptr) {
      const Bound& value = dim.element_of[at];
      unknown = unknown || value.unknown;
      at = value.unknown ? 0 : value.integer;
    } else if (dim.divisor != 1) {
      if (at % dim.divisor != 0) {
        return kOutside;
      }
      at /= dim.divisor;
    }
    if (at < 0 || at >= dim.size) {
      return kOutside;
    }
    number = number * dim.size + at;
  }
  return unknown ? kUnknown : number;
}

Steps::Steps(const Surroundings& around, const Expr& expr) : outside_(1) {
  add(around, expr, 0);
  computed_.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    at_.push_back(steps_[i].op == Op::kConst ? &steps_[i].otherwise : &computed_[i]);
  }
}

std::size_t Steps::add(const Surroundings& around, const Expr& expr, std::size_t guard) {
  Step step;
  step.op = expr.op;
  step.type = expr.type;
  step.guard = guard;
  if (expr.op == Op::kConst || expr.op == Op::kGuard) {
    step.otherwise = literal(expr.type, expr.literal);
  }
  if (expr.op == Op::kGuard) {
    step.guard = outside_.size();
    outside_.emplace_back();
  } else if (expr.op == Op::kRead) {
    step.place = Place(around, expr.access);
    step.is_open = !expr.access.otherwise;
    step.otherwise = literal(expr.type, expr.access.otherwise.value_or(program::Literal{}));
  } else if (expr.op == Op::kIndex) {
    step.position = position_of(around, expr.affine);
  }
  for (std::size_t i = 0; i < expr.args.size(); ++i) {
    step.args[i] = add(around, expr.args[i], step.guard);
  }
  if (!expr.args.empty()) {
    step.over = expr.args[expr.op == Op::kSelect ? 1 : 0].type;
  }
  steps_.push_back(std::move(step));
  return steps_.size() - 1;
}

void Steps::read(std::size_t number, std::span<const std::int64_t> counters) {
  const Step& step = steps_[number];
  const std::int64_t element = step.place.element(counters);
  if (element >= 0) {
    at_[number] = step.place.bounds() + element;
    return;
  }
  const bool is_unknown = element == Place::kUnknown;
  if (step.is_open) {
    (is_unknown ? outside_[step.guard].possible : outside_[step.guard].certain) = true;
  }
  computed_[number] = is_unknown ? anything(step.type) : step.otherwise;
  at_[number] = &computed_[number];
}

const Bound& Steps::value(std::span<const std::int64_t> counters) {
  std::fill(outside_.begin(), outside_.end(), Outside{});
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    switch (step.op) {
      case Op::kConst:
        break;
      case Op::kRead:
        read(i, counters);
        break;
      case Op::kGuard: {
        const Outside& here = outside_[step.guard];
        computed_[i] = here.certain    ? step.otherwise
                       : here.possible ? anything(step.type)
                                       : *at_[step.args[0]];
        break;
      }
      case Op::kIndex:
        computed_[i] = bound_of(Type::kI64, {0, step.position.at(counters)});
        break;
      case Op::kCast:
        computed_[i] = convert_bound(step.over, step.type, *at_[step.args[0]]);
        break;
      default: {
        const Bound* args[] = {at_[step.args[0]], at_[step.args[1]], at_[step.args[2]]};
        computed_[i] = apply_bound(step.op, step.over, args);
      }
    }
  }
  return *at_.back();
}

}  // namespace yoke::conformance
