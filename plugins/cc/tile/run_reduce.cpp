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
    accumulate(reduction, part, count);
    const auto results_of = Results(kernel_, results, tile, count);
    std::memcpy(results_of.values(part), state_.slots[reduction.result()],
                static_cast<std::size_t>(count * reg_size(reduction.result_type)));
    if (reduction.arg) {
      std::memcpy(results_of.index(part), state_.slots[reduction.index],
                  static_cast<std::size_t>(count) * sizeof(int64_t));
    }
  }
}

void Run::carry(std::byte* sums, const PlaceInPart& place) {
  const Reduction& reduction = *kernel_.reduction;
  int64_t rows = 1;
  for (const TileLoop& loop : schedule_.loops) {
    rows *= loop.reduce ? loop.extent : 1;
  }
  for (int64_t tile = 0; tile < kernel_.tile_count; ++tile, sums += 2 * kCarryBytes) {
    move_to(tile);
    const int64_t count = target_count(reduction);
    state_.slots[reduction.acc] = sums;
    if (reduction.folds) {
      state_.slots[reduction.total] = sums + kCarryBytes;
    }
    accumulate(reduction, 0, rows, count, place.row % kFoldRows, place.begins, place.ends);
    if (place.ends) {
      std::memcpy(Results(kernel_, place.results, tile, count).values(place.part),
                  state_.slots[reduction.result()],
                  static_cast<std::size_t>(count * reg_size(reduction.result_type)));
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
    accumulate(reduction, 0, reduction.units, count);
  }
  move_streams();
  execute(kernel_.epilogue);
}

void Run::accumulate(const Reduction& reduction, int64_t part, int64_t count) {
  const int64_t first = part * reduction.part_units;
  accumulate(reduction, first, std::min(first + reduction.part_units, reduction.units), count);
}

void Run::accumulate(const Reduction& reduction, int64_t first, int64_t last, int64_t count, int64_t pending,
                     bool begins, bool ends) {
  void* acc = state_.slots[reduction.acc];
  auto* total = static_cast<double*>(state_.slots[reduction.total]);
  auto* index = static_cast<int64_t*>(state_.slots[reduction.index]);
  if (begins) {
    fill_register(acc, reduction.neutral, reduction.acc_type, count);
  }
  if (begins && reduction.folds) {
    fill_register(total, 0, Reg::kF64, count);
  }
  if (begins && reduction.arg) {
    fill_register(index, 0, Reg::kI64, count);
  }
  const bool rows = schedule_.rows_reduced();
  const bool columns = schedule_.columns_reduced();
  for (int64_t unit = first; unit < last;) {
    move_to_unit(unit);
    measure();
    if (rows && !columns) {
      state_.nr = std::min(state_.nr, last - unit);
    }
    move_streams();
    execute_body();
    unit += rows && !columns ? state_.nr : 1;
    // If rows and columns are both reduced, or both kept, the tile counts as a single row.
    const int64_t nr = rows == columns ? 1 : state_.nr;
    const int64_t nc = rows == columns ? state_.nr * state_.nc : state_.nc;
    const auto* value = static_cast<const std::byte*>(state_.slots[reduction.value]);
    const int64_t place = reduction.arg ? reduced_index() : 0;
    for (int64_t r = 0, count_of_rows = 0; r < nr; r += count_of_rows) {
      count_of_rows = reduction.folds ? std::min(nr - r, kFoldRows - pending) : nr;
      reduction.fn(acc, value + r * nc * reg_size(reduction.type), count_of_rows, nc, index, place + r);
      pending += count_of_rows;
      if (reduction.folds && (pending == kFoldRows || (unit == last && ends))) {
        kernel_.table->fold(total, acc, reduction.type, count);
        pending = 0;
      }
    }
  }
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

void run_parts(const TileKernel& kernel, TileState& state, std::span<std::byte* const> tensors,
               std::span<const std::int64_t> symbol_values, std::byte* scratch, std::byte* parts,
               std::int64_t first, std::int64_t last) {
  Run run(kernel, state, tensors);
  run.start(symbol_values, scratch);
  run.parts(parts, first, last);
}

std::uint64_t carry_byte_count(const TileKernel& kernel) {
  return kernel.carried ? static_cast<std::uint64_t>(2 * kCarryBytes * kernel.tile_count) : 0;
}

std::uint64_t results_byte_count(const TileKernel& kernel) {
  return kernel.carried
             ? static_cast<std::uint64_t>(kernel.tile_count * kernel.reduction->part_count * kCarryBytes)
             : 0;
}

void run_carried(const TileKernel& kernel, TileState& state, std::span<std::byte* const> tensors,
                 std::span<const std::int64_t> symbol_values, std::byte* scratch, std::byte* carry,
                 const PlaceInPart& place) {
  Run run(kernel, state, tensors);
  run.start(symbol_values, scratch);
  run.carry(carry, place);
}

void combine_parts(const TileKernel& kernel, TileState& state, std::span<std::byte* const> tensors,
                   std::span<const std::int64_t> symbol_values, std::byte* scratch, std::byte* parts) {
  Run run(kernel, state, tensors);
  run.start(symbol_values, scratch);
  run.combine(parts);
}

}  // namespace yoke::cc
