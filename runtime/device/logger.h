// SPDX-License-Identifier: Apache-2.0
// runtime/device/logger.h: one runtime's log: spdlog on stderr, or the embedder's sink. spdlog itself stays
// in logger.cpp.
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

  // Costs one comparison: ask before a line is put together.
  bool logs(LogLevel level) const noexcept { return level >= level_ && level_ != LogLevel::kOff; }
  // One line `event key=value ...`; line breaks become spaces. Never throws: a log that fails stops nothing.
  void log(LogLevel level, std::string_view line) noexcept;

 private:
  struct Impl;
  const LogLevel level_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::detail
