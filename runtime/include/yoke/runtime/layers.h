// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/layers.h: validation and tracing between a host and its plugins.
#pragma once

#include <yoke/plugin.h>
#include <yoke/runtime/log.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace yoke {

// Layers that are off cost nothing: the host calls the plugin's own functions.
struct LayerOptions {
  // "validate", "trace" or both, separated by a comma, in order from the host to the plugin. Empty: YOKE_LAYERS.
  std::string names = {};
  // Use YOKE_LAYERS and the environment variables below for options that are not set here.
  bool use_environment = true;
  // validate: a call that breaks a rule fails with FAILED_PRECONDITION. Otherwise the violation is logged and
  // counted, and only calls with an invalid handle fail. Environment: YOKE_VALIDATE=fail.
  bool fail_calls = false;
  // Refuse tables that the layers do not know. Otherwise they are passed through and logged, and calls
  // through them are neither checked nor recorded. RuntimeOptions::strict sets it, too.
  bool strict = false;
  // trace: the file; by default yoke-trace-<pid>.yoketrace in the working directory. Environment:
  // YOKE_TRACE_FILE.
  std::filesystem::path trace_file = {};
  // trace: record the contents of copies from and to the host, not only their hashes. Environment:
  // YOKE_TRACE_DATA=1 (or 0).
  bool trace_data = false;
  // trace: called at most once, on any thread, with a sentence, if the file is incomplete because it could
  // not be written, or is gone when the layers end. Its exceptions are dropped.
  std::function<void(const std::string&)> on_trace_problem = {};
};

enum class Culprit { kHost, kPlugin };

// One broken rule of the plugin ABI.
struct Violation {
  int rule = 0;  // its number in plugin_api/RULES.md
  Culprit who = Culprit::kHost;
  // Violations of time limits or process settings, which other code may have caused, are warnings.
  bool is_warning = false;
  std::string backend;
  std::string call;  // "from_host"
  std::string text;  // one sentence
};

struct ValidationReport {
  std::uint64_t violations = 0;  // without warnings
  std::uint64_t warnings = 0;
  std::vector<Violation> first;  // at most 1000, in order
};

// For hosts that enter plugins without a Runtime. A Runtime does this according to its options.
namespace layers {

struct Session;  // the layers of one host: options, counters, the trace file

// Null when no layer is enabled. `sink` receives the log lines of the layers; it may be empty.
// Errors: kInvalidArgument              unknown layer
//         kPermissionDenied, kNotFound  the trace file cannot be created
std::shared_ptr<Session> open_session(const LayerOptions& options, LogSink sink);

// Calls `entry` with the layers of the session around it; a null session calls `entry` itself. *out_plugin
// has tables and handles of the layers. A plugin whose prefix is malformed is returned as it is. Returns
// YOKE_STATUS_INVALID_ARGUMENT for a null entry, args or out_plugin.
// Threads: as the entry, [load-time].
std::int32_t enter(const std::shared_ptr<Session>& session, yoke_plugin_entry_fn entry,
                   const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error);

// Threads: any, for both functions.
ValidationReport validation(const Session& session);
// The last log line: "layer.off name=validate violations=0 warnings=0"; empty without validate.
std::string summary(const Session& session);

}  // namespace layers
}  // namespace yoke
