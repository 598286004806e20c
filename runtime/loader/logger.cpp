// SPDX-License-Identifier: Apache-2.0
// runtime/loader/logger.cpp: the only file that includes spdlog. It does not use spdlog's global registry.
#include "loader/logger.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace yoke::detail {
namespace {

// Five letters each, so that events start in one column.
class LevelFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    constexpr std::string_view kNames[] = {"trace", "debug", "info ", "warn ", "error"};
    const auto level = std::min<std::size_t>(static_cast<std::size_t>(message.level), std::size(kNames) - 1);
    out.append(kNames[level].data(), kNames[level].data() + kNames[level].size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LevelFlag>(); }
};

// base_sink's mutex makes it one call at a time.
class ApplicationSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ApplicationSink(LogSink receiver) : receiver_(std::move(receiver)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    receiver_(static_cast<LogLevel>(message.level), {message.payload.data(), message.payload.size()});
  }
  void flush_() override {}

  LogSink receiver_;
};

std::shared_ptr<spdlog::sinks::sink> make_sink(LogSink sink) {
  if (sink) {
    return std::make_shared<ApplicationSink>(std::move(sink));
  }
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LevelFlag>('*').set_pattern("%* %v");
  auto stderr_sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  stderr_sink->set_formatter(std::move(formatter));
  return stderr_sink;
}

}  // namespace

struct Logger::Impl {
  explicit Impl(LogSink sink) : logger("yoke", make_sink(std::move(sink))) {
    logger.set_level(spdlog::level::trace);  // Logger::logs decides
    logger.set_error_handler([](const std::string&) {});
  }
  spdlog::logger logger;
};

Logger::Logger(LogLevel level, LogSink sink)
    : level_(level), impl_(std::make_unique<Impl>(std::move(sink))) {}
Logger::~Logger() = default;

void Logger::log(LogLevel level, std::string_view line) noexcept {
  if (!logs(level) || level == LogLevel::kOff) {
    return;
  }
  try {
    const auto number = static_cast<spdlog::level::level_enum>(level);
    if (std::none_of(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; })) {
      impl_->logger.log(number, spdlog::string_view_t(line.data(), line.size()));
      return;
    }
    std::string flat(line);
    std::replace_if(
        flat.begin(), flat.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    impl_->logger.log(number, spdlog::string_view_t(flat.data(), flat.size()));
  } catch (...) {  // out of memory, or the sink threw
  }
}

}  // namespace yoke::detail
