// SPDX-License-Identifier: Apache-2.0
// runtime/loader/logger.h: the log of one runtime: spdlog on stderr, or the application's sink.
#pragma once

#include <yoke/runtime/log.h>

#include <memory>
#include <string_view>

namespace yoke::detail {

class Logger {
 public:
  Logger(LogLevel level, LogSink sink);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // Cheap: call it before composing a line.
  bool logs(LogLevel level) const noexcept { return level >= level_ && level_ != LogLevel::kOff; }
  // Logs one line `event key=value ...`. Line breaks become spaces; failures to log are ignored.
  void log(LogLevel level, std::string_view line) noexcept;
  // For functions that must not throw: logs the line that `compose()` returns, unless the level is off.
  template <class Compose>
  void log_composed(LogLevel level, const Compose& compose) noexcept {
    if (!logs(level)) {
      return;
    }
    try {
      log(level, compose());
    } catch (...) {  // out of memory: the line is dropped
    }
  }

 private:
  struct Impl;
  const LogLevel level_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::detail
