// SPDX-License-Identifier: Apache-2.0
// runtime/device/profile.h: when a device ran its work (yoke.profile/1), for RuntimeOptions::on_work.
#pragma once

#include <yoke/ext/profile.h>
#include <yoke/runtime/runtime.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace yoke {
class Device;
}

namespace yoke::detail {

// Records the work of one device's own streams. Thread-safe.
class WorkProfile {
 public:
  // Returns null if no one asks for records, or if the backend has no streams or no times.
  static std::unique_ptr<WorkProfile> start(const Device& device);

  // Names the lane of a stream. Its handle may be reused after a fetch().
  void name_stream(const yoke_stream* stream, std::string name);
  // Passes on the records of work that has ended.
  void fetch() noexcept;

 private:
  WorkProfile(const Device& device, const yoke_profile_api& table);
  void pass_on(const yoke_profile_record& record) const;

  const Device& device_;
  const yoke_profile_api& table_;
  const std::function<void(const WorkRecord&)>& on_work_;
  std::mutex mutex_;  // guards the members below, and keeps the records of a stream in order
  std::map<const yoke_stream*, std::string> names_;
  std::vector<yoke_profile_record> rows_;
  bool has_lost_ = false;
};

}  // namespace yoke::detail
