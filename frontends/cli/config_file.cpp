// SPDX-License-Identifier: Apache-2.0
// frontends/cli/config_file.cpp: reads and writes options as TOML, by toml++.
#include "config_file.h"

#include <toml++/toml.h>
#include <yoke/runtime/shell_word.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "text.h"

namespace yoke::cli {
namespace {

constexpr std::string_view kConfig = "--config";
constexpr std::string_view kBackend = "--backend";
constexpr std::size_t kLargest = 1U << 20U;  // bytes

// "--lr" of "--lr" or "--lr=0.1".
std::string name_of(const std::string& word) {
  return word.substr(0, word.find('='));
}

bool is_given(Arguments arguments, const std::string& option) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& word) { return name_of(word) == option; });
}

std::string read(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) {
    throw UsageError("--config: cannot find or read " + file + ": " + error.message() +
                     "; give a TOML file with options");
  }
  if (fs::is_directory(status)) {
    throw UsageError("--config: " + file + " is a folder; give a TOML file with options");
  }
  // The size of a pipe is not known, and a device may have no end.
  std::ifstream stream(file, std::ios::binary);
  std::string text(kLargest + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad() || (stream.fail() && !stream.eof())) {
    throw UsageError("--config: cannot read " + file + "; check its permissions");
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kLargest) {
    throw UsageError("--config: " + file + " is larger than 1 MiB; give a TOML file with options");
  }
  return text;
}

toml::table parse(const std::string& file) {
  try {
    return toml::parse(read(file), file);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    const std::string description(error.description());
    const bool is_bare = description.find("could not determine value type") != std::string::npos;
    throw UsageError("--config: " + file + ", line " + std::to_string(at.line) + ", column " +
                     std::to_string(at.column) + ": " + description + "; correct the file" +
                     (is_bare ? " (text values need quotes, as in model = \"mlp:50\")" : ""));
  }
}

// Adds the words for one value.
void add(std::vector<std::string>& words, const std::string& option, const toml::node& value,
         const std::string& place) {
  if (const auto* list = value.as_array()) {
    for (const toml::node& each : *list) {
      add(words, option, each, place);
    }
  } else if (const auto* flag = value.as_boolean()) {
    if (flag->get()) {
      words.push_back(option);
    }
  } else if (const auto* text = value.as_string()) {
    if (text->get().empty()) {
      throw UsageError("--config: " + place + ": '" + option.substr(2) +
                       "' has an empty value; give a value, or leave the option out");
    }
    words.push_back(option + "=" + text->get());
  } else if (const auto* whole = value.as_integer()) {
    words.push_back(option + "=" + std::to_string(whole->get()));
  } else if (const auto* number = value.as_floating_point()) {
    words.push_back(option + "=" + shortest(number->get()));
  } else {
    throw UsageError("--config: " + place + ": '" + option.substr(2) +
                     "' takes text, a number, true, false or a list of these" +
                     (value.is_table() ? "; write options at the top level, without [headings]" : ""));
  }
}

std::set<std::string> backend_names(const std::string& list) {
  std::set<std::string> names;
  for (const std::string& part : split(list, ',')) {
    names.insert(part.substr(0, part.find(':')));
  }
  return names;
}

// The value of --backend.
std::optional<std::string> given_backend(Arguments arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (name_of(arguments[i]) == kBackend) {
      const bool is_joined = arguments[i].size() > kBackend.size();
      return is_joined                  ? arguments[i].substr(kBackend.size() + 1)
             : i + 1 < arguments.size() ? arguments[i + 1]
                                        : std::string();
    }
  }
  return std::nullopt;
}

// If the command line has --backend, leaves out the file's device options for other backends: those with the name of
// a backend that is not in --backend, and, if the file's list of backends differs, those without a name.
void leave_out_others(ConfiguredArguments& all, Arguments arguments, const toml::table& file) {
  const auto place = all.places.find("--option");
  const std::optional<std::string> backend = given_backend(arguments);
  if (!backend || place == all.places.end()) {
    return;
  }
  const std::set<std::string> names = backend_names(*backend);
  const bool has_same_list = names == backend_names(file["backend"].value_or(std::string("cc")));
  std::erase_if(all.words, [&](const std::string& word) {
    constexpr std::string_view kStart = "--option=";
    if (!word.starts_with(kStart)) {
      return false;
    }
    const std::string option = word.substr(kStart.size());
    const std::string name = name_of(option);
    const std::size_t dot = name.find('.');
    const bool is_used = dot == std::string::npos ? has_same_list : names.contains(name.substr(0, dot));
    if (!is_used) {
      all.warnings.push_back("--config: " + place->second + ": left out --option " + option +
                             ", because the file does not give it for --backend " + *backend);
    }
    return !is_used;
  });
}

// A TOML file is UTF-8.
bool can_contain(const toml::table& table) {
  std::ostringstream text;
  text << table;
  return toml::parse(text.str()) == table;
}

// A whole number if reading it back gives the same text. Other numbers stay texts, because TOML would print all digits.
void insert(toml::table& table, const std::string& key, const std::string& text) {
  std::int64_t whole = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, whole).ptr == end && std::to_string(whole) == text) {
    table.insert_or_assign(key, whole);
  } else {
    table.insert_or_assign(key, text);
  }
}

constexpr const char* kFirstLine = "# The options of a run of yoke train";
constexpr const char* kFirstLineBefore =
    "# To continue this run in the folder in which it started:";  // of earlier versions

// The command that continues the run; empty if a path has control characters or invalid UTF-8, which a comment cannot
// contain.
std::string comment(const std::filesystem::path& file, const std::string& folder) {
  std::error_code ignored;
  const std::string start = std::filesystem::current_path(ignored).string();
  std::string text = std::string(kFirstLineBefore) + "\n# cd " + detail::shell_word(start) +
                     " && yoke train --config " + detail::shell_word(file.string()) + " --save " +
                     detail::shell_word(folder) + " --resume\n";
  const std::string paths = start + folder;
  if (start.empty() ||
      std::any_of(paths.begin(), paths.end(), [](unsigned char c) { return std::iscntrl(c) != 0; })) {
    return {};
  }
  try {
    (void)toml::parse(text);
  } catch (const toml::parse_error&) {
    return {};
  }
  return text;
}

}  // namespace

std::string ConfiguredArguments::with_place(const std::string& text) const {
  constexpr std::string_view kOfAName = "-abcdefghijklmnopqrstuvwxyz";
  const std::size_t at = std::min(text.find("--"), text.size());  // later options are advice
  const std::size_t end = std::min(text.find_first_not_of(kOfAName, at), text.size());
  if (const auto place = places.find(text.substr(at, end - at)); place != places.end()) {
    return "--config: " + place->second + ": " + text;
  }
  return text;
}

ConfiguredArguments with_config(Arguments arguments) {
  ConfiguredArguments all;
  std::vector<std::string>& words = all.words;
  std::string file;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (name_of(arguments[i]) != kConfig) {
      words.push_back(arguments[i]);
      continue;
    }
    const bool is_joined = arguments[i].size() > kConfig.size();
    if (!file.empty() || (!is_joined && i + 1 == arguments.size())) {
      throw UsageError("--config takes one file and can be given only once");
    }
    file = is_joined ? arguments[i].substr(kConfig.size() + 1) : arguments[++i];
    if (file.empty()) {
      throw UsageError("--config has an empty value; give a TOML file with options");
    }
  }
  if (file.empty()) {
    return all;
  }
  const toml::table options = parse(file);
  for (const auto& [key, value] : options) {
    const std::string option = "--" + std::string(key.str());
    const std::string place = file + ", line " + std::to_string(key.source().begin.line);
    if (option == kConfig) {
      throw UsageError("--config: " + place + ": a file cannot name another one; remove config");
    }
    if (!is_given(arguments, option)) {
      add(words, option, value, place);
      all.places.emplace(option, place);
    }
  }
  leave_out_others(all, arguments, options);
  words.push_back(std::string(kConfig) + "=" + file);
  return all;
}

std::string config_text(const std::filesystem::path& file, Arguments arguments,
                        const std::vector<std::string>& except, const std::string& folder) {
  std::map<std::string, std::vector<std::string>> given;  // the values of each option; a flag has none
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string option = name_of(arguments[i]);
    std::vector<std::string>& values = given[option.substr(std::min<std::size_t>(2, option.size()))];
    if (arguments[i].size() > option.size()) {
      values.push_back(arguments[i].substr(option.size() + 1));
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      values.push_back(arguments[++i]);
    }
  }
  toml::table table;
  for (const auto& [key, values] : given) {
    if (std::find(except.begin(), except.end(), key) != except.end()) {
      continue;
    }
    if (values.size() == 1) {
      insert(table, key, values[0]);
    } else if (values.empty()) {
      table.insert_or_assign(key, true);
    } else {
      toml::array list;
      for (const std::string& value : values) {
        list.push_back(value);
      }
      table.insert_or_assign(key, std::move(list));
    }
    if (!can_contain(table)) {
      throw UsageError("--" + key + " is not valid UTF-8, so " + file.string() +
                       " cannot contain it; use a name in UTF-8, or --save with a file");
    }
  }
  std::ostringstream text;
  text << kFirstLine << "\n" << comment(file, folder) << "\n" << table << "\n";
  return text.str();
}

bool is_config_of_run(const std::filesystem::path& file) {
  std::ifstream text(file);
  std::string line;
  return std::getline(text, line) && (line == kFirstLine || line == kFirstLineBefore);
}

}  // namespace yoke::cli
