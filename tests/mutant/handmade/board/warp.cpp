// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/warp.cpp: statements on lanes: values, reductions, stores.
#include "warp.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "../bugs.h"

namespace yoke::board {

using handmade::bug;
using program::Assign;
using program::Op;
using program::Reduce;

namespace {

constexpr std::int64_t kLongReduction =
    64;  // the lanes of a warp share it if there are fewer targets than lanes

Op operation(Assign assign) {
  return assign == Assign::kAdd   ? Op::kAdd
         : assign == Assign::kMul ? Op::kMul
         : assign == Assign::kMax ? Op::kMax
                                  : Op::kMin;
}

// What a kernel for atomic operations stores that compares the bits of two f32 as integers.
Word extreme_of_bits(Assign assign, Word old, Word value) {
  const auto bits = [](Word word) { return std::bit_cast<std::int32_t>(static_cast<float>(word.f)); };
  return (assign == Assign::kMax) == (bits(old) < bits(value)) ? value : old;
}

// Adds to a u8 as part of the 4 bytes that hold it, because bytes have no atomic operations: an overflow
// carries into the bytes after it.
void add_in_word(std::byte* byte, Word value) {
  std::int64_t carry = value.i;
  for (bool is_first = true; carry != 0 && (is_first || reinterpret_cast<std::uintptr_t>(byte) % 4 != 0);
       ++byte, is_first = false) {
    const std::int64_t sum = std::to_integer<std::int64_t>(*byte) + carry;
    *byte = static_cast<std::byte>(sum & 255);
    carry = sum >> 8;
  }
}

Word initial(Reduce reduce, Type type) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (reduce) {
    case Reduce::kMax:
      return is_float(type) ? Word{.f = -infinity} : Word{.i = program::lowest_integer(type)};
    case Reduce::kMin:
      return is_float(type) ? Word{.f = infinity} : Word{.i = program::highest_integer(type)};
    case Reduce::kProd:
    case Reduce::kAll:
      return is_float(type) ? Word{.f = 1} : Word{.i = 1};
    default:
      return is_float(type) ? Word{.f = 0} : Word{.i = 0};
  }
}

// The nearest integer that an f64 holds.
std::int64_t in_double(std::int64_t number) {
  const auto nearest = static_cast<double>(number);
  return nearest >= 9223372036854775808.0 ? std::numeric_limits<std::int64_t>::max()
                                          : static_cast<std::int64_t>(nearest);
}

// Whether the expression casts a float to another float type and back. With the bug cast_round_trip only.
bool is_round_trip(const program::Expr& expr) {
  return expr.op == Op::kCast && expr.args[0].op == Op::kCast && is_float(expr.type) &&
         is_float(expr.args[0].type) && expr.args[0].args[0].type == expr.type;
}

// Whether the expression combines two numbers. With the bug folded_unrounded only: the result must have its type.
bool is_foldable(const program::Expr& expr) {
  const bool is_simple =
      expr.op == Op::kAdd || expr.op == Op::kSub || expr.op == Op::kMul || expr.op == Op::kDiv;
  return is_simple && expr.args[0].op == Op::kConst && expr.args[1].op == Op::kConst;
}

}  // namespace

Warp::Warp(const Launch& launch, const program::Statement& statement, bool is_checked)
    : launch_(launch),
      statement_(statement),
      is_checked_(is_checked),
      target_type_(launch.program.tensors[statement.target.tensor].type),
      accumulator_(statement.accumulator_type()),
      own_counters_(statement.loops.size()),
      counters_(launch.counters != nullptr ? *launch.counters : own_counters_) {
  for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
    const auto extent = static_cast<std::int64_t>(statement.loops[i].extent);
    (statement.reduces(i) ? terms_ : targets_) *= extent;
    if (!statement.reduces(i)) {
      outer_.push_back(i);
    }
  }
  if (statement.reduce) {
    initial_ = {initial(*statement.reduce, accumulator_), -1};
  }
}

void Warp::run() {
  if (is_transpose()) {
    run_copy(statement_.value.access);
    return;
  }
  const bool is_shared = statement_.reduce && targets_ < kLanes && terms_ >= kLongReduction;
  const std::int64_t width = is_shared ? 1 : kLanes;
  // With the bug tail_unwritten only: the last warp need not be full.
  const bool is_cut = bug("tail_unwritten") && !statement_.reduce && statement_.value.op == Op::kAdd;
  const std::int64_t end = is_cut              ? targets_ / kLanes * kLanes
                           : bug("grid_limit") ? std::min(targets_, 65535 * width)
                                               : targets_;
  for (std::int64_t first = 0; first < end && !launch_.is_cancelled; first += width) {
    const std::int64_t count = std::min(width, targets_ - first);
    decode(outer_, first, count);
    Row values{};
    if (is_shared) {
      const std::vector<Numbers> before = counters_;
      values.fill(result(reduced_by_lanes()));
      counters_ = before;
    } else if (!statement_.reduce) {
      Mask outside{};
      evaluate(statement_.value, values, outside);
    } else {
      Partials partials;
      partials.fill(initial_);
      decode(statement_.reduce_loops, 0, 1);
      std::int64_t term = 0;
      do {
        Mask outside{};
        evaluate(statement_.value, values, outside);
        if (bug("axis_of_one") && is_unit_sum()) {
          load_flat(first, count, values);
        }
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          fold(partials[lane], values[lane], term);
        }
        ++term;
        if (bug("warp_vote") && is_decided(partials)) {
          break;
        }
      } while (advance());
      std::transform(partials.begin(), partials.end(), values.begin(),
                     [&](const Partial& one) { return result(one); });
    }
    store(values, count, is_shared && bug("split_overwrites"));
  }
}

// Whether the statement sums single elements of a whole tensor, so that it copies the tensor.
bool Warp::is_unit_sum() const {
  return statement_.reduce == Reduce::kSum && terms_ == 1 && statement_.value.op == Op::kRead &&
         !is_checked_ &&
         static_cast<std::int64_t>(launch_.program.tensors[statement_.value.access.tensor].element_count()) ==
             targets_;
}

// With the bug axis_of_one only: the elements of the value's tensor may have another order than those of the target.
void Warp::load_flat(std::int64_t first, std::int64_t count, Row& out) const {
  Numbers elements;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    elements[static_cast<std::size_t>(lane)] = first + std::min(lane, count - 1);
  }
  load(statement_.value.type, launch_.tensors[statement_.value.access.tensor], elements, out);
}

void Warp::run_at(std::int64_t first) {
  const std::int64_t count = std::min(kLanes, targets_ - first);
  decode(outer_, first, count);
  Row values{};
  Mask outside{};
  evaluate(statement_.value, values, outside);
  store(values, count, false);
}

void Warp::evaluate(const program::Expr& expr, Row& out, Mask& outside) const {
  const Word literal = is_float(expr.type) ? Word{.f = expr.literal.number} : Word{.i = expr.literal.integer};
  Mask inner{};
  if (expr.op == Op::kConst) {
    out.fill(literal);
  } else if (expr.op == Op::kIndex) {
    Numbers numbers{};
    add_affine(expr.affine, numbers);
    std::transform(numbers.begin(), numbers.end(), out.begin(),
                   [](std::int64_t number) { return Word{.i = number}; });
  } else if (expr.op == Op::kRead) {
    Numbers element{};
    locate(expr.access, false, element, inner);
    load(expr.type, launch_.tensors[expr.access.tensor], element, out);
    const program::Literal other = expr.access.otherwise.value_or(program::Literal{});
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      outside[lane] = outside[lane] || (inner[lane] && (!expr.access.otherwise || bug("inner_else")));
      out[lane] = !inner[lane] ? out[lane]
                  : is_float(expr.type)
                      ? Word{.f = other.number}
                      : Word{.i = bug("else_double") ? in_double(other.integer) : other.integer};
    }
  } else if (expr.op == Op::kGuard) {
    Mask& failed = bug("guard_mask") ? outside : inner;
    evaluate(expr.args[0], out, failed);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      out[lane] = failed[lane] ? literal : out[lane];
      outside[lane] = outside[lane] || (failed[lane] && bug("nested_guard"));
    }
  } else if (expr.op == Op::kSelect && bug("lazy_select")) {
    evaluate_lazily(expr, out, outside);
  } else if (is_round_trip(expr) && bug("cast_round_trip")) {
    evaluate(expr.args[0].args[0], out, outside);
  } else if (bug("folded_unrounded") && is_foldable(expr)) {
    Row right;
    evaluate(expr.args[0], out, outside);
    evaluate(expr.args[1], right, outside);
    out.fill(folded(expr.op, expr.type, out[0], right[0]));
  } else {
    std::array<Row, 2> more;
    evaluate(expr.args[0], out, outside);
    for (std::size_t i = 1; i < expr.args.size(); ++i) {
      evaluate(expr.args[i], more[i - 1], outside);
    }
    const bool is_wide = &expr == &statement_.value && statement_.reduce && bug("unrounded_product") &&
                         is_float(expr.type) && expr.op == Op::kMul;
    apply_lanes(expr, is_wide ? accumulator_ : expr.type, out, more[0], more[1]);
  }
}

// With the bug lazy_select only: a guard also fails if a read of the other operand is out of range.
void Warp::evaluate_lazily(const program::Expr& select, Row& out, Mask& outside) const {
  std::array<Row, 2> values;
  std::array<Mask, 2> masks{};
  evaluate(select.args[0], out, outside);
  evaluate(select.args[1], values[0], masks[0]);
  evaluate(select.args[2], values[1], masks[1]);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::size_t chosen = out[lane].i != 0 ? 0 : 1;
    out[lane] = values[chosen][lane];
    outside[lane] = outside[lane] || masks[chosen][lane];
  }
}

void Warp::store(Row& values, std::int64_t count, bool overwrites) const {
  Numbers element{};
  Mask outside{};
  locate(statement_.target, true, element, outside);
  std::byte* const target = launch_.tensors[statement_.target.tensor];
  const bool is_by_bits = bug("atomic_max_bits") && target_type_ == Type::kF32 &&
                          program::has_element_index(statement_.target) &&
                          (statement_.assign == Assign::kMax || statement_.assign == Assign::kMin);
  // The device adds f32 atomically, but not f64; with the bug scatter_narrow only, because the sum loses bits.
  const bool is_narrow = bug("scatter_narrow") && target_type_ == Type::kF64 &&
                         statement_.assign == Assign::kAdd && program::has_element_index(statement_.target);
  const bool is_in_words = bug("byte_carry") && target_type_ == Type::kU8 &&
                           statement_.assign == Assign::kAdd && program::has_element_index(statement_.target);
  Row early;
  load(target_type_, target, element, early);
  for (std::size_t lane = 0; lane < static_cast<std::size_t>(count); ++lane) {
    if (outside[lane]) {
      if (bug("scatter_break")) {
        break;
      }
      continue;
    }
    Word value = values[lane];
    if (is_in_words) {
      add_in_word(target + element[lane], value);
      continue;
    }
    if (statement_.assign != Assign::kSet && !overwrites) {
      // Lanes may scatter to the same element.
      const Word old = bug("warp_conflict") ? early[lane] : load(target_type_, target, element[lane]);
      const bool is_kept = bug("assign_nan") && is_float(target_type_) &&
                           (statement_.assign == Assign::kMax   ? !(value.f > old.f)
                            : statement_.assign == Assign::kMin ? !(value.f < old.f)
                                                                : false);
      value = is_kept ? old
              : is_narrow
                  ? Word{.f = static_cast<double>(static_cast<float>(old.f) + static_cast<float>(value.f))}
              : is_by_bits ? extreme_of_bits(statement_.assign, old, value)
                           : applied(operation(statement_.assign), target_type_, old, value);
    }
    store_word(target_type_, target, element[lane], value);
  }
  const auto last = static_cast<std::size_t>(count - 1);
  if (bug("pair_store") && program::byte_size(target_type_) == 2 && element[last] % 2 == 0 &&
      !outside[last]) {
    store_word(target_type_, target, element[last] + 1, Word{.i = 0});
  }
}

}  // namespace yoke::board
