// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/outcome.h: the result of one test.
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
  kExpected,     // failed, and is listed as an expected failure
  kUnexpected,   // listed as an expected failure, but did not fail
  kUnsupported,  // the plugin does not offer the ability
  kNotRun,       // the plugin cannot be loaded, or --fail-fast or a signal ended the run
};

// How the process of a test ended.
struct Outcome {
  Verdict verdict = Verdict::kFailed;
  std::string text;      // why it failed, is unsupported, or is expected to fail
  std::string note;      // the test's own figures, if it passed
  std::string progress;  // the last progress report
  std::string output;    // the end of what the process printed
  double seconds = 0;
};

inline bool is_failure(Verdict verdict) {
  return verdict == Verdict::kFailed || verdict == Verdict::kUnexpected;
}

struct Result {
  NamedTest test;
  Outcome outcome;
  bool failed() const { return is_failure(outcome.verdict); }
};

// Applies an entry of the list of expected failures; NULL if the test is not listed.
void judge(Outcome& outcome, const std::string* expected_reason);

// A failed result for each entry that names an unknown test.
std::vector<Result> unknown_entries(const Expectations& expectations, const std::vector<NamedTest>& all);

}  // namespace yoke::conformance
