// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/routine_access.h: what a launch of a routine touches, prepared once when it is linked.
#pragma once

#include <yoke/runtime/device.h>

#include <memory>
#include <vector>

#include "schedule/hazards.h"

namespace yoke::detail {

// Owned by Routine. Its destructor waits on `launches` before routine_destroy: a queued launch still needs
// the handle.
struct RoutineAccess {
  RoutineAccess(const yoke::Code::Entry& entry, const std::vector<BufferView>& bindings);

  Hazards launches{4};  // a routine (and its workspace) is never launched twice at the same time
  std::vector<Access> accesses;
};

}  // namespace yoke::detail
