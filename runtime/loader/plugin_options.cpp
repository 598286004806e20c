// SPDX-License-Identifier: Apache-2.0
// runtime/loader/plugin_options.cpp: parses the options of plugins (rule 49).
#include "loader/plugin_options.h"

#include <yoke/runtime/error.h>

#include <algorithm>

#include "loader/memory_reader.h"

namespace yoke::loader {

PluginOptions parse_plugin_options(const std::string& backend, std::span<const std::string> texts) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::kInvalidArgument, "plugin options of '" + backend + "': " + reason);
  };
  PluginOptions options;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse("an option is written name=value, not '" + printable(text) + "'");
    }
    if (text.find('\0') != std::string::npos) {
      refuse("'" + printable(text) + "' contains a zero byte");
    }
    PluginOption option{text.substr(0, equals), text.substr(equals + 1)};
    if (std::any_of(options.begin(), options.end(),
                    [&](const auto& other) { return other.name == option.name; })) {
      refuse("'" + printable(option.name) + "' is given twice");
    }
    options.push_back(std::move(option));
  }
  return options;
}

std::vector<yoke_option> rows_of(const PluginOptions& options) {
  std::vector<yoke_option> rows;
  for (const PluginOption& option : options) {
    yoke_option row{};
    row.name = option.name.c_str();
    row.type = YOKE_OPTION_TEXT;
    row.text = option.value.c_str();
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> texts_of(const PluginOptions& options) {
  std::vector<std::string> texts;
  for (const PluginOption& option : options) {
    texts.push_back(option.name + "=" + option.value);
  }
  return texts;
}

}  // namespace yoke::loader
