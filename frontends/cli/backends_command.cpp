// SPDX-License-Identifier: Apache-2.0
// frontends/cli/backends_command.cpp: yoke backends: lists the plugins found and why some were rejected.
#include <yoke/runtime/runtime.h>

#include <algorithm>
#include <iostream>

#include "command_line.h"
#include "global_options.h"
#include "json.h"
#include "text.h"

namespace yoke::cli {
namespace {

void print_json(const std::vector<BackendCandidate>& found) {
  Json backends = Json::array();
  for (const BackendCandidate& candidate : found) {
    backends.push_back({{"name", candidate.name},
                        {"path", candidate.path.string()},
                        {"stage", candidate.stage},
                        {"usable", candidate.usable},
                        {"verdict", candidate.verdict},
                        {"fix", candidate.fix},
                        {"shadowed_by", candidate.shadowed_by},
                        {"build_id", candidate.build_id},
                        {"probed", candidate.probed},
                        {"warnings", candidate.warnings}});
  }
  std::cout << json_text({{"backends", backends}}) << '\n';
}

// Replaces control characters in a file name, which could change the state of the terminal.
std::string shown(const std::filesystem::path& path) {
  std::string text = path.string();
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, '?');
  return text;
}

// A candidate without a name is an ignored entry of the search path, which the log has already reported.
void print_list(const std::vector<BackendCandidate>& found) {
  std::size_t width = 4;
  for (const BackendCandidate& candidate : found) {
    width = std::max(width, candidate.name.size());
  }
  for (const BackendCandidate& candidate : found) {
    if (candidate.name.empty()) {
      continue;
    }
    std::cout << candidate.name << std::string(width - candidate.name.size() + 2, ' ')
              << (candidate.path.empty() ? "(linked into this process)" : shown(candidate.path)) << "\n"
              << std::string(width + 2, ' ') << candidate.verdict;
    if (!candidate.shadowed_by.empty()) {
      std::cout << "; shadowed by " << candidate.shadowed_by;
    }
    if (!candidate.fix.empty()) {
      std::cout << "; " << candidate.fix;
    }
    std::cout << '\n';
    for (const std::string& warning : candidate.warnings) {
      std::cout << std::string(width + 2, ' ') << "warning: " << warning << '\n';
    }
  }
}

const char* type_name(const OptionSpec& spec) {
  switch (spec.type) {
    case YOKE_OPTION_INTEGER:
      return "integer";
    case YOKE_OPTION_NUMBER:
      return "number";
    case YOKE_OPTION_FLAG:
      return "flag";
    case YOKE_OPTION_TEXT:
      return "text";
    default:
      return "unknown type";
  }
}

std::string allowed_values(const OptionSpec& spec) {
  switch (spec.type) {
    case YOKE_OPTION_INTEGER:
      return std::to_string(spec.integer_min) + " to " + std::to_string(spec.integer_max) + ", default " +
             std::to_string(spec.integer_default);
    case YOKE_OPTION_NUMBER:
      return shortest(spec.number_min) + " to " + shortest(spec.number_max) + ", default " +
             shortest(spec.number_default);
    case YOKE_OPTION_FLAG:
      return spec.integer_default != 0 ? "default on" : "default off";
    default:
      return (spec.text_choices.empty() ? "" : join(spec.text_choices, "|") + ", ") + "default '" +
             spec.text_default + "'";
  }
}

void print_json(const Backend& backend) {
  Json options = Json::array();
  for (const OptionSpec& spec : backend.option_specs()) {
    Json option = {{"name", spec.name},
                   {"type", type_name(spec)},
                   {"help", spec.help},
                   {"scope", spec.scope == YOKE_OPTION_SCOPE_PLUGIN ? "plugin" : "device"}};
    if (spec.type == YOKE_OPTION_INTEGER) {
      option["min"] = spec.integer_min;
      option["max"] = spec.integer_max;
      option["default"] = spec.integer_default;
    } else if (spec.type == YOKE_OPTION_NUMBER) {
      option["min"] = spec.number_min;
      option["max"] = spec.number_max;
      option["default"] = spec.number_default;
    } else if (spec.type == YOKE_OPTION_FLAG) {
      option["default"] = spec.integer_default != 0;
    } else {
      option["default"] = spec.text_default;
      option["choices"] = spec.text_choices;
    }
    options.push_back(std::move(option));
  }
  std::cout << json_text({{"backend", backend.name()}, {"version", backend.version()}, {"options", options}})
            << '\n';
}

int print_options(const std::string& name, bool as_json) {
  Runtime runtime = make_runtime(runtime_options());
  const auto backend = runtime.backend(name);
  if (as_json) {
    print_json(*backend);
    return kDone;
  }
  std::cout << "backend " << backend->name() << " " << backend->version()
            << " (loaded to read its options)\n";
  const auto specs = backend->option_specs();
  if (specs.empty()) {
    std::cout << "  no options\n";
  }
  for (const OptionSpec& spec : specs) {
    std::cout << "  " << spec.name << "  " << type_name(spec) << ", " << allowed_values(spec)
              << (spec.scope == YOKE_OPTION_SCOPE_PLUGIN ? ", for the whole plugin" : "") << "\n      "
              << spec.help
              << (spec.scope == YOKE_OPTION_SCOPE_PLUGIN
                      ? "\n      Set it with --plugin-option " + name + "." + spec.name + "=VALUE."
                      : "")
              << '\n';
  }
  return kDone;
}

}  // namespace

int backends_command(Arguments arguments) {
  bool as_json = false;
  std::string name;
  CommandLine line(
      "yoke backends [OPTION...]",
      "Lists the plugin files found in the folders of YOKE_PLUGIN_PATH, the user's folder and the "
      "install folder, in this\n"
      "order. Loads nothing. With --json each entry has name, path, stage (found, checked, opened, "
      "entered or loaded),\n"
      "usable, verdict, fix, shadowed_by, build_id, probed and warnings. An entry of "
      "YOKE_PLUGIN_PATH that was\n"
      "ignored has an empty name.");
  line.flag("json", &as_json, "print one JSON object");
  line.text("help-options", &name, "load this backend and list its options", "NAME");
  if (!line.parse(arguments)) {
    return kDone;
  }
  if (!name.empty()) {
    return print_options(name, as_json);
  }
  const Runtime runtime = make_runtime(runtime_options());
  const auto found = runtime.list_backends();
  if (as_json) {
    print_json(found);
    return kDone;
  }
  print_list(found);
  if (std::all_of(found.begin(), found.end(), [](const auto& one) { return one.name.empty(); })) {
    std::cerr << "yoke: no backend was found; build one, or add its folder to YOKE_PLUGIN_PATH\n";
  }
  return kDone;
}

}  // namespace yoke::cli
