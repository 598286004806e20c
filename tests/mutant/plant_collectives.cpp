// SPDX-License-Identifier: Apache-2.0
// tests/mutant/plant_collectives.cpp: bugs in the functions of yoke.collectives/1.
#include <yoke/sdk/entry.h>

#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

}  // namespace

void plant_in_collectives(yoke_collectives_api& table) {
  plant<"collectives_are_queued_before_all_are_checked">(
      table.collectives_queue, [](auto* rows, auto count, auto stride, auto* error) {
        std::int32_t code = YOKE_STATUS_OK;
        for (std::uint32_t i = 0; i < count && code == YOKE_STATUS_OK; ++i) {
          const yoke_collective row = sdk::read_row(rows, stride, i);
          code = detail::collectives_queue(&row, 1, sizeof row, error);
        }
        return code;
      });
  plant_after<"communicators_are_not_counted", detail::communicator_create>(
      table.communicator_create, [](auto* device, auto...) { --device->live[detail::kCommunicator]; });
  plant<"communicators_are_not_counted">(table.communicator_destroy, [](auto* communicator) {
    if (communicator != nullptr) {
      ++communicator->device().live[detail::kCommunicator];
    }
    detail::communicator_destroy(communicator);
  });
}

void plant_in_aborts_of_groups(yoke_stream_api& table) {
  plant<"stream_abort_leaves_communicators">(table.stream_abort, [](auto* stream, auto* error) {
    return detail::guarded(stream->plugin(), error, [&] { stream->object->abort(); });
  });
  plant<"device_abort_leaves_communicators">(table.device_abort, [](auto* device, auto* error) {
    return detail::guarded(device->plugin, error, [&] { device->object->abort(); });
  });
}

}  // namespace yoke::mutant
