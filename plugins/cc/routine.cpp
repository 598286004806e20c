// SPDX-License-Identifier: Apache-2.0
// plugins/cc/routine.cpp: a compiled program bound to memory.
#include "routine.h"

#include <algorithm>
#include <utility>

#include "pool.h"
#include "tile/run.h"

namespace yoke::cc {
namespace {

// Threads share the packing of this many bytes.
constexpr std::uint64_t kParallelPacking = std::uint64_t{64} << 10;

}  // namespace

BoundProgram::BoundProgram(std::shared_ptr<const CompiledProgram> compiled,
                           std::span<std::byte* const> arguments, std::byte* workspace)
    : compiled_(std::move(compiled)),
      symbols_(compiled_->program.symbols.size()),
      scratch_(workspace + compiled_->scratch_offset),
      shared_(workspace + compiled_->shared_offset) {
  const program::Program& program = compiled_->program;
  std::size_t next = 0;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const std::uint64_t offset = compiled_->temp_offset[i];
    if (program.tensors[i].role != program::Role::kTemp) {
      tensors_.push_back(arguments[next++]);
    } else {
      tensors_.push_back(offset == CompiledProgram::kNotInMemory ? nullptr : workspace + offset);
    }
  }
  for (const Step& step : compiled_->steps) {
    BoundStep bound;
    if (const auto* kernel = std::get_if<TileKernel>(&step.work)) {
      for (int i = 0; i < compiled_->threads; ++i) {
        bound.states.push_back(make_state(*kernel));
        for (const std::size_t number : kernel->carries) {
          const auto& sum = std::get<TileKernel>(compiled_->steps[number].work);
          bound.states.back().carries.push_back({&sum, shared_ + sum.carry_offset});
        }
      }
    } else if (const auto* region = std::get_if<RegionStep>(&step.work)) {
      std::vector<std::byte*> used;
      for (std::size_t i = 0; i < region->region.tensors.size(); ++i) {
        if (region->tile->program.tensors[i].role != program::Role::kTemp) {
          used.push_back(tensors_[region->region.tensors[i]]);
        }
      }
      for (std::size_t i = 0; i < static_cast<std::size_t>(compiled_->threads); ++i) {
        bound.tiles.push_back(std::make_unique<BoundProgram>(region->tile, used, scratch(i)));
        bound.tiles.back()->fetch_ahead(region->region.slices.size());
        if (region->tail) {
          bound.tails.push_back(std::make_unique<BoundProgram>(region->tail, used, scratch(i)));
          bound.tails.back()->fetch_ahead(region->region.slices.size());
        }
      }
    } else {
      const LibraryCalls& calls = std::get<LibraryStep>(step.work).calls;
      for (const LibraryPiece& piece : calls.pieces) {
        bound.calls.emplace_back(piece.call, scratch(bound.calls.size()));
      }
      for (const LibraryPiece& piece : calls.copy.pieces) {
        bound.copies.emplace_back(piece.call, scratch(bound.copies.size()));
      }
    }
    steps_.push_back(std::move(bound));
  }
}

std::byte* BoundProgram::address(const Operand& operand) const {
  return tensors_[operand.tensor] +
         operand.form.base(symbols_) * static_cast<std::int64_t>(program::byte_size(operand.type));
}

void BoundProgram::fetch_ahead(std::size_t slice_count) {
  ahead_.reserve(slice_count);
  for (BoundStep& step : steps_) {
    for (TileState& state : step.states) {
      state.ahead = &ahead_;
    }
  }
}

void BoundProgram::launch(std::span<const std::int64_t> symbol_values) {
  const OneOpenMpThread one;
  std::copy(symbol_values.begin(), symbol_values.end(), symbols_.begin());
  const std::vector<Step>& steps = compiled_->steps;
  for (std::size_t first = 0, last = 0; first < steps.size(); first = last) {
    const std::int32_t repeat = steps[first].repeat;
    while (last < steps.size() && steps[last].repeat == repeat) {
      ++last;
    }
    if (repeat < 0) {
      run(first, last);
      continue;
    }
    const auto variable = static_cast<std::size_t>(repeat);
    const program::Symbol& symbol = compiled_->program.symbols[variable];
    for (std::uint64_t round = 0; round < symbol.value_count(); ++round) {
      symbols_[variable] = symbol.low + static_cast<std::int64_t>(round) * symbol.step;
      run(first, last);
    }
  }
  stores_are_visible();
}

void BoundProgram::run(std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const Step& step = compiled_->steps[i];
    std::visit([&](const auto& work) { run(work, steps_[i]); }, step.work);
  }
}

void BoundProgram::run(const TileKernel& kernel, BoundStep& bound) {
  if (kernel.fed) {
    return;
  }
  if (kernel.carried) {
    PlaceInPart place = place_;
    place.results += kernel.results_offset;
    Run(kernel, bound.states[0], tensors_, symbols_, scratch(0)).carry(shared_ + kernel.carry_offset, place);
    return;
  }
  const bool by_parts = part_byte_count(kernel, compiled_->threads) != 0;
  const int threads = kernel.parallel && kernel.element_count >= kParallelElements ? compiled_->threads : 1;
  const std::int64_t pieces = kernel.tile_count * (by_parts ? kernel.reduction->part_count : 1);
  share(threads, pieces, [&](int thread, std::int64_t first, std::int64_t last) {
    const auto i = static_cast<std::size_t>(thread);
    Run run(kernel, bound.states[i], tensors_, symbols_, scratch(i));
    if (by_parts) {
      run.parts(shared_, first, last);
    } else {
      run.tiles(first, last, place_);
    }
  });
  if (by_parts) {
    Run(kernel, bound.states[0], tensors_, symbols_, scratch(0)).combine(shared_);
  }
}

void BoundProgram::run(const RegionStep& step, BoundStep& bound) {
  const Region& region = step.region;
  const std::int64_t chunks = region.chunk_count();
  const std::int64_t part_tiles = std::max<std::int64_t>(region.part_tiles, 1);
  share(region.parallel ? compiled_->threads : 1, region.piece_count(),
        [&](int thread, std::int64_t first, std::int64_t last) {
          const auto i = static_cast<std::size_t>(thread);
          last = std::min(last * part_tiles, region.tile_count());
          for (std::int64_t tile = first * part_tiles; tile < last; ++tile) {
            const bool is_tail = step.tail && tile % chunks == chunks - 1;
            (is_tail ? bound.tails : bound.tiles)[i]->run_tile(region, tile, last, symbols_, shared_);
          }
        });
  if (region.part_tiles != 0) {
    bound.tiles[0]->combine_carried(symbols_, shared_);
  }
}

// Precondition of the next functions: this program is a tile of the region, and `symbols` are the whole
// program's. `last` is the end of the thread's tiles: fetching what another thread writes would slow it down.
void BoundProgram::run_tile(const Region& region, std::int64_t tile, std::int64_t last,
                            std::span<const std::int64_t> symbols, std::byte* results) {
  ahead_.clear();
  if (tile + 1 < last) {
    set_tile(region, tile + 1, symbols);
    for (const Region::Slice& slice : region.slices) {
      ahead_.add(address(slice.operand), slice.byte_count);
    }
  }
  ahead_.start();
  if (region.part_tiles != 0) {
    const std::int64_t in_part = tile % region.part_tiles;
    place_ = {tile / region.part_tiles, in_part * region.chunk, in_part == 0,
              in_part + 1 == region.part_tiles || tile + 1 == region.tile_count(), results};
  }
  set_tile(region, tile, symbols);
  run(0, steps_.size());
}

void BoundProgram::combine_carried(std::span<const std::int64_t> symbols, std::byte* results) {
  std::copy(symbols.begin(), symbols.end(), symbols_.begin());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto* kernel = std::get_if<TileKernel>(&compiled_->steps[i].work);
    if (kernel != nullptr && kernel->carried) {
      Run(*kernel, steps_[i].states[0], tensors_, symbols_, scratch(0))
          .combine(results + kernel->results_offset);
    }
  }
}

void BoundProgram::set_tile(const Region& region, std::int64_t tile, std::span<const std::int64_t> symbols) {
  std::copy(symbols.begin(), symbols.end(), symbols_.begin());
  const std::int64_t chunks = region.chunk_count();
  symbols_.back() = tile % chunks * region.chunk;
  std::int64_t rest = tile / chunks;
  for (std::size_t i = region.outer.size(); i-- > 0;) {
    symbols_[symbols.size() + i] = rest % region.outer[i];
    rest /= region.outer[i];
  }
}

namespace {

void run_calls(const std::vector<LibraryPiece>& pieces, std::vector<BoundCall>& calls, const std::byte* a,
               const std::byte* b, const std::byte* bias, std::byte* t) {
  const auto count = static_cast<int>(pieces.size());
  share(count, count, [&](int thread, std::int64_t, std::int64_t) {
    const auto i = static_cast<std::size_t>(thread);
    const LibraryPiece& piece = pieces[i];
    calls[i].execute(a + piece.a, b + piece.b, bias == nullptr ? nullptr : bias + piece.bias, t + piece.t);
  });
}

}  // namespace

void BoundProgram::run(const LibraryStep& step, BoundStep& bound) {
  const std::byte* a = address(step.a);
  const std::byte* b = address(step.b);
  std::byte* t = address(step.t);
  if (step.panel) {
    const auto floats = [&](const Operand& operand) { return reinterpret_cast<float*>(address(operand)); };
    PanelArguments arguments{floats(step.a), floats(step.b), floats(step.t)};
    if (step.epilogue) {
      const Epilogue& next = *step.epilogue;
      const float* operand = next.operand ? floats(*next.operand) : &next.constant;
      (next.kind == Epilogue::Kind::kUpdate ? arguments.scale : arguments.bias) = operand;
      arguments.is_relu = next.kind == Epilogue::Kind::kRelu;
    }
    auto* const packed = reinterpret_cast<float*>(shared_);
    const std::int64_t pieces = step.panel->pack_count();
    const int packers = step.panel->shared_byte_count() >= kParallelPacking ? compiled_->threads : 1;
    share(packers, pieces, [&](int, std::int64_t first, std::int64_t last) {
      step.panel->pack(arguments, packed, first, last);
    });
    share(compiled_->threads, step.panel->cost(), [&](int thread, std::int64_t first, std::int64_t last) {
      auto* memory = reinterpret_cast<float*>(scratch(static_cast<std::size_t>(thread)));
      step.panel->run(arguments, packed, memory, first, last);
    });
    return;
  }
  if (step.own) {
    const int threads = step.own->multiplications() >= kParallelElements ? compiled_->threads : 1;
    share(threads, step.own->piece_count(), [&](int thread, std::int64_t first, std::int64_t last) {
      step.own->run(a, b, t, scratch(static_cast<std::size_t>(thread)), first, last);
    });
    return;
  }
  const SharedCopy& copy = step.calls.copy;
  if (!copy.pieces.empty()) {
    const std::byte*& operand = copy.operand == Shared::kA ? a : b;
    run_calls(copy.pieces, bound.copies, operand, nullptr, nullptr, shared_);
    operand = shared_;
  }
  run_calls(step.calls.pieces, bound.calls, a, b, step.epilogue ? address(*step.epilogue->operand) : nullptr,
            t);
}

}  // namespace yoke::cc
