// SPDX-License-Identifier: Apache-2.0
// tests/mutant/plant_profile.cpp: bugs in yoke.profile/1.
#include <yoke/sdk/entry.h>

#include <algorithm>
#include <cstring>

#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

// Changes each row of a profile_fetch.
template <BugName kName, class Change>
void plant_in_rows(yoke_profile_api& table, Change) {
  plant_after<kName, detail::profile_fetch>(
      table.profile_fetch, [](auto*, auto, auto stride, auto* rows, auto* out_count, auto...) {
        for (std::uint32_t i = 0; i < *out_count; ++i) {
          yoke_profile_record row = sdk::read_row(rows, stride, i);
          Change()(row);
          std::memcpy(sdk::row_of(rows, stride, i), &row,
                      static_cast<std::size_t>(std::min<std::uint64_t>(stride, sizeof row)));
        }
      });
}

}  // namespace

void plant_in_profile(yoke_profile_api& table) {
  plant_in_rows<"profile_has_another_clock">(table, [](auto& row) {
    row.begin_ns += std::uint64_t{1} << 40U;
    row.end_ns += std::uint64_t{1} << 40U;
  });
  plant_in_rows<"profile_forgets_the_begin">(table, [](auto& row) { row.begin_ns = 0; });
  plant_in_rows<"profile_ends_before_it_begins">(table, [](auto& row) { row.end_ns = row.begin_ns - 1; });
  plant_in_rows<"profile_names_no_work">(table, [](auto& row) { row.name[0] = '\0'; });
  plant_in_rows<"profile_forgets_the_stream">(table, [](auto& row) { row.stream = nullptr; });
  plant<"profile_never_stops">(table.profile_stop, [](auto*, auto*) { return std::int32_t{YOKE_STATUS_OK}; });
  plant<"profile_ignores_the_stride">(
      table.profile_fetch, [](auto* device, auto capacity, auto, auto... rest) {
        return detail::profile_fetch(device, capacity, sizeof(yoke_profile_record), rest...);
      });
  plant<"profile_ignores_its_capacity">(table.profile_start, [](auto* device, auto*, auto* error) {
    const yoke_profile_args args = {sizeof args, 0, 0};
    return detail::profile_start(device, &args, error);
  });
  plant_after<"profile_loses_a_record", detail::profile_fetch>(
      table.profile_fetch,
      [](auto*, auto, auto, auto*, auto* out_count, auto...) { *out_count -= *out_count == 7 ? 1U : 0U; });
}

}  // namespace yoke::mutant
