// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/log.h: log levels, and the function that receives a runtime's log lines.
#pragma once

#include <functional>
#include <string_view>

namespace yoke {

enum class LogLevel : int { kTrace = 0, kDebug, kInfo, kWarn, kError, kOff };

// Receives one line, `event key=value ...`, without a newline. Called from any thread, one call at a time
// per runtime. Must not load backends. The default writes to stderr.
using LogSink = std::function<void(LogLevel, std::string_view)>;

}  // namespace yoke
