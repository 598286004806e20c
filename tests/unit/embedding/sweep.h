// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/sweep.h: runs work again and again, and lets another call of operator new fail in each run.
#pragma once

#include <yoke/yoke.h>

#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <string>

#include "count_allocations.h"
#include "rig.h"
#include "rounds.h"

namespace yoke::test {

using Which = FailAllocations::Which;

inline std::string name_of(Which which) {
  return which == Which::kOne ? "OneCall" : "AllCallsFrom";
}

// The failures must not make later work in the same runtime wait for a timeout.
inline constexpr auto kSlow = 10s;

inline constexpr std::uint64_t kSparse = 31 / rounds(31);

// Runs `work` with failing calls 0, stride, 2 * stride, ... until one run makes no such call; in builds with
// sanitizers, which are slow, with fewer after the first 30. `check` follows each run. Returns the number of runs
// that failed.
inline std::uint64_t sweep(Which which, std::uint64_t stride, const std::function<void()>& work,
                           const std::function<void()>& check) {
  std::uint64_t failed_runs = 0;
  for (std::uint64_t first = 0;; first += first < 30 ? stride : stride * kSparse) {
    SCOPED_TRACE("call " + std::to_string(first) + " of operator new fails");
    const auto begin = std::chrono::steady_clock::now();
    bool is_reached = false;
    bool has_failed = false;
    std::optional<ErrorCode> other;
    {
      const FailAllocations failing(first, which);
      try {
        work();
      } catch (const Error& error) {
        has_failed = true;
        if (error.code() != ErrorCode::kResourceExhausted && error.code() != ErrorCode::kFailedPrecondition) {
          other = error.code();
        }
      } catch (const std::bad_alloc&) {
        has_failed = true;
      }
      is_reached = FailAllocations::call_count() > first;
    }
    EXPECT_FALSE(other) << code_name(other.value_or(ErrorCode::kOk));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kSlow);
    failed_runs += has_failed ? 1 : 0;
    check();
    if (!is_reached || ::testing::Test::HasFailure()) {
      return failed_runs;
    }
  }
}

inline void expect_no_objects(const Backend& backend, std::uint64_t devices) {
  const yoke_live_counts counts = backend.live_counts();
  EXPECT_EQ(counts.devices, devices);
  EXPECT_EQ(counts.buffers, 0U);
  EXPECT_EQ(counts.streams, 0U);
  EXPECT_EQ(counts.codes, 0U);
  EXPECT_EQ(counts.routines, 0U);
}

}  // namespace yoke::test
