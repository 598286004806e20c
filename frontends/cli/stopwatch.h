// SPDX-License-Identifier: Apache-2.0
// frontends/cli/stopwatch.h: measures wall-clock time.
#pragma once

#include <chrono>

namespace yoke::cli {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Adds the time between its construction and destruction to a sum.
class Timed {
 public:
  explicit Timed(double* sum) : sum_(sum) {}
  ~Timed() { *sum_ += watch_.seconds(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double* sum_;
  Stopwatch watch_;
};

}  // namespace yoke::cli
