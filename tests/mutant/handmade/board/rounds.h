// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/rounds.h: two rounds of a repeat block at a time; with the bug unroll_and_jam.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace yoke::board {

// Whether each round of the block reads only what it or a statement before the block writes, and a round may start
// before the last one has ended. With the bug unroll_and_jam only: it may write what the last one has not read yet.
inline bool has_separate_rounds(const program::Program& source, const program::Block& block) {
  bool is_separate = true;
  for (std::size_t i = block.first; i < block.last; ++i) {
    const auto check = [&](std::uint32_t read) {
      for (std::size_t later = i; later < block.last; ++later) {
        is_separate = is_separate && source.statements[later].target.tensor != read;
      }
    };
    program::visit_read_tensors(source.statements[i].value, check);
    program::visit_index_tensors(source.statements[i].target, check);
  }
  return is_separate;
}

// As program::run_in_order, but two rounds of a repeat block at a time, statement by statement.
template <class Run>
void run_in_pairs(const program::Program& source, std::span<std::int64_t> symbols, const Run& run) {
  for (const program::Block& block : source.blocks()) {
    const program::Symbol once{"once", 0, 1, 1, {}, true};
    const auto variable = static_cast<std::size_t>(block.repeat);
    const program::Symbol& symbol = block.repeat < 0 ? once : source.symbols[variable];
    const std::uint64_t unit = has_separate_rounds(source, block) ? 2 : 1;
    for (std::uint64_t first = 0; first < symbol.value_count(); first += unit) {
      for (std::size_t i = block.first * unit; i < block.last * unit; ++i) {
        const std::uint64_t round = unit == 2 ? first + i % 2 : first;
        if (block.repeat >= 0) {
          symbols[variable] = symbol.low + static_cast<std::int64_t>(round) * symbol.step;
        }
        if (round < symbol.value_count()) {
          run(i / unit);
        }
      }
    }
  }
}

}  // namespace yoke::board
