// SPDX-License-Identifier: Apache-2.0
// frontends/cli/command_line.cpp: the only file that includes
// Boost.Program_options, which is slow to compile.
#include "command_line.h"

#include <yoke/runtime/closest.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string_view>
#include <utility>

#include "text.h"

namespace yoke::cli {
namespace {

namespace po = boost::program_options;

double parse_number(const std::string& option, const std::string& text, Numbers range) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !(value >= range.low) || !(range.is_open ? value < range.high : value <= range.high)) {
    throw UsageError(option + " takes a number from " + shortest(range.low) + " to " +
                     (range.is_open ? "less than " : "") + shortest(range.high) + ", not '" + text + "'");
  }
  return value;
}

[[noreturn]] void refuse_empty(const std::string& name) {
  throw UsageError(name + " has an empty value; is a shell variable not set?");
}

// Also where the next option would be the value: --epochs --resume.
void refuse_missing_values(const po::parsed_options& parsed) {
  for (const auto& option : parsed.options) {
    const auto& words = option.original_tokens;
    if (option.position_key < 0 && words.size() > 1 && words[1].starts_with("--")) {
      throw UsageError("--" + option.string_key + " needs a value; write --" + option.string_key +
                       "=VALUE if it starts with --");
    }
    if (std::find(option.value.begin(), option.value.end(), "") != option.value.end()) {
      refuse_empty((option.position_key < 0 ? "--" : "") + option.string_key);
    }
  }
}

}  // namespace

void check_backend_name(const std::string& name) {
  if (const std::size_t colon = name.find(':'); colon != std::string::npos) {
    throw UsageError("--backend takes the name of one backend, without a number of shards, not '" + name +
                     "'; use " + name.substr(0, colon));
  }
}

std::int64_t parse_integer(const std::string& option, const std::string& text, Integers range) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < range.low || value > range.high) {
    throw UsageError(option + " takes a whole number from " + std::to_string(range.low) + " to " +
                     std::to_string(range.high) + ", not '" + text + "'");
  }
  return value;
}

constexpr unsigned kLineWidth = 120;

struct CommandLine::Impl {
  std::string usage;
  std::string about;
  po::options_description visible{"Options", kLineWidth};
  po::options_description hidden;
  po::positional_options_description positions;
  std::vector<std::string> required;
  std::vector<std::pair<std::string, std::function<void(const po::variable_value&)>>> actions;

  void add(const std::string& name, const po::value_semantic* semantic, const std::string& help,
           std::function<void(const po::variable_value&)> action) {
    visible.add_options()(name.c_str(), semantic, help.c_str());
    actions.emplace_back(name, std::move(action));
  }

  std::vector<std::string> option_names() const {
    std::vector<std::string> names;
    for (const auto& option : visible.options()) {
      names.push_back("--" + option->long_name());
    }
    return names;
  }
};

CommandLine::CommandLine(std::string usage, std::string about) : impl_(std::make_unique<Impl>()) {
  impl_->usage = std::move(usage);
  impl_->about = std::move(about);
  impl_->visible.add_options()("help,h", "print this help");
}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const std::string& name, bool* out, const std::string& help) {
  impl_->add(name, po::bool_switch(), help,
             [out](const po::variable_value& value) { *out = value.as<bool>(); });
}

void CommandLine::text(const std::string& name, std::string* out, const std::string& help, const char* what) {
  impl_->add(name, po::value<std::string>()->value_name(what), help,
             [out](const po::variable_value& value) { *out = value.as<std::string>(); });
}

void CommandLine::integer(const std::string& name, std::int64_t* out, Integers range,
                          const std::string& help) {
  impl_->add(name, po::value<std::string>()->value_name("N"), help,
             [name, out, range](const po::variable_value& value) {
               *out = parse_integer("--" + name, value.as<std::string>(), range);
             });
}

void CommandLine::integer(const std::string& name, std::optional<std::int64_t>* out, Integers range,
                          const std::string& help) {
  impl_->add(name, po::value<std::string>()->value_name("N"), help,
             [name, out, range](const po::variable_value& value) {
               *out = parse_integer("--" + name, value.as<std::string>(), range);
             });
}

void CommandLine::number(const std::string& name, double* out, Numbers range, const std::string& help) {
  impl_->add(name, po::value<std::string>()->value_name("X"), help,
             [name, out, range](const po::variable_value& value) {
               *out = parse_number("--" + name, value.as<std::string>(), range);
             });
}

void CommandLine::texts(const std::string& name, std::vector<std::string>* out, const std::string& help,
                        const char* what) {
  impl_->add(name, po::value<std::vector<std::string>>()->value_name(what), help,
             [out](const po::variable_value& value) { *out = value.as<std::vector<std::string>>(); });
}

void CommandLine::positional(const std::string& name, std::string* out, const std::string& help) {
  impl_->hidden.add_options()(name.c_str(), po::value<std::string>(), help.c_str());
  impl_->positions.add(name.c_str(), 1);
  impl_->required.push_back(name);
  impl_->actions.emplace_back(name,
                              [out](const po::variable_value& value) { *out = value.as<std::string>(); });
}

void CommandLine::positionals(const std::string& name, std::vector<std::string>* out,
                              const std::string& help) {
  constexpr int kAnyNumber = -1;
  impl_->hidden.add_options()(name.c_str(), po::value<std::vector<std::string>>(), help.c_str());
  impl_->positions.add(name.c_str(), kAnyNumber);
  impl_->actions.emplace_back(
      name, [out](const po::variable_value& value) { *out = value.as<std::vector<std::string>>(); });
}

bool CommandLine::parse(Arguments arguments) const {
  po::options_description all;
  all.add(impl_->visible).add(impl_->hidden);
  const std::vector<std::string> words(arguments.begin(), arguments.end());
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::any_of(words.begin(), words.end(), is_help)) {  // even if other words are wrong
    std::cout << "usage: " << impl_->usage << "\n\n" << impl_->about << "\n\n" << impl_->visible;
    return false;
  }
  po::variables_map values;
  const std::string hint = "; " + impl_->usage.substr(0, impl_->usage.find(' ', impl_->usage.find(' ') + 1)) +
                           " --help lists the options";
  try {
    // No abbreviations: adding an option could change what an abbreviation means.
    constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto parsed =
        po::command_line_parser(words).options(all).positional(impl_->positions).style(kStyle).run();
    refuse_missing_values(parsed);
    po::store(parsed, values);
  } catch (const po::unknown_option& error) {
    const std::string given = error.get_option_name();
    const std::string name = given.substr(0, given.find('='));
    const std::string similar = did_you_mean(name, impl_->option_names());
    throw UsageError("unknown option '" + name + "'" + similar + (similar.empty() ? hint : hint.substr(1)));
  } catch (const po::invalid_command_line_syntax& error) {
    if (error.kind() == po::invalid_command_line_syntax::empty_adjacent_parameter) {
      refuse_empty(error.get_option_name());
    }
    throw UsageError(std::string(error.what()) + hint);
  } catch (const po::too_many_positional_options_error&) {
    throw UsageError("too many arguments for '" + impl_->usage + "'" + hint);
  } catch (const po::multiple_occurrences& error) {
    const std::string name = error.get_option_name();
    const po::option_description* const option =
        all.find_nothrow(name.substr(name.find_first_not_of('-')), false);
    const bool is_flag = option != nullptr && option->semantic()->max_tokens() == 0;
    throw UsageError(name + (is_flag ? " is given more than once" : " takes one value, not several") + hint);
  } catch (const po::error& error) {
    throw UsageError(std::string(error.what()) + hint);
  }
  for (const std::string& name : impl_->required) {
    if (values.count(name) == 0) {
      throw UsageError(name + " is missing: " + impl_->usage);
    }
  }
  for (const auto& [name, action] : impl_->actions) {
    if (values.count(name) != 0) {
      action(values[name]);
    }
  }
  return true;
}

void check_files(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  const auto is_same = [](const NamedFile& a, const NamedFile& b) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (a.path.empty() || b.path.empty() || fs::is_directory(a.path, error)) {
      return false;
    }
    return fs::path(a.path).lexically_normal() == fs::path(b.path).lexically_normal() ||
           fs::equivalent(a.path, b.path, error);
  };
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    for (const NamedFile& input : inputs) {
      if (is_same(input, *output)) {
        throw UsageError(std::string(output->option) + " " + output->path + " would replace the file of " +
                         input.option + "; give another file");
      }
    }
    for (auto other = output + 1; other != outputs.end(); ++other) {
      if (is_same(*output, *other)) {
        throw UsageError(std::string(output->option) + " and " + other->option + " name the same file, " +
                         other->path + "; give two different files");
      }
    }
  }
}

}  // namespace yoke::cli
