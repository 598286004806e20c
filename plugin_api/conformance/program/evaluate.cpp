// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/evaluate.cpp: the loops of the
// reference executor, with bounds instead of numbers.
#include "evaluate.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "error_units.h"
#include "number.h"
#include "plain_sum.h"
#include "steps.h"

namespace yoke::conformance {

using program::Assign;
using program::Op;
using program::Program;
using program::Reduce;
using program::Role;
using program::Scalar;
using program::Statement;
using program::Tensor;
using program::Type;

namespace {

Op op_of(Assign assign) {
  return assign == Assign::kAdd   ? Op::kAdd
         : assign == Assign::kMul ? Op::kMul
         : assign == Assign::kMax ? Op::kMax
                                  : Op::kMin;
}

bool is_sum(Op op) {
  return op == Op::kAdd;
}

// Memory of earlier evaluations. Their tensors often exceed the sizes that malloc keeps, and new pages cost more than
// the bounds in them.
struct Spare {
  static constexpr std::size_t kLeast = 4096;      // elements of one tensor
  static constexpr std::size_t kMost = 6'000'000;  // elements of all, 240 MB
  std::vector<Bounds> all;
  std::size_t element_count = 0;
};
thread_local Spare spare;

// Empty bounds with memory for `count` elements: the smallest that is large enough.
Bounds bounds_for(std::size_t count) {
  Bounds found;
  if (count >= Spare::kLeast) {
    auto best = spare.all.end();
    for (auto one = spare.all.begin(); one != spare.all.end(); ++one) {
      if (one->capacity() >= count && (best == spare.all.end() || one->capacity() < best->capacity())) {
        best = one;
      }
    }
    if (best != spare.all.end()) {
      spare.element_count -= best->capacity();
      std::swap(found, *best);
      std::swap(*best, spare.all.back());
      spare.all.pop_back();
      found.clear();
    }
  }
  found.reserve(count);
  return found;
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
      const std::uint64_t count = tensor.element_count();
      const std::span<const std::byte> bytes =
          tensor.role == Role::kTemp ? std::span<const std::byte>() : arguments[next++];
      memory_[i] = bounds_for(count);
      if (tensor.role == Role::kTemp || tensor.role == Role::kOut) {
        memory_[i].resize(count);
        continue;
      }
      for (std::uint64_t e = 0; e < count; ++e) {
        memory_[i].push_back(
            bound_of(tensor.type, program::load(tensor.type, bytes.data(), static_cast<std::int64_t>(e))));
      }
    }
  }

  std::vector<Bounds> run() {
    program::run_in_order(program_, symbols_, [this](std::size_t i) {
      statement_ = &program_.statements[i];
      counters_.assign(statement_->loops.size(), 0);
      statement();
    });
    std::vector<Bounds> inputs;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (program_.tensors[i].role == Role::kIn) {
        inputs.push_back(std::exchange(memory_[i], {}));
      }
    }
    recycle(std::move(inputs));
    return std::move(memory_);
  }

 private:
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
    const Surroundings around{program_, *statement_, symbols_, memory_};
    plain_sum_ = PlainSum::of(program_, *statement_, symbols_, memory_);
    if (!plain_sum_) {
      value_.emplace(around, statement_->value);
    }
    const program::Access& target = statement_->target;
    const Place place(around, target);
    const bool scatters =
        std::any_of(target.indices.begin(), target.indices.end(),
                    [](const program::Index& index) { return index.element_of.has_value(); });
    const std::size_t outer = statement_->loops.size() - statement_->reduce_loops.size();
    std::vector<std::optional<Fold>> folds(scatters ? memory_[target.tensor].size() : 0);
    bool lost = false;
    do {
      const std::int64_t number = place.element(counters_);
      lost = lost || number == Place::kUnknown;
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
      return value_->value(counters_);
    }
    const Reduce reduce = *statement_->reduce;
    if (reduce == Reduce::kArgMax || reduce == Reduce::kArgMin) {
      Best best(statement_->value.type, reduce == Reduce::kArgMax);
      do {
        best.add(counters_[outer], value_->value(counters_));
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
      const Bound& one = value_->value(counters_);
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
      const Bound added = reduced(outer);
      const Bound* pair[] = {&place, &added};
      place = settled(apply_bound(op, type(), pair));
      return;
    }
    // The old element may be a term of the sum, or be added to its result.
    const Type accumulator = statement_->accumulator_type();
    Fold fold = folded(outer);
    const Bound sum = convert_bound(accumulator, type(), fold.result());
    const Bound* pair[] = {&place, &sum};
    const Bound added_last = apply_bound(op, type(), pair);
    fold.add(convert_bound(type(), accumulator, place));
    place = hull(added_last, convert_bound(accumulator, type(), fold.result()));
  }

  const Program& program_;
  std::vector<std::int64_t> symbols_;  // the variables of repeat blocks included
  std::vector<Bounds> memory_;
  const Statement* statement_ = nullptr;
  std::optional<PlainSum> plain_sum_;  // of the statement
  std::optional<Steps> value_;         // of the statement, unless it is a plain sum
  std::vector<std::int64_t> counters_;
};

}  // namespace

void recycle(std::vector<Bounds> bounds) {
  for (Bounds& one : bounds) {
    if (one.capacity() < Spare::kLeast || one.capacity() > Spare::kMost) {
      continue;
    }
    if (spare.element_count + one.capacity() > Spare::kMost) {
      spare = {};
    }
    spare.element_count += one.capacity();
    spare.all.push_back(std::move(one));
  }
}

std::vector<Bounds> evaluate_bounds(const Program& program,
                                    std::span<const std::span<const std::byte>> arguments,
                                    std::span<const std::int64_t> symbols) {
  return Evaluation(program, arguments, symbols).run();
}

}  // namespace yoke::conformance
