// SPDX-License-Identifier: Apache-2.0
// runtime/device/host_api.cpp: called by plugins, from any thread; nothing is thrown back into them.
#include "device/host_api.h"

#include <algorithm>
#include <string>

#include "device/status.h"

namespace yoke::detail {
namespace {

void log(void* host, std::int32_t level, const char* text, std::uint64_t length) noexcept {
  const auto& state = *static_cast<const BackendState*>(host);
  const auto known = static_cast<LogLevel>(std::clamp(level, YOKE_LOG_TRACE, YOKE_LOG_ERROR));
  if (text == nullptr || !state.runtime->logger.logs(known)) {
    return;
  }
  try {
    std::string line(text, length);
    if (line.find(" backend=") == std::string::npos) {
      line.append(" backend=").append(state.name);
    }
    state.runtime->logger.log(known, line);
  } catch (...) {  // out of memory: the line is lost
  }
}

void trace_begin(void*, const char*) noexcept {}
void trace_end(void*) noexcept {}

}  // namespace

yoke_host_api make_host_api(BackendState& state) noexcept {
  yoke_host_api api = YOKE_HOST_API_INIT;
  api.host = &state;
  api.log = &log;
  api.error_set = &error_set;
  api.trace_begin = &trace_begin;
  api.trace_end = &trace_end;
  return api;
}

}  // namespace yoke::detail
