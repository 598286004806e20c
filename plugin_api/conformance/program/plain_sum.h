// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/plain_sum.h: sums of reads and of products of two reads, computed over plain
// numbers. evaluate_bounds uses it where every value is certain; it is much faster than intervals.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bound.h"

namespace yoke::conformance {

class PlainSum {
 public:
  // Returns nothing if the statement is not `sum[..] x[..]` or `sum[..] x[..] * w[..]` with undivided affine
  // indices (casts that keep every value are allowed), or if a value that it reads is not certain.
  static std::optional<PlainSum> of(const program::Program& program, const program::Statement& statement,
                                    std::span<const std::int64_t> symbols,
                                    std::span<const std::vector<Bound>> memory);

  // The sum over the reduction's loops, for these values of the other loops.
  Fold folded(std::span<const std::int64_t> counters) const;

 private:
  // A tensor's elements as numbers, and how far one step of each loop moves.
  struct Factor {
    std::vector<double> numbers;         // floats
    std::vector<std::int64_t> integers;  // integers
    std::int64_t start = 0;
    std::vector<std::int64_t> steps;  // one per loop of the statement; all 0 for the constant 1
    double largest = 1;
    double smallest = 1;  // of those that are not 0
    int lowest_bit = 0;
    int bits = 1;  // of the longest mantissa
    bool finite = true;
  };
  struct Totals;

  static bool place(const program::Tensor& tensor, std::span<const program::Index> indices,
                    std::span<const std::int64_t> symbols, Factor& factor);

  PlainSum(const program::Statement& statement) : statement_(&statement) {}
  bool add_factor(const program::Program& program, const program::Expr& expr,
                  std::span<const std::int64_t> symbols, std::span<const std::vector<Bound>> memory);
  bool is_in_range();
  void add_row(std::int64_t x, std::int64_t w, std::uint64_t count, std::int64_t x_step, std::int64_t w_step,
               Totals& totals) const;
  void add_integers(std::int64_t x, std::int64_t w, std::uint64_t count, std::int64_t x_step,
                    std::int64_t w_step, Totals& totals) const;

  const program::Statement* statement_;
  std::vector<Factor> factors_;  // two
  program::Type type_ = program::Type::kF32;
  program::Type accumulator_ = program::Type::kF32;
  bool products_are_exact_ = false;
};

}  // namespace yoke::conformance
