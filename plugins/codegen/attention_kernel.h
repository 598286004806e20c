// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_kernel.h: yoke's own kernels for attention, on mma.sync. Scores stay in registers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention.h"
#include "builder.h"
#include "matmul.h"

namespace yoke::codegen::attention {

// Why the kernels cannot compute the attention on the target; empty if they can.
std::string kernel_fault(const LibraryAttention& attention, const Target& target);
// Add the launches of a step that the caller has begun. `slots` are those of the volumes and the statistics.
void launch_forward(Builder& builder, const LibraryAttention& attention, const std::vector<Slot>& slots,
                    const std::string& remark);
void launch_backward(Builder& builder, const LibraryAttention& attention, const std::vector<Slot>& slots,
                     const std::string& remark);

// The parts of the kernels' text. A block has 4 warps, and each warp has some rows of the block for itself.
inline constexpr std::int64_t kThreads = 128;
inline constexpr std::int64_t kWarps = 4;

// Rows of one head of a volume, and their place in shared memory: chunks of 16 bytes, padded with zeros to
// multiples of 32 bytes. A chunk's place within its row depends on the row's number, so that the chunks that a
// warp loads together lie in different banks.
struct Rows {
  std::string name;  // of the pointer to the head's first element
  const Volume* volume = nullptr;
  std::int64_t count = 64;
  std::string place = "place";  // of the first chunk

  std::int64_t length() const { return static_cast<std::int64_t>(volume->dims[2]); }  // of the volume
  std::int64_t size() const { return static_cast<std::int64_t>(volume->dims[3]); }
  std::int64_t steps() const { return (size() + 15) / 16; }  // of 16 elements
  std::int64_t pitch() const;                                // chunks of a row: a power of two
  std::int64_t chunks() const { return count * pitch(); }
  Rows at(std::int64_t chunk) const {  // from there on, relative to their place
    Rows moved = *this;
    moved.place += " + " + std::to_string(chunk * 16);
    return moved;
  }
};

// Functions that the kernels call.
void declare_functions(Builder& builder);
// "f16" or "bf16".
std::string type_text(const LibraryAttention& attention);
// Declares tid, lane, warp, the block's head and batch, and `first`, the first of its rows. Blocks of a head are
// neighbors, and those with the most work start first.
std::string place_text(const LibraryAttention& attention, std::int64_t length, std::int64_t rows,
                       bool last_first);
// Declares the pointer of the rows, from a parameter p0, p1, ... or one of a result, and whether it is aligned.
std::string pointer_text(const Rows& rows, const std::string& parameter);
// Declares what copy_text needs.
std::string from_text(const Rows& rows);
// Starts copies of the rows from `first` on to shared memory. Rows out of range become 0.
std::string copy_text(const Rows& rows, const std::string& first);
// Loads the warp's part of the rows, 16 * `parts` of them, as factors of scores, into x[part][step].
std::string factor_text(const Rows& rows, const std::string& x, std::int64_t parts);
// sums[part][column / 8] += x * rows: a column for each row in shared memory. x is in registers, or is loaded from
// `factors` if they are not null.
std::string scores_text(const Rows& rows, const std::string& sums, const std::string& x, std::int64_t parts,
                        const std::string& type, const Rows* factors = nullptr);
// sums[part][element / 8] += weights * rows. The weights are factors in registers, by part and 16 rows.
std::string weigh_text(const Rows& rows, const std::string& sums, const std::string& weights,
                       std::int64_t parts, const std::string& type);
// Rounds sums[part][column / 8] to factors in registers: the lanes of sums and of factors hold the same elements.
std::string round_text(const std::string& weights, const std::string& sums, std::int64_t parts,
                       std::int64_t columns, const std::string& type);
// Hides scores whose column is out of range, or whose key is after the query. Rows of the block are queries, or keys.
std::string mask_text(const LibraryAttention& attention, const std::string& sums, std::int64_t parts,
                      std::int64_t columns, const std::string& column, bool rows_are_queries);
// Stores sums[part] times `factor`, which may use i (the part) and r (0: the lane's first row of two), as the
// warp's rows. All warps have finished with the shared memory of the rows.
std::string store_text(const Rows& rows, const std::string& sums, const std::string& factor,
                       std::int64_t parts, const std::string& type);
// A float with all its digits.
std::string float_text(double value);

}  // namespace yoke::codegen::attention
