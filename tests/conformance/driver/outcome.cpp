// SPDX-License-Identifier: Apache-2.0
// tests/conformance/driver/outcome.cpp: the list of expected failures cannot rot: what it says must be so.
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
        "it passed, but the list of expected failures has it ('" + *expected_reason + "'); take the line out";
  } else if (outcome.verdict == Verdict::kUnsupported) {
    outcome.verdict = Verdict::kUnexpected;
    outcome.text = "it is unsupported (" + outcome.text + "), but the list of expected failures has it ('" +
                   *expected_reason + "'); take the line out";
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
      result.outcome.text = "the list of expected failures names '" + name +
                            "', and there is no such test; --list has them all";
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace yoke::conformance
