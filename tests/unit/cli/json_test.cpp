// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/json_test.cpp: the JSON writer: nesting, numbers, escapes.
#include "json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

namespace yoke::cli {
namespace {

TEST(JsonWriter, NestsAndSeparates) {
  JsonWriter json;
  json.begin_object()
      .field("a", 1)
      .key("b")
      .begin_array()
      .value(true)
      .null()
      .begin_object()
      .end_object()
      .end_array()
      .end_object();
  EXPECT_EQ(json.text(), R"({"a": 1, "b": [true, null, {}]})");
}

TEST(JsonWriter, NumbersRoundTripAndNonFiniteNumbersAreNull) {
  EXPECT_EQ(JsonWriter().value(0.1).text(), "0.1");
  EXPECT_EQ(JsonWriter().value(std::int64_t{-5}).text(), "-5");
  EXPECT_EQ(std::strtod(JsonWriter().value(1.0 / 3).text().c_str(), nullptr), 1.0 / 3);
  EXPECT_EQ(JsonWriter().value(std::numeric_limits<double>::quiet_NaN()).text(), "null");
  EXPECT_EQ(JsonWriter().value(-std::numeric_limits<double>::infinity()).text(), "null");
}

TEST(JsonWriter, TextIsEscaped) {
  EXPECT_EQ(JsonWriter().value("a\"b\\c\n\x01\x7f").text(), R"("a\"b\\c\n\u0001\u007f")");
  EXPECT_EQ(JsonWriter().value("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80").text(),
            "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  // A lone continuation byte, an overlong slash, a surrogate, a truncated character.
  EXPECT_EQ(JsonWriter().value("\x80|\xc0\xaf|\xed\xa0\x80|\xe2\x82").text(),
            R"("\ufffd|\ufffd\ufffd|\ufffd\ufffd\ufffd|\ufffd\ufffd")");
}

}  // namespace
}  // namespace yoke::cli
