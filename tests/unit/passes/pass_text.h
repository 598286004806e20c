// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/pass_text.h: checks of passes on short texts.
#pragma once

#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <string>

namespace yoke::passes {

using Function = program::Program (*)(program::Program);

template <Pass kPass>
program::Program only(program::Program program) {
  return run(kPass, std::move(program));
}
inline constexpr Function remove_dead_statements = only<Pass::kRemoveDead>;
inline constexpr Function fold_constants = only<Pass::kFold>;
inline constexpr Function eliminate_common = only<Pass::kMergeEqual>;
inline constexpr Function fuse = only<Pass::kFuse>;
inline constexpr Function schedule = only<Pass::kSchedule>;
inline constexpr Function recompute = only<Pass::kRecompute>;
inline constexpr Function share = only<Pass::kShare>;
inline constexpr Function form_regions = only<Pass::kFormRegions>;

inline program::Program optimized(program::Program program) {
  return optimize(std::move(program)).program;
}

// A text with one program. In `body`, `;` separates lines, and a line may also end after `{`.
inline std::string program_text(const std::string& body, const std::string& symbols = "") {
  std::string text = "yoke.program 1\nprogram p(" + symbols + ") {\n";
  for (const char c : body) {
    text += c == ';' ? "\n" : c == '{' ? "{\n" : std::string(1, c);
  }
  return text + "\n}\n";
}

inline program::Program program_of(const std::string& text) {
  return program::parse_and_verify(text).programs.at(0);
}

// Expects that the pass changes `before` to `after`, and does not change `after`. `arguments` belong to both.
inline void expect_turns(Function pass, const std::string& arguments, const std::string& before,
                         const std::string& after, const std::string& symbols = "") {
  SCOPED_TRACE(before);
  const program::Program result = pass(program_of(program_text(arguments + "; " + before, symbols)));
  const std::string expected = program::print(program_of(program_text(arguments + "; " + after, symbols)));
  EXPECT_EQ(program::print(result), expected);
  EXPECT_NO_THROW(program::verify(result));
  EXPECT_EQ(program::print(pass(result)), expected);
}

inline void expect_keeps(Function pass, const std::string& arguments, const std::string& body,
                         const std::string& symbols = "") {
  expect_turns(pass, arguments, body, body, symbols);
}

}  // namespace yoke::passes
