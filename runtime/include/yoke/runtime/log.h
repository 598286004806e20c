// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/log.h: where a runtime's log lines go. The default is spdlog on stderr; an
// embedder may take it over.
#pragma once

#include <functional>
#include <string_view>

namespace yoke {

enum class LogLevel : int { kTrace = 0, kDebug, kInfo, kWarn, kError, kOff };

// Receives one line without newline: `event key=value ...`. Called from any thread, one call at a time per
// runtime.
using LogSink = std::function<void(LogLevel, std::string_view)>;

}  // namespace yoke
