// SPDX-License-Identifier: Apache-2.0
// runtime/layers/session.cpp: which layers are asked for, and the count of broken rules.
#include "layers/session.h"

#include <stdlib.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <utility>

#include "layers/layer.h"
#include "layers/trace_writer.h"

namespace yoke::layers {
namespace {

constexpr std::size_t kMostKept = 1000;

// Under AT_SECURE the environment is somebody else's.
std::string variable(const LayerOptions& options, const char* name) {
  const char* const value = options.use_environment ? ::secure_getenv(name) : nullptr;
  return value == nullptr ? "" : value;
}

std::vector<std::string> split(const std::string& names, const std::string& from) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= names.size() && !names.empty()) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string part = names.substr(begin, end - begin);
    std::string asked = from;
    asked.append(" asks for the layer '").append(part);
    if (part != "validate" && part != "trace") {
      throw Error(ErrorCode::kInvalidArgument, asked.append("': there are validate and trace"));
    }
    if (std::find(parts.begin(), parts.end(), part) != parts.end()) {
      throw Error(ErrorCode::kInvalidArgument, asked.append("' twice: ask once"));
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

void Ledger::count(Violation violation) {
  ++(violation.is_warning ? report_.warnings : report_.violations);
  if (report_.first.size() < kMostKept) {
    report_.first.push_back(std::move(violation));
  }
}

void Ledger::report(Violation violation, bool may_wait) noexcept {
  try {
    if (!may_wait) {
      if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) {
        count(std::move(violation));
      }
      return;
    }
    const std::string line = line_of(violation);
    const bool is_warning = violation.is_warning;
    {
      const std::lock_guard lock(mutex_);
      count(std::move(violation));
    }
    if (const auto trace = trace_.lock()) {
      trace->log(0, is_warning ? YOKE_LOG_WARN : YOKE_LOG_ERROR, line);
    }
    if (sink_) {
      sink_(is_warning ? LogLevel::kWarn : LogLevel::kError, line);
    }
  } catch (...) {  // out of memory: a report is no reason to stop
  }
}

ValidationReport Ledger::validation() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

Session::Session(const LayerOptions& options, std::vector<std::string> names, LogSink sink)
    : names_(std::move(names)), ledger_(std::make_shared<Ledger>(options.fail_calls, sink)) {
  for (std::size_t i = 0; sink && i < names_.size(); ++i) {
    sink(LogLevel::kInfo, "layer.on name=" + names_[i]);
  }
  if (std::find(names_.begin(), names_.end(), "trace") != names_.end()) {
    writer_ = TraceWriter::open(options.trace_file, options.trace_data, std::move(sink));
    ledger_->write_to(writer_);
  }
}

Session::~Session() = default;

bool Session::validates() const noexcept {
  return std::find(names_.begin(), names_.end(), "validate") != names_.end();
}

std::vector<std::shared_ptr<Layer>> Session::make_layers() const {
  std::vector<std::shared_ptr<Layer>> layers;
  for (const std::string& name : names_) {
    layers.push_back(name == "validate" ? make_validate_layer(ledger_) : make_trace_layer(writer_));
  }
  return layers;
}

std::shared_ptr<Session> open_session(const LayerOptions& options, LogSink sink) {
  const std::string asked = variable(options, "YOKE_LAYERS");
  auto names =
      options.names.empty() ? split(asked, "YOKE_LAYERS") : split(options.names, "LayerOptions::names");
  if (names.empty()) {
    return nullptr;
  }
  LayerOptions whole = options;
  whole.fail_calls = options.fail_calls || variable(options, "YOKE_VALIDATE") == "fail";
  whole.trace_data = options.trace_data || variable(options, "YOKE_TRACE_DATA") == "1";
  if (whole.trace_file.empty()) {
    whole.trace_file = variable(options, "YOKE_TRACE_FILE");
  }
  return std::make_shared<Session>(whole, std::move(names), std::move(sink));
}

std::int32_t enter(const std::shared_ptr<Session>& session, yoke_plugin_entry_fn entry,
                   const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  if (session == nullptr) {
    return entry(args, out_plugin, error);
  }
  const auto layers = session->make_layers();
  return Chain(layers, 0, entry).enter(args, out_plugin, error);
}

ValidationReport validation(const Session& session) {
  return session.ledger()->validation();
}

}  // namespace yoke::layers
