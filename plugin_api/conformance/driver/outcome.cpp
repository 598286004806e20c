// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/outcome.cpp: compares results with the expected failures. An entry that
// no longer fails is an error, so the list stays correct.
#include "outcome.h"

#include <algorithm>

namespace yoke::conformance {

void judge(Outcome& outcome, const std::string* expected_reason) {
  if (expected_reason == nullptr) {
    return;
  }
  if (outcome.verdict == Verdict::kFailed) {
    outcome.verdict = Verdict::kExpected;
    outcome.text = *expected_reason + " (" + outcome.text + ")";
  } else if (outcome.verdict == Verdict::kPassed) {
    outcome.verdict = Verdict::kUnexpected;
    outcome.text =
        "it passed, but is listed as an expected failure ('" + *expected_reason + "'); remove the line";
  } else if (outcome.verdict == Verdict::kUnsupported) {
    outcome.verdict = Verdict::kUnexpected;
    outcome.text = "it is unsupported (" + outcome.text + "), but is listed as an expected failure ('" +
                   *expected_reason + "'); remove the line";
  }
}

std::vector<Result> unknown_entries(const Expectations& expectations, const std::vector<NamedTest>& all) {
  std::vector<Result> results;
  for (const auto& [name, reason] : expectations) {
    const bool known = std::any_of(
        all.begin(), all.end(), [&, &wanted = name](const NamedTest& test) { return test.name == wanted; });
    if (!known) {
      Result result;
      result.test.group = "expectations";
      result.test.name = "expectations." + name;
      result.outcome.text =
          "'" + name + "' is listed as an expected failure, but no such test exists; --list prints all tests";
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace yoke::conformance
