// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/pass_text.h: passes seen from text to text.
#pragma once

#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <string>

namespace yoke::passes {

using Pass = program::Program (*)(program::Program);

// One program around `body`, whose lines are canonical.
inline std::string program_text(const std::string& body, const std::string& symbols = "") {
  return "yoke.program 1\nprogram p(" + symbols + ") {\n" + body + "}\n";
}

inline program::Program program_of(const std::string& text) {
  return program::parse_and_verify(text).programs.at(0);
}

// The pass turns one body into the other, up to the canonical way of writing it; run again, it leaves that
// alone.
inline void expect_turns(Pass pass, const std::string& before, const std::string& after,
                         const std::string& symbols = "") {
  const program::Program result = pass(program_of(program_text(before, symbols)));
  const std::string expected = program::print(program_of(program_text(after, symbols)));
  EXPECT_EQ(program::print(result), expected);
  EXPECT_NO_THROW(program::verify(result));
  EXPECT_EQ(program::print(pass(result)), expected);
}

inline void expect_keeps(Pass pass, const std::string& body, const std::string& symbols = "") {
  expect_turns(pass, body, body, symbols);
}

}  // namespace yoke::passes
