// SPDX-License-Identifier: Apache-2.0
// tests/bench/gpu/gpu_bench.h: times programs on a GPU backend, and direct calls of the driver beside them.
#pragma once

#include <yoke/runtime/stream.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace yoke::bench {

using Address = std::uint64_t;

// The driver's functions (plugins/gpu/driver.def), which the benchmark calls directly as a peer.
struct DriverCalls {
#define YOKE_DRIVER(member, parameters, cuda, hip) int(*member) parameters = nullptr;
#include "driver.def"
};

// Throws std::runtime_error if the library or a function is missing.
DriverCalls open_driver(const std::string& api);

// One measurement. It is met if `value` is at most `bar`, or at least `bar` if `at_least` is set.
struct Row {
  std::string name;
  double value = 0;
  std::string unit;  // of `value` and `bar`
  std::optional<double> bar;
  bool at_least = false;
  std::string detail;   // "1.92 of 2.41 TB/s"
  std::string missing;  // why there is no value; empty: there is one
  bool lost = false;    // the device failed, and can run nothing else

  bool is_met() const { return missing.empty() && (!bar || (at_least ? value >= *bar : value <= *bar)); }
};

// A program that is linked to buffers of its arguments, filled with small values.
struct Linked {
  std::shared_ptr<const Routine> routine;
  std::vector<BufferView> arguments;
};

class Bench {
 public:
  // `small`: tiny sizes, to test the benchmark itself on a CPU. Their figures mean nothing.
  Bench(std::shared_ptr<Device> device, bool small);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Linked link(const std::string& text) const;
  // Median time of one run on the device in seconds, by the driver's events; by the clock without a driver.
  double seconds_of(const std::function<void()>& run) const;
  // Median time in seconds that the host spends in one of many calls.
  double host_seconds_of(const std::function<void()>& run) const;
  // Bytes read and written per second by a copy on the device.
  double copy_bandwidth();

  std::uint64_t size(std::uint64_t full, std::uint64_t small) const { return small_ ? small : full; }
  Stream& stream() const { return *stream_; }
  const Device& device() const { return *device_; }
  const DriverCalls* driver() const { return driver_ ? &*driver_ : nullptr; }
  void* native_stream() const { return native_stream_; }

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<Stream> stream_;
  std::optional<DriverCalls> driver_;
  void* native_stream_ = nullptr;
  void* start_ = nullptr;  // events of the driver
  void* stop_ = nullptr;
  bool small_;
  double copy_bandwidth_ = 0;
};

// A product of bf16 matrices of n x n by cublasLt, without yoke, in seconds. Throws std::runtime_error.
double cublas_seconds(const Bench& bench, std::uint64_t n);

struct Case {
  std::string name;
  std::function<Row(Bench&)> run;
  std::vector<std::string> options =
      {};  // of the handle of the device, those that the backend has: "vendor=off"
};
std::vector<Case> cases();

}  // namespace yoke::bench
