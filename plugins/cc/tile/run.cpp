// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/run.cpp: the instructions of a kernel that are more than a loop over registers.
#include "run.h"

#include <cstring>

namespace yoke::cc {

// The target's loops advance in chunks, the last one fastest.
void Run::tiles(int64_t first, int64_t last, const PlaceInPart& place) {
  begin_carries(place);
  move_to(first);
  for (int64_t tile = first; tile < last; ++tile) {
    if (kernel_.reduction) {
      reduce(*kernel_.reduction);
    } else {
      measure();
      move_streams();
      if (schedule_.is_long_stream) {
        fetch_next(tile + 1 < last);
      }
      execute(kernel_.body);
    }
    step();
  }
  end_carries(place);
}

void Run::special(const Instr& instr) {
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
                          schedule_.row_step(form), schedule_.column_step(form), nr, nc);
      break;
    }
    case Instr::Kind::kExpand:
      copy(instr.copy, dst, a, nr, nc, nc, 1, register_rows(instr.a_mask, nc),
           (instr.a_mask & kColumns) != 0 ? 1 : 0);
      break;
    case Instr::Kind::kCopyIn: {
      const Form& form = kernel_.streams[instr.extra].form;
      copy(instr.copy, dst, a, nr, nc, nc, 1, schedule_.row_step(form), schedule_.column_step(form));
      break;
    }
    case Instr::Kind::kCopyOut: {
      const Form& form = kernel_.streams[instr.extra].form;
      copy(instr.copy, dst, a, nr, nc, schedule_.row_step(form), schedule_.column_step(form), nc, 1);
      break;
    }
    case Instr::Kind::kCopyPast:
      kernel_.table->copy_past_caches(dst, a, nr * nc * kernel_.streams[instr.extra].element_size);
      break;
    case Instr::Kind::kBounded:
      gather(kernel_.bounded[instr.extra], dst, nr, nc);
      break;
    case Instr::Kind::kScatter:
      scatter(kernel_.bounded[instr.extra], static_cast<const std::byte*>(a), nr, nc);
      break;
    case Instr::Kind::kReduce:
      reduce(instr, dst, a, nr, nc);
      break;
    case Instr::Kind::kCarry: {
      Carry& carry = state_.carries[instr.extra];
      const Rows rows{a, state_.slots[instr.b], instr.product_sum, nr, nc};
      carry.pending = add_rows(*carry.kernel->reduction, sums_at(carry.sums), rows, carry.pending, 0);
      break;
    }
    case Instr::Kind::kMap:
      break;
  }
}

void Run::reduce(const Instr& instr, void* dst, const void* a, int64_t nr, int64_t nc) const {
  const RowReduction& reduction = kernel_.row_reductions[instr.extra];
  fill_register(dst, reduction.neutral, reduction.acc_type, nr);
  if (instr.product_sum != nullptr) {
    instr.product_sum(dst, a, state_.slots[instr.b], nr, nc);
  } else {
    reduction.fn(dst, a, nr, nc, nullptr, 0);
  }
}

void Run::find_offsets(const Bounded& bounded, int64_t* offsets, int64_t nr, int64_t nc) const {
  std::fill(offsets, offsets + nr * nc, 0);
  for (const Bounded::Dim& dim : bounded.dims) {
    int64_t base = 0;
    int64_t rs = 0;
    int64_t cs = 0;
    if (!dim.element) {
      const Form& form = kernel_.forms[dim.form];
      base = at(form, state_.form_bases[dim.form]);
      rs = schedule_.row_step(form);
      cs = schedule_.column_step(form);
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

void Run::gather(const Bounded& bounded, void* dst, int64_t nr, int64_t nc) const {
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

void Run::scatter(const Bounded& bounded, const std::byte* values, int64_t nr, int64_t nc) const {
  if (!bounded.is_contiguous) {
    auto* offsets = static_cast<int64_t*>(state_.slots[bounded.offsets]);
    find_offsets(bounded, offsets, nr, nc);
    bounded.scatter(tensors_[bounded.tensor], offsets, values, nr * nc);
    return;
  }
  for (int64_t r = 0; r < nr; ++r) {
    const Lines lines = lines_of(bounded, r, nc);
    const auto [first, count] = columns_inside(bounded, lines, nc);
    int64_t offset = first;
    for (std::size_t i = 0; i < bounded.dims.size(); ++i) {
      offset += lines[i].place / bounded.dims[i].divisor * bounded.dims[i].stride;
    }
    if (count > 0) {
      bounded.scatter(tensors_[bounded.tensor] + offset * bounded.element_size, nullptr,
                      values + (r * nc + first) * bounded.value_size, count);
    }
  }
}

Lines Run::lines_of(const Bounded& bounded, int64_t r, int64_t nc) const {
  Lines lines;
  for (std::size_t i = 0; i < bounded.dims.size(); ++i) {
    const Bounded::Dim& dim = bounded.dims[i];
    if (dim.element) {
      lines[i].place = element(dim, r, 0, nc);
      continue;
    }
    const Form& form = kernel_.forms[dim.form];
    lines[i] = {at(form, state_.form_bases[dim.form]) + r * schedule_.row_step(form),
                schedule_.column_step(form)};
  }
  return lines;
}

void Run::gather_row(const Bounded& bounded, std::byte* dst, int64_t r, int64_t nc) const {
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

TileState make_state(const TileKernel& kernel) {
  TileState state;
  state.slots.resize(kernel.register_count + kernel.streams.size() + 1);
  state.stream_bases.resize(kernel.streams.size());
  state.form_bases.resize(kernel.forms.size());
  state.index.resize(kernel.schedule.loops.size());
  state.next_tile.reserve(kernel.streams.size());
  return state;
}

}  // namespace yoke::cc
