// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_options_test.cpp: the values of options, and which are refused.
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sdk_fixture.h"

namespace yoke::test {
namespace {

TEST_F(SdkTest, OptionsDefaultToTheSchema) {
  Entered entered(entry());
  control_->on_open = [](const sdk::Options& options) {
    EXPECT_EQ(options.integer("threads"), 4);
    EXPECT_EQ(options.number("share"), 0.5);
    EXPECT_EQ(options.text("mode"), "fast");
    EXPECT_FALSE(options.flag("verify"));
    EXPECT_FALSE(options.given("threads"));
  };

  EXPECT_EQ(open_with(entered), YOKE_STATUS_OK);
}

TEST_F(SdkTest, OptionsHaveTheirGivenValues) {
  Entered entered(entry());
  control_->on_open = [](const sdk::Options& given) {
    EXPECT_EQ(given.integer("threads"), 8);
    EXPECT_EQ(given.number("share"), 0.25);
    EXPECT_EQ(given.text("mode"), "exact");
    EXPECT_TRUE(given.flag("verify"));
    EXPECT_TRUE(given.given("mode"));
  };

  EXPECT_EQ(open_with(entered, {integer_option("threads", 8),
                                {"share", YOKE_OPTION_NUMBER, 0, 0, 0.25, nullptr},
                                text_option("mode", "exact"),
                                {"verify", YOKE_OPTION_FLAG, 0, 1, 0, nullptr}}),
            YOKE_STATUS_OK)
      << entered.error.text;
}

TEST_F(SdkTest, UnknownOptionIsRejectedWithTheKnownNames) {
  Entered entered(entry());

  EXPECT_EQ(open_with(entered, {integer_option("treads", 8)}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "unknown option 'treads'; known options: threads, share, mode, verify");
  control_->option_specs.clear();
  Entered without(entry());
  EXPECT_EQ(open_with(without, {integer_option("threads", 8)}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(without.error.text, "unknown option 'threads'; there are no options");
}

TEST_F(SdkTest, InvalidOptionValuesAreRejected) {
  struct Case {
    std::vector<yoke_option> options;
    std::string text;
  };
  const double not_a_number = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Case> cases = {
      {{integer_option("threads", 65)}, "option 'threads' is 65; the range is 1 to 64"},
      {{text_option("threads", "2")}, "option 'threads' has type 3; its schema has type 1"},
      {{integer_option("share", 1)}, "option 'share' has type 1; its schema has type 2"},
      {{integer_option("threads", 2), integer_option("threads", 3)}, "option 'threads' is given twice"},
      {{text_option("mode", "fast|exact")}, "option 'mode' is 'fast|exact'; the choices are fast|exact"},
      {{{"share", YOKE_OPTION_NUMBER, 0, 0, not_a_number, nullptr}},
       "option 'share' is nan; the range is 0.0"},
      {{integer_option("threads", 0)}, "option 'threads' is 0; the range is 1 to 64"},
      {{{"share", YOKE_OPTION_NUMBER, 0, 0, -0.01, nullptr}}, "option 'share' is -0.01"},
      {{{"share", YOKE_OPTION_NUMBER, 0, 0, 1.01, nullptr}}, "option 'share' is 1.01"},
      {{{"verify", YOKE_OPTION_FLAG, 0, 2, 0, nullptr}}, "option 'verify' is 2; the range is 0 to 1"},
      {{text_option("mode", "fas")}, "option 'mode' is 'fas'; the choices are fast|exact"},
      {{text_option("mode", nullptr)}, "option 'mode' is ''; the choices are fast|exact"},
      {{text_option("mode", "fast"), text_option(nullptr, "fast")}, "option 1 has no name"}};
  Entered entered(entry());
  for (const Case& one : cases) {
    EXPECT_EQ(open_with(entered, one.options), YOKE_STATUS_INVALID_ARGUMENT) << one.text;
    EXPECT_THAT(entered.error.text, testing::StartsWith(one.text));
  }
}

TEST_F(SdkTest, RangesOfOptionsIncludeTheirEndsAndATextWithoutChoicesMayBeAny) {
  control_->option_specs.push_back(sdk::OptionSpec::text("path", "A folder.", "here"));
  Entered entered(entry());
  std::string path;
  control_->on_open = [&](const sdk::Options& given) { path = given.text("path"); };
  for (const yoke_option& option : {integer_option("threads", 1),
                                    integer_option("threads", 64),
                                    {"share", YOKE_OPTION_NUMBER, 0, 0, 0.0, nullptr},
                                    {"share", YOKE_OPTION_NUMBER, 0, 0, 1.0, nullptr}}) {
    EXPECT_EQ(open_with(entered, {option}), YOKE_STATUS_OK) << entered.error.text;
    EXPECT_EQ(path, "here");
  }
  EXPECT_EQ(open_with(entered, {text_option("path", "a|b")}), YOKE_STATUS_OK) << entered.error.text;
  EXPECT_EQ(path, "a|b");
  EXPECT_EQ(open_with(entered, {text_option("path", nullptr)}), YOKE_STATUS_OK) << entered.error.text;
  EXPECT_EQ(path, "");
}

TEST_F(SdkTest, OnlyOptionsOfTheSchemaCanBeReadInTheirType) {
  Entered entered(entry());
  const std::vector<std::function<void(const sdk::Options&)>> reads = {
      [](const sdk::Options& options) { (void)options.integer("mode"); },
      [](const sdk::Options& options) { (void)options.number("mode"); },
      [](const sdk::Options& options) { (void)options.flag("mode"); },
      [](const sdk::Options& options) { (void)options.given("modes"); },
      [](const sdk::Options& options) { (void)options.text("verify"); }};
  for (const auto& read : reads) {
    control_->on_open = read;
    EXPECT_EQ(open_with(entered), YOKE_STATUS_INTERNAL);
    EXPECT_THAT(entered.error.text, testing::EndsWith("', which its schema lacks in this type"));
  }
}

// A newer host has longer rows, and an older one may lack the last fields.
TEST_F(SdkTest, RowsOfOptionsMayHaveAnotherSize) {
  control_->option_specs.push_back(sdk::OptionSpec::text("path", "A folder.", "here"));
  Entered entered(entry());
  std::string seen;
  control_->on_open = [&](const sdk::Options& given) {
    seen = std::to_string(given.integer("threads")) + " " + given.text("path");
  };
  struct Longer {
    yoke_option option;
    std::uint64_t more;
  };
  const std::array<Longer, 2> rows = {Longer{integer_option("threads", 7), 1},
                                      Longer{text_option("path", "there"), 2}};
  auto args = sized<yoke_device_args>();
  args.options = &rows[0].option;
  args.option_count = 2;
  args.option_stride = sizeof(Longer);
  yoke_device* device = nullptr;
  ASSERT_EQ(entered.backend->device_open(entered.plugin, &args, &device, &entered.error), YOKE_STATUS_OK)
      << entered.error.text;
  EXPECT_EQ(seen, "7 there");
  entered.close(device);

  struct Shorter {
    const char* name;
    std::int32_t type;
    std::int32_t reserved;
  };
  const std::array<Shorter, 1> short_rows = {Shorter{"path", YOKE_OPTION_TEXT, 0}};
  args.options = reinterpret_cast<const yoke_option*>(short_rows.data());
  args.option_count = 1;
  args.option_stride = sizeof(Shorter);
  ASSERT_EQ(entered.backend->device_open(entered.plugin, &args, &device, &entered.error), YOKE_STATUS_OK);
  EXPECT_EQ(seen, "4 ") << "the text lies past the end of the row";
  entered.close(device);
  args.options = nullptr;
  EXPECT_EQ(entered.backend->device_open(entered.plugin, &args, &device, &entered.error),
            YOKE_STATUS_INVALID_ARGUMENT);
}

TEST_F(SdkTest, TextsOfPluginOptionsAreConvertedToTheTypesOfTheirSchemas) {
  control_->option_specs = {sdk::OptionSpec::integer("count", "How many.", 1, -9, 9).for_plugin(),
                            sdk::OptionSpec::number("rate", "How fast.", 0.5, 0, 10).for_plugin(),
                            sdk::OptionSpec::text("mode", "How.", "fast").for_plugin(),
                            sdk::OptionSpec::flag("loud", "Log everything.", false).for_plugin(),
                            sdk::OptionSpec::flag("strict", "Refuse more.", true).for_plugin()};
  std::string seen;
  control_->on_configure = [&](const sdk::Options& options) {
    seen = std::to_string(options.integer("count")) + " " + std::to_string(options.number("rate")) + " " +
           options.text("mode") + (options.flag("loud") ? " loud" : " quiet") +
           (options.flag("strict") ? " strict" : " lax");
  };
  const std::string no_value = "', which is not a value of its type";
  const std::vector<std::pair<yoke_option, std::string>> cases = {
      {text_option("count", "-3"), "-3 0.500000 fast quiet strict"},
      {integer_option("count", 4), "4 0.500000 fast quiet strict"},
      {text_option("rate", "2.5"), "1 2.500000 fast quiet strict"},
      {text_option("mode", "5"), "1 0.500000 5 quiet strict"},
      {text_option("loud", "true"), "1 0.500000 fast loud strict"},
      {text_option("loud", "on"), "1 0.500000 fast loud strict"},
      {text_option("loud", "1"), "1 0.500000 fast loud strict"},
      {text_option("strict", "false"), "1 0.500000 fast quiet lax"},
      {text_option("strict", "off"), "1 0.500000 fast quiet lax"},
      {text_option("strict", "0"), "1 0.500000 fast quiet lax"},
      {text_option("count", "3x"), "option 'count' is '3x" + no_value},
      {text_option("count", "on"), "option 'count' is 'on" + no_value},
      {text_option("count", ""), "option 'count' is '" + no_value},
      {text_option("count", nullptr), "option 'count' is '" + no_value},
      {text_option("count", "99999999999999999999"), "option 'count' is '99999999999999999999" + no_value},
      {text_option("count", "10"), "option 'count' is 10; the range is -9 to 9"},
      {text_option("rate", "fast"), "option 'rate' is 'fast" + no_value},
      {text_option("loud", "yes"), "option 'loud' is 'yes" + no_value},
      {text_option("loud", "2"), "option 'loud' is 2; the range is 0 to 1"}};
  for (const auto& one : cases) {
    TestHost host;
    yoke_entry_args args = host.args();
    args.options = &one.first;
    args.option_count = 1;
    args.option_stride = sizeof(yoke_option);
    yoke_plugin* plugin = nullptr;
    yoke_error error;
    if (entry()(&args, &plugin, &error) == YOKE_STATUS_OK) {
      EXPECT_EQ(seen, one.second);
      plugin->destroy(plugin);
    } else {
      EXPECT_EQ(error.text, one.second);
    }
  }
}

TEST_F(SdkTest, SchemasReachTheHostUnchanged) {
  control_->option_specs.back() = sdk::OptionSpec::flag("verify", "Check every result.", true).for_plugin();
  control_->option_specs.push_back(sdk::OptionSpec::number("rate", "How fast.", 0.75, -2.5, 9.5));
  control_->option_specs.push_back(sdk::OptionSpec::text("path", "A folder.", "here"));
  Entered entered(entry());
  std::array<yoke_option_spec, 7> rows{};
  rows[6].name = "untouched";
  std::uint32_t count = 0;
  const auto* api = entered.backend;

  ASSERT_EQ(api->option_specs(entered.plugin, 7, sizeof rows[0], rows.data(), &count, nullptr),
            YOKE_STATUS_OK);
  ASSERT_EQ(count, 6U);
  EXPECT_STREQ(rows[6].name, "untouched");
  EXPECT_STREQ(rows[0].name, "threads");
  EXPECT_STREQ(rows[0].help, "Number of threads.");
  EXPECT_EQ(rows[0].type, YOKE_OPTION_INTEGER);
  EXPECT_EQ(rows[0].scope, YOKE_OPTION_SCOPE_DEVICE);
  EXPECT_EQ(rows[0].integer_min, 1);
  EXPECT_EQ(rows[0].integer_max, 64);
  EXPECT_EQ(rows[0].integer_default, 4);
  EXPECT_EQ(rows[0].text_choices, nullptr);
  EXPECT_STREQ(rows[2].name, "mode");
  EXPECT_STREQ(rows[2].help, "How to compute.");
  EXPECT_EQ(rows[2].type, YOKE_OPTION_TEXT);
  EXPECT_STREQ(rows[2].text_default, "fast");
  EXPECT_STREQ(rows[2].text_choices, "fast|exact");
  EXPECT_EQ(rows[3].type, YOKE_OPTION_FLAG);
  EXPECT_EQ(rows[3].scope, YOKE_OPTION_SCOPE_PLUGIN);
  EXPECT_EQ(rows[3].integer_min, 0);
  EXPECT_EQ(rows[3].integer_max, 1);
  EXPECT_EQ(rows[3].integer_default, 1);
  EXPECT_STREQ(rows[4].help, "How fast.");
  EXPECT_EQ(rows[4].type, YOKE_OPTION_NUMBER);
  EXPECT_EQ(rows[4].number_min, -2.5);
  EXPECT_EQ(rows[4].number_max, 9.5);
  EXPECT_EQ(rows[4].number_default, 0.75);
  EXPECT_STREQ(rows[5].text_default, "here");
  EXPECT_EQ(rows[5].text_choices, nullptr);
}

// An older host passes shorter rows.
TEST_F(SdkTest, RowsAreWrittenAsFarAsTheHostHasRoom) {
  Entered entered(entry());
  const auto* api = entered.backend;
  std::uint32_t count = 0;
  struct Shorter {
    const char* name;
    const char* help;
  };
  std::array<Shorter, 4> rows{};
  rows[2].name = rows[3].name = "untouched";
  ASSERT_EQ(api->option_specs(entered.plugin, 2, sizeof rows[0],
                              reinterpret_cast<yoke_option_spec*>(rows.data()), &count, nullptr),
            YOKE_STATUS_OK);
  EXPECT_EQ(count, 4U) << "the full number";
  EXPECT_STREQ(rows[0].name, "threads");
  EXPECT_STREQ(rows[1].name, "share");
  EXPECT_STREQ(rows[1].help, "Share of the machine.");
  EXPECT_STREQ(rows[2].name, "untouched");

  count = 0;
  EXPECT_EQ(api->option_specs(entered.plugin, 0, 0, nullptr, &count, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(api->option_specs(entered.plugin, 1, 8, nullptr, &count, &entered.error),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "the array of rows is NULL");
  EXPECT_EQ(api->option_specs(entered.plugin, 0, 0, nullptr, nullptr, &entered.error),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "out_count is NULL");
}

}  // namespace
}  // namespace yoke::test
