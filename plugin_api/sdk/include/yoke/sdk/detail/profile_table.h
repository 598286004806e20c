// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/profile_table.h: implements "yoke.profile/1".
#pragma once

#include <yoke/ext/profile.h>
#include <yoke/sdk/detail/guarded.h>

#include <cstdint>
#include <vector>

namespace yoke::sdk::detail {

inline std::int32_t profile_start(yoke_device* device, const yoke_profile_args* args,
                                  yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(*device, error,
                 [&] { device->profile.start(read_args(args, 0, "profile_start").capacity); });
}

inline std::int32_t profile_stop(yoke_device* device, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] { device->profile.stop(); });
}

inline std::int32_t profile_fetch(yoke_device* device, std::uint32_t capacity, std::uint64_t stride,
                                  yoke_profile_record* records, std::uint32_t* out_count,
                                  std::uint64_t* out_lost, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] {
    present(out_count, "out_count");
    present(out_lost, "out_lost");
    if (capacity != 0) {
      present(records, "records");
    }
    std::uint64_t lost = 0;
    const std::vector<yoke_profile_record> taken = device->profile.take(capacity, lost);
    write_rows(capacity, stride, records, out_count, taken.size(), [&](std::size_t i) { return taken[i]; });
    *out_lost = lost;
  });
}

inline constexpr yoke_profile_api kProfileTable = {
    .struct_size = sizeof(yoke_profile_api),
    .profile_start = profile_start,
    .profile_stop = profile_stop,
    .profile_fetch = profile_fetch,
};

}  // namespace yoke::sdk::detail
