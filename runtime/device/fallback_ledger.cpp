// SPDX-License-Identifier: Apache-2.0
// runtime/device/fallback_ledger.cpp: rows are added under a lock and updated without one.
#include "device/fallback_ledger.h"

#include <algorithm>
#include <tuple>

namespace yoke::detail {

std::shared_ptr<FallbackRow> FallbackLedger::row(const std::string& routine, const std::string& device,
                                                 const std::string& to, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const auto same = std::find_if(rows_.begin(), rows_.end(), [&](const auto& row) {
    return row->routine == routine && row->device == device && row->to == to && row->reason == reason;
  });
  if (same != rows_.end()) {
    return *same;
  }
  auto row = std::make_shared<FallbackRow>();
  row->routine = routine;
  row->device = device;
  row->to = to;
  row->reason = reason;
  rows_.push_back(row);
  return row;
}

bool FallbackLedger::is_news(const std::string& backend, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  return reported_.emplace(backend, reason).second;
}

std::vector<FallbackCount> FallbackLedger::counts() const {
  std::vector<FallbackCount> counts;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& row : rows_) {
      counts.push_back({row->routine, row->device, row->to, row->reason, row->launch_count.load(),
                        row->byte_count.load(), std::chrono::nanoseconds(row->nanoseconds.load())});
    }
  }
  std::sort(counts.begin(), counts.end(), [](const FallbackCount& a, const FallbackCount& b) {
    return std::tie(a.device, a.routine, a.reason) < std::tie(b.device, b.routine, b.reason);
  });
  return counts;
}

}  // namespace yoke::detail
