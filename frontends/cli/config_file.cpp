// SPDX-License-Identifier: Apache-2.0
// frontends/cli/config_file.cpp: reads and writes options as TOML, by toml++.
#include "config_file.h"

#include <toml++/toml.h>
#include <yoke/output_file.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "text.h"

namespace yoke::cli {
namespace {

constexpr std::string_view kConfig = "--config";
constexpr std::uintmax_t kLargest = 1U << 20U;

// "--lr" of "--lr" or "--lr=0.1".
std::string name_of(const std::string& word) {
  return word.substr(0, word.find('='));
}

bool is_given(Arguments arguments, const std::string& option) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& word) { return name_of(word) == option; });
}

std::string read(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || std::filesystem::file_size(file, error) > kLargest) {
    throw UsageError("--config: " + file +
                     " is not a file, or has more than 1 MiB; give a TOML file with options");
  }
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) {
    throw UsageError("--config: cannot read " + file + "; check its permissions");
  }
  return text.str();
}

toml::table parse(const std::string& file) {
  try {
    return toml::parse(read(file), file);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw UsageError("--config: " + file + ", line " + std::to_string(at.line) + ", column " +
                     std::to_string(at.column) + ": " + std::string(error.description()) +
                     "; correct the file");
  }
}

// Adds the words for one value.
void add(std::vector<std::string>& words, const std::string& option, const toml::node& value,
         const std::string& file) {
  if (const auto* list = value.as_array()) {
    for (const toml::node& each : *list) {
      add(words, option, each, file);
    }
  } else if (const auto* flag = value.as_boolean()) {
    if (flag->get()) {
      words.push_back(option);
    }
  } else if (const auto* text = value.as_string()) {
    words.push_back(option + "=" + text->get());
  } else if (const auto* whole = value.as_integer()) {
    words.push_back(option + "=" + std::to_string(whole->get()));
  } else if (const auto* number = value.as_floating_point()) {
    words.push_back(option + "=" + shortest(number->get()));
  } else {
    throw UsageError("--config: " + file + ", line " + std::to_string(value.source().begin.line) + ": '" +
                     option.substr(2) + "' takes text, a number, true, false or a list of these");
  }
}

}  // namespace

std::vector<std::string> with_config(Arguments arguments) {
  std::vector<std::string> words;
  std::string file;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (name_of(arguments[i]) != kConfig) {
      words.push_back(arguments[i]);
      continue;
    }
    const bool is_joined = arguments[i].size() > kConfig.size();
    if (!file.empty() || (!is_joined && i + 1 == arguments.size())) {
      throw UsageError("--config takes one file, and can be given once");
    }
    file = is_joined ? arguments[i].substr(kConfig.size() + 1) : arguments[++i];
    if (file.empty()) {
      throw UsageError("--config has an empty value; give a TOML file with options");
    }
  }
  if (file.empty()) {
    return words;
  }
  for (const auto& [key, value] : parse(file)) {
    const std::string option = "--" + std::string(key.str());
    if (option == kConfig) {
      throw UsageError("--config: " + file + " has the option config; a file cannot name another one");
    }
    if (!is_given(arguments, option)) {
      add(words, option, value, file);
    }
  }
  return words;
}

void write_config(const std::filesystem::path& file, Arguments arguments,
                  const std::vector<std::string>& except) {
  toml::table table;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string option = name_of(arguments[i]);
    if (!option.starts_with("--")) {
      continue;
    }
    const bool is_joined = arguments[i].size() > option.size();
    const bool has_value = is_joined || (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"));
    const std::string value = is_joined   ? arguments[i].substr(option.size() + 1)
                              : has_value ? arguments[++i]
                                          : std::string();
    const std::string key = option.substr(2);
    if (std::find(except.begin(), except.end(), key) != except.end()) {
      continue;
    }
    toml::node* before = table.get(key);
    if (before != nullptr && has_value) {  // an option that may be repeated
      if (!before->is_array()) {
        toml::array list;
        list.push_back(before->value<std::string>().value_or(""));
        table.insert_or_assign(key, std::move(list));
      }
      table.get(key)->as_array()->push_back(value);
    } else if (has_value) {
      table.insert_or_assign(key, value);
    } else {
      table.insert_or_assign(key, true);
    }
  }
  OutputFile output(file);
  output.stream() << "# yoke train --config " << file.filename().string() << "\n" << table << "\n";
  output.commit();
}

}  // namespace yoke::cli
