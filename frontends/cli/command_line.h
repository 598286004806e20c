// SPDX-License-Identifier: Apache-2.0
// frontends/cli/command_line.h: the options of one subcommand: declared in a few words each, parsed by
// Boost.Program_options.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "subcommands.h"

namespace yoke::cli {

// Options write to what they are given; what is not typed keeps its value. Options are typed in full: --seed
// 3 or --seed=3.
class CommandLine {
 public:
  // `usage`: "yoke program FILE [OPTION...]"; `about`: what it does, printed by --help.
  CommandLine(std::string usage, std::string about);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void flag(const std::string& name, bool* out, const std::string& help);
  // `what` stands for the value in --help.
  void text(const std::string& name, std::string* out, const std::string& help, const char* what = "TEXT");
  void integer(const std::string& name, std::int64_t* out, const std::string& help);
  void integer(const std::string& name, std::optional<std::int64_t>* out, const std::string& help);
  void number(const std::string& name, double* out, const std::string& help);
  void texts(const std::string& name, std::vector<std::string>* out, const std::string& help,
             const char* what = "TEXT");  // may be typed several times
  void positional(const std::string& name, std::string* out, const std::string& help);  // required
  // All that is typed without a name; none is an answer.
  void positionals(const std::string& name, std::vector<std::string>* out, const std::string& help);

  // False: --help was typed, and printed. Throws UsageError with one sentence.
  bool parse(Arguments arguments) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::cli
