// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/run_reduce.cpp: runs reductions as a whole, in parts that threads share, or carried over
// tiles.
#include <cstring>

#include "run.h"

namespace yoke::cc {

void Run::parts(std::byte* results, int64_t first, int64_t last) {
  const Reduction& reduction = *kernel_.reduction;
  for (int64_t piece = first; piece < last; ++piece) {
    const int64_t tile = piece / reduction.part_count;
    const int64_t part = piece % reduction.part_count;
    move_to(tile);
    const int64_t count = target_count(reduction);
    const Sums sums = accumulate(reduction, part, count);
    Results(kernel_, results, tile, count).put(part, sums);
  }
}

void Run::carry(std::byte* bytes, const PlaceInPart& place) {
  const Reduction& reduction = *kernel_.reduction;
  int64_t rows = 1;
  for (const TileLoop& loop : schedule_.loops) {
    rows *= loop.reduce ? loop.extent : 1;
  }
  for (int64_t tile = 0; tile < kernel_.tile_count; ++tile, bytes += 2 * kCarryBytes) {
    move_to(tile);
    const int64_t count = target_count(reduction);
    const Sums sums = sums_at(bytes);
    if (place.begins) {
      begin(reduction, sums, count);
    }
    const int64_t pending = add_units(reduction, sums, 0, rows, place.row % kFoldRows);
    if (place.ends) {
      end(reduction, sums, count, pending);
      Results(kernel_, place.results, tile, count).put(place.part, sums);
    }
  }
}

void Run::begin_carries(const PlaceInPart& place) {
  measure();
  for (Carry& carry : state_.carries) {
    carry.pending = place.row % kFoldRows;
    if (place.begins) {
      begin(*carry.kernel->reduction, sums_at(carry.sums), state_.nc);
    }
  }
}

void Run::end_carries(const PlaceInPart& place) {
  for (const Carry& carry : state_.carries) {
    if (place.ends) {
      end(*carry.kernel->reduction, sums_at(carry.sums), state_.nc, carry.pending);
      Results(*carry.kernel, place.results + carry.kernel->results_offset, 0, state_.nc)
          .put(place.part, sums_at(carry.sums));
    }
  }
}

void Run::combine(std::byte* results) {
  const Reduction& reduction = *kernel_.reduction;
  for (int64_t tile = 0; tile < kernel_.tile_count; ++tile) {
    move_to(tile);
    const int64_t count = target_count(reduction);
    const auto results_of = Results(kernel_, results, tile, count);
    void* result = state_.slots[reduction.result()];
    auto* index = static_cast<int64_t*>(state_.slots[reduction.index]);
    fill_register(result, reduction.neutral, reduction.result_type, count);
    if (reduction.arg) {
      fill_register(index, 0, Reg::kI64, count);
    }
    reduction.combine(result, results_of.values(0), reduction.part_count, count, index, 0);
    for (int64_t i = 0; reduction.arg && i < count; ++i) {
      index[i] = results_of.index(index[i])[i];
    }
    move_streams();
    execute(kernel_.epilogue);
  }
}

int64_t Run::target_count(const Reduction& reduction) {
  measure();
  return rows_of(reduction.mask) * columns_of(reduction.mask);
}

void Run::reduce(const Reduction& reduction) {
  const int64_t count = target_count(reduction);
  if (reduction.by_parts) {
    void* whole = state_.slots[reduction.whole];
    void* result = state_.slots[reduction.result()];
    fill_register(whole, reduction.neutral, reduction.result_type, count);
    for (int64_t part = 0; part < reduction.part_count; ++part) {
      accumulate(reduction, part, count);
      reduction.combine(whole, result, 1, count, nullptr, 0);
    }
    std::memcpy(result, whole, static_cast<std::size_t>(count * reg_size(reduction.result_type)));
  } else {
    const Sums sums = sums_in_slots(reduction);
    begin(reduction, sums, count);
    end(reduction, sums, count, add_units(reduction, sums, 0, reduction.units, 0));
  }
  move_streams();
  execute(kernel_.epilogue);
}

Run::Sums Run::accumulate(const Reduction& reduction, int64_t part, int64_t count) {
  const Sums sums = sums_in_slots(reduction);
  const int64_t first = part * reduction.part_units;
  begin(reduction, sums, count);
  end(reduction, sums, count,
      add_units(reduction, sums, first, std::min(first + reduction.part_units, reduction.units), 0));
  return sums;
}

void Run::begin(const Reduction& reduction, const Sums& sums, int64_t count) const {
  fill_register(sums.acc, reduction.neutral, reduction.acc_type, count);
  if (reduction.folds) {
    fill_register(sums.total, 0, Reg::kF64, count);
  }
  if (reduction.arg) {
    fill_register(sums.index, 0, Reg::kI64, count);
  }
}

void Run::end(const Reduction& reduction, const Sums& sums, int64_t count, int64_t pending) const {
  if (reduction.folds && pending != 0) {
    kernel_.table->fold(sums.total, sums.acc, reduction.type, count);
  }
}

int64_t Run::add_rows(const Reduction& reduction, const Sums& sums, const Rows& rows, int64_t pending,
                      int64_t place) const {
  for (int64_t r = 0, count = 0; r < rows.nr; r += count) {
    count = reduction.folds ? std::min(rows.nr - r, kFoldRows - pending) : rows.nr;
    const int64_t offset = r * rows.nc * reg_size(reduction.type);
    const std::byte* a = static_cast<const std::byte*>(rows.a) + offset;
    if (rows.product_sum != nullptr) {
      rows.product_sum(sums.acc, a, static_cast<const std::byte*>(rows.b) + offset, count, rows.nc);
    } else {
      reduction.fn(sums.acc, a, count, rows.nc, sums.index, place + r);
    }
    pending += count;
    if (reduction.folds && pending == kFoldRows) {
      kernel_.table->fold(sums.total, sums.acc, reduction.type, rows.nc);
      pending = 0;
    }
  }
  return pending;
}

int64_t Run::add_units(const Reduction& reduction, const Sums& sums, int64_t first, int64_t last,
                       int64_t pending) {
  const bool rows = schedule_.rows_reduced();
  const bool columns = schedule_.columns_reduced();
  for (int64_t unit = first; unit < last;) {
    move_to_unit(unit);
    measure();
    if (rows && !columns) {
      state_.nr = std::min(state_.nr, last - unit);
    }
    move_streams();
    execute(kernel_.body);
    unit += rows && !columns ? state_.nr : 1;
    // If rows and columns are both reduced, or both kept, the tile counts as a single row.
    const int64_t nr = rows == columns ? 1 : state_.nr;
    const int64_t nc = rows == columns ? state_.nr * state_.nc : state_.nc;
    const Rows values{state_.slots[reduction.value], nullptr, nullptr, nr, nc};
    pending = add_rows(reduction, sums, values, pending, reduction.arg ? reduced_index() : 0);
  }
  return pending;
}

int64_t Run::reduced_index() const {
  for (std::size_t i = 0; i < schedule_.loops.size(); ++i) {
    if (schedule_.loops[i].reduce) {
      return state_.index[i];
    }
  }
  return 0;
}

std::uint64_t part_byte_count(const TileKernel& kernel, int threads) {
  if (!kernel.reduction || kernel.reduction->part_count == 1 || !kernel.parallel ||
      kernel.tile_count >= std::int64_t{2} * threads || threads == 1 ||
      kernel.element_count < kParallelElements) {
    return 0;
  }
  const std::int64_t slots =
      kernel.tile_count * kernel.reduction->part_count * (kernel.reduction->arg ? 2 : 1);
  return static_cast<std::uint64_t>(slots * kTileElements) * sizeof(std::int64_t);
}

std::uint64_t carry_byte_count(const TileKernel& kernel) {
  return kernel.carried ? static_cast<std::uint64_t>(2 * kCarryBytes * kernel.tile_count) : 0;
}

std::uint64_t results_byte_count(const TileKernel& kernel) {
  return kernel.carried
             ? static_cast<std::uint64_t>(kernel.tile_count * kernel.reduction->part_count * kCarryBytes)
             : 0;
}

}  // namespace yoke::cc
