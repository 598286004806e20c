// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/warp.h: runs one statement on 32 lanes in lockstep.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "values.h"

namespace yoke::board {

// What a launch gives to a statement.
struct Launch {
  const program::Program& program;
  std::span<std::byte* const> tensors;
  std::span<const std::int64_t> symbols;
  const std::atomic<bool>& is_cancelled;
  std::vector<Numbers>* counters = nullptr;  // with the bug shared_counters
};

// Whether some read of the statement may be out of range, for some values of the symbols.
bool needs_checks(const program::Program& program, const program::Statement& statement);

using Mask = std::array<bool, kLanes>;

class Warp {
 public:
  Warp(const Launch& launch, const program::Statement& statement, bool is_checked);
  void run();
  // Runs the 32 iterations from `first` on. Not for reductions.
  void run_at(std::int64_t first);

 private:
  struct Partial {
    Word value;
    std::int64_t index;  // of argmax and argmin; -1: no element yet
  };
  using Partials = std::array<Partial, kLanes>;

  void run_copy(const program::Access& from);
  bool is_transpose() const;
  void decode(std::span<const std::uint32_t> loops, std::int64_t first, std::int64_t count);
  bool advance();
  void add_affine(const program::Affine& affine, Numbers& to) const;
  std::int64_t folded_extent(const program::Access& access, std::size_t dim) const;
  bool is_unit_sum() const;
  void load_flat(std::int64_t first, std::int64_t count, Row& out) const;
  void locate(const program::Access& access, bool is_target, Numbers& element, Mask& outside) const;
  void evaluate(const program::Expr& expr, Row& out, Mask& outside) const;
  void evaluate_lazily(const program::Expr& select, Row& out, Mask& outside) const;
  void fold(Partial& to, Word value, std::int64_t index) const;
  Partial combined(const Partial& a, const Partial& b) const;
  Partial reduced_by_lanes();
  bool is_decided(const Partials& partials) const;
  void store(Row& values, std::int64_t count, bool overwrites) const;
  Word result(const Partial& partial) const;

  const Launch& launch_;
  const program::Statement& statement_;
  const bool is_checked_;
  const program::Type target_type_;
  const program::Type accumulator_;
  std::vector<std::uint32_t> outer_;
  std::int64_t targets_ = 1;
  std::int64_t terms_ = 1;
  std::vector<Numbers> own_counters_;
  std::vector<Numbers>& counters_;  // one per loop
  Partial initial_{};
};

}  // namespace yoke::board
