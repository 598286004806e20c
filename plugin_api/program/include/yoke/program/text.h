// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/text.h: programs from text, to text, and checked.
#pragma once

#include <yoke/program/program.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::program {

// What is wrong with a text or a program, as a user sees it: what() is "line 3, column 9: <reason>".
class ProgramError : public std::runtime_error {
 public:
  ProgramError(Location at, const std::string& reason);
  Location at() const { return at_; }
  const std::string& reason() const { return reason_; }

 private:
  Location at_;
  std::string reason_;
};

// Why `name` cannot name a program, tensor, symbol or loop; empty: it can.
std::string name_fault(std::string_view name);

// Parses and types a text; throws ProgramError. Does not verify.
Module parse(std::string_view text);

// The canonical text: parse(print(m)) is m, and print(parse(t)) is t for canonical t.
std::string print(const Module& module);
std::string print(const Program& program);                              // one program as a whole text
std::string print(const Program& program, const Statement& statement);  // one line, without indentation

// Throws ProgramError at the first rule that `program` breaks. What it accepts may run without checks.
void verify(const Program& program);
void verify(const Module& module);
Module parse_and_verify(std::string_view text);

// 32 hexadecimal digits over the canonical text: the key of every compile cache.
std::string fingerprint(const Module& module);

}  // namespace yoke::program
