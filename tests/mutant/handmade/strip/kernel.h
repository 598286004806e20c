// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/kernel.h: a statement as loops over strips of values.
#pragma once

#include <yoke/program/program.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "queue.h"
#include "values.h"

namespace yoke::strip {

// What a kernel runs with.
struct Launch {
  std::span<void* const> tensors;  // one address per tensor of the program
  std::span<const std::int64_t> symbols;
  void* scratch = nullptr;
  Pool* pool = nullptr;
  Pending* pending = nullptr;
};

class Place;

// The current iteration. A strip has `count` iterations of the loop `strip`.
struct Frame {
  const Launch* launch = nullptr;
  std::vector<std::int64_t> counters;
  std::uint32_t strip = 0;
  std::size_t count = 1;
  std::int64_t block = 0;                                    // where the current block of a reduction starts
  std::set<std::pair<const Place*, std::int64_t>> inside{};  // with the bug first_row_inside
};

// An access of a statement.
class Place {
 public:
  Place(const program::Program& program, const program::Statement& statement, const program::Access& access);
  // The number of the element, if no index needs a check.
  std::int64_t element(const Frame& frame) const;
  std::int64_t stride(std::uint32_t loop) const { return strides_[loop]; }
  std::uint32_t tensor() const { return tensor_; }
  Type type() const { return type_; }
  bool is_checked() const { return is_checked_; }
  bool has_gather() const { return has_gather_; }
  void* address(const Frame& frame) const;
  void read(Frame& frame, Strip& out) const;

 private:
  struct Dim {
    program::Affine affine;
    std::int64_t divisor = 1;
    std::int64_t extent = 1;
    std::int64_t stride = 1;
    std::shared_ptr<const Place> element_of;  // null: affine
  };
  // The number of the element at the frame's counters; -1: out of range.
  std::int64_t checked_element(const Frame& frame) const;
  std::int64_t index_value(const Frame& frame) const;
  void read_checked(Frame& frame, Strip& out) const;
  std::int64_t border_element(const Frame& frame, std::int64_t first) const;

  std::uint32_t tensor_ = 0;
  Type type_ = Type::kF32;
  std::int64_t constant_ = 0;
  std::vector<std::int64_t> strides_;                            // per loop
  std::vector<std::pair<std::uint32_t, std::int64_t>> symbols_;  // and their strides
  std::vector<Dim> dims_;
  program::Literal otherwise_;
  bool is_checked_ = false;
  bool has_gather_ = false;
};

// The access with the `else` of the statement's first read of the tensor that has one; with the bug border_per_tensor.
program::Access with_border(const program::Statement& statement, program::Access access);

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const Launch& launch) const = 0;
  std::uint64_t scratch_bytes() const { return scratch_bytes_; }

 protected:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  // With the bug kernel_pool only: other devices use the kernel, too, also when the first one is closed.
  Pool& pool_of(const Launch& launch) const;
  std::uint64_t scratch_bytes_ = 0;

 private:
  mutable std::atomic<Pool*> first_pool_{nullptr};
};

// Null if no kernel runs the statement.
std::unique_ptr<Kernel> make_kernel(const program::Program& program, const program::Statement& statement);
std::unique_ptr<Kernel> make_product(const program::Program& program, const program::Statement& statement);
// Null without the bug copy_as_bytes.
std::unique_ptr<Kernel> make_byte_copy(const program::Program& program, const program::Statement& statement);

// Sets the counters of `loops` to iteration `number`, the last loop fastest.
void set_counters(const std::vector<program::Loop>& loops, std::span<const std::uint32_t> order,
                  std::uint64_t number, std::vector<std::int64_t>& counters);

}  // namespace yoke::strip
