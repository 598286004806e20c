// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/indices.cpp: loop counters of lanes, and the elements that accesses read or write.
#include <yoke/program/access.h>

#include <algorithm>

#include "../bugs.h"
#include "warp.h"

namespace yoke::board {

using handmade::bug;

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

// The extent of a dimension of the target. With the bug scatter_fold only: a scatter to more than 4 dimensions folds
// the leading ones, but their loops may have fewer iterations.
std::int64_t Warp::folded_extent(const program::Access& access, std::size_t dim) const {
  const std::vector<std::uint64_t>& dims = launch_.program.tensors[access.tensor].dims;
  const bool is_folded = bug("scatter_fold") && dims.size() > 4 && dim <= dims.size() - 4 &&
                         program::has_element_index(access) && !access.indices[dim].element_of;
  const std::optional<std::uint32_t> loop =
      is_folded ? access.indices[dim].affine.single_loop() : std::nullopt;
  return static_cast<std::int64_t>(loop ? statement_.loops[*loop].extent : dims[dim]);
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
      const bool is_pad =
          &access == &statement_.value.access && access.otherwise && dim + 1 == tensor.dims.size();
      if (bug("pad_multiple") && is_pad &&
          index.affine.constant < 0) {  // with it only: any number may be padded
        const auto unit = static_cast<std::int64_t>(16 / program::byte_size(tensor.type));
        std::for_each(place.begin(), place.end(),
                      [&](std::int64_t& number) { number += -index.affine.constant % unit; });
      }
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
    const std::int64_t step = is_target ? folded_extent(access, dim) : extent;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      element[lane] = element[lane] * step + place[lane];
    }
  }
  const auto count = static_cast<std::int64_t>(tensor.element_count());
  for (std::size_t lane = 0; bug("flat_bounds") && lane < kLanes; ++lane) {
    outside[lane] = outside[lane] || element[lane] < 0 || element[lane] >= count;
    element[lane] = outside[lane] ? 0 : element[lane];
  }
}

}  // namespace yoke::board
