// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance/expectations_test.cpp: parsing expected failures and applying them to results.
#include "expectations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "outcome.h"
#include "usage.h"

namespace yoke::conformance {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string error_of(const std::string& content) {
  try {
    parse_expectations(content, "list");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Expectations, ParsesNamesReasonsAndComments) {
  EXPECT_THAT(
      parse_expectations(
          "# what is known\n\ncopy.fill = \"no \\\"fill\\\" yet\"  # soon\r\n  \"a.b\"=\"c\\\\d\"", "list"),
      UnorderedElementsAre(Pair("copy.fill", "no \"fill\" yet"), Pair("a.b", "c\\d")));
  EXPECT_TRUE(parse_expectations("", "list").empty());
}

TEST(Expectations, ReportsTheNumberOfAnInvalidLine) {
  EXPECT_THAT(error_of("# one\ncopy.fill"), HasSubstr("list:2"));
  for (const char* line : {"copy.fill = reason", "= \"reason\"", "copy.fill = \"open", "copy.fill = \"a\" b",
                           "copy.fill = \"a\\n\""}) {
    EXPECT_THAT(error_of(line), HasSubstr("list:1")) << line;
  }
  EXPECT_THAT(error_of("copy.fill = \" \""), HasSubstr("no reason"));
  EXPECT_THAT(error_of("a.b = \"c\"\na.b = \"d\""), HasSubstr("twice"));
}

Outcome outcome(Verdict verdict) {
  Outcome made;
  made.verdict = verdict;
  made.text = "text";
  return made;
}

TEST(Judging, DistinguishesExpectedFailuresFromUnexpectedPasses) {
  const std::string reason = "known";
  Outcome failed = outcome(Verdict::kFailed);
  judge(failed, &reason);
  EXPECT_EQ(failed.verdict, Verdict::kExpected);
  EXPECT_THAT(failed.text, HasSubstr("known"));
  Outcome passed = outcome(Verdict::kPassed);
  judge(passed, &reason);
  EXPECT_EQ(passed.verdict, Verdict::kUnexpected);
  Outcome unsupported = outcome(Verdict::kUnsupported);
  judge(unsupported, &reason);
  EXPECT_EQ(unsupported.verdict, Verdict::kUnexpected);
}

TEST(Judging, DoesNotChangeATestThatIsNotListed) {
  for (const Verdict verdict : {Verdict::kPassed, Verdict::kFailed, Verdict::kUnsupported}) {
    Outcome same = outcome(verdict);
    judge(same, nullptr);
    EXPECT_EQ(same.verdict, verdict);
    EXPECT_EQ(same.text, "text");
  }
}

}  // namespace
}  // namespace yoke::conformance
