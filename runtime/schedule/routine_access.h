// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/routine_access.h: the memory accesses of a routine's launches, prepared when it is linked.
#pragma once

#include <yoke/runtime/device.h>

#include <memory>
#include <span>
#include <vector>

#include "schedule/hazards.h"

namespace yoke::detail {

// Owned by Routine, which is deleted only after all `launches` have finished.
struct RoutineAccess {
  // `workspace` is null unless other routines use it too. `versions` has one element per binding, or is
  // empty.
  RoutineAccess(const yoke::Code::Entry& entry, const std::vector<BufferView>& bindings, Buffer* workspace,
                std::span<Versions> versions);

  Hazards launches{4};  // launches of one routine never overlap, because they share its workspace
  std::vector<Access> accesses;
};

}  // namespace yoke::detail
