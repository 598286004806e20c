// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/transpose.cpp: transposing copies in tiles.
#include <algorithm>
#include <cstring>

#include "../bugs.h"
#include "warp.h"

namespace yoke::board {

using handmade::bug;
using program::Assign;
using program::Op;

namespace {

constexpr std::int64_t kTile = 32;  // rows and columns

}  // namespace

// y[i, j] = x[j, i]
bool Warp::is_transpose() const {
  const auto is_loop = [](const program::Affine& affine, std::uint32_t loop) {
    const bool has_loop = affine.terms.size() == 1 && affine.terms[0] == program::Affine::loop(loop).terms[0];
    return has_loop && (affine.constant == 0 || bug("transpose_offset"));
  };
  const auto is_by_loops = [&](const program::Access& access, std::uint32_t first, std::uint32_t second) {
    return access.indices.size() == 2 && !access.indices[0].element_of && !access.indices[1].element_of &&
           access.indices[0].divisor == 1 && access.indices[1].divisor == 1 &&
           is_loop(access.indices[0].affine, first) && is_loop(access.indices[1].affine, second);
  };
  return !is_checked_ && !statement_.reduce &&
         (statement_.assign == Assign::kSet || bug("transposed_update")) && statement_.loops.size() == 2 &&
         statement_.value.op == Op::kRead && is_by_loops(statement_.target, 0, 1) &&
         is_by_loops(statement_.value.access, 1, 0) &&
         statement_.value.access.tensor != statement_.target.tensor;
}

void Warp::run_copy(const program::Access& from) {
  const std::uint64_t size = program::byte_size(target_type_);
  const auto extent = [&](std::size_t loop) {
    return static_cast<std::int64_t>(statement_.loops[loop].extent);
  };
  const auto pitch = [&](const program::Access& access) {
    return bug("transpose_pitch") && &access == &from
               ? extent(0)
               : static_cast<std::int64_t>(launch_.program.tensors[access.tensor].dims[1]);
  };
  const auto at = [&](const program::Access& access, std::int64_t row, std::int64_t column) {
    return launch_.tensors[access.tensor] + static_cast<std::uint64_t>(row * pitch(access) + column) * size;
  };
  for (std::int64_t row = 0; row < extent(0) && !launch_.is_cancelled; row += kTile) {
    for (std::int64_t column = 0; column < extent(1); column += kTile) {
      const std::int64_t rows = std::min(kTile, extent(0) - row);
      const std::int64_t columns =
          bug("tile_edge") ? std::min(rows, extent(1) - column) : std::min(kTile, extent(1) - column);
      for (std::int64_t i = row; i < row + rows; ++i) {
        for (std::int64_t j = column; j < column + columns; ++j) {
          std::memcpy(at(statement_.target, i, j), at(from, j, i), size);
        }
      }
    }
  }
}

}  // namespace yoke::board
