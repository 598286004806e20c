// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region_tile.cpp: rewrites the statements of a region as the statements of one tile.
#include "region_tile.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace yoke::cc {

using program::Access;
using program::Affine;
using program::Expr;
using program::Index;
using program::Op;
using program::Program;
using program::Statement;

namespace {

Affine rewritten(const TileNames& names, Affine affine, bool shifts) {
  const std::size_t count = affine.terms.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Affine::Term term = affine.terms[i];
    if (term.is_symbol) {
      continue;
    }
    if (shifts && names.symbol_of[term.id] >= 0) {
      affine.terms.push_back({true, static_cast<std::uint32_t>(names.symbol_of[term.id]), term.coefficient});
    }
    affine.terms[i].id = names.loop_of[term.id];
  }
  std::sort(affine.terms.begin(), affine.terms.end(), [](const Affine::Term& a, const Affine::Term& b) {
    return std::pair(a.is_symbol, a.id) < std::pair(b.is_symbol, b.id);
  });
  return affine;
}

bool keeps(const TileNames& names, std::uint32_t tensor, std::size_t dim) {
  const auto dims = names.kept.find(tensor);
  return dims != names.kept.end() && std::count(dims->second.begin(), dims->second.end(), dim) != 0;
}

void rewrite(const TileNames& names, Access& access) {
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    Index& index = access.indices[dim];
    if (index.element_of) {
      for (std::size_t i = 0; i < index.element_indices.size(); ++i) {
        index.element_indices[i] =
            rewritten(names, index.element_indices[i], !keeps(names, *index.element_of, i));
      }
      index.element_of = names.numbers.at(*index.element_of);
    } else {
      index.affine = rewritten(names, index.affine, !keeps(names, access.tensor, dim));
    }
  }
  access.tensor = names.numbers.at(access.tensor);
}

void rewrite(const TileNames& names, Expr& expr) {
  if (expr.op == Op::kRead) {
    rewrite(names, expr.access);
  } else if (expr.op == Op::kIndex) {
    expr = program::value_of(rewritten(names, expr.affine, true));
    return;
  }
  for (Expr& arg : expr.args) {
    rewrite(names, arg);
  }
}

}  // namespace

std::vector<std::uint32_t> loops_in_tile(const Statement& statement, bool rows_first) {
  std::vector<std::uint32_t> numbers(statement.loops.size());
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (rows_first) {
    const auto rows = numbers.begin() + static_cast<std::ptrdiff_t>(statement.reduce_loops[0]);
    std::for_each(numbers.begin(), rows, [](std::uint32_t& number) { ++number; });
    *rows = 0;
  }
  return numbers;
}

void rewrite_for_tile(Statement& statement, const TileNames& names) {
  rewrite(names, statement.target);
  rewrite(names, statement.value);
  const std::vector<program::Loop> loops = statement.loops;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    statement.loops[names.loop_of[i]] = loops[i];
  }
  for (std::uint32_t& loop : statement.reduce_loops) {
    loop = names.loop_of[loop];
  }
}

std::vector<Region::Slice> slices_of(const Program& tile, std::size_t first_symbol) {
  std::map<std::uint32_t, Region::Slice> slices;
  for (const Statement& statement : tile.statements) {
    visit_target_and_reads(statement, [&](const Access& access) {
      const program::Tensor& tensor = tile.tensors[access.tensor];
      Form form = linear_form(tile, statement, access);
      const auto moves = [](std::int64_t c) { return c != 0; };
      if (tensor.role == program::Role::kTemp || may_be_out_of_range(tile, statement, access) ||
          std::none_of(form.symbols.begin() + static_cast<std::ptrdiff_t>(first_symbol), form.symbols.end(),
                       moves)) {
        return;
      }
      std::int64_t span = 1;
      std::int64_t count = 1;
      for (std::size_t i = 0; i < statement.loops.size(); ++i) {
        const auto extent = static_cast<std::int64_t>(statement.loops[i].extent);
        count *= form.loops[i] != 0 ? extent : 1;
        span += std::abs(form.loops[i]) * (extent - 1);
        form.constant += std::min<std::int64_t>(form.loops[i], 0) * (extent - 1);
      }
      Region::Slice& slice = slices[access.tensor];
      const auto bytes = span * static_cast<std::int64_t>(byte_size(tensor.type));
      if (span <= 2 * count && bytes > slice.byte_count) {
        slice = {{access.tensor, tensor.type, std::move(form)}, bytes};
      }
    });
  }
  std::vector<Region::Slice> result;
  for (auto& [tensor, slice] : slices) {
    if (slice.byte_count != 0) {
      result.push_back(std::move(slice));
    }
  }
  return result;
}

}  // namespace yoke::cc
