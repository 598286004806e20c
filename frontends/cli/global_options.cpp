// SPDX-License-Identifier: Apache-2.0
// frontends/cli/global_options.cpp: --layers, --data, --plugin-allow-list and --probe.
#include "global_options.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace yoke::cli {
namespace {

// Set once, before the subcommand runs.
RuntimeOptions global;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void set_layers(const std::string& names) {
  if (names != "validate" && names != "trace" && names != "validate,trace" && names != "trace,validate") {
    throw UsageError("--layers takes validate, trace, or both with a comma between them, not '" + names +
                     "'");
  }
  // The environment is where every runtime looks, also that of a program which the command starts.
  ::setenv("YOKE_LAYERS", names.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): before any thread
}

void set_option(std::string_view name, const std::string& value) {
  if (name == "--layers") {
    set_layers(value);
    return;
  }
  if (name == "--plugin-allow-list") {
    if (value.empty()) {
      throw UsageError("--plugin-allow-list takes a file");
    }
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
    throw UsageError("--probe takes none, untrusted or all, not '" + value + "'");
  }
}

// The global options but --data, which is a subcommand's option, too.
bool takes_a_value(std::string_view name) {
  return name == "--layers" || name == "--plugin-allow-list" || name == "--probe";
}

}  // namespace

const char* const kGlobalOptionsHelp =
    "  --layers validate,trace     put these layers between yoke and its plugins, as YOKE_LAYERS does;\n"
    "                              trace writes YOKE_TRACE_FILE, or else yoke-trace-PID.yoketrace here;\n"
    "                              validate says at the end how many broken rules it found\n"
    "  --data                      the layer trace records contents whole and not only their hash, as "
    "YOKE_TRACE_DATA=1 does\n"
    "  --plugin-allow-list FILE    load only plugins whose sha256 FILE lists, in lines as sha256sum prints "
    "them\n"
    "  --probe none|untrusted|all  which plugins a child process tries first (default untrusted: all outside "
    "the install folder)\n";

void refuse_global_options(Arguments arguments) {
  for (const std::string& word : arguments) {
    const std::string name = word.substr(0, word.find('='));
    if (takes_a_value(name)) {
      throw UsageError(name + " goes before the subcommand; yoke --help shows it");
    }
  }
}

Arguments take_global_options(Arguments arguments) {
  while (!arguments.empty()) {
    const std::string& word = arguments[0];
    if (word == "--data") {
      ::setenv("YOKE_TRACE_DATA", "1", 1);  // NOLINT(concurrency-mt-unsafe): before any thread
      arguments = arguments.subspan(1);
      continue;
    }
    const auto sign = word.find('=');
    const std::string name = word.substr(0, sign);
    if (!takes_a_value(name)) {
      break;
    }
    if (sign != std::string::npos) {
      set_option(name, word.substr(sign + 1));
      arguments = arguments.subspan(1);
    } else if (arguments.size() > 1) {
      set_option(name, arguments[1]);
      arguments = arguments.subspan(2);
    } else if (name == "--layers") {
      throw UsageError("--layers takes validate, trace, or both with a comma between them");
    } else {
      throw UsageError(name + " is typed without its value; yoke --help shows it");
    }
  }
  return arguments;
}

RuntimeOptions runtime_options() {
  RuntimeOptions options = global;
  const char* const layers = std::getenv("YOKE_LAYERS");  // NOLINT(concurrency-mt-unsafe): before any thread
  if (layers != nullptr && *layers != '\0') {
    options.log_level =
        LogLevel::kInfo;  // who asks for layers wants to see that they stood there, and found nothing
  }
  return options;
}

}  // namespace yoke::cli
