// SPDX-License-Identifier: Apache-2.0
// plugins/cc/routine.cpp: a compiled program bound to memory.
#include "routine.h"

#include <algorithm>
#include <utility>

#include "pool.h"

namespace yoke::cc {
namespace {

// Loops over fewer elements run on the launching thread: waking other threads would cost more.
constexpr std::int64_t kParallelElements = 1 << 15;

}  // namespace

BoundProgram::BoundProgram(std::shared_ptr<const CompiledProgram> compiled,
                           std::span<std::byte* const> arguments, std::byte* workspace)
    : compiled_(std::move(compiled)),
      symbols_(compiled_->program.symbols.size()),
      scratch_(workspace + compiled_->scratch_offset) {
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
      }
    } else {
      for (const MatmulPart& part : std::get<MatmulStep>(step.work).parts) {
        bound.parts.emplace_back(*part.dnnl, scratch_ + bound.parts.size() * compiled_->scratch_stride);
      }
    }
    steps_.push_back(std::move(bound));
  }
}

std::byte* BoundProgram::address(const Operand& operand, std::span<const std::int64_t> symbol_values) const {
  return tensors_[operand.tensor] +
         operand.form.base(symbol_values) * static_cast<std::int64_t>(program::byte_size(operand.type));
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
}

void BoundProgram::run(std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const Step& step = compiled_->steps[i];
    if (const auto* kernel = std::get_if<TileKernel>(&step.work)) {
      run(*kernel, steps_[i], symbols_);
    } else {
      run(std::get<MatmulStep>(step.work), steps_[i], symbols_);
    }
  }
}

void BoundProgram::run(const TileKernel& kernel, BoundStep& bound,
                       std::span<const std::int64_t> symbol_values) {
  const int threads = kernel.parallel && kernel.element_count >= kParallelElements ? compiled_->threads : 1;
  share(threads, kernel.tile_count, [&](int thread, std::int64_t first, std::int64_t last) {
    if (first < last) {
      const auto i = static_cast<std::size_t>(thread);
      run_tiles(kernel, bound.states[i], tensors_, symbol_values, scratch_ + i * compiled_->scratch_stride,
                first, last);
    }
  });
}

void BoundProgram::run(const MatmulStep& matmul, BoundStep& bound,
                       std::span<const std::int64_t> symbol_values) {
  const Contraction& c = matmul.contraction;
  std::byte* a = address(c.a, symbol_values);
  std::byte* b = address(c.b, symbol_values);
  std::byte* t = address(c.t, symbol_values);
  if (!matmul.parts.empty()) {
    const std::byte* bias = matmul.bias ? address(*matmul.bias, symbol_values) : nullptr;
    share(static_cast<int>(matmul.parts.size()), static_cast<std::int64_t>(matmul.parts.size()),
          [&](int i, std::int64_t, std::int64_t) {
            const MatmulPart& part = matmul.parts[static_cast<std::size_t>(i)];
            bound.parts[static_cast<std::size_t>(i)].execute(
                a + part.a, b + part.b, bias == nullptr ? nullptr : bias + part.bias, t + part.t);
          });
    return;
  }
  const int threads = c.multiplications() >= kParallelElements ? compiled_->threads : 1;
  share(threads, matmul.own->piece_count(), [&](int thread, std::int64_t first, std::int64_t last) {
    matmul.own->run(a, b, t, scratch_ + static_cast<std::uint64_t>(thread) * compiled_->scratch_stride, first,
                    last);
  });
}

}  // namespace yoke::cc
