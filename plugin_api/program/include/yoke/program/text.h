// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/text.h: parses, prints and verifies programs. Every function is
// safe to call from any thread.
#pragma once

#include <yoke/program/program.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::program {

// An invalid text or program. what() is "line 3, column 9: <reason>".
class ProgramError : public std::runtime_error {
 public:
  ProgramError(Location at, const std::string& reason);
  Location at() const { return at_; }
  const std::string& reason() const { return reason_; }

 private:
  Location at_;
  std::string reason_;
};

// Why `name` is not a valid name of a program, tensor, symbol, loop or hint; empty if it is valid.
std::string name_fault(std::string_view name);

// Parses a text and infers types and extents; throws ProgramError. Does not verify.
Module parse(std::string_view text);

// The canonical text: parse(print(m)) equals m, and print(parse(t)) equals t if t is canonical.
std::string print(const Module& module);
// Prints a whole text with one program.
std::string print(const Program& program);
// Prints a statement on one line without indentation.
std::string print(const Program& program, const Statement& statement);

// Throws ProgramError for the first rule that the program breaks. A verified
// program may run without run-time checks.
void verify(const Program& program);
void verify(const Module& module);
Module parse_and_verify(std::string_view text);

// A 128-bit hash of the canonical text as 32 hexadecimal digits: the key of compile caches.
std::string fingerprint(const Module& module);
// The same hash of any bytes.
std::string digest(std::string_view bytes);

}  // namespace yoke::program
