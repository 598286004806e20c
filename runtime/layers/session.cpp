// SPDX-License-Identifier: Apache-2.0
// runtime/layers/session.cpp: the options of a session, and the ledger.
#include "layers/session.h"

#include <stdlib.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/error.h>

#include <algorithm>

#include "layers/interposer.h"
#include "layers/trace_file.h"

namespace yoke::layers {
namespace {

// Ignored under AT_SECURE, because an unprivileged user controls the environment.
std::string variable(const LayerOptions& options, const char* name) {
  const char* const value = options.use_environment ? ::secure_getenv(name) : nullptr;
  return value == nullptr ? "" : value;
}

// Throws Error kInvalidArgument.
bool flag(const LayerOptions& options, const char* name) {
  const std::string value = variable(options, name);
  if (!value.empty() && value != "0" && value != "1") {
    throw Error(ErrorCode::kInvalidArgument, std::string(name) + " is '" + value + "'; it takes 1 or 0");
  }
  return value == "1";
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> split(const std::string& names, const std::string& from) {
  const auto refuse = [&](std::string_view what, const std::string& part, std::string_view why) {
    throw Error(ErrorCode::kInvalidArgument, std::string(from).append(what).append(part).append(why));
  };
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= names.size() && !names.empty();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string part = names.substr(begin, end - begin);
    if (part != "validate" && part != "trace") {
      const std::vector<std::string> known = {"validate", "trace"};
      refuse(": unknown layer '", part, "'; the layers are validate and trace" + did_you_mean(part, known));
    }
    if (contains(parts, part)) {
      refuse(": the layer '", part, "' is listed twice");
    }
    parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

std::string line_of(const Violation& violation) {
  std::string text = violation.text;
  std::replace(text.begin(), text.end(), '"', '\'');
  return std::string(violation.is_warning ? "validate.warning" : "validate.violation") +
         " rule=" + std::to_string(violation.rule) +
         " who=" + (violation.who == Culprit::kHost ? "host" : "plugin") + " call=" + violation.call +
         " backend=" + violation.backend + " text=\"" + text + "\"";
}

}  // namespace

void Ledger::report(Violation violation) noexcept {
  constexpr std::size_t kMostKept = 1000;
  const bool is_warning = violation.is_warning;
  try {
    const std::string line = line_of(violation);
    {
      const std::lock_guard lock(mutex_);
      ++(is_warning ? report_.warnings : report_.violations);
      if (report_.first.size() < kMostKept) {
        report_.first.push_back(std::move(violation));
      }
    }
    if (const auto trace = trace_.lock()) {
      trace->log(0, is_warning ? YOKE_LOG_WARN : YOKE_LOG_ERROR, line);
    }
    if (sink_) {
      sink_(is_warning ? LogLevel::kWarn : LogLevel::kError, line);
    }
  } catch (...) {  // out of memory, or the sink threw: the report is lost
  }
}

ValidationReport Ledger::validation() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

std::vector<std::unique_ptr<Layer>> Session::make_layers(const Interposer& plugin) const {
  std::vector<std::unique_ptr<Layer>> layers;
  for (const std::string& name : names) {
    layers.push_back(name == "validate" ? make_validate_layer(plugin, ledger)
                                        : make_trace_layer(plugin, writer));
  }
  return layers;
}

std::shared_ptr<Session> open_session(const LayerOptions& options, LogSink sink) {
  auto names = options.names.empty() ? split(variable(options, "YOKE_LAYERS"), "YOKE_LAYERS")
                                     : split(options.names, "LayerOptions::names");
  if (names.empty()) {
    return nullptr;
  }
  for (std::size_t i = 0; sink && i < names.size(); ++i) {
    sink(LogLevel::kInfo, "layer.on name=" + names[i]);
  }
  const std::string validate = variable(options, "YOKE_VALIDATE");
  if (!validate.empty() && validate != "fail") {
    throw Error(ErrorCode::kInvalidArgument, "YOKE_VALIDATE is '" + validate + "'; its only value is fail");
  }
  const bool fail_calls = options.fail_calls || validate == "fail";
  const auto ledger = std::make_shared<Ledger>(fail_calls, sink);
  std::shared_ptr<TraceWriter> writer;
  if (contains(names, "trace")) {
    const bool with_data = options.trace_data || flag(options, "YOKE_TRACE_DATA");
    writer = TraceWriter::open(options.trace_file.empty()
                                   ? std::filesystem::path(variable(options, "YOKE_TRACE_FILE"))
                                   : options.trace_file,
                               with_data, sink, options.on_trace_problem);
    ledger->write_to(writer);
  }
  return std::make_shared<Session>(
      Session{std::move(names), ledger, std::move(writer), std::move(sink), options.strict});
}

std::int32_t enter(const std::shared_ptr<Session>& session, yoke_plugin_entry_fn entry,
                   const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  if (entry == nullptr || args == nullptr || out_plugin == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return session == nullptr ? entry(args, out_plugin, error)
                            : Interposer::enter(*session, entry, args, out_plugin, error);
}

ValidationReport validation(const Session& session) {
  return session.ledger->validation();
}

std::string summary(const Session& session) {
  const ValidationReport report = validation(session);
  return contains(session.names, "validate")
             ? "layer.off name=validate violations=" + std::to_string(report.violations) +
                   " warnings=" + std::to_string(report.warnings)
             : "";
}

}  // namespace yoke::layers
