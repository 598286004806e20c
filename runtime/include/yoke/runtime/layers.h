// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/layers.h: what may stand between a host and a plugin: validation, tracing.
#pragma once

#include <yoke/plugin.h>
#include <yoke/runtime/log.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace yoke {

// Nothing is paid for a layer that is not asked for: the plugin's own functions are then called.
struct LayerOptions {
  // "validate", "trace", "validate,trace": from the host to the plugin. Empty: what YOKE_LAYERS says.
  std::string names;
  bool use_environment = true;  // YOKE_LAYERS, and for what is not set here the variables named below
  // validate: a call that breaks a rule answers FAILED_PRECONDITION; else it is logged and counted, and only
  // a call with a handle that is not alive is kept from the plugin. YOKE_VALIDATE=fail
  bool fail_calls = false;
  // trace: the file. YOKE_TRACE_FILE; else yoke-trace-<pid>.yoketrace in the working directory.
  std::filesystem::path trace_file;
  // trace: with the contents of what is copied from and to the host, not only their hash. YOKE_TRACE_DATA=1
  bool trace_data = false;
};

enum class Culprit { kHost, kPlugin };

// One broken rule of the plugin ABI.
struct Violation {
  int rule = 0;  // the number in the table of rules
  Culprit who = Culprit::kHost;
  bool is_warning = false;  // it depends on time or on what the rest of the process does: it may be innocent
  std::string backend;
  std::string call;  // "from_host"
  std::string text;  // one sentence
};

struct ValidationReport {
  std::uint64_t violations = 0;  // warnings are not among them
  std::uint64_t warnings = 0;
  std::vector<Violation> first;  // at most 1000, in order
};

// For embedders and test kits that enter plugins themselves; a Runtime does this by its options.
namespace layers {

class Session;  // the layers of one runtime: options, counters, the trace's file

// Null when no layer is asked for. `sink` gets the lines of the layers (may be empty). Throws Error
// kInvalidArgument for an unknown layer (the known ones are listed), kPermissionDenied or kNotFound for a
// trace file that cannot be made.
std::shared_ptr<Session> open_session(const LayerOptions& options, LogSink sink);

// Calls `entry` with the session's layers around it: the plugin given back is the outermost layer, whose
// tables and handles are the layers' own. What it refuses to wrap (a broken prefix) it gives back as it is.
// Threads: as the entry, [load-time].
std::int32_t enter(const std::shared_ptr<Session>& session, yoke_plugin_entry_fn entry,
                   const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error);

// Thread-safe.
ValidationReport validation(const Session& session);

}  // namespace layers
}  // namespace yoke
