// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/evaluate.cpp: the loops of the
// reference executor, with bounds instead of numbers.
#include "evaluate.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "error_units.h"
#include "number.h"
#include "plain_sum.h"

namespace yoke::conformance {

using program::Access;
using program::Affine;
using program::Assign;
using program::Expr;
using program::Op;
using program::Program;
using program::Reduce;
using program::Role;
using program::Scalar;
using program::Statement;
using program::Tensor;
using program::Type;

namespace {

constexpr std::int64_t kOutside = -1;
constexpr std::int64_t kUnknown = -2;  // an index that differs between correct backends

Op op_of(Assign assign) {
  return assign == Assign::kAdd   ? Op::kAdd
         : assign == Assign::kMul ? Op::kMul
         : assign == Assign::kMax ? Op::kMax
                                  : Op::kMin;
}

bool is_sum(Op op) {
  return op == Op::kAdd;
}

// The index of the best element of an argmax or argmin, if it is certain.
class Best {
 public:
  Best(Type type, bool max) : type_(type), max_(max) {}

  void add(std::int64_t number, Bound value) {
    if (!program::is_float(type_)) {
      unknown_ = unknown_ || value.unknown;
      const auto wide = value.integer;
      if (best_ < 0 || (max_ ? wide > integer_ : wide < integer_)) {
        integer_ = wide;
        best_ = number;
      }
      return;
    }
    value = settled(value);
    if (value.is_nan()) {
      first_nan_ = first_nan_ < 0 ? number : first_nan_;
      return;
    }
    if (first_nan_ < 0) {
      unknown_ = unknown_ || value.nan;  // NaN beats every number
    }
    if (!max_) {
      std::swap(value.low, value.high);
      value.low = -value.low;
      value.high = -value.high;
    }
    if (best_ < 0 || value.low > low_) {
      // The previous best may still exceed the low end of the new one.
      rival_ = best_ >= 0 ? std::max(rival_, high_) : rival_;
      earlier_ = rival_;
      low_ = value.low;
      high_ = value.high;
      best_ = number;
    } else if (value.high > low_ || (value.high == low_ && !(value.is_point() && low_ == high_))) {
      rival_ = std::max(rival_, value.high);
    }
  }

  Bound result() const {
    Bound bound;
    bound.integer = first_nan_ >= 0 ? first_nan_ : best_;
    const bool beaten = first_nan_ < 0 && program::is_float(type_) && rival_ > low_;
    const bool tied = first_nan_ < 0 && program::is_float(type_) && rival_ == low_ && low_ != high_;
    // Of equal elements, the first one wins.
    const bool tied_before = first_nan_ < 0 && program::is_float(type_) && earlier_ >= low_;
    bound.unknown = unknown_ || beaten || tied || tied_before;
    return bound;
  }

 private:
  Type type_;
  bool max_;
  bool unknown_ = false;
  std::int64_t best_ = -1;
  std::int64_t first_nan_ = -1;
  std::int64_t integer_ = 0;
  double low_ = 0;
  double high_ = 0;
  double rival_ = -kInfinity;  // the largest possible value of another element
  // The same for the elements before the best one; NaN: there are none.
  double earlier_ = std::numeric_limits<double>::quiet_NaN();
};

class Evaluation {
 public:
  Evaluation(const Program& program, std::span<const std::span<const std::byte>> arguments,
             std::span<const std::int64_t> symbols)
      : program_(program), symbols_(symbols.begin(), symbols.end()), memory_(program.tensors.size()) {
    symbols_.resize(program.symbols.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
      const Tensor& tensor = program.tensors[i];
      memory_[i].resize(tensor.element_count());
      if (tensor.role == Role::kTemp) {
        continue;
      }
      const std::span<const std::byte> bytes = arguments[next++];
      if (tensor.role != Role::kOut) {
        for (std::uint64_t e = 0; e < memory_[i].size(); ++e) {
          memory_[i][e] =
              bound_of(tensor.type, program::load(tensor.type, bytes.data(), static_cast<std::int64_t>(e)));
        }
      }
    }
  }

  std::vector<Bounds> run() {
    program::run_in_order(program_, symbols_, [this](std::size_t i) {
      statement_ = &program_.statements[i];
      counters_.assign(statement_->loops.size(), 0);
      statement();
    });
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (program_.tensors[i].role == Role::kIn) {
        memory_[i] = {};
      }
    }
    return std::move(memory_);
  }

 private:
  std::int64_t position(const Affine& affine) const {
    std::int64_t value = affine.constant;
    for (const Affine::Term& term : affine.terms) {
      value += term.coefficient * (term.is_symbol ? symbols_[term.id] : counters_[term.id]);
    }
    return value;
  }

  std::int64_t element(const Access& access) const {
    const Tensor& tensor = program_.tensors[access.tensor];
    std::int64_t number = 0;
    bool unknown = false;
    for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
      const program::Index& index = access.indices[dim];
      std::int64_t at = 0;
      if (index.element_of) {
        const Bound& value = memory_[*index.element_of][inner(index)];
        unknown = unknown || value.unknown;
        at = value.unknown ? 0 : value.integer;
      } else {
        at = position(index.affine);
        if (at % index.divisor != 0) {
          return kOutside;
        }
        at /= index.divisor;
      }
      const auto size = static_cast<std::int64_t>(tensor.dims[dim]);
      if (at < 0 || at >= size) {
        return kOutside;
      }
      number = number * size + at;
    }
    return unknown ? kUnknown : number;
  }

  static Bound literal(Type type, const program::Literal& value) {
    Bound bound = bound_of(type, value);
    bound.zero_is_signed = false;
    return bound;
  }

  std::size_t inner(const program::Index& index) const {
    const Tensor& tensor = program_.tensors[*index.element_of];
    std::int64_t number = 0;
    for (std::size_t i = 0; i < index.element_indices.size(); ++i) {
      number = number * static_cast<std::int64_t>(tensor.dims[i]) + position(index.element_indices[i]);
    }
    return static_cast<std::size_t>(number);
  }

  // Whether a read that only the guard around it covers is out of range.
  struct Outside {
    bool certain = false;
    bool possible = false;
  };

  Bound value(const Expr& expr) const {
    Outside outside;  // stays false in a verified program
    return value(expr, outside);
  }

  Bound value(const Expr& expr, Outside& outside) const {
    switch (expr.op) {
      case Op::kConst:
        return literal(expr.type, expr.literal);
      case Op::kRead: {
        const std::int64_t number = element(expr.access);
        if (number >= 0) {
          return memory_[expr.access.tensor][static_cast<std::size_t>(number)];
        }
        if (!expr.access.otherwise) {
          (number == kUnknown ? outside.possible : outside.certain) = true;
        }
        return number == kUnknown ? anything(expr.type)
                                  : literal(expr.type, expr.access.otherwise.value_or(program::Literal{}));
      }
      case Op::kGuard: {
        Outside here;
        const Bound guarded = value(expr.args[0], here);
        return here.certain    ? literal(expr.type, expr.literal)
               : here.possible ? anything(expr.type)
                               : guarded;
      }
      case Op::kIndex:
        return bound_of(Type::kI64, {0, position(expr.affine)});
      case Op::kCast:
        return convert_bound(expr.args[0].type, expr.type, value(expr.args[0], outside));
      default: {
        Bound values[3];
        for (std::size_t i = 0; i < expr.args.size(); ++i) {
          values[i] = value(expr.args[i], outside);
        }
        return apply_bound(expr.op, expr.args[expr.op == Op::kSelect ? 1 : 0].type, values);
      }
    }
  }

  bool advance(std::size_t first, std::size_t last) {
    for (std::size_t i = last; i-- > first;) {
      if (++counters_[i] < static_cast<std::int64_t>(statement_->loops[i].extent)) {
        return true;
      }
      counters_[i] = 0;
    }
    return false;
  }

  void statement() {
    plain_sum_ = PlainSum::of(program_, *statement_, symbols_, memory_);
    const Access& target = statement_->target;
    const bool scatters =
        std::any_of(target.indices.begin(), target.indices.end(),
                    [](const program::Index& index) { return index.element_of.has_value(); });
    const std::size_t outer = statement_->loops.size() - statement_->reduce_loops.size();
    std::vector<std::optional<Fold>> folds(scatters ? memory_[target.tensor].size() : 0);
    bool lost = false;
    do {
      const std::int64_t number = element(target);
      lost = lost || number == kUnknown;
      if (number < 0) {
        continue;
      }
      if (!scatters) {
        dense(static_cast<std::size_t>(number), outer);
        continue;
      }
      auto& fold = folds[static_cast<std::size_t>(number)];
      if (!fold) {
        fold.emplace(op_of(statement_->assign), type());
        fold->add(memory_[target.tensor][static_cast<std::size_t>(number)]);
      }
      fold->add(reduced(outer));
    } while (advance(0, outer));
    for (std::size_t i = 0; i < folds.size(); ++i) {
      if (folds[i]) {
        memory_[target.tensor][i] = rounded_to(type(), folds[i]->result());
      }
    }
    if (lost) {
      std::fill(memory_[target.tensor].begin(), memory_[target.tensor].end(), anything(type()));
    }
  }

  Type type() const { return program_.tensors[statement_->target.tensor].type; }

  // The value to store, in the target's type.
  Bound reduced(std::size_t outer) {
    if (!statement_->reduce) {
      return value(statement_->value);
    }
    const Reduce reduce = *statement_->reduce;
    if (reduce == Reduce::kArgMax || reduce == Reduce::kArgMin) {
      Best best(statement_->value.type, reduce == Reduce::kArgMax);
      do {
        best.add(counters_[outer], value(statement_->value));
      } while (advance(outer, counters_.size()));
      return best.result();
    }
    return convert_bound(statement_->accumulator_type(), type(), folded(outer).result());
  }

  Fold folded(std::size_t outer) {
    if (plain_sum_) {
      return plain_sum_->folded(counters_);
    }
    const Type accumulator = statement_->accumulator_type();
    const Type from = statement_->value.type;
    Fold fold(program::fold_of(*statement_->reduce), accumulator);
    do {
      const Bound one = value(statement_->value);
      fold.add(from == accumulator ? one : convert_bound(from, accumulator, one));
    } while (advance(outer, counters_.size()));
    return fold;
  }

  void dense(std::size_t number, std::size_t outer) {
    Bound& place = memory_[statement_->target.tensor][number];
    if (statement_->assign == Assign::kSet) {
      place = settled(reduced(outer));
      return;
    }
    const Op op = op_of(statement_->assign);
    if (!statement_->reduce || !program::is_float(type()) || !is_sum(op) ||
        *statement_->reduce != Reduce::kSum) {
      const Bound pair[] = {place, reduced(outer)};
      place = settled(apply_bound(op, type(), pair));
      return;
    }
    // The old element may be a term of the sum, or be added to its result.
    const Type accumulator = statement_->accumulator_type();
    Fold fold = folded(outer);
    const Bound pair[] = {place, convert_bound(accumulator, type(), fold.result())};
    const Bound added_last = apply_bound(op, type(), pair);
    fold.add(convert_bound(type(), accumulator, place));
    place = hull(added_last, convert_bound(accumulator, type(), fold.result()));
  }

  const Program& program_;
  std::vector<std::int64_t> symbols_;  // the variables of repeat blocks included
  std::vector<Bounds> memory_;
  const Statement* statement_ = nullptr;
  std::optional<PlainSum> plain_sum_;  // of the statement
  std::vector<std::int64_t> counters_;
};

}  // namespace

std::vector<Bounds> evaluate_bounds(const Program& program,
                                    std::span<const std::span<const std::byte>> arguments,
                                    std::span<const std::int64_t> symbols) {
  return Evaluation(program, arguments, symbols).run();
}

}  // namespace yoke::conformance
