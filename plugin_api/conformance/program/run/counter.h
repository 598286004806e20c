// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/counter.h: a small program for tests of linking and launching:
// state += x[by ..], then y = state + 1. A backend that reads only at the target's indices gets state += x.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch.h"

namespace yoke::conformance {

// The compiled program, with f32 elements if the device has them.
class Counter {
 public:
  static constexpr std::uint64_t kCount = 64;  // elements of state and y

  // Throws Unsupported if the device can run neither form of the program.
  explicit Counter(Device& device);
  Device& device() const { return device_; }
  const Code& code() const { return code_; }
  program::Type type() const { return type_; }
  std::uint64_t element_byte_count() const { return program::byte_size(type_); }
  std::uint64_t reach() const { return shifts_ ? 80 : kCount; }  // elements of x
  // The first element of x that a launch reads.
  std::uint64_t first_read(std::int64_t by) const { return shifts_ ? static_cast<std::uint64_t>(by) : 0; }

  void destroy_code() { code_.reset(); }

 private:
  Device& device_;
  program::Type type_ = program::Type::kF32;
  bool shifts_ = true;  // the symbol `by` moves the range of x; otherwise it has no effect
  Code code_;
};

// The program linked to buffers, with their expected contents.
class CounterRun {
 public:
  enum class Layout {
    kSeparate,
    kAdjacent
  };  // one buffer per argument, or all in one, as close as their alignment allows
  // `start` is the initial value of the state. `home` is the device of
  // the buffers; null for the counter's device.
  CounterRun(const Counter& counter, int start, Layout layout = Layout::kSeparate, Device* home = nullptr);

  void launch(std::int64_t by, Stream* stream = nullptr);
  // Fails if x, state or y is not the result of the launches so far.
  void check_values() const;
  yoke_routine* routine() const { return routine_.get(); }

 private:
  void write(std::size_t argument, const std::vector<std::int64_t>& values) const;
  void check_argument(std::size_t argument, const char* name, const std::vector<std::int64_t>& values) const;

  const Counter& counter_;
  std::vector<Buffer> buffers_;
  std::vector<std::pair<std::size_t, std::uint64_t>> places_;  // buffer and offset of each argument
  Buffer workspace_;
  Routine routine_;
  std::vector<std::int64_t> x_;
  std::vector<std::int64_t> state_;
  std::vector<std::int64_t> y_;
};

}  // namespace yoke::conformance
