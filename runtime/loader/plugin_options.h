// SPDX-License-Identifier: Apache-2.0
// runtime/loader/plugin_options.h: options of whole plugins, which are given when a plugin is entered.
#pragma once

#include <yoke/plugin.h>

#include <span>
#include <string>
#include <vector>

namespace yoke::loader {

// Passed to the plugin as text: its schema cannot be read before it is entered, so the plugin checks them.
struct PluginOption {
  std::string name;
  std::string value;
};
using PluginOptions = std::vector<PluginOption>;

// Parses "name=value" texts for one backend. Throws Error kInvalidArgument if a text has another form or
// contains a zero byte, or if a name is given twice.
PluginOptions parse_plugin_options(const std::string& backend, std::span<const std::string> texts);

// Rows for yoke_entry_args. They borrow the texts of `options`.
std::vector<yoke_option> rows_of(const PluginOptions& options);

// Converts options to "name=value" texts, the input of parse_plugin_options.
std::vector<std::string> texts_of(const PluginOptions& options);

}  // namespace yoke::loader
