// SPDX-License-Identifier: Apache-2.0
// tests/conformance/driver/options.cpp: one list of options, for people and for the kit's own processes.
#include "options.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "command_line.h"

namespace yoke::conformance {
namespace {

using cli::UsageError;

std::pair<std::string, std::string> name_and_value(const std::string& word) {
  const std::size_t at = word.find('=');
  if (at == std::string::npos || at == 0) {
    throw UsageError("--option takes NAME=VALUE, not '" + word + "'");
  }
  return {word.substr(0, at), word.substr(at + 1)};
}

std::int64_t in_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    throw UsageError(std::string("--") + name + " takes " + std::to_string(low) + " to " +
                     std::to_string(high) + ", not " + std::to_string(value));
  }
  return value;
}

std::uint64_t fresh_seed() {
  std::random_device device;
  return device() % 1'000'000'000U;  // short enough to type
}

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./=:,+") == std::string::npos;
  if (plain) {
    return word;
  }
  std::string text = "'";
  for (const char character : word) {
    text += character == '\'' ? std::string("'\\''") : std::string(1, character);
  }
  return text + "'";
}

// Numbers as they were typed, before they are looked at.
struct Typed {
  std::vector<std::string> options;
  std::int64_t jobs = std::max(1U, std::thread::hardware_concurrency());
  std::int64_t device = 0;
  std::optional<std::int64_t> seed;
};

void declare(cli::CommandLine& line, Options& options, Typed& typed) {
  line.positionals("PLUGIN", &options.plugins, "the plugin's file");
  line.flag("list", &options.list, "list the tests and what each asks; runs nothing, needs no plugin");
  line.texts("filter", &options.filters,
             "run the tests that match, e.g. 'copy.*'; may be typed several times");
  line.text("expect", &options.expectations_file,
            "file of expected failures: lines  group.test = \"reason\"");
  line.texts("option", &typed.options,
             "NAME=VALUE for the plugin's device_open (a flag: on or off); may be typed several times");
  line.integer("device", &typed.device, "ordinal of the device, default 0");
  line.integer("seed", &typed.seed, "of all random numbers; without it a new one, which is printed");
  line.integer("programs", &options.settings.programs,
               "random programs, in all tests that draw them together, default 2000");
  line.number("timeout", &options.settings.timeout_s,
              "seconds that a test may take, default 60; some tests may take a multiple");
  line.integer("jobs", &typed.jobs, "tests at once, default one per CPU thread");
  line.flag("json", &options.json, "print one JSON object, and nothing else, to standard output");
  line.text("junit", &options.junit_file, "also write a JUnit XML file");
  line.flag("verbose", &options.verbose, "print every test, not only those that failed");
}

}  // namespace

std::optional<Options> parse_options(const std::vector<std::string>& words) {
  Options options;
  Typed typed;
  cli::CommandLine line(
      "yoke-conformance PLUGIN... [OPTION...]",
      "Asks a plugin for everything that the plugin ABI promises. Each test runs in a process of its "
      "own, with a deadline.\nExit code: 0 all that the plugin claims holds, 1 something does not, "
      "2 wrong usage.");
  declare(line, options, typed);
  if (!line.parse(words)) {
    return std::nullopt;
  }
  if (options.plugins.empty() && !options.list) {
    throw UsageError("the plugin's file is missing: yoke-conformance PLUGIN... [OPTION...]");
  }
  for (const std::string& word : typed.options) {
    options.settings.options.push_back(name_and_value(word));
  }
  in_range("programs", options.settings.programs, 1, 1'000'000'000);
  options.jobs = static_cast<unsigned>(in_range("jobs", typed.jobs, 1, 1024));
  options.settings.device = static_cast<std::uint32_t>(in_range("device", typed.device, 0, UINT32_MAX));
  if (!(options.settings.timeout_s > 0 && options.settings.timeout_s <= 1e6)) {
    throw UsageError("--timeout takes seconds above 0");
  }
  options.settings.seed = typed.seed ? static_cast<std::uint64_t>(*typed.seed) : fresh_seed();
  return options;
}

std::vector<std::string> child_words(const Options& options, const std::string& plugin) {
  std::vector<std::string> words = {plugin, "--seed",
                                    std::to_string(static_cast<std::int64_t>(options.settings.seed))};
  for (const auto& [name, value] : options.settings.options) {
    words.insert(words.end(), {"--option", name + "=" + value});
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
  std::string command = "yoke-conformance";
  for (const std::string& word : child_words(options, plugin)) {
    command += " " + quoted(word);
  }
  return command + " --filter " + quoted(test);
}

bool selected(const std::vector<std::string>& filters, const std::string& name) {
  return filters.empty() || std::any_of(filters.begin(), filters.end(), [&](const std::string& glob) {
           return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0;
         });
}

}  // namespace yoke::conformance
