// SPDX-License-Identifier: Apache-2.0
// runtime/device/call.cpp: describes a plugin's mistake in an error (plugin_api/RULES.md, rule 12).
#include "device/call.h"

#include <cstdio>

namespace yoke::detail {

std::int32_t blame(const BackendState& backend, Status& status, std::string_view what) noexcept {
  char text[256];
  const int length = std::snprintf(text, sizeof(text), "the plugin '%s' %.*s; report this to its author",
                                   backend.name.c_str(), static_cast<int>(what.size()), what.data());
  status.set(YOKE_STATUS_INTERNAL, 0,
             {text, length < 0 ? 0 : std::min(sizeof(text) - 1, static_cast<std::size_t>(length))});
  return YOKE_STATUS_INTERNAL;
}

}  // namespace yoke::detail
