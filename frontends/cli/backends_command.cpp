// SPDX-License-Identifier: Apache-2.0
// frontends/cli/backends_command.cpp: yoke backends: what is found where, and why something was refused.
// Loads nothing unless told.
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
  JsonWriter json;
  json.begin_object().key("backends").begin_array();
  for (const BackendCandidate& candidate : found) {
    json.begin_object()
        .field("name", candidate.name)
        .field("path", candidate.path.string())
        .field("stage", candidate.stage)
        .field("usable", candidate.usable)
        .field("verdict", candidate.verdict)
        .field("mend", candidate.mend)
        .field("shadowed_by", candidate.shadowed_by)
        .field("build_id", candidate.build_id)
        .field("probed", candidate.probed)
        .key("warnings")
        .begin_array();
    for (const std::string& warning : candidate.warnings) {
      json.value(warning);
    }
    json.end_array().end_object();
  }
  std::cout << json.end_array().end_object().text() << '\n';
}

// Control characters in a file's name are not the terminal's matter.
std::string shown(const std::filesystem::path& path) {
  std::string text = path.string();
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, '?');
  return text;
}

// What has no name is an entry of the search path that was ignored: the log has told so.
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
    if (!candidate.mend.empty()) {
      std::cout << "; " << candidate.mend;
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
      return "of a type that this yoke does not know";
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
  JsonWriter json;
  json.begin_object().field("backend", backend.name()).field("version", backend.version());
  json.key("options").begin_array();
  for (const OptionSpec& spec : backend.option_specs()) {
    json.begin_object().field("name", spec.name).field("type", type_name(spec)).field("help", spec.help);
    if (spec.type == YOKE_OPTION_INTEGER) {
      json.field("min", spec.integer_min).field("max", spec.integer_max);
      json.field("default", spec.integer_default);
    } else if (spec.type == YOKE_OPTION_NUMBER) {
      json.field("min", spec.number_min).field("max", spec.number_max).field("default", spec.number_default);
    } else if (spec.type == YOKE_OPTION_FLAG) {
      json.field("default", spec.integer_default != 0);
    } else {
      json.field("default", spec.text_default).key("choices").begin_array();
      for (const std::string& choice : spec.text_choices) {
        json.value(choice);
      }
      json.end_array();
    }
    json.end_object();
  }
  std::cout << json.end_array().end_object().text() << '\n';
}

int print_options(const std::string& name, bool as_json) {
  Runtime runtime(runtime_options());
  const auto backend = runtime.backend(name);
  if (as_json) {
    print_json(*backend);
    return kDone;
  }
  std::cout << "backend " << backend->name() << " " << backend->version() << " (loaded to be asked)\n";
  const auto specs = backend->option_specs();
  if (specs.empty()) {
    std::cout << "  it has no options\n";
  }
  for (const OptionSpec& spec : specs) {
    std::cout << "  " << spec.name << "  " << type_name(spec) << ", " << allowed_values(spec) << "\n      "
              << spec.help << '\n';
  }
  return kDone;
}

}  // namespace

int backends_command(Arguments arguments) {
  bool as_json = false;
  std::string name;
  CommandLine line("yoke backends [OPTION...]",
                   "Lists the files that might be backends, in the order in which they are looked for: the "
                   "folders of YOKE_PLUGIN_PATH,\n"
                   "the user's folder, the install folder. Nothing is loaded. With --json each has name, "
                   "path, stage (found, "
                   "checked, opened, entered or loaded),\n"
                   "usable, verdict, mend, shadowed_by, build_id, probed and warnings; an entry of "
                   "YOKE_PLUGIN_PATH that was ignored has no name.");
  line.flag("json", &as_json, "print one JSON object");
  line.text("help-options", &name, "load the backend of that name and list the options of its devices",
            "NAME");
  if (!line.parse(arguments)) {
    return kDone;
  }
  if (!name.empty()) {
    return print_options(name, as_json);
  }
  const Runtime runtime(runtime_options());
  const auto found = runtime.list_backends();
  if (as_json) {
    print_json(found);
    return kDone;
  }
  print_list(found);
  if (std::all_of(found.begin(), found.end(), [](const auto& one) { return one.name.empty(); })) {
    std::cerr << "yoke: no backend was found; build one, or name its folder in YOKE_PLUGIN_PATH\n";
  }
  return kDone;
}

}  // namespace yoke::cli
