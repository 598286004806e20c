// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/run.h: walks a kernel's tiles.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernel.h"

namespace yoke::cc {

using std::int64_t;

// The most bytes that the accumulators of one tile need.
constexpr int64_t kCarryBytes = kTileElements * static_cast<int64_t>(sizeof(double));

// One thread's part of a launch of a kernel.
class Run {
 public:
  // `tensors` holds one address per tensor of the program.
  Run(const TileKernel& kernel, TileState& state, std::span<std::byte* const> tensors,
      std::span<const int64_t> symbol_values, std::byte* scratch)
      : kernel_(kernel), schedule_(kernel.schedule), state_(state), tensors_(tensors) {
    if (schedule_.is_long_stream) {
      state_.ahead = &state_.next_tile;
    }
    for (std::size_t i = 0; i < kernel_.register_offset.size(); ++i) {
      state_.slots[i] = scratch + kernel_.register_offset[i];
    }
    for (std::size_t i = 0; i < kernel_.streams.size(); ++i) {
      state_.stream_bases[i] = kernel_.streams[i].form.base(symbol_values);
    }
    for (std::size_t i = 0; i < kernel_.forms.size(); ++i) {
      state_.form_bases[i] = kernel_.forms[i].base(symbol_values);
    }
    std::fill(state_.index.begin(), state_.index.end(), 0);
    move_streams();
    if (!kernel_.fed) {  // it may read temporaries that are not stored
      execute(kernel_.prologue);
    }
  }

  // Runs tiles [first, last) of the target. `place` is used only if the kernel adds rows to sums.
  void tiles(int64_t first, int64_t last, const PlaceInPart& place);
  // Runs pieces [first, last) of a reduction; piece i is part i % part_count of tile i / part_count.
  void parts(std::byte* results, int64_t first, int64_t last);
  // Adds the rows of one tile of a region to the sums, which have carry_byte_count() bytes and keep their
  // contents from the first tile of a part to the last.
  void carry(std::byte* sums, const PlaceInPart& place);
  // Combines the results of all parts.
  void combine(std::byte* results);

 private:
  // Where a reduction keeps its values.
  struct Sums {
    void* acc = nullptr;
    double* total = nullptr;  // used if it folds
    int64_t* index = nullptr;
  };
  static Sums sums_at(std::byte* bytes) {
    return {bytes, reinterpret_cast<double*>(bytes + kCarryBytes), nullptr};
  }
  Sums sums_in_slots(const Reduction& reduction) const {
    return {state_.slots[reduction.acc], static_cast<double*>(state_.slots[reduction.total]),
            static_cast<int64_t*>(state_.slots[reduction.index])};
  }

  // The results of the parts of one tile: `count` values per part.
  class Results {
   public:
    Results(const TileKernel& kernel, std::byte* base, int64_t tile, int64_t count)
        : reduction_(*kernel.reduction), count_(count) {
      const int64_t room = reduction_.part_count * kCarryBytes;
      values_ = base + tile * room;
      index_ = base + (kernel.tile_count + tile) * room;
    }
    std::byte* values(int64_t part) const { return values_ + part * byte_count(); }
    int64_t* index(int64_t part) const { return reinterpret_cast<int64_t*>(index_) + part * count_; }
    void put(int64_t part, const Sums& sums) const {
      std::memcpy(values(part), reduction_.folds ? sums.total : sums.acc,
                  static_cast<std::size_t>(byte_count()));
      if (reduction_.arg) {
        std::memcpy(index(part), sums.index, static_cast<std::size_t>(count_) * sizeof(int64_t));
      }
    }

   private:
    int64_t byte_count() const { return count_ * reg_size(reduction_.result_type); }

    const Reduction& reduction_;
    std::byte* values_;
    std::byte* index_;
    int64_t count_;
  };

  void begin_carries(const PlaceInPart& place);
  void end_carries(const PlaceInPart& place);

  // Moves to a tile of the target.
  void move_to(int64_t tile) {
    for (std::size_t i = schedule_.loops.size(); i-- > 0;) {
      const TileLoop& loop = schedule_.loops[i];
      if (!loop.reduce) {
        const int64_t pieces = (loop.extent + loop.chunk - 1) / loop.chunk;
        state_.index[i] = tile % pieces * loop.chunk;
        tile /= pieces;
      }
    }
  }

  // Moves to the next tile of the target.
  void step() {
    for (std::size_t i = schedule_.loops.size(); i-- > 0;) {
      const TileLoop& loop = schedule_.loops[i];
      if (loop.reduce) {
        continue;
      }
      state_.index[i] += loop.chunk;
      if (state_.index[i] < loop.extent) {
        return;
      }
      state_.index[i] = 0;
    }
  }

  // Moves the reduced loops to a unit of the reduction.
  void move_to_unit(int64_t unit) {
    for (std::size_t i = schedule_.loops.size(); i-- > 0;) {
      const TileLoop& loop = schedule_.loops[i];
      if (loop.reduce) {
        const int64_t length = schedule_.columns_reduced() ? loop.chunk : 1;
        const int64_t pieces = (loop.extent + length - 1) / length;
        state_.index[i] = unit % pieces * length;
        unit /= pieces;
      }
    }
  }

  int64_t length(std::int32_t loop) const {
    if (loop < 0) {
      return 1;
    }
    const auto i = static_cast<std::size_t>(loop);
    return std::min(schedule_.loops[i].chunk, schedule_.loops[i].extent - state_.index[i]);
  }

  void measure() {
    state_.nr = length(schedule_.rows);
    state_.nc = length(schedule_.columns);
  }

  int64_t at(const Form& form, int64_t base) const {
    for (std::size_t i = 0; i < form.loops.size(); ++i) {
      base += form.loops[i] * state_.index[i];
    }
    return base;
  }

  void move_streams() {
    for (std::size_t i = 0; i < kernel_.streams.size(); ++i) {
      const Stream& stream = kernel_.streams[i];
      std::byte* base = tensors_[stream.tensor];  // null if only a fed kernel's skipped instructions use it
      state_.slots[kernel_.register_count + i] =
          base == nullptr ? nullptr : base + at(stream.form, state_.stream_bases[i]) * stream.element_size;
    }
  }

  // The next tile's operands follow those of this tile.
  void fetch_next(bool has_next) {
    Ahead& ahead = state_.next_tile;
    ahead.clear();
    for (std::size_t i = 0; has_next && i < kernel_.streams.size(); ++i) {
      const Stream& stream = kernel_.streams[i];
      if (!stream.past_caches && schedule_.column_step(stream.form) == 1) {
        const int64_t bytes = state_.nc * stream.element_size;
        ahead.add(static_cast<const std::byte*>(state_.slots[kernel_.register_count + i]) + bytes, bytes);
      }
    }
    ahead.start();
  }

  int64_t rows_of(std::uint8_t mask) const { return (mask & kRows) != 0 ? state_.nr : 1; }
  int64_t columns_of(std::uint8_t mask) const { return (mask & kColumns) != 0 ? state_.nc : 1; }
  void execute(const std::vector<Instr>& segment) {
    for (const Instr& instr : segment) {
      if (state_.ahead != nullptr) {
        state_.ahead->step();
      }
      if (instr.kind == Instr::Kind::kMap) {
        void* const* slots = state_.slots.data();
        instr.map(slots[instr.dst], slots[instr.a], slots[instr.b], slots[instr.c],
                  rows_of(instr.mask) * columns_of(instr.mask));
      } else {
        special(instr);
      }
    }
  }
  void special(const Instr& instr);
  void reduce(const Instr& instr, void* dst, const void* a, int64_t nr, int64_t nc) const;

  static int64_t register_rows(std::uint8_t mask, int64_t nc) {
    return (mask & kRows) == 0 ? 0 : (mask & kColumns) != 0 ? nc : 1;
  }

  // Copies a single column as one row, because the inner loop is the fast one.
  static void copy(CopyFn fn, void* dst, const void* src, int64_t nr, int64_t nc, int64_t drs, int64_t dcs,
                   int64_t srs, int64_t scs) {
    if (nc == 1) {
      fn(dst, src, 1, nr, 0, drs, 0, srs);
    } else {
      fn(dst, src, nr, nc, drs, dcs, srs, scs);
    }
  }

  int64_t element(const Bounded::Dim& dim, int64_t r, int64_t c, int64_t nc) const {
    const auto* values = static_cast<const int64_t*>(state_.slots[dim.slot]);
    return values[r * register_rows(dim.mask, nc) + ((dim.mask & kColumns) != 0 ? c : 0)];
  }
  void find_offsets(const Bounded& bounded, int64_t* offsets, int64_t nr, int64_t nc) const;

  std::uint8_t* inside_of(const Bounded& bounded) const {
    return static_cast<std::uint8_t*>(state_.slots[bounded.inside]);
  }
  void gather(const Bounded& bounded, void* dst, int64_t nr, int64_t nc) const;
  void scatter(const Bounded& bounded, const std::byte* values, int64_t nr, int64_t nc) const;
  Lines lines_of(const Bounded& bounded, int64_t r, int64_t nc) const;
  // The columns of a row that are in range are evenly spaced, so the elements need no checks one by one.
  void gather_row(const Bounded& bounded, std::byte* dst, int64_t r, int64_t nc) const;

  void fill_register(void* target, std::uint64_t bytes, Reg type, int64_t n) const {
    kernel_.table->copy(reg_size(type))(target, &bytes, 1, n, 0, 1, 0, 0);
  }
  int64_t target_count(const Reduction& reduction);
  void reduce(const Reduction& reduction);
  void begin(const Reduction& reduction, const Sums& sums, int64_t count) const;
  // nr rows of values, or of products.
  struct Rows {
    const void* a;
    const void* b;
    ProductSumFn product_sum;  // null: `a` alone
    int64_t nr;
    int64_t nc;
  };
  // Adds rows.nr rows, starting with row `place` of the reduced loop. Before the call, the current block
  // holds `pending` rows; returns how many it holds after it.
  int64_t add_rows(const Reduction& reduction, const Sums& sums, const Rows& rows, int64_t pending,
                   int64_t place) const;
  void end(const Reduction& reduction, const Sums& sums, int64_t count, int64_t pending) const;
  // Adds units [first, last) of a reduction. Returns the number of rows in the last block.
  int64_t add_units(const Reduction& reduction, const Sums& sums, int64_t first, int64_t last,
                    int64_t pending);
  Sums accumulate(const Reduction& reduction, int64_t part, int64_t count);
  int64_t reduced_index() const;

  const TileKernel& kernel_;
  const Schedule& schedule_;
  TileState& state_;
  std::span<std::byte* const> tensors_;
};

}  // namespace yoke::cc
