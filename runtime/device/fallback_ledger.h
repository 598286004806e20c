// SPDX-License-Identifier: Apache-2.0
// runtime/device/fallback_ledger.h: which programs ran on another backend than their device's, how often, and
// at what cost.
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

// One row; counted by the threads that run the routines.
struct FallbackRow {
  std::string routine, device, to, reason;
  std::atomic<std::uint64_t> launch_count{0};
  std::atomic<std::uint64_t> byte_count{0};
  std::atomic<std::int64_t> nanoseconds{0};
};

// Thread-safe.
class FallbackLedger {
 public:
  // The row of that routine, made where there is none yet.
  std::shared_ptr<FallbackRow> row(const std::string& routine, const std::string& device,
                                   const std::string& to, const std::string& reason);
  // True the first time that this backend gives this reason.
  bool is_news(const std::string& backend, const std::string& reason);
  std::vector<FallbackCount> counts() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<FallbackRow>> rows_;
  std::set<std::pair<std::string, std::string>> told_;
};

}  // namespace yoke::detail
