// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/run.cpp: walks a kernel's tiles.
#include <algorithm>
#include <cstring>

#include "kernel.h"

namespace yoke::cc {
namespace {

using std::int64_t;

class Run {
 public:
  Run(const TileKernel& kernel, TileState& state, std::span<std::byte* const> tensors)
      : kernel_(kernel), schedule_(kernel.schedule), state_(state), tensors_(tensors) {}

  void start(std::span<const int64_t> symbol_values, std::byte* scratch) {
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
    execute(kernel_.prologue);
  }

  // Runs tiles [first, last) of the target. Its loops advance in chunks, the last one fastest.
  void tiles(int64_t first, int64_t last) {
    move_to(first);
    for (int64_t tile = first; tile < last; ++tile) {
      if (kernel_.reduction) {
        reduce(*kernel_.reduction);
      } else {
        measure();
        move_streams();
        execute_body();
      }
      step();
    }
  }

  void parts(std::byte* results, int64_t first, int64_t last) {
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

  void combine(std::byte* results) {
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

 private:
  // The results of the parts of one tile: `count` values per part.
  class Results {
   public:
    Results(const TileKernel& kernel, std::byte* base, int64_t tile, int64_t count)
        : row_(count * reg_size(kernel.reduction->result_type)), count_(count) {
      const int64_t parts = kernel.reduction->part_count;
      const int64_t room = parts * kTileElements * static_cast<int64_t>(sizeof(int64_t));
      values_ = base + tile * room;
      index_ = base + (kernel.tile_count + tile) * room;
    }
    std::byte* values(int64_t part) const { return values_ + part * row_; }
    int64_t* index(int64_t part) const { return reinterpret_cast<int64_t*>(index_) + part * count_; }

   private:
    std::byte* values_;
    std::byte* index_;
    int64_t row_;
    int64_t count_;
  };

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
      state_.slots[kernel_.register_count + i] =
          tensors_[stream.tensor] + at(stream.form, state_.stream_bases[i]) * stream.element_size;
    }
  }

  int64_t rows_of(std::uint8_t mask) const { return (mask & kRows) != 0 ? state_.nr : 1; }
  int64_t columns_of(std::uint8_t mask) const { return (mask & kColumns) != 0 ? state_.nc : 1; }
  int64_t row_step(const Form& form) const {
    return schedule_.rows < 0 ? 0 : form.loops[static_cast<std::size_t>(schedule_.rows)];
  }
  int64_t column_step(const Form& form) const {
    return schedule_.columns < 0 ? 0 : form.loops[static_cast<std::size_t>(schedule_.columns)];
  }

  void execute_body() {
    if (state_.ahead != nullptr) {
      state_.ahead->step();
    }
    execute(kernel_.body);
  }

  void execute(const std::vector<Instr>& segment) {
    for (const Instr& instr : segment) {
      if (instr.kind == Instr::Kind::kMap) {
        void* const* slots = state_.slots.data();
        instr.map(slots[instr.dst], slots[instr.a], slots[instr.b], slots[instr.c],
                  rows_of(instr.mask) * columns_of(instr.mask));
      } else {
        special(instr);
      }
    }
  }

  void special(const Instr& instr) {
    void* dst = state_.slots[instr.dst];
    const void* a = state_.slots[instr.a];
    const int64_t nr = rows_of(instr.mask);
    const int64_t nc = columns_of(instr.mask);
    switch (instr.kind) {
      case Instr::Kind::kConst:
        std::memcpy(dst, &kernel_.constants[instr.extra], sizeof(std::uint64_t));
        break;
      case Instr::Kind::kIota: {
        const Form& form = kernel_.forms[instr.extra];
        kernel_.table->iota(static_cast<int64_t*>(dst), at(form, state_.form_bases[instr.extra]),
                            row_step(form), column_step(form), nr, nc);
        break;
      }
      case Instr::Kind::kExpand:
        copy(instr.copy, dst, a, nr, nc, nc, 1, register_rows(instr.a_mask, nc),
             (instr.a_mask & kColumns) != 0 ? 1 : 0);
        break;
      case Instr::Kind::kCopyIn: {
        const Form& form = kernel_.streams[instr.extra].form;
        copy(instr.copy, dst, a, nr, nc, nc, 1, row_step(form), column_step(form));
        break;
      }
      case Instr::Kind::kCopyOut: {
        const Form& form = kernel_.streams[instr.extra].form;
        copy(instr.copy, dst, a, nr, nc, row_step(form), column_step(form), nc, 1);
        break;
      }
      case Instr::Kind::kBounded:
        gather(kernel_.bounded[instr.extra], dst, nr, nc);
        break;
      case Instr::Kind::kScatter: {
        const Bounded& bounded = kernel_.bounded[instr.extra];
        auto* offsets = static_cast<int64_t*>(state_.slots[bounded.offsets]);
        find_offsets(bounded, offsets, nr, nc);
        bounded.scatter(tensors_[bounded.tensor], offsets, a, nr * nc);
        break;
      }
      case Instr::Kind::kMap:
        break;
    }
  }

  static int64_t register_rows(std::uint8_t mask, int64_t nc) {
    return (mask & kRows) == 0 ? 0 : (mask & kColumns) != 0 ? nc : 1;
  }

  // Copies a single column as one row: the inner loop is the fast one.
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

  void find_offsets(const Bounded& bounded, int64_t* offsets, int64_t nr, int64_t nc) const {
    std::fill(offsets, offsets + nr * nc, 0);
    for (const Bounded::Dim& dim : bounded.dims) {
      int64_t base = 0;
      int64_t rs = 0;
      int64_t cs = 0;
      if (!dim.element) {
        const Form& form = kernel_.forms[dim.form];
        base = at(form, state_.form_bases[dim.form]);
        rs = row_step(form);
        cs = column_step(form);
      }
      for (int64_t r = 0; r < nr; ++r) {
        for (int64_t c = 0; c < nc; ++c) {
          const int64_t place = dim.element ? element(dim, r, c, nc) : base + r * rs + c * cs;
          int64_t& offset = offsets[r * nc + c];
          const bool inside = offset >= 0 && place >= 0 && place < dim.extent * dim.divisor &&
                              (dim.divisor == 1 || place % dim.divisor == 0);
          offset = inside ? offset + (dim.divisor == 1 ? place : place / dim.divisor) * dim.stride : -1;
        }
      }
    }
  }

  std::uint8_t* inside_of(const Bounded& bounded) const {
    return static_cast<std::uint8_t*>(state_.slots[bounded.inside]);
  }

  void gather(const Bounded& bounded, void* dst, int64_t nr, int64_t nc) const {
    if (!bounded.by_row) {
      auto* offsets = static_cast<int64_t*>(state_.slots[bounded.offsets]);
      find_offsets(bounded, offsets, nr, nc);
      bounded.gather(dst, tensors_[bounded.tensor], offsets, &bounded.otherwise, nr * nc);
      if (bounded.tells_inside) {
        std::transform(offsets, offsets + nr * nc, inside_of(bounded),
                       [](int64_t offset) { return offset >= 0 ? std::uint8_t{1} : std::uint8_t{0}; });
      }
      return;
    }
    for (int64_t r = 0; r < nr; ++r) {
      gather_row(bounded, static_cast<std::byte*>(dst) + r * nc * bounded.element_size, r, nc);
    }
  }

  Lines lines_of(const Bounded& bounded, int64_t r, int64_t nc) const {
    Lines lines;
    for (std::size_t i = 0; i < bounded.dims.size(); ++i) {
      const Bounded::Dim& dim = bounded.dims[i];
      if (dim.element) {
        lines[i].place = element(dim, r, 0, nc);
        continue;
      }
      const Form& form = kernel_.forms[dim.form];
      lines[i] = {at(form, state_.form_bases[dim.form]) + r * row_step(form), column_step(form)};
    }
    return lines;
  }

  // The columns of a row that are in range are evenly spaced, so not every element needs a check.
  void gather_row(const Bounded& bounded, std::byte* dst, int64_t r, int64_t nc) const {
    const Lines lines = lines_of(bounded, r, nc);
    const auto [first, count] = columns_inside(bounded, lines, nc);
    if (bounded.tells_inside) {
      std::uint8_t* inside = inside_of(bounded) + r * nc;
      std::memset(inside, 0, static_cast<std::size_t>(nc));
      for (int64_t c = 0; c < count; ++c) {
        inside[first + c * bounded.period] = 1;
      }
    }
    const int64_t size = bounded.element_size;
    const auto fill = [&](int64_t from, int64_t to) {
      if (from < to) {
        bounded.copy(dst + from * size, &bounded.otherwise, 1, to - from, 0, 1, 0, 0);
      }
    };
    if (count == 0 || bounded.period > 1) {
      fill(0, nc);
    } else {
      fill(0, first);
      fill(first + count, nc);
    }
    if (count == 0) {
      return;
    }
    int64_t offset = 0;
    int64_t step = 0;
    for (std::size_t i = 0; i < bounded.dims.size(); ++i) {
      const Bounded::Dim& dim = bounded.dims[i];
      offset += (lines[i].place + first * lines[i].step) / dim.divisor * dim.stride;
      step += lines[i].step * bounded.period / dim.divisor * dim.stride;
    }
    bounded.copy(dst + first * size, tensors_[bounded.tensor] + offset * size, 1, count, 0, bounded.period, 0,
                 step);
  }

  void fill_register(void* target, std::uint64_t bytes, Reg type, int64_t n) const {
    kernel_.table->copy(reg_size(type))(target, &bytes, 1, n, 0, 1, 0, 0);
  }

  int64_t target_count(const Reduction& reduction) {
    measure();
    return rows_of(reduction.mask) * columns_of(reduction.mask);
  }

  void reduce(const Reduction& reduction) {
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

  void accumulate(const Reduction& reduction, int64_t part, int64_t count) {
    const int64_t first = part * reduction.part_units;
    accumulate(reduction, first, std::min(first + reduction.part_units, reduction.units), count);
  }

  // Reduces units [first, last).
  void accumulate(const Reduction& reduction, int64_t first, int64_t last, int64_t count) {
    void* acc = state_.slots[reduction.acc];
    auto* total = static_cast<double*>(state_.slots[reduction.total]);
    auto* index = static_cast<int64_t*>(state_.slots[reduction.index]);
    fill_register(acc, reduction.neutral, reduction.acc_type, count);
    if (reduction.folds) {
      fill_register(total, 0, Reg::kF64, count);
    }
    if (reduction.arg) {
      fill_register(index, 0, Reg::kI64, count);
    }
    const bool rows = schedule_.rows_reduced();
    const bool columns = schedule_.columns_reduced();
    int64_t pending = 0;
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
        if (reduction.folds && (pending == kFoldRows || unit == last)) {
          kernel_.table->fold(total, acc, reduction.type, count);
          pending = 0;
        }
      }
    }
  }

  int64_t reduced_index() const {
    for (std::size_t i = 0; i < schedule_.loops.size(); ++i) {
      if (schedule_.loops[i].reduce) {
        return state_.index[i];
      }
    }
    return 0;
  }

  const TileKernel& kernel_;
  const Schedule& schedule_;
  TileState& state_;
  std::span<std::byte* const> tensors_;
};

}  // namespace

TileState make_state(const TileKernel& kernel) {
  TileState state;
  state.slots.resize(kernel.register_count + kernel.streams.size() + 1);
  state.stream_bases.resize(kernel.streams.size());
  state.form_bases.resize(kernel.forms.size());
  state.index.resize(kernel.schedule.loops.size());
  return state;
}

void run_tiles(const TileKernel& kernel, TileState& state, std::span<std::byte* const> tensors,
               std::span<const std::int64_t> symbol_values, std::byte* scratch, std::int64_t first,
               std::int64_t last) {
  Run run(kernel, state, tensors);
  run.start(symbol_values, scratch);
  run.tiles(first, last);
}

std::uint64_t part_byte_count(const TileKernel& kernel, int threads) {
  if (!kernel.reduction || kernel.reduction->part_count == 1 || !kernel.parallel ||
      kernel.tile_count >= 2 * threads || threads == 1 || kernel.element_count < kParallelElements) {
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

void combine_parts(const TileKernel& kernel, TileState& state, std::span<std::byte* const> tensors,
                   std::span<const std::int64_t> symbol_values, std::byte* scratch, std::byte* parts) {
  Run run(kernel, state, tensors);
  run.start(symbol_values, scratch);
  run.combine(parts);
}

}  // namespace yoke::cc
