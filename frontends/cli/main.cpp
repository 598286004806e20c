// SPDX-License-Identifier: Apache-2.0
// frontends/cli/main.cpp: the yoke command: runs the subcommand and turns
// exceptions into a message and an exit code.
#include <fcntl.h>
#include <unistd.h>
#include <yoke/runtime/closest.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "global_options.h"
#include "stop_request.h"
#include "subcommands.h"

namespace {

struct Subcommand {
  std::string_view name;
  std::string_view help;
  int (*run)(yoke::cli::Arguments);
};

constexpr Subcommand kSubcommands[] = {
    {"backends", "list the backends found, without loading them", yoke::cli::backends_command},
    {"check-plugin", "run the conformance kit on plugin files", yoke::cli::check_plugin_command},
    {"devices", "load every backend and test each of its devices", yoke::cli::devices_command},
    {"generate", "generate text with a trained character model", yoke::cli::generate_command},
    {"predict", "make predictions for new data with a trained model", yoke::cli::predict_command},
    {"program", "check, print and run a file in yoke's program format", yoke::cli::program_command},
    {"replay", "run a recorded trace again, list it, or convert it for a viewer", yoke::cli::replay_command},
    {"train", "train a network on one or more shards", yoke::cli::train_command},
};

void print_usage(std::ostream& out) {
  out << "usage: yoke [GLOBAL OPTION...] SUBCOMMAND [ARGUMENT...]\n\n";
  for (const Subcommand& subcommand : kSubcommands) {
    out << "  " << subcommand.name << std::string(14 - subcommand.name.size(), ' ') << subcommand.help
        << '\n';
  }
  out << "\nGlobal options, before the subcommand:\n"
      << yoke::cli::kGlobalOptionsHelp << "\nyoke --version prints the version.\n"
      << "yoke SUBCOMMAND --help lists its arguments. Exit code: 0 success, 1 failure, 2 wrong usage.\n";
}

int run_subcommand(const std::string& name, yoke::cli::Arguments arguments);

int run(yoke::cli::Arguments typed) {
  const yoke::cli::Arguments words = yoke::cli::take_global_options(typed);
  if (words.empty()) {
    print_usage(std::cerr);
    return yoke::cli::kWrongUsage;
  }
  if (words[0] == "help" && words.size() > 1) {
    const std::vector<std::string> help = {"--help"};
    return run_subcommand(words[1], help);
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_usage(std::cout);
    return yoke::cli::kDone;
  }
  if (words[0] == "--version" || words[0] == "version") {
    if (words.size() > 1) {
      throw yoke::cli::UsageError("--version takes no arguments; leave out '" + words[1] + "'");
    }
    std::cout << "yoke " << YOKE_VERSION << '\n';
    return yoke::cli::kDone;
  }
  return run_subcommand(words[0], words.subspan(1));
}

int run_subcommand(const std::string& name, yoke::cli::Arguments arguments) {
  using yoke::cli::UsageError;
  std::vector<std::string> names;
  for (const Subcommand& subcommand : kSubcommands) {
    if (name == subcommand.name) {
      yoke::cli::check_global_options(name, arguments);
      return subcommand.run(arguments);
    }
    names.emplace_back(subcommand.name);
  }
  const bool is_option = name.starts_with('-');
  const std::string similar = yoke::did_you_mean(name, is_option ? yoke::cli::global_option_names() : names);
  throw UsageError((is_option ? "unknown global option '" : "unknown subcommand '") + name + "'" + similar +
                   (similar.empty() ? ";" : "") + " yoke --help lists the " +
                   (is_option ? "options" : "subcommands"));
}

// Opens /dev/null for each standard descriptor that is closed, so that no data file gets its number. Returns
// whether standard output was open.
bool occupy_standard_descriptors() {
  bool has_output = true;
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) < 0) {
      has_output = has_output && number != STDOUT_FILENO;
      ::open("/dev/null", O_RDONLY);  // takes the lowest free number; writing to it fails
    }
  }
  return has_output;
}

// Runs the command, and reports what went wrong with its output and its trace.
int run_and_check(yoke::cli::Arguments words, bool has_output) {
  const int code = run(words);
  if (!std::cout.flush()) {
    std::cerr << (!has_output ? "yoke: standard output is closed\n"
                  : yoke::cli::is_closed_pipe(STDOUT_FILENO)
                      ? "yoke: standard output was closed\n"
                      : "yoke: cannot write to standard output; is the disk full?\n");
    return yoke::cli::kFailed;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // Writing past the user's file size limit, or to a closed pipe, then fails instead of killing the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const bool has_output = occupy_standard_descriptors();
  int code = yoke::cli::kFailed;
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    code = run_and_check(words, has_output);
  } catch (const yoke::cli::UsageError& error) {
    std::cerr << "yoke: " << error.what() << '\n';
    return yoke::cli::kWrongUsage;
  } catch (const std::bad_alloc&) {
    std::cerr << "yoke: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "yoke: " << error.what() << '\n';
  }
  if (const std::string problem = yoke::cli::trace_problem(); !problem.empty()) {
    std::cerr << "yoke: " << problem << '\n';
    return yoke::cli::kFailed;
  }
  return code;
}
