// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/reduce.cpp: reductions with an accumulator per lane. The order of terms depends
// on the extents only.
#include <atomic>

#include "kernels.h"

namespace yoke::handmade {
namespace {

using program::Reduce;
using program::Type;

constexpr std::int64_t kLong = 1024;
constexpr std::int64_t kParts = 8;

template <class T>
struct Partial {
  T value;
  std::int64_t index = -1;  // of argmax and argmin; -1: no element yet
};

bool is_arg(Reduce reduce) {
  return reduce == Reduce::kArgMax || reduce == Reduce::kArgMin;
}

template <class T>
T initial(Reduce reduce) {
  constexpr bool is_float = std::is_floating_point_v<T>;
  using Limits = std::numeric_limits<T>;
  switch (reduce) {
    case Reduce::kMax:
      return is_float && !bug("lowest_maximum") ? -Limits::infinity() : Limits::lowest();
    case Reduce::kMin:
      return is_float             ? Limits::infinity()
             : bug("u32_minimum") ? static_cast<T>(std::numeric_limits<std::int32_t>::max())
                                  : Limits::max();
    default:
      return reduce == Reduce::kProd ? T{1} : T{0};
  }
}

template <class T>
T folded(Reduce reduce, T a, T b) {
  switch (reduce) {
    case Reduce::kMax:
      return maximum(a, b);
    case Reduce::kMin:
      return minimum(a, b);
    case Reduce::kProd:
      return multiply(a, b);
    default:
      return add(a, b);
  }
}

template <class T>
bool beats(Reduce reduce, T value, T best) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(best) || std::isnan(value)) {
      return bug("argmax_last_nan") ? std::isnan(value) : !std::isnan(best);
    }
  }
  if (bug("zeros_by_sign") &&
      value == best) {  // with it only: equal numbers are ties, which the first one wins
    return std::signbit(reduce == Reduce::kArgMax ? best : value) &&
           !std::signbit(reduce == Reduce::kArgMax ? value : best);
  }
  return reduce == Reduce::kArgMax ? value > best : value < best;
}

// Combines lanes or parts.
template <class T>
Partial<T> combined(Reduce reduce, const Partial<T>& a, const Partial<T>& b) {
  if (!is_arg(reduce)) {
    if (bug("nan_lanes") && (reduce == Reduce::kMax || reduce == Reduce::kMin)) {
      return {(reduce == Reduce::kMax) == (a.value < b.value) ? b.value : a.value};
    }
    return {folded(reduce, a.value, b.value)};
  }
  if (a.index < 0 || b.index < 0) {
    return a.index < 0 ? b : a;
  }
  const bool is_tie = !beats(reduce, a.value, b.value) && !beats(reduce, b.value, a.value);
  if (is_tie) {
    return a.index < b.index || bug("argmax_tie") ? a : b;
  }
  return beats(reduce, b.value, a.value) ? b : a;
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const program::Statement& statement, Formula formula, Walk target, Type target_type)
      : loops_(statement.loops),
        reduce_(*statement.reduce),
        assign_(statement.assign),
        accumulator_(statement.accumulator_type()),
        formula_(std::move(formula)),
        target_(std::move(target)),
        target_type_(target_type),
        rows_(statement.reduce_loops.begin(), statement.reduce_loops.end() - 1),
        inner_(statement.reduce_loops.back()) {
    for (std::uint32_t i = 0; i < loops_.size(); ++i) {
      if (!statement.reduces(i)) {
        outer_.push_back(i);
      }
    }
    count_ = extent(inner_);
    for (const std::uint32_t loop : rows_) {
      count_ *= extent(loop);
    }
    for (Walk& read : formula_.reads) {
      change_strides(read);
    }
  }

  std::uint64_t scratch_byte_count() const override { return kParts * sizeof(Partial<double>); }
  void run(const Launch& launch) const override {
    const bool is_wider =
        kSumsAreWide && formula_.type == Type::kF32 && (reduce_ == Reduce::kSum || reduce_ == Reduce::kProd);
    with_type(formula_.type, [&](auto zero) {
      if (accumulator_ == Type::kF64 || is_wider) {
        run_typed<decltype(zero), double>(launch);
      } else {
        run_typed<decltype(zero), decltype(zero)>(launch);
      }
    });
  }

 private:
  std::int64_t extent(std::uint32_t loop) const { return static_cast<std::int64_t>(loops_[loop].extent); }

  // With the bugs singleton_stride and unit_step_rows only: the stride of a loop is that of its dimension, also if the
  // next loop has one iteration, or if the reduction is not along the last dimension.
  void change_strides(Walk& read) const {
    if (bug("singleton_stride") && rows_.size() == 1 && extent(inner_) == 1 && read.strides[inner_] != 0) {
      read.strides[rows_[0]] = read.strides[inner_];
    }
    if (bug("unit_step_rows") && rows_.empty() && formula_.type == Type::kF32 && formula_.nodes.size() == 1 &&
        (reduce_ == Reduce::kSum || reduce_ == Reduce::kProd)) {
      read.strides[inner_] = 1;
    }
  }

  template <class T, class Sum>
  void run_typed(const Launch& launch) const {
    const Lanes<T> lanes(formula_, launch, inner_);
    std::vector<std::int64_t> counters(loops_.size());
    if (bug("back_to_back") && count_ >= kLong) {
      return run_back_to_back<T, Sum>(lanes, launch);
    }
    do {
      const std::int64_t element = target_.at(counters);
      // With the bug target_per_part only: each part starts at the old element, which counts once.
      const bool is_fused = bug("target_per_part") && count_ >= kLong && reduce_ == Reduce::kSum &&
                            assign_ == program::Assign::kAdd;
      const Sum start = is_fused ? static_cast<Sum>(target_.base<T>(launch)[element]) : initial<Sum>(reduce_);
      store<T>(launch, element, reduced<T, Sum>(lanes, counters, launch, start),
               is_fused ? program::Assign::kSet : assign_);
    } while (advance(loops_, outer_, counters));
  }

  template <class T, class Sum>
  void store(const Launch& launch, std::int64_t element, const Partial<Sum>& result,
             program::Assign assign) const {
    if (!is_arg(reduce_)) {
      T& to = target_.base<T>(launch)[element];
      const auto value = static_cast<T>(result.value);
      to = bug("own_operation") && assign_ != program::Assign::kSet ? folded(reduce_, to, value)
                                                                    : assigned(assign, to, value);
    } else if (target_type_ == Type::kI64) {
      std::int64_t& to = target_.base<std::int64_t>(launch)[element];
      to = bug("low_half") ? (to >> 32 << 32) + result.index : result.index;
    } else {
      target_.base<std::int32_t>(launch)[element] = static_cast<std::int32_t>(result.index);
    }
  }

  // Threads go on to the parts of the next element without waiting for the others. With the bug back_to_back only: all
  // elements have the same scratch memory, so a part of the next one may be there before the last one is combined.
  template <class T, class Sum>
  void run_back_to_back(const Lanes<T>& lanes, const Launch& launch) const {
    std::int64_t targets = 1;
    for (const std::uint32_t loop : outer_) {
      targets *= extent(loop);
    }
    auto* partials = reinterpret_cast<Partial<Sum>*>(launch.scratch);
    std::vector<std::atomic<int>> finished(static_cast<std::size_t>(targets));
    const std::int64_t size = (count_ + kParts - 1) / kParts;
    launch.pool->run(static_cast<std::size_t>(targets * kParts), [&](std::size_t number) {
      const auto target = static_cast<std::int64_t>(number) / kParts;
      const std::int64_t begin = std::min(count_, static_cast<std::int64_t>(number) % kParts * size);
      std::vector<std::int64_t> counters(loops_.size());
      std::int64_t left = target;
      for (std::size_t i = outer_.size(); i-- > 0; left /= extent(outer_[i])) {
        counters[outer_[i]] = left % extent(outer_[i]);
      }
      partials[number % kParts] =
          part<T, Sum>(lanes, counters, begin, std::min(count_, begin + size), initial<Sum>(reduce_));
      if (++finished[static_cast<std::size_t>(target)] == kParts) {
        Partial<Sum> total = partials[0];
        for (std::int64_t i = 1; i < kParts; ++i) {
          total = combined(reduce_, total, partials[i]);
        }
        store<T>(launch, target_.at(counters), total, assign_);
      }
    });
  }

  template <class T, class Sum>
  Partial<Sum> reduced(const Lanes<T>& lanes, const std::vector<std::int64_t>& counters, const Launch& launch,
                       Sum start) const {
    if (count_ < kLong) {
      return part<T, Sum>(lanes, counters, 0, count_, start);
    }
    auto* partials = reinterpret_cast<Partial<Sum>*>(launch.scratch);
    const std::int64_t size = (count_ + kParts - 1) / kParts;
    std::atomic<std::size_t> finished{0};
    Partial<Sum> total{};
    const auto combine_parts = [&] {
      total = partials[0];
      for (std::int64_t i = 1; i < kParts; ++i) {
        total = combined(reduce_, total, partials[i]);
      }
    };
    launch.pool->run(kParts, [&](std::size_t number) {
      const std::int64_t next = std::min(count_, static_cast<std::int64_t>(number) * size);
      const bool is_shifted = bug("overlapping_parts") && number == kParts - 1;
      const std::int64_t begin = is_shifted ? count_ - size : next;
      const Partial<Sum> mine = part<T, Sum>(lanes, counters, begin, std::min(count_, begin + size), start);
      partials[bug("completion_order") ? finished++ : number] = mine;
      if (bug("early_combine") && number == kParts - 1) {
        combine_parts();
      }
    });
    if (!bug("early_combine")) {
      combine_parts();
    }
    return total;
  }

  // Reduces the iterations [begin, end), counted over all loops of the reduction. Lane l takes every 16th
  // of a row.
  template <class T, class Sum>
  Partial<Sum> part(Lanes<T> lanes, std::vector<std::int64_t> counters, std::int64_t begin, std::int64_t end,
                    Sum start) const {
    std::array<Partial<Sum>, kLanes> sums;
    sums.fill({initial<Sum>(reduce_)});
    const std::int64_t width = extent(inner_);
    const std::int64_t origin = bug("part_index") ? begin : 0;
    for (std::int64_t position = begin; position < end;) {
      std::int64_t row = position / width;
      for (std::size_t i = rows_.size(); i-- > 0; row /= extent(rows_[i])) {
        counters[rows_[i]] = row % extent(rows_[i]);
      }
      lanes.start(counters);
      const bool is_wrong = position == begin && !rows_.empty() && bug("part_row");
      const std::int64_t first = is_wrong ? 0 : position % width;
      const std::int64_t last = std::min(width, first + end - position);
      for (std::int64_t i = first; i < last; i += kLanes) {
        if (bug("infinite_maximum") && is_infinite(sums)) {
          break;
        }
        const std::size_t count = static_cast<std::size_t>(std::min(kLanes, last - i));
        std::array<T, kLanes> values{};
        lanes.evaluate(i, count, values.data());
        for (std::size_t lane = 0; lane < (bug("tail_zero") ? kLanes : count); ++lane) {
          fold(sums[lane], static_cast<Sum>(values[lane]), i + static_cast<std::int64_t>(lane) - origin);
        }
      }
      position += last - first;
    }
    Partial<Sum> total{start};
    for (const Partial<Sum>& sum : sums) {
      total = combined(reduce_, total, sum);
    }
    return total;
  }

  // Whether a lane of a maximum or minimum has reached infinity. With the bug infinite_maximum only.
  template <class Sum>
  bool is_infinite(const std::array<Partial<Sum>, kLanes>& lanes) const {
    if (!std::is_floating_point_v<Sum> || (reduce_ != Reduce::kMax && reduce_ != Reduce::kMin)) {
      return false;
    }
    const Sum limit = initial<Sum>(reduce_ == Reduce::kMax ? Reduce::kMin : Reduce::kMax);
    return std::any_of(lanes.begin(), lanes.end(), [&](const auto& lane) { return lane.value == limit; });
  }

  template <class Sum>
  void fold(Partial<Sum>& sum, Sum value, std::int64_t index) const {
    if (!is_arg(reduce_)) {
      sum.value = folded(reduce_, sum.value, value);
    } else if (sum.index < 0 || beats(reduce_, value, sum.value)) {
      sum = {value, index};
    }
  }

  std::vector<program::Loop> loops_;
  Reduce reduce_;
  program::Assign assign_;
  Type accumulator_;
  Formula formula_;
  Walk target_;
  Type target_type_;
  std::vector<std::uint32_t> outer_;
  std::vector<std::uint32_t> rows_;  // the loops of the reduction but the last
  std::uint32_t inner_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Kernel> reduce_kernel(const program::Program& program, const program::Statement& statement) {
  if (!statement.reduce || *statement.reduce == Reduce::kAny || *statement.reduce == Reduce::kAll) {
    return nullptr;
  }
  const Type type = statement.value.type;
  const Type target_type = program.tensors[statement.target.tensor].type;
  const bool is_wide =
      *statement.reduce == Reduce::kSum && type == Type::kF32 && statement.accumulator_type() == Type::kF64;
  std::optional<Walk> target = walk_of(program, statement, statement.target);
  std::optional<Formula> formula = formula_of(program, statement);
  if (!target || !formula || (!is_wide && statement.accumulator_type() != type) ||
      (!is_arg(*statement.reduce) && target_type != type)) {
    return nullptr;
  }
  return std::make_unique<ReduceKernel>(statement, std::move(*formula), std::move(*target), target_type);
}

}  // namespace yoke::handmade
