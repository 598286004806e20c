// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/access.cpp: sums, strides and bounds of affine indices.
#include <yoke/program/access.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "region.h"

namespace yoke::program {
namespace {

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

// The largest magnitude of the loop's or symbol's values, without the coefficient.
std::uint64_t largest_value(const Program& program, const Statement& statement, const Affine::Term& term) {
  if (!term.is_symbol) {
    return statement.loops[term.id].extent - 1;
  }
  const Symbol& symbol = program.symbols[term.id];
  return std::max(magnitude(symbol.low), magnitude(symbol.high - 1));
}

Expr integer(std::int64_t value) {
  return Expr::constant(Type::kI64, {0, value});
}

}  // namespace

std::uint64_t largest_partial_sum(const Program& program, const Statement& statement, const Affine& affine) {
  std::uint64_t largest = magnitude(affine.constant);
  for (const Affine::Term& term : affine.terms) {
    // Cannot overflow: the verifier bounds the sum by 2^61.
    largest += magnitude(term.coefficient) * largest_value(program, statement, term);
  }
  return largest;
}

bool may_be_out_of_range(const Program& program, std::span<const Loop> loops, const Affine& affine,
                         std::uint64_t extent) {
  const auto range = range_of(program, loops, affine);
  return !range || range->low < 0 || static_cast<std::uint64_t>(range->high) >= extent;
}

bool may_be_out_of_range(const Program& program, std::span<const Loop> loops, const Index& index,
                         std::uint64_t extent) {
  return index.element_of || index.divisor != 1 || may_be_out_of_range(program, loops, index.affine, extent);
}

bool may_be_out_of_range(const Program& program, std::span<const Loop> loops, const Access& access) {
  const std::vector<std::uint64_t>& dims = program.tensors[access.tensor].dims;
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    if (may_be_out_of_range(program, loops, access.indices[dim], dims[dim])) {
      return true;
    }
  }
  return false;
}

bool may_be_out_of_range(const Program& program, std::span<const Loop> loops, const Expr& expr) {
  bool found = false;
  visit_open_reads(
      expr, [&](const Expr& read) { found = found || may_be_out_of_range(program, loops, read.access); });
  return found;
}

bool is_out_of_range(const Program& program, std::span<const Loop> loops, const Index& index,
                     std::uint64_t extent) {
  if (index.element_of) {
    return false;
  }
  std::int64_t step = index.divisor;  // what all terms and the divisor are multiples of
  for (const Affine::Term& term : index.affine.terms) {
    step = std::gcd(step, term.coefficient % step);
  }
  const auto range = range_of(program, loops, index.affine);
  return index.affine.constant % step != 0 ||
         (range && (range->high < 0 || range->low >= index.divisor * static_cast<std::int64_t>(extent)));
}

std::optional<Affine> exact_quotient(const Index& index) {
  Affine quotient = index.affine;
  bool exact = quotient.constant % index.divisor == 0;
  quotient.constant /= index.divisor;
  for (Affine::Term& term : quotient.terms) {
    exact = exact && term.coefficient % index.divisor == 0;
    term.coefficient /= index.divisor;
  }
  return exact ? std::optional(std::move(quotient)) : std::nullopt;
}

bool add_scaled(Affine& a, const Affine& b, std::int64_t scale) {
  std::map<std::pair<bool, std::uint32_t>, std::int64_t> terms;  // sorted as Affine requires
  for (const Affine::Term& term : a.terms) {
    terms[{term.is_symbol, term.id}] = term.coefficient;
  }
  std::int64_t product = 0;
  for (const Affine::Term& term : b.terms) {
    std::int64_t& sum = terms[{term.is_symbol, term.id}];
    if (__builtin_mul_overflow(term.coefficient, scale, &product) ||
        __builtin_add_overflow(sum, product, &sum)) {
      return false;
    }
  }
  if (__builtin_mul_overflow(b.constant, scale, &product) ||
      __builtin_add_overflow(a.constant, product, &a.constant)) {
    return false;
  }
  a.terms.clear();
  for (const auto& [key, coefficient] : terms) {
    if (coefficient != 0) {
      a.terms.push_back({key.first, key.second, coefficient});
    }
  }
  return true;
}

Expr value_of(const Affine& affine) {
  std::optional<Expr> sum;
  for (const Affine::Term& term : affine.terms) {
    Expr value = term.is_symbol ? Expr::index_symbol(term.id) : Expr::index_loop(term.id);
    if (term.coefficient != 1) {
      value = Expr::make(Op::kMul, {std::move(value), integer(term.coefficient)});
    }
    sum = sum ? Expr::make(Op::kAdd, {std::move(*sum), std::move(value)}) : std::move(value);
  }
  if (!sum) {
    return integer(affine.constant);
  }
  return affine.constant == 0 ? *sum : Expr::make(Op::kAdd, {std::move(*sum), integer(affine.constant)});
}

bool overwrites_target(const Program& program, const Statement& statement) {
  if (statement.assign != Assign::kSet || has_element_index(statement.target)) {
    return false;
  }
  // Over a variable the region is that of all rounds together, not of one.
  for (const Index& index : statement.target.indices) {
    for (const Affine::Term& term : index.affine.terms) {
      if (term.is_symbol && program.symbols[term.id].is_variable) {
        return false;
      }
    }
  }
  const auto region = written_region(program, statement);
  return region && *region == whole(program.tensors[statement.target.tensor]);
}

std::vector<std::uint64_t> strides_of(const Tensor& tensor) {
  std::vector<std::uint64_t> strides(tensor.dims.size(), 1);
  for (std::size_t i = strides.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * tensor.dims[i];
  }
  return strides;
}

std::optional<Affine> flat_element(const Program& program, const Access& access) {
  const std::vector<std::uint64_t> strides = strides_of(program.tensors[access.tensor]);
  Affine sum;
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const Index& one = access.indices[dim];
    if (one.element_of || one.divisor != 1 ||
        !add_scaled(sum, one.affine, static_cast<std::int64_t>(strides[dim]))) {
      return std::nullopt;
    }
  }
  return sum;
}

bool has_element_index(const Access& access) {
  return std::any_of(access.indices.begin(), access.indices.end(),
                     [](const Index& index) { return index.element_of.has_value(); });
}

std::optional<Index> element_of(const Access& access) {
  Index element;
  element.element_of = access.tensor;
  for (const Index& index : access.indices) {
    if (index.element_of || index.divisor != 1) {
      return std::nullopt;
    }
    element.element_indices.push_back(index.affine);
  }
  return element;
}

Access access_of(const Index& index) {
  Access access = {*index.element_of, {}, std::nullopt};
  for (const Affine& affine : index.element_indices) {
    access.indices.push_back({affine, std::nullopt, {}});
  }
  return access;
}

bool reads_only_at(const Expr& expr, const Access& place) {
  bool only = true;
  visit_target_and_reads(expr, [&](const Access& access) {
    only = only && (access.tensor != place.tensor || access == place);
    visit_index_tensors(access, [&](std::uint32_t index) { only = only && index != place.tensor; });
  });
  return only;
}

bool are_apart(const Access& a, const Access& b) {
  const auto is_fixed = [](const Affine& affine) {
    return std::all_of(affine.terms.begin(), affine.terms.end(),
                       [](const Affine::Term& term) { return term.is_symbol; });
  };
  for (std::size_t d = 0; d < a.indices.size(); ++d) {
    const Index& one = a.indices[d];
    const Index& other = b.indices[d];
    if (!one.element_of && !other.element_of && one.divisor == 1 && other.divisor == 1 &&
        is_fixed(one.affine) && one.affine.terms == other.affine.terms &&
        one.affine.constant != other.affine.constant) {
      return true;
    }
  }
  return false;
}

std::uint32_t Use::dims_at(std::uint32_t loop) const {
  std::uint32_t dims = 0;
  for (std::size_t dim = 0; dim < loops.size(); ++dim) {
    dims |= loops[dim] == loop ? 1U << dim : 0U;
  }
  return dims;
}

Use use_of(const Access& access) {
  Use use = {access.tensor, {}};
  for (const Index& index : access.indices) {
    const bool is_plain = !index.element_of && index.divisor == 1;
    use.loops.push_back(is_plain ? index.affine.single_loop().value_or(kNoLoop) : kNoLoop);
  }
  return use;
}

std::vector<Use> uses_of(const Statement& statement) {
  std::vector<Use> uses;
  visit_target_and_reads(statement, [&](const Access& access) {
    uses.push_back(use_of(access));
    for (const Index& index : access.indices) {
      if (index.element_of) {
        uses.push_back(use_of(access_of(index)));
      }
    }
  });
  return uses;
}

}  // namespace yoke::program
