// SPDX-License-Identifier: Apache-2.0
// runtime/device/fallback_ledger.h: counts the programs that ran on the fallback device, and their cost.
#pragma once

#include <yoke/runtime/runtime.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace yoke::detail {

// One row, updated by the threads that run the routines.
struct FallbackRow {
  std::string routine, device, to, reason;
  std::atomic<std::uint64_t> launch_count{0};
  std::atomic<std::uint64_t> byte_count{0};
  std::atomic<std::int64_t> nanoseconds{0};
};

// Thread-safe.
class FallbackLedger {
 public:
  // Returns the row of that routine; adds it first if it is new.
  std::shared_ptr<FallbackRow> row(const std::string& routine, const std::string& device,
                                   const std::string& to, const std::string& reason);
  // True for the first call with this backend and reason.
  bool is_news(const std::string& backend, const std::string& reason);
  std::vector<FallbackCount> counts() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<FallbackRow>> rows_;
  std::set<std::pair<std::string, std::string>> reported_;
};

}  // namespace yoke::detail
