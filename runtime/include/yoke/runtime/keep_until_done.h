// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/keep_until_done.h: a host callback that only keeps memory.
#pragma once

#include <yoke/runtime/error.h>

#include <memory>

namespace yoke::detail {

// For Stream::host_callback: keeps `memory` until earlier work of the stream has ended. The runtime knows that it does
// not block, so no other worker has to replace the one that runs it.
struct KeepUntilDone {
  std::shared_ptr<const void> memory;
  void operator()(ErrorCode) const noexcept {}
};

}  // namespace yoke::detail
