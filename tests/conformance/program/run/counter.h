// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/run/counter.h: one small program that every backend runs, for tests about linking
// and launching: state += x[by ..], then y = state + 1.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch.h"

namespace yoke::conformance {

// The program compiled, over f32 where the device has it.
class Counter {
 public:
  static constexpr std::uint64_t kCount = 64;  // elements of state and y
  static constexpr std::uint64_t kReach = 80;  // elements of x
  // Symbol 'by': 1, 4 or 7.
  static constexpr std::int64_t kLow = 1;
  static constexpr std::int64_t kHigh = 10;
  static constexpr std::int64_t kStep = 3;

  // Unsupported where the device does not run it.
  explicit Counter(Device& device);
  Device& device() const { return device_; }
  const Code& code() const { return code_; }
  program::Type type() const { return type_; }
  std::uint64_t element_byte_count() const { return program::byte_size(type_); }
  const yoke_entry_info& info() const { return info_; }
  void destroy_code() { code_.reset(); }

 private:
  Device& device_;
  program::Type type_ = program::Type::kF32;
  Code code_;
  yoke_entry_info info_{};
};

// It linked to memory, and what that should hold.
class CounterRun {
 public:
  enum class Layout { kApart, kTouching };  // a buffer each; or all in one, without a gap
  // `start`: the state's first value. `home`: whose buffers; null: the counter's device.
  CounterRun(const Counter& counter, int start, Layout layout = Layout::kApart, Device* home = nullptr);

  void launch(std::int64_t by, Stream* stream = nullptr);
  // Failed where x, state or y is not what the launches so far make of it.
  void check_values() const;
  yoke_routine* routine() const { return routine_.get(); }

 private:
  void write(std::size_t argument, const std::vector<std::int64_t>& values) const;
  void check_argument(std::size_t argument, const char* name, const std::vector<std::int64_t>& values) const;

  const Counter& counter_;
  std::vector<Buffer> buffers_;
  std::vector<std::pair<std::size_t, std::uint64_t>> places_;  // per argument: buffer, offset
  Buffer workspace_;
  Routine routine_;
  std::vector<std::int64_t> x_;
  std::vector<std::int64_t> state_;
  std::vector<std::int64_t> y_;
};

}  // namespace yoke::conformance
