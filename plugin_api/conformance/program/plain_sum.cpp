// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/plain_sum.cpp: recognizes plain sums and adds their terms, row by row.
#include "plain_sum.h"

#include <algorithm>
#include <cmath>

#include "error_units.h"
#include "number.h"

namespace yoke::conformance {

using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using program::Tensor;
using program::Type;

struct PlainSum::Totals {
  SumTerms terms;
  std::int64_t integer = 0;
};

// Sets the factor's first element and steps. Parts of an index may be far outside the tensor before they are
// added, so sums and products wrap.
bool PlainSum::place(const Tensor& tensor, std::span<const program::Index> indices,
                     std::span<const std::int64_t> symbols, Factor& factor) {
  std::uint64_t start = 0;
  std::uint64_t stride = 1;
  for (std::size_t dim = tensor.dims.size(); dim-- > 0;) {
    const program::Index& index = indices[dim];
    if (index.element_of || index.divisor != 1) {
      return false;
    }
    start += stride * static_cast<std::uint64_t>(index.affine.constant);
    for (const program::Affine::Term& term : index.affine.terms) {
      const std::uint64_t step = stride * static_cast<std::uint64_t>(term.coefficient);
      if (term.is_symbol) {
        start += step * static_cast<std::uint64_t>(symbols[term.id]);
      } else {
        factor.steps[term.id] += static_cast<std::int64_t>(step);
      }
    }
    stride *= tensor.dims[dim];
  }
  factor.start = static_cast<std::int64_t>(start);
  return true;
}

// Casts that change no value are skipped.
bool PlainSum::add_factor(const Program& program, const Expr& expr, std::span<const std::int64_t> symbols,
                          std::span<const std::vector<Bound>> memory) {
  const Expr* read = &expr;
  while (read->op == Op::kCast && program::holds_all(read->type, read->args[0].type)) {
    read = &read->args[0];
  }
  if (read->op != Op::kRead || read->access.otherwise ||
      program::is_float(read->type) != program::is_float(type_) || read->type == Type::kBool) {
    return false;
  }
  Factor factor;
  factor.steps.assign(statement_->loops.size(), 0);
  if (!place(program.tensors[read->access.tensor], read->access.indices, symbols, factor)) {
    return false;
  }
  factor.largest = 0;
  factor.smallest = kInfinity;
  factor.lowest_bit = 4096;
  const bool is_float = program::is_float(type_);
  is_float ? factor.numbers.reserve(memory[read->access.tensor].size())
           : factor.integers.reserve(memory[read->access.tensor].size());
  for (const Bound& bound : memory[read->access.tensor]) {
    if (!is_float) {
      if (bound.unknown) {
        return false;
      }
      factor.integers.push_back(bound.integer);
      continue;
    }
    const bool is_nan = bound.is_nan();
    if (bound.unknown || bound.product || (!is_nan && !bound.is_point())) {
      return false;
    }
    const double number = is_nan ? std::numeric_limits<double>::quiet_NaN() : bound.low;
    factor.numbers.push_back(number);
    if (!std::isfinite(number)) {
      factor.finite = false;
    } else if (number != 0) {
      const MantissaBits bits = mantissa_bits(number);
      factor.lowest_bit = std::min(factor.lowest_bit, bits.lowest);
      factor.bits = std::max(factor.bits, bits.span);
      factor.largest = std::max(factor.largest, std::fabs(number));
      factor.smallest = std::min(factor.smallest, std::fabs(number));
    }
  }
  factors_.push_back(std::move(factor));
  return true;
}

// No finite product overflows. Decides whether every product is exact.
bool PlainSum::is_in_range() {
  if (!program::is_float(type_)) {
    return true;
  }
  const double most = factors_[0].largest * factors_[1].largest;
  const double least = factors_[0].smallest * factors_[1].smallest;
  products_are_exact_ =
      factors_[0].bits + factors_[1].bits <= digits(type_) && least >= smallest_normal(type_);
  return most <= largest(type_) / 2;
}

std::optional<PlainSum> PlainSum::of(const Program& program, const Statement& statement,
                                     std::span<const std::int64_t> symbols,
                                     std::span<const std::vector<Bound>> memory) {
  if (statement.reduce != program::Reduce::kSum || statement.value.type == Type::kBool) {
    return std::nullopt;
  }
  PlainSum sum(statement);
  sum.type_ = statement.value.type;
  sum.accumulator_ = statement.accumulator_type();
  const Expr& value = statement.value;
  const bool is_product = value.op == Op::kMul;
  const bool fits = is_product ? sum.add_factor(program, value.args[0], symbols, memory) &&
                                     sum.add_factor(program, value.args[1], symbols, memory)
                               : sum.add_factor(program, value, symbols, memory);
  if (!fits) {
    return std::nullopt;
  }
  if (!is_product) {
    Factor one;
    one.numbers = {1};
    one.integers = {1};
    one.steps.assign(statement.loops.size(), 0);
    sum.factors_.push_back(std::move(one));
  }
  if (!sum.is_in_range()) {
    return std::nullopt;
  }
  return sum;
}

void PlainSum::add_row(std::int64_t x, std::int64_t w, std::uint64_t count, std::int64_t x_step,
                       std::int64_t w_step, Totals& totals) const {
  const double* a = factors_[0].numbers.data() + x;
  const double* b = factors_[1].numbers.data() + w;
  SumTerms& terms = totals.terms;
  if (products_are_exact_ && factors_[0].finite && factors_[1].finite) {
    double sum = 0;
    double magnitude = 0;
    for (std::uint64_t i = 0; i < count; ++i, a += x_step, b += w_step) {
      const double product = *a * *b;
      sum += product;
      magnitude += std::fabs(product);
    }
    terms.low += sum;
    terms.high += sum;
    terms.magnitude += magnitude;
    return;
  }
  // Without a conversion after it, a product may stay unrounded in the sum.
  const bool may_stay = type_ == accumulator_ && program::byte_size(type_) > 2;
  for (std::uint64_t i = 0; i < count; ++i, a += x_step, b += w_step) {
    const double product = *a * *b;
    if (!std::isfinite(product)) {
      (std::isnan(product) ? terms.nan : product > 0 ? terms.plus_infinity : terms.minus_infinity) = true;
      continue;
    }
    const double rounded = program::round_to_type(type_, product);
    const bool inexact =
        type_ == Type::kF64 ? !is_exact_product(*a, *b, product) : may_stay && rounded != product;
    if (inexact && type_ == Type::kF64) {
      terms.low += std::nextafter(product, -kInfinity);
      terms.high += std::nextafter(product, kInfinity);
    } else {
      terms.low += inexact ? std::min(rounded, product) : rounded;
      terms.high += inexact ? std::max(rounded, product) : rounded;
    }
    terms.points = terms.points && !inexact;
    terms.magnitude += std::max(std::fabs(product), std::fabs(rounded));
    if (rounded != product && rounded != 0) {
      terms.lowest_bit = std::min(terms.lowest_bit, mantissa_bits(rounded).lowest);
    }
  }
}

void PlainSum::add_integers(std::int64_t x, std::int64_t w, std::uint64_t count, std::int64_t x_step,
                            std::int64_t w_step, Totals& totals) const {
  const std::int64_t* a = factors_[0].integers.data() + x;
  const std::int64_t* b = factors_[1].integers.data() + w;
  auto sum = static_cast<std::uint64_t>(totals.integer);
  for (std::uint64_t i = 0; i < count; ++i, a += x_step, b += w_step) {
    const auto product = static_cast<std::uint64_t>(*a) * static_cast<std::uint64_t>(*b);
    sum += static_cast<std::uint64_t>(program::wrap_to_type(type_, static_cast<std::int64_t>(product)));
  }
  totals.integer = static_cast<std::int64_t>(sum);
}

Fold PlainSum::folded(std::span<const std::int64_t> counters) const {
  const auto& reduced = statement_->reduce_loops;
  std::int64_t x = factors_[0].start;
  std::int64_t w = factors_[1].start;
  const std::size_t outer = counters.size() - reduced.size();
  for (std::size_t i = 0; i < outer; ++i) {
    x += factors_[0].steps[i] * counters[i];
    w += factors_[1].steps[i] * counters[i];
  }
  Totals totals;
  totals.terms.lowest_bit = factors_[0].lowest_bit + factors_[1].lowest_bit;
  const std::uint32_t last = reduced.back();
  const std::uint64_t row = statement_->loops[last].extent;
  std::vector<std::uint64_t> at(reduced.size() - 1);
  const bool is_float = program::is_float(type_);
  for (;;) {
    is_float ? add_row(x, w, row, factors_[0].steps[last], factors_[1].steps[last], totals)
             : add_integers(x, w, row, factors_[0].steps[last], factors_[1].steps[last], totals);
    totals.terms.count += static_cast<double>(row);
    std::size_t i = at.size();
    for (; i-- > 0;) {
      const std::uint32_t loop = reduced[i];
      x += factors_[0].steps[loop];
      w += factors_[1].steps[loop];
      if (++at[i] < statement_->loops[loop].extent) {
        break;
      }
      x -= factors_[0].steps[loop] * static_cast<std::int64_t>(at[i]);
      w -= factors_[1].steps[loop] * static_cast<std::int64_t>(at[i]);
      at[i] = 0;
    }
    if (i == static_cast<std::size_t>(-1)) {
      break;
    }
  }
  Fold fold(Op::kAdd, accumulator_);
  if (is_float) {
    fold.add_terms(totals.terms);
  } else {
    fold.add(bound_of(accumulator_, {0, program::wrap_to_type(accumulator_, totals.integer)}));
  }
  return fold;
}

}  // namespace yoke::conformance
