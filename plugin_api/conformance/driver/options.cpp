// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/options.cpp: parses the command line with Boost.Program_options.
#include "options.h"

#include <fnmatch.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/shell_word.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

namespace yoke::conformance {
namespace {

namespace po = boost::program_options;

std::string usage(const std::string& command) {
  return command + " PLUGIN... [OPTION...]";
}
std::string hint(const std::string& command) {
  return " " + command + " --help lists the options";
}

std::pair<std::string, std::string> name_and_value(const std::string& option, const std::string& word) {
  const std::size_t at = word.find('=');
  if (at == std::string::npos || at == 0) {
    throw UsageError("--" + option + " takes NAME=VALUE, not '" + word + "'");
  }
  return {word.substr(0, at), word.substr(at + 1)};
}

// The value of option `name` as a number between `low` and `high`; `otherwise` if the option was not typed.
template <class Number>
Number number_in(const po::variables_map& values, const char* name, Number low, Number high,
                 Number otherwise) {
  if (values.count(name) == 0) {
    return otherwise;
  }
  const auto& typed = values[name].as<std::string>();
  Number number{};
  const auto [end, error] = std::from_chars(typed.data(), typed.data() + typed.size(), number);
  if (error != std::errc() || end != typed.data() + typed.size() || !(number >= low && number <= high)) {
    std::ostringstream text;
    text << "--" << name << " takes a number from " << low << " to " << high << ", not '" << typed << "'";
    throw UsageError(text.str());
  }
  return number;
}

std::uint64_t fresh_seed() {
  std::random_device device;
  return device() % 1'000'000'000U;  // short enough to type
}

po::options_description described(Options& options) {
  constexpr unsigned kLineWidth = 120;
  po::options_description all("Options", kLineWidth);
  const auto texts = [](const char* what) { return po::value<std::vector<std::string>>()->value_name(what); };
  const auto text = [](const char* what) { return po::value<std::string>()->value_name(what); };
  const auto flag = [](bool* out) { return po::bool_switch(out); };
  all.add_options()("help,h", "print this help");
  all.add_options()("list", flag(&options.list), "list the tests and what each one checks; needs no plugin");
  all.add_options()("filter", texts("GLOB"), "run only the tests that match, e.g. 'copy.*'; may be repeated");
  all.add_options()("exclude", texts("GLOB"), "leave out the tests that match; may be repeated");
  all.add_options()("expect", text("FILE"), "expected failures: lines of the form  group.test = \"reason\"");
  all.add_options()("option", texts("NAME=VALUE"),
                    "option for device_open (a flag is on or off); may be repeated");
  all.add_options()("plugin-option", texts("NAME=VALUE"), "option of the whole plugin; may be repeated");
  all.add_options()("require", texts("TABLE"),
                    "a table that the plugin must have, e.g. yoke.program/1; may be repeated");
  all.add_options()("device", text("N"), "ordinal of the device, default 0");
  all.add_options()("seed", text("N"),
                    "seed of all random numbers, not negative; default: a new seed, which is printed");
  all.add_options()("programs", text("N"),
                    "number of random programs in all program.random-* tests, default 2000");
  all.add_options()(
      "thorough", flag(&options.settings.thorough),
      "run 160,000 random programs and repeat other tests more often; every test may take 20 times as "
      "long, and all take about ten minutes on two cores for a fast backend");
  all.add_options()("timeout", text("SECONDS"),
                    "time limit of one test, default 60; a few tests get a multiple of it");
  all.add_options()("jobs", text("N"), "tests to run at once, default one per CPU thread");
  all.add_options()("fail-fast", flag(&options.fail_fast), "start no more tests after the first failure");
  all.add_options()("json", flag(&options.json), "print one JSON object to standard output and nothing else");
  all.add_options()("junit", text("FILE"), "also write a JUnit XML file");
  all.add_options()("verbose", flag(&options.verbose), "print every test, not only the failures");
  return all;
}

po::variables_map parsed(const std::vector<std::string>& words, const std::string& command,
                         const po::options_description& visible) {
  po::options_description all;
  all.add(visible).add_options()("plugin", po::value<std::vector<std::string>>());
  po::positional_options_description positions;
  positions.add("plugin", -1);
  po::variables_map values;
  try {
    // No abbreviations: a new option could change the meaning of an abbreviation.
    constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto typed = po::command_line_parser(words).options(all).positional(positions).style(kStyle).run();
    for (const auto& option : typed.options) {
      if (std::find(option.value.begin(), option.value.end(), "") != option.value.end()) {
        throw UsageError((option.position_key < 0 ? "--" : "") + option.string_key +
                         " has an empty value; is a shell variable not set?");
      }
    }
    po::store(typed, values);
    po::notify(values);
  } catch (const po::unknown_option& error) {
    std::vector<std::string> names;
    for (const auto& option : visible.options()) {
      names.push_back("--" + option->long_name());
    }
    const std::string similar = did_you_mean(error.get_option_name(), names);
    throw UsageError("unknown option '" + error.get_option_name() + "'" + similar +
                     (similar.empty() ? ";" : "") + hint(command));
  } catch (const po::error& error) {
    throw UsageError(std::string(error.what()) + ";" + hint(command));
  }
  return values;
}

}  // namespace

std::optional<Options> parse_options(const std::vector<std::string>& words, const std::string& command) {
  Options options;
  options.command = command;
  const po::options_description visible = described(options);
  const po::variables_map values = parsed(words, command, visible);
  if (values.count("help") != 0) {
    std::cout << "usage: " << usage(command)
              << "\n\nChecks that a plugin keeps every promise of the plugin ABI. Each test runs in its own "
                 "process with a deadline.\nExit code: 0 if every test passed, is unsupported, or is an "
                 "expected failure; 1 if a test failed;\n2 for wrong usage; 3 if every test is "
                 "unsupported, so that nothing was tested.\n\n"
              << visible;
    return std::nullopt;
  }
  const auto texts = [&](const char* name) {
    return values.count(name) == 0 ? std::vector<std::string>() : values[name].as<std::vector<std::string>>();
  };
  const auto text = [&](const char* name) {
    return values.count(name) == 0 ? std::string() : values[name].as<std::string>();
  };
  options.plugins = texts("plugin");
  options.filters = texts("filter");
  options.excludes = texts("exclude");
  options.expectations_file = text("expect");
  options.junit_file = text("junit");
  if (options.plugins.empty() && !options.list) {
    throw UsageError("the plugin's file is missing: " + usage(command) + ";" + hint(command));
  }
  Settings& settings = options.settings;
  for (const std::string& word : texts("option")) {
    settings.options.push_back(name_and_value("option", word));
  }
  for (const std::string& word : texts("plugin-option")) {
    settings.plugin_options.push_back(name_and_value("plugin-option", word));
  }
  settings.required_tables = texts("require");
  constexpr std::int64_t kThoroughPrograms = 160'000;
  settings.programs = number_in<std::int64_t>(values, "programs", 1, 1'000'000'000,
                                              settings.thorough ? kThoroughPrograms : settings.programs);
  settings.device = number_in<std::uint32_t>(values, "device", 0, UINT32_MAX, 0);
  settings.timeout_s = number_in(values, "timeout", 0.001, 1e6, settings.timeout_s);
  settings.seed =
      values.count("seed") == 0 ? fresh_seed() : number_in<std::uint64_t>(values, "seed", 0, UINT64_MAX, 0);
  options.jobs =
      number_in<unsigned>(values, "jobs", 1, 1024, std::max(1U, std::thread::hardware_concurrency()));
  return options;
}

std::vector<std::string> child_words(const Options& options, const std::string& plugin) {
  std::vector<std::string> words = {plugin, "--seed", std::to_string(options.settings.seed)};
  const auto add = [&](const char* word, const auto& pairs) {
    for (const auto& [name, value] : pairs) {
      words.insert(words.end(), {word, name});
      words.back().append("=").append(value);
    }
  };
  add("--option", options.settings.options);
  add("--plugin-option", options.settings.plugin_options);
  for (const std::string& table : options.settings.required_tables) {
    words.insert(words.end(), {"--require", table});
  }
  if (options.settings.thorough) {
    words.emplace_back("--thorough");
  }
  const Settings defaults;
  if (options.settings.device != defaults.device) {
    words.insert(words.end(), {"--device", std::to_string(options.settings.device)});
  }
  if (options.settings.programs != defaults.programs) {
    words.insert(words.end(), {"--programs", std::to_string(options.settings.programs)});
  }
  if (options.settings.timeout_s != defaults.timeout_s) {
    std::ostringstream seconds;
    seconds << options.settings.timeout_s;
    words.insert(words.end(), {"--timeout", seconds.str()});
  }
  return words;
}

std::string repeat_command(const Options& options, const std::string& plugin, const std::string& test) {
  std::string command = options.command;
  for (const std::string& word : child_words(options, plugin)) {
    command += " " + yoke::detail::shell_word(word);
  }
  return command + " --filter " + yoke::detail::shell_word(test);
}

bool matches(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0; });
}

}  // namespace yoke::conformance
