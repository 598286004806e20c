// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/warp.cpp: loops as lanes, indices, reductions.
#include "warp.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "../bugs.h"

namespace yoke::board {

using handmade::bug;
using program::Assign;
using program::Op;
using program::Reduce;

namespace {

constexpr std::int64_t kLongReduction =
    64;                               // the lanes of a warp share it if there are fewer targets than lanes
constexpr std::int64_t kPart = 4096;  // terms of a part
constexpr std::int64_t kTile = 32;    // rows and columns

bool is_arg(Reduce reduce) {
  return reduce == Reduce::kArgMax || reduce == Reduce::kArgMin;
}

Op operation(Reduce reduce) {
  switch (reduce) {
    case Reduce::kSum:
      return Op::kAdd;
    case Reduce::kProd:
      return Op::kMul;
    case Reduce::kMin:
      return Op::kMin;
    case Reduce::kMax:
      return Op::kMax;
    default:
      return reduce == Reduce::kAny ? Op::kOr : Op::kAnd;
  }
}

Op operation(Assign assign) {
  return assign == Assign::kAdd   ? Op::kAdd
         : assign == Assign::kMul ? Op::kMul
         : assign == Assign::kMax ? Op::kMax
                                  : Op::kMin;
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

}  // namespace

bool needs_checks(const program::Program& program, const program::Statement& statement) {
  program::Program tested = program;
  for (program::Symbol& symbol : tested.symbols) {
    symbol.high = bug("low_symbol_check") ? symbol.low + 1 : symbol.high;
  }
  bool needed = false;
  program::visit_target_and_reads(statement, [&](const program::Access& access) {
    needed = needed || program::may_be_out_of_range(tested, statement, access);
  });
  return needed;
}

Warp::Warp(const Launch& launch, const program::Statement& statement, bool is_checked)
    : launch_(launch),
      statement_(statement),
      is_checked_(is_checked),
      target_type_(launch.program.tensors[statement.target.tensor].type),
      accumulator_(statement.accumulator_type()),
      counters_(statement.loops.size()) {
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
  for (std::int64_t first = 0; first < targets_ && !launch_.is_cancelled; first += width) {
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
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          fold(partials[lane], values[lane], term);
        }
        ++term;
      } while (advance());
      std::transform(partials.begin(), partials.end(), values.begin(),
                     [&](const Partial& one) { return result(one); });
    }
    store(values, count);
  }
}

// Sets the counters of the loops to iterations first, first + 1, ..., one for each lane. Lanes beyond the last
// iteration repeat it.
void Warp::decode(std::span<const std::uint32_t> loops, std::int64_t first, std::int64_t count) {
  Numbers left;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    left[static_cast<std::size_t>(lane)] = first + std::min(lane, count - 1);
  }
  for (std::size_t i = loops.size(); i-- > 0;) {
    const auto extent = static_cast<std::int64_t>(statement_.loops[loops[i]].extent);
    const std::int64_t reciprocal = (std::int64_t{1} << 32) / extent + 1;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::int64_t quotient = bug("index_magic") ? left[lane] * reciprocal >> 32 : left[lane] / extent;
      counters_[loops[i]][lane] = left[lane] - quotient * extent;
      left[lane] = quotient;
    }
  }
}

// Advances the loops of the reduction by one iteration in all lanes.
bool Warp::advance() {
  for (std::size_t i = statement_.reduce_loops.size(); i-- > 0;) {
    Numbers& counter = counters_[statement_.reduce_loops[i]];
    const std::int64_t next = counter[0] + 1;
    const bool is_over =
        next == static_cast<std::int64_t>(statement_.loops[statement_.reduce_loops[i]].extent);
    counter.fill(is_over ? 0 : next);
    if (!is_over) {
      return true;
    }
  }
  return false;
}

void Warp::add_affine(const program::Affine& affine, Numbers& to) const {
  std::int64_t constant = affine.constant;
  for (const program::Affine::Term& term : affine.terms) {
    if (term.is_symbol) {
      constant += term.coefficient * launch_.symbols[term.id];
      continue;
    }
    const Numbers& counter = counters_[term.id];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      to[lane] += term.coefficient * counter[lane];
    }
  }
  std::for_each(to.begin(), to.end(), [&](std::int64_t& number) { number += constant; });
}

// The elements that the access reads or writes. Those out of range are 0 and marked in `outside`.
void Warp::locate(const program::Access& access, bool is_target, Numbers& element, Mask& outside) const {
  const program::Tensor& tensor = launch_.program.tensors[access.tensor];
  const program::Index* gathered = nullptr;  // the first index that is an element of a tensor
  for (std::size_t dim = 0; dim < tensor.dims.size(); ++dim) {
    const program::Index& index = access.indices[dim];
    const auto extent = static_cast<std::int64_t>(tensor.dims[dim]);
    Numbers place{};
    if (index.element_of) {
      gathered = bug("second_gather") && gathered != nullptr ? gathered : &index;
      program::Access inner{.tensor = *gathered->element_of, .indices{}, .otherwise{}};
      for (program::Affine affine : gathered->element_indices) {
        std::erase_if(affine.terms, [&](const program::Affine::Term& term) {
          return bug("hoisted_gather") && !term.is_symbol && statement_.reduces(term.id);
        });
        inner.indices.push_back({.affine = std::move(affine), .element_of{}, .element_indices{}});
      }
      Numbers at{};
      locate(inner, false, at, outside);
      Row numbers;
      load(launch_.program.tensors[inner.tensor].type, launch_.tensors[inner.tensor], at, numbers);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        place[lane] = bug("gather_low") ? static_cast<std::int32_t>(numbers[lane].i) : numbers[lane].i;
        place[lane] += place[lane] < 0 && !is_target && bug("negative_from_end") ? extent : 0;
      }
    } else {
      add_affine(index.affine, place);
    }
    for (std::size_t lane = 0; is_checked_ && lane < kLanes; ++lane) {
      const std::int64_t rest = place[lane] % index.divisor;
      place[lane] /= index.divisor;
      const bool is_low = place[lane] < 0 && !(is_target && bug("scatter_negative"));
      const bool is_beyond = (is_low || place[lane] >= extent) && !bug("flat_bounds");
      const bool is_inexact = bug("negative_quotient") ? rest > 0 : rest != 0;
      if (is_inexact || is_beyond) {
        outside[lane] = true;
        place[lane] = 0;
      }
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      element[lane] = element[lane] * extent + place[lane];
    }
  }
  const auto count = static_cast<std::int64_t>(tensor.element_count());
  for (std::size_t lane = 0; bug("flat_bounds") && lane < kLanes; ++lane) {
    outside[lane] = outside[lane] || element[lane] < 0 || element[lane] >= count;
    element[lane] = outside[lane] ? 0 : element[lane];
  }
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
      out[lane] = !inner[lane]          ? out[lane]
                  : is_float(expr.type) ? Word{.f = other.number}
                                        : Word{.i = other.integer};
    }
  } else if (expr.op == Op::kGuard) {
    Mask& failed = bug("guard_mask") ? outside : inner;
    evaluate(expr.args[0], out, failed);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      out[lane] = failed[lane] ? literal : out[lane];
    }
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

void Warp::fold(Partial& to, Word value, std::int64_t index) const {
  if (is_arg(*statement_.reduce)) {
    to = combined(to, {value, index});
  } else {
    to.value = applied(operation(*statement_.reduce), accumulator_,
                       converted(statement_.value.type, accumulator_, value), to.value);
  }
}

Warp::Partial Warp::combined(const Partial& a, const Partial& b) const {
  if (!is_arg(*statement_.reduce)) {
    return {applied(operation(*statement_.reduce), accumulator_, a.value, b.value), -1};
  }
  if (a.index < 0 || b.index < 0) {
    return a.index < 0 ? b : a;
  }
  const auto beats = [&](Word x, Word y) {
    const bool is_max = *statement_.reduce == Reduce::kArgMax;
    if (!is_float(accumulator_)) {
      return is_max ? x.i > y.i : x.i < y.i;
    }
    if ((std::isnan(x.f) || std::isnan(y.f)) && (is_max || !bug("argmin_nan"))) {
      return std::isnan(x.f) && !std::isnan(y.f);
    }
    return is_max ? x.f > y.f : x.f < y.f;
  };
  const bool b_wins = beats(b.value, a.value) || (!beats(a.value, b.value) && b.index < a.index);
  return b_wins ? b : a;
}

// Lane l takes every 32nd term of a part. The lanes of a part, and then the parts, are combined in pairs.
Warp::Partial Warp::reduced_by_lanes() {
  const auto combine_pairs = [&](std::span<Partial> values) {
    for (std::size_t n = values.size(); n > 1; n = bug("odd_tree") ? n / 2 : (n + 1) / 2) {
      for (std::size_t i = 0; i < n / 2; ++i) {
        values[i] = combined(values[i], values[n - 1 - i]);
      }
    }
    return values[0];
  };
  std::vector<Partial> parts;
  for (std::int64_t begin = 0; begin < terms_ && !launch_.is_cancelled; begin += kPart) {
    Partials lanes;
    lanes.fill(initial_);
    const std::int64_t end = std::min(terms_, begin + kPart);
    for (std::int64_t first = begin; first < end; first += kLanes) {
      const std::int64_t count = std::min(kLanes, end - first);
      Row values;
      Mask outside{};
      decode(statement_.reduce_loops, first, count);
      evaluate(statement_.value, values, outside);
      for (std::int64_t lane = 0; lane < count; ++lane) {
        fold(lanes[static_cast<std::size_t>(lane)], values[static_cast<std::size_t>(lane)], first + lane);
      }
    }
    Partial sum = combine_pairs(lanes);
    if (bug("narrow_partials") && !is_arg(*statement_.reduce)) {
      sum.value = converted(target_type_, accumulator_, converted(accumulator_, target_type_, sum.value));
    }
    parts.push_back(sum);
  }
  return parts.empty() ? initial_ : combine_pairs(parts);
}

Word Warp::result(const Partial& partial) const {
  return is_arg(*statement_.reduce) ? Word{.i = partial.index}
                                    : converted(accumulator_, target_type_, partial.value);
}

void Warp::store(Row& values, std::int64_t count) const {
  Numbers element{};
  Mask outside{};
  locate(statement_.target, true, element, outside);
  std::byte* const target = launch_.tensors[statement_.target.tensor];
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
    if (statement_.assign != Assign::kSet) {
      // Lanes may scatter to the same element.
      const Word old = bug("warp_conflict") ? early[lane] : load(target_type_, target, element[lane]);
      const bool is_kept = bug("assign_nan") && is_float(target_type_) &&
                           (statement_.assign == Assign::kMax   ? !(value.f > old.f)
                            : statement_.assign == Assign::kMin ? !(value.f < old.f)
                                                                : false);
      value = is_kept ? old : applied(operation(statement_.assign), target_type_, old, value);
    }
    store_word(target_type_, target, element[lane], value);
  }
  const auto last = static_cast<std::size_t>(count - 1);
  if (bug("pair_store") && program::byte_size(target_type_) == 2 && element[last] % 2 == 0 &&
      !outside[last]) {
    store_word(target_type_, target, element[last] + 1, Word{.i = 0});
  }
}

// y[i, j] = x[j, i]
bool Warp::is_transpose() const {
  const auto is_by_loops = [](const program::Access& access, std::uint32_t first, std::uint32_t second) {
    return access.indices.size() == 2 && !access.indices[0].element_of && !access.indices[1].element_of &&
           access.indices[0].divisor == 1 && access.indices[1].divisor == 1 &&
           access.indices[0].affine.single_loop() == first &&
           access.indices[1].affine.single_loop() == second;
  };
  return !is_checked_ && !statement_.reduce && statement_.assign == Assign::kSet &&
         statement_.loops.size() == 2 && statement_.value.op == Op::kRead &&
         is_by_loops(statement_.target, 0, 1) && is_by_loops(statement_.value.access, 1, 0) &&
         statement_.value.access.tensor != statement_.target.tensor;
}

void Warp::run_copy(const program::Access& from) {
  const std::uint64_t size = program::byte_size(target_type_);
  const auto extent = [&](std::size_t loop) {
    return static_cast<std::int64_t>(statement_.loops[loop].extent);
  };
  const auto pitch = [&](const program::Access& access) {
    return static_cast<std::int64_t>(launch_.program.tensors[access.tensor].dims[1]);
  };
  const auto at = [&](const program::Access& access, std::int64_t row, std::int64_t column) {
    return launch_.tensors[access.tensor] + static_cast<std::uint64_t>(row * pitch(access) + column) * size;
  };
  for (std::int64_t row = 0; row < extent(0) && !launch_.is_cancelled; row += kTile) {
    for (std::int64_t column = 0; column < extent(1); column += kTile) {
      const std::int64_t rows = std::min(kTile, extent(0) - row);
      const std::int64_t columns =
          bug("tile_edge") ? std::min(rows, extent(1) - column) : std::min(kTile, extent(1) - column);
      for (std::int64_t i = row; i < row + rows; ++i) {
        for (std::int64_t j = column; j < column + columns; ++j) {
          std::memcpy(at(statement_.target, i, j), at(from, j, i), size);
        }
      }
    }
  }
}

}  // namespace yoke::board
