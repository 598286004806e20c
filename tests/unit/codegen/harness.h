// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/harness.h: runs programs on generated kernels and compares the results.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "case.h"
#include "runner.h"

#define SKIP_WITHOUT_COMPILER()                           \
  if (!::yoke::codegen::test::no_compiler().empty()) {    \
    GTEST_SKIP() << ::yoke::codegen::test::no_compiler(); \
  }

namespace yoke::codegen::test {

// Runs every launch of every case twice, on arguments aligned to 256 bytes and on arguments aligned to their
// elements only. Checks that the conformance kit allows the results, that both runs write the same bits, and
// that nothing outside the arguments and the workspace is written.
void check_cases(std::span<const conformance::Case> cases, const Target& target = {});

// Runs each case with the initial arguments in `starts`, twice as above, and returns the results.
std::vector<conformance::Contents> results_of(std::span<const conformance::Case> cases,
                                              std::span<const conformance::Contents> starts,
                                              const Target& target);

// A case with a program `p` and uniform arguments.
conformance::Case case_of(std::string_view text);

// A program `p` with a symbol s in 0..9 step 4.
std::string program_text(const std::string& body);
struct Text {
  const char* name;
  const char* body;
  const char* sign = "";  // what the source of its kernels contains
};
// Checks cases of these programs, as above. All sources also contain `sign`.
void check_texts(std::span<const Text> texts, const Target& target, std::string_view sign = "");

// The launches of a program, one line each.
std::string launches_of(std::string_view text);

}  // namespace yoke::codegen::test
