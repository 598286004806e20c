// SPDX-License-Identifier: Apache-2.0
// plugins/cc/workspace.cpp: lays out the memory of a compiled program's temporaries and scratch.
#include "workspace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

namespace yoke::cc {
namespace {

std::uint64_t round_up(std::uint64_t value) {
  return (value + 63) / 64 * 64;
}

// Collects what the steps need.
struct Needs {
  CompiledProgram& compiled;
  std::vector<bool> stored;  // per tensor
  std::uint64_t scratch = 0;
  std::uint64_t shared = 0;
  std::uint64_t carry = 0;

  void add(TileKernel& kernel) {
    kernel.carry_offset = carry;
    kernel.results_offset = compiled.results_byte_count;
    carry += carry_byte_count(kernel);
    compiled.results_byte_count += results_byte_count(kernel);
    for (const Stream& stream : kernel.streams) {
      stored[stream.tensor] = stored[stream.tensor] || !kernel.fed;
    }
    for (const Bounded& bounded : kernel.bounded) {
      stored[bounded.tensor] = stored[bounded.tensor] || !kernel.fed;
    }
    scratch = std::max(scratch, kernel.scratch_byte_count);
    shared = std::max(shared, part_byte_count(kernel, compiled.threads));
  }

  void add(const RegionStep& step) {
    const program::Program& tile = step.tile->program;
    for (std::size_t i = 0; i < tile.tensors.size(); ++i) {
      const std::uint32_t tensor = step.region.tensors[i];
      stored[tensor] = stored[tensor] || tile.tensors[i].role != program::Role::kTemp;
    }
    shared = std::max(shared, step.tile->results_byte_count);
    scratch =
        std::max({scratch, step.tile->workspace_byte_count, step.tail ? step.tail->workspace_byte_count : 0});
  }

  void add(const LibraryStep& call) {
    for (const Operand* operand : {&call.a, &call.b, &call.t}) {
      stored[operand->tensor] = true;
    }
    if (call.epilogue && call.epilogue->operand) {
      stored[call.epilogue->operand->tensor] = true;
    }
    for (const std::vector<LibraryPiece>* pieces : {&call.calls.pieces, &call.calls.copy.pieces}) {
      for (const LibraryPiece& piece : *pieces) {
        scratch = std::max(scratch, piece.call.scratch_byte_count);
      }
    }
    shared = std::max({shared, call.calls.copy.byte_count, call.panel ? call.panel->shared_byte_count() : 0});
    scratch = std::max({scratch, call.own ? call.own->scratch_byte_count() : 0,
                        call.panel ? call.panel->scratch_byte_count() : 0});
  }
};

}  // namespace

void place_memory(CompiledProgram& compiled, std::vector<program::Lifetime> lives) {
  const std::size_t tensors = compiled.program.tensors.size();
  std::vector<std::uint64_t> step_of(compiled.program.statements.size());
  Needs needs{compiled, std::vector<bool>(tensors)};
  for (std::size_t i = 0; i < compiled.steps.size(); ++i) {
    for (const std::uint32_t id : compiled.steps[i].statements) {
      step_of[id] = i;
    }
    std::visit([&](auto& work) { needs.add(work); }, compiled.steps[i].work);
  }
  for (std::size_t i = 0; i < tensors; ++i) {
    program::Lifetime& life = lives[i];
    life = needs.stored[i] && life.byte_count != 0
               ? program::Lifetime{life.byte_count, step_of[life.first], step_of[life.last]}
               : program::Lifetime{};
  }
  const program::MemoryPlan plan = program::plan_memory(lives);
  compiled.temp_offset.assign(tensors, CompiledProgram::kNotInMemory);
  for (std::size_t i = 0; i < tensors; ++i) {
    if (lives[i].byte_count != 0) {
      compiled.temp_offset[i] = plan.offsets[i];
    }
  }
  compiled.scratch_offset = round_up(plan.byte_count);
  compiled.scratch_stride = round_up(needs.scratch);
  compiled.shared_offset =
      compiled.scratch_offset + compiled.scratch_stride * static_cast<std::uint64_t>(compiled.threads);
  compiled.workspace_byte_count = compiled.shared_offset + std::max(needs.shared, needs.carry);
}

}  // namespace yoke::cc
