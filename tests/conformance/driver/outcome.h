// SPDX-License-Identifier: Apache-2.0
// tests/conformance/driver/outcome.h: how one test ended, and what that counts for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "expectations.h"
#include "groups.h"

namespace yoke::conformance {

enum class Verdict {
  kPassed,
  kFailed,
  kExpected,     // failed, and the author's list says so
  kUnexpected,   // passed, though the author's list says that it fails
  kUnsupported,  // the plugin does not claim it
  kNotRun,       // the plugin cannot be loaded
};

// What a process said before it ended.
struct Outcome {
  Verdict verdict = Verdict::kFailed;
  std::string text;      // why it failed, is unsupported, or is expected to fail
  std::string note;      // a figure of a test that passed
  std::string progress;  // the last that was heard
  std::string output;    // what was printed by the process (the end of it)
  double seconds = 0;
};

struct Result {
  NamedTest test;
  Outcome outcome;
  bool failed() const {
    return outcome.verdict == Verdict::kFailed || outcome.verdict == Verdict::kUnexpected;
  }
};

// Sets one outcome against the author's list.
void judge(Outcome& outcome, const std::string* expected_reason);

// A result that fails for each entry of the list that names no test at all.
std::vector<Result> unknown_entries(const Expectations& expectations, const std::vector<NamedTest>& all);

}  // namespace yoke::conformance
