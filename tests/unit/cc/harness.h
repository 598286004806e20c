// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/harness.h: runs a program on cc and on the reference executor, and compares.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compile.h"
#include "tile/kernels.h"

namespace yoke::cc::test {

// Memory of one argument between guard bytes.
class Guarded {
 public:
  explicit Guarded(std::uint64_t byte_count);
  std::byte* data() { return memory_.data() + offset_; }
  const std::byte* data() const { return memory_.data() + offset_; }
  std::uint64_t byte_count() const { return byte_count_; }
  bool guards_are_whole() const;

 private:
  std::vector<std::byte> memory_;
  std::uint64_t offset_ = 0;
  std::uint64_t byte_count_ = 0;
};

// How random arguments look, and how close results must be.
struct Rules {
  double low = -2.0;
  double high = 2.0;
  std::int64_t integer_low = -3;
  std::int64_t integer_high = 9;
  double specials = 0.0;  // share of NaN, infinities, zeros of both signs, subnormals among the floats
  double ulp = 0.0;       // of the larger of the two values
  double absolute = 0.0;  // or this far apart
  int threads = 1;
  int runs = 2;  // all with the same bits
};

std::vector<const KernelTable*> all_tables();
program::Program read(std::string_view text);

// Runs `program` with random arguments drawn from `seed` and compares every written argument: reports through
// EXPECT.
void expect_like_reference(const program::Program& program, std::uint64_t seed, const Rules& rules,
                           const std::vector<const KernelTable*>& tables,
                           const std::vector<std::int64_t>& symbols = {});
void expect_like_reference(std::string_view text, std::uint64_t seed, const Rules& rules = {},
                           const std::vector<std::int64_t>& symbols = {});

// What cc says about each statement.
std::vector<std::string> notes_of(std::string_view text);

// Runs the program on cc with these arguments.
void run_on_cc(const program::Program& program, const std::vector<std::byte*>& arguments,
               const std::vector<std::int64_t>& symbols, int threads = 1, const KernelTable* table = nullptr);

// A program linked once to memory of its own, all zeros.
class Launchable {
 public:
  explicit Launchable(const program::Program& program);
  ~Launchable();
  void launch();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

double ulp_distance(program::Type type, double x, double y);
double element(program::Type type, const std::byte* data, std::uint64_t index);

}  // namespace yoke::cc::test
