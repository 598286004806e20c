// SPDX-License-Identifier: Apache-2.0
// frontends/cli/global_options.cpp: --layers, --data, --plugin-option, --plugin-allow-list and --probe.
#include "global_options.h"

#include <yoke/runtime/closest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "text.h"

namespace yoke::cli {
namespace {

// Set once, before the subcommand runs.
RuntimeOptions global;                  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::vector<std::string> typed_layers;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::vector<std::string> typed_names;   // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Why the trace is incomplete. Written by any thread.
std::mutex trace_mutex;          // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::string trace_problem_text;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

constexpr const char* kLayerNames = "validate, trace or validate,trace";

// Adds the layers of one --layers to those of earlier ones.
void add_layers(const std::string& names) {
  for (const std::string& name : split(names, ',')) {
    if (name != "validate" && name != "trace") {
      throw UsageError(std::string("--layers takes ") + kLayerNames + ", not '" + names + "'" +
                       did_you_mean(name, {"validate", "trace"}));
    }
    if (std::find(typed_layers.begin(), typed_layers.end(), name) != typed_layers.end()) {
      throw UsageError("--layers names the layer '" + name + "' twice");
    }
    typed_layers.push_back(name);
  }
  // Every runtime reads the environment, including runtimes in programs that this command starts.
  ::setenv("YOKE_LAYERS", join(typed_layers, ",").c_str(),
           1);  // NOLINT(concurrency-mt-unsafe): before any thread
}

// Parses BACKEND.NAME=VALUE.
void add_plugin_option(const std::string& option) {
  const std::size_t dot = option.find('.');
  const std::size_t sign = option.find('=');
  if (dot == 0 || dot == std::string::npos || sign == std::string::npos || sign <= dot + 1) {
    throw UsageError("--plugin-option takes BACKEND.NAME=VALUE (cc.devices=4), not '" + option + "'");
  }
  std::vector<std::string>& given = global.plugin_options[option.substr(0, dot)];
  const std::string_view named = std::string_view(option).substr(dot + 1, sign - dot);
  if (std::any_of(given.begin(), given.end(), [&](const auto& other) { return other.starts_with(named); })) {
    throw UsageError("--plugin-option " + option.substr(0, sign) + " is given twice; leave one of them out");
  }
  given.push_back(option.substr(dot + 1));
}

void set_option(std::string_view name, const std::string& value) {
  if (value.empty()) {
    throw UsageError(std::string(name) + " has an empty value; is a shell variable not set?");
  }
  if (name == "--layers") {
    add_layers(value);
    return;
  }
  if (name == "--plugin-option") {
    add_plugin_option(value);
    return;
  }
  if (name == "--plugin-allow-list") {
    global.allow_list = std::filesystem::absolute(value);
    return;
  }
  using Which = ProbeOptions::Which;
  if (value == "none") {
    global.probe.which = Which::kNone;
  } else if (value == "untrusted") {
    global.probe.which = Which::kUntrusted;
  } else if (value == "all") {
    global.probe.which = Which::kAll;
  } else {
    throw UsageError("--probe takes none, untrusted or all, not '" + value + "'" +
                     did_you_mean(value, {"none", "untrusted", "all"}));
  }
}

// The global options except --data, which is also an option of `yoke train`.
constexpr std::string_view kPluginOption = "--plugin-option";
constexpr std::string_view kWithValue[] = {"--layers", kPluginOption, "--plugin-allow-list", "--probe"};

bool takes_a_value(std::string_view name) {
  return std::find(std::begin(kWithValue), std::end(kWithValue), name) != std::end(kWithValue);
}

}  // namespace

const char* const kGlobalOptionsHelp =
    "  --layers validate,trace     insert these layers between yoke and its plugins, like YOKE_LAYERS;\n"
    "                              trace writes YOKE_TRACE_FILE (default yoke-trace-PID.yoketrace);\n"
    "                              validate reports at the end how many violations it found\n"
    "  --data                      make the trace layer record data in full, not only its hash, like\n"
    "                              YOKE_TRACE_DATA=1\n"
    "  --plugin-option BACKEND.NAME=VALUE\n"
    "                              option of a whole plugin, may be repeated (cc.devices=4);\n"
    "                              yoke backends --help-options BACKEND lists them\n"
    "  --plugin-allow-list FILE    load only plugins that are listed in FILE with their sha256,\n"
    "                              as sha256sum prints it, by file name or absolute path\n"
    "  --probe none|untrusted|all  plugins to try in a child process first (default untrusted: all plugins\n"
    "                              outside the install folder)\n";

std::vector<std::string> global_option_names() {
  std::vector<std::string> names(std::begin(kWithValue), std::end(kWithValue));
  names.insert(names.end(), {"--data", "--help", "--version"});
  return names;
}

namespace {

// A plugin that can be used without its options, and not with them, refuses them. Other plugins that cannot be used are
// for the subcommand to report.
void check_values(const std::string& backend, const RuntimeOptions& silent) {
  std::string refusal;
  try {
    (void)Runtime(silent).backend(backend);
    return;
  } catch (const Error& error) {
    refusal = error.what();
  }
  RuntimeOptions without = silent;
  without.plugin_options.clear();
  try {
    (void)Runtime(without).backend(backend);
  } catch (const Error&) {
    return;
  }
  throw UsageError("--plugin-option: " + refusal);
}

// An option of a backend that does not exist would be ignored.
void check_plugin_options(bool may_load) {
  std::vector<std::string> names;
  RuntimeOptions silent = global;
  silent.log_level = LogLevel::kOff;
  silent.layers.use_environment = false;  // the trace is that of the subcommand
  for (const BackendCandidate& candidate : Runtime(silent).list_backends()) {
    names.push_back(candidate.name);
  }
  for (const auto& [name, options] : global.plugin_options) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(std::string("--plugin-option ")
                           .append(name)
                           .append(".")
                           .append(options.front())
                           .append(": no backend is named '")
                           .append(name)
                           .append("'")
                           .append(did_you_mean(name, names)));
    }
    if (may_load) {
      check_values(name, silent);
    }
  }
}

bool has_layer(std::string_view name) {
  const char* const names = std::getenv("YOKE_LAYERS");  // NOLINT(concurrency-mt-unsafe): before any thread
  const std::vector<std::string> all = split(names == nullptr ? "" : names, ',');
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

void check_global_options(const std::string& subcommand, Arguments arguments) {
  const bool is_kit = subcommand == "check-plugin";
  for (const std::string& word : arguments) {
    const std::string name = word.substr(0, word.find('='));
    if (takes_a_value(name) && !(is_kit && name == kPluginOption)) {
      throw UsageError(name + " must come before the subcommand; see yoke --help");
    }
  }
  for (const std::string& name : typed_names) {
    if (is_kit && name != kPluginOption) {
      throw UsageError(
          name + " has no effect on check-plugin, which loads the plugin without a runtime; leave it out");
    }
    if (name == "--data" && !has_layer("trace")) {
      throw UsageError("--data before the subcommand needs --layers trace, whose records it extends");
    }
  }
  if (!is_kit && !global.plugin_options.empty()) {
    check_plugin_options(subcommand != "backends");  // which loads nothing
  }
}

Arguments take_global_options(Arguments arguments) {
  while (!arguments.empty()) {
    const std::string& word = arguments[0];
    if (word == "--data") {
      typed_names.push_back(word);
      ::setenv("YOKE_TRACE_DATA", "1", 1);  // NOLINT(concurrency-mt-unsafe): before any thread
      arguments = arguments.subspan(1);
      continue;
    }
    const auto sign = word.find('=');
    const std::string name = word.substr(0, sign);
    if (!takes_a_value(name)) {
      break;
    }
    const bool may_repeat = name == kPluginOption || name == "--layers";
    if (!may_repeat && std::find(typed_names.begin(), typed_names.end(), name) != typed_names.end()) {
      throw UsageError(name + " is given twice; leave one of them out");
    }
    typed_names.push_back(name);
    const bool has_value =
        sign != std::string::npos || (arguments.size() > 1 && !arguments[1].starts_with("--"));
    if (!has_value) {
      throw UsageError(name + " needs a value" +
                       (name == "--layers" ? std::string(": ") + kLayerNames : "; see yoke --help"));
    }
    if (sign != std::string::npos) {
      set_option(name, word.substr(sign + 1));
      arguments = arguments.subspan(1);
    } else {
      set_option(name, arguments[1]);
      arguments = arguments.subspan(2);
    }
  }
  return arguments;
}

RuntimeOptions runtime_options() {
  RuntimeOptions options = global;
  options.layers.on_trace_problem = [](const std::string& problem) {
    const std::lock_guard lock(trace_mutex);
    trace_problem_text = problem;
  };
  if (has_layer("validate") || has_layer("trace")) {
    options.log_level = LogLevel::kInfo;  // show that the layers are active, also if they find nothing
  }
  return options;
}

Runtime make_runtime(const RuntimeOptions& options) {
  try {
    return Runtime(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) {
      throw;
    }
    throw UsageError(error.what());
  }
}

std::string trace_problem() {
  const std::lock_guard lock(trace_mutex);
  return trace_problem_text;
}

const std::map<std::string, std::vector<std::string>>& plugin_options() {
  return global.plugin_options;
}

}  // namespace yoke::cli
