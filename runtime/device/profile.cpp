// SPDX-License-Identifier: Apache-2.0
// runtime/device/profile.cpp: starts recording, fetches records, and translates them.
#include "device/profile.h"

#include <yoke/runtime/device.h>

#include <cstring>

#include "device/state.h"

namespace yoke::detail {

namespace {

constexpr std::uint32_t kRows = 128;  // per call

}  // namespace

std::unique_ptr<WorkProfile> WorkProfile::start(const Device& device) {
  const auto& on_work = device.backend()->state().runtime->options.on_work;
  if (!on_work || !device.backend()->has_streams()) {
    return nullptr;
  }
  const auto* const table = device.backend()->extension<yoke_profile_api>(YOKE_PROFILE_TABLE);
  constexpr yoke_profile_args kArgs = {sizeof(yoke_profile_args), 0, 0};
  if (table == nullptr || table->profile_start == nullptr || table->profile_fetch == nullptr ||
      table->profile_start(device.get(), &kArgs, nullptr) != YOKE_STATUS_OK) {
    return nullptr;
  }
  return std::unique_ptr<WorkProfile>(new WorkProfile(device, *table));
}

WorkProfile::WorkProfile(const Device& device, const yoke_profile_api& table)
    : device_(device),
      table_(table),
      on_work_(device.backend()->state().runtime->options.on_work),
      rows_(kRows) {}

void WorkProfile::name_stream(const yoke_stream* stream, std::string name) {
  const std::lock_guard lock(mutex_);
  names_[stream] = std::move(name);
}

void WorkProfile::fetch() noexcept {
  const std::lock_guard lock(mutex_);
  std::uint32_t count = kRows;
  while (count == kRows) {
    std::uint64_t lost = 0;
    if (table_.profile_fetch(device_.get(), kRows, sizeof(yoke_profile_record), rows_.data(), &count, &lost,
                             nullptr) != YOKE_STATUS_OK ||
        count > kRows) {
      return;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      pass_on(rows_[i]);
    }
    if (lost != 0 && !has_lost_) {
      has_lost_ = true;
      device_.backend()->state().runtime->logger.log_composed(LogLevel::kWarn, [&] {
        return "profile.lost device=" + device_.name() + " records=" + std::to_string(lost) +
               " reason=\"the device had no room for them\"";
      });
    }
  }
}

void WorkProfile::pass_on(const yoke_profile_record& record) const {
  using Kind = WorkRecord::Kind;
  const auto name = names_.find(record.stream);
  WorkRecord work;
  work.stream = name == names_.end() ? std::string_view(device_.name()) : std::string_view(name->second);
  work.name = {record.name, ::strnlen(record.name, sizeof(record.name))};
  work.kind = record.kind == YOKE_WORK_LAUNCH       ? Kind::kLaunch
              : record.kind == YOKE_WORK_FILL       ? Kind::kFill
              : record.kind == YOKE_WORK_COLLECTIVE ? Kind::kCollective
                                                    : Kind::kCopy;
  work.begin_ns = record.begin_ns;
  work.end_ns = record.end_ns;
  try {
    on_work_(work);
  } catch (...) {  // the work itself is done
  }
}

}  // namespace yoke::detail
