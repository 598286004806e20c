// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/routine_access.h: what a launch of a routine touches, prepared once when it is linked.
#pragma once

#include <yoke/runtime/device.h>

#include <memory>
#include <span>
#include <vector>

#include "schedule/hazards.h"

namespace yoke::detail {

// Owned by Routine, which is deleted only when `launches` are over: a queued launch still needs it.
struct RoutineAccess {
  // `versions`: one per binding, or none.
  RoutineAccess(const yoke::Code::Entry& entry, const std::vector<BufferView>& bindings,
                std::span<Versions> versions = {});

  Hazards launches{4};  // a routine (and its workspace) is never launched twice at the same time
  std::vector<Access> accesses;
};

}  // namespace yoke::detail
