// SPDX-License-Identifier: Apache-2.0
// frontends/cli/command_line.h: declares and parses the options of one subcommand.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "subcommands.h"

namespace yoke::cli {

// The values that an option accepts; both ends are included, except the upper one if `is_open`.
struct Integers {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};
struct Numbers {
  double low = 0;
  double high = 1e38;  // fits in f32
  bool is_open = false;
};

// "--seed takes a whole number from 0 to 9, not '10'". Throws UsageError.
std::int64_t parse_integer(const std::string& option, const std::string& text, Integers range);

// Throws UsageError for a name with a number of shards, as in train --backend cc:2.
void check_backend_name(const std::string& name);

// The file that an option names; an empty path is none.
struct NamedFile {
  const char* option;
  std::string path;
};
// Throws UsageError if writing an output would replace an input, or another output.
void check_files(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

// Each option writes to a variable, which keeps its value if the option is
// absent. Names cannot be abbreviated. Values are written as --seed 3 or
// --seed=3, and may not be empty.
class CommandLine {
 public:
  // `usage` is a line such as "yoke program FILE [OPTION...]". --help
  // prints it, then `about` and the options.
  CommandLine(std::string usage, std::string about);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void flag(const std::string& name, bool* out, const std::string& help);
  // `what` is the placeholder for the value in --help.
  void text(const std::string& name, std::string* out, const std::string& help, const char* what = "TEXT");
  void integer(const std::string& name, std::int64_t* out, Integers range, const std::string& help);
  void integer(const std::string& name, std::optional<std::int64_t>* out, Integers range,
               const std::string& help);
  void number(const std::string& name, double* out, Numbers range, const std::string& help);
  // May be typed several times.
  void texts(const std::string& name, std::vector<std::string>* out, const std::string& help,
             const char* what = "TEXT");
  // A required argument without a name.
  void positional(const std::string& name, std::string* out, const std::string& help);
  // All arguments without a name; there may be none.
  void positionals(const std::string& name, std::vector<std::string>* out, const std::string& help);

  // Returns false if --help was typed, after printing the help. Throws UsageError.
  bool parse(Arguments arguments) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::cli
