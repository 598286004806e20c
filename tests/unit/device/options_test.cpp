// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/options_test.cpp: a plugin's list of options is read whole,
// and values are checked against it.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "device_test.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

class OptionsTest : public DeviceTest {
 protected:
  // The plugin lists these rows instead of Control::option_specs.
  void list(std::vector<yoke_option_spec> rows) {
    static std::vector<yoke_option_spec> listed;
    listed = std::move(rows);
    control_->backend.option_specs = [](yoke_plugin*, std::uint32_t capacity, std::uint64_t stride,
                                        yoke_option_spec* to, std::uint32_t* out_count,
                                        yoke_error*) -> std::int32_t {
      EXPECT_EQ(stride, sizeof(yoke_option_spec));
      EXPECT_GE(capacity, listed.size());
      std::copy(listed.begin(), listed.end(), to);
      *out_count = static_cast<std::uint32_t>(listed.size());
      return YOKE_STATUS_OK;
    };
  }
  Error refusal(Option option) {
    return error_of([&] { backend()->open_device(0, std::vector<Option>{std::move(option)}); });
  }
};

TEST_F(OptionsTest, EveryFieldOfASpecIsRead) {
  list(
      {{"mode", "How.", YOKE_OPTION_TEXT, YOKE_OPTION_SCOPE_PLUGIN, 1, 2, 3, 4, 5, 6, "fast", "fast|exact|x"},
       {"path", nullptr, YOKE_OPTION_TEXT, YOKE_OPTION_SCOPE_DEVICE, 0, 0, 0, 0, 0, 0, nullptr, nullptr}});
  const std::vector<OptionSpec> specs = backend()->option_specs();
  ASSERT_EQ(specs.size(), 2U);
  const OptionSpec& mode = specs[0];
  EXPECT_EQ(mode.name, "mode");
  EXPECT_EQ(mode.help, "How.");
  EXPECT_EQ(mode.type, YOKE_OPTION_TEXT);
  EXPECT_EQ(mode.scope, YOKE_OPTION_SCOPE_PLUGIN);
  EXPECT_EQ(mode.integer_min, 1);
  EXPECT_EQ(mode.integer_max, 2);
  EXPECT_EQ(mode.integer_default, 3);
  EXPECT_EQ(mode.number_min, 4);
  EXPECT_EQ(mode.number_max, 5);
  EXPECT_EQ(mode.number_default, 6);
  EXPECT_EQ(mode.text_default, "fast");
  EXPECT_THAT(mode.text_choices, testing::ElementsAre("fast", "exact", "x"));
  EXPECT_EQ(specs[1].name, "path");
  EXPECT_EQ(specs[1].help + specs[1].text_default, "");
  EXPECT_THAT(specs[1].text_choices, testing::IsEmpty());
}

TEST_F(OptionsTest, SpecWithoutANameOrWithAnUnreadableTextIsAnErrorOfThePlugin) {
  const auto* const wild = reinterpret_cast<const char*>(std::uintptr_t{64});
  const yoke_option_spec good = {"mode", "How.", YOKE_OPTION_TEXT, YOKE_OPTION_SCOPE_DEVICE, 0, 0, 0, 0, 0,
                                 0,      "fast", "fast|exact"};
  std::vector<yoke_option_spec> bad(6, good);
  bad[0].name = wild;
  bad[1].help = wild;
  bad[2].text_default = wild;
  bad[3].text_choices = wild;
  bad[4].name = "";
  bad[5].name = nullptr;
  for (const yoke_option_spec& row : bad) {
    list({row});
    rig_.reset();
    EXPECT_THAT(error_of([&] { (void)backend()->option_specs(); }),
                is_error(ErrorCode::kInternal,
                         "test0: option_specs: the plugin 'test0' listed an "
                         "option without a "
                         "name, or with a text in unreadable memory"));
  }
}

TEST_F(OptionsTest, LongListIsReadByASecondCall) {
  static std::uint32_t row_count;
  static std::vector<std::uint32_t> capacities;
  control_->backend.option_specs = [](yoke_plugin*, std::uint32_t capacity, std::uint64_t,
                                      yoke_option_spec* to, std::uint32_t* out_count,
                                      yoke_error*) -> std::int32_t {
    static const std::vector<std::string> kNames = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                                                    "k", "l", "m", "n", "o", "p", "q", "r", "s"};
    for (std::uint32_t i = 0; i < std::min<std::size_t>(capacity, kNames.size()); ++i) {
      to[i].name = kNames[i].c_str();
    }
    capacities.push_back(capacity);
    *out_count = row_count;
    return YOKE_STATUS_OK;
  };
  capacities.clear();
  row_count = 19;
  const std::vector<OptionSpec> specs = backend()->option_specs();
  ASSERT_EQ(specs.size(), 19U);
  EXPECT_EQ(specs.back().name, "s");
  ASSERT_EQ(capacities.size(), 2U);
  EXPECT_LT(capacities[0], 19U);
  EXPECT_EQ(capacities[1], 19U);
  row_count = capacities[0];
  EXPECT_EQ(backend()->option_specs().size(), row_count) << "one call";
  EXPECT_EQ(capacities.size(), 3U);
  row_count = ~std::uint32_t{0};
  EXPECT_THAT(error_of([&] { (void)backend()->option_specs(); }),
              is_error(ErrorCode::kInternal, "reported more rows than fit"));
  EXPECT_EQ(capacities.size(), 4U) << "no memory for an impossible number of rows";
}

TEST_F(OptionsTest, BackendWithoutOptionSpecsHasNoOptions) {
  control_->backend.option_specs = nullptr;
  EXPECT_THAT(backend()->option_specs(), testing::IsEmpty());
  EXPECT_STREQ(refusal({"threads", std::int64_t{1}}).what(),
               "test0:0: option 'threads' is unknown; the backend has no options");
}

TEST_F(OptionsTest, RangesIncludeBothEnds) {
  std::vector<std::pair<std::int64_t, double>> opened;
  control_->option_specs = {sdk::OptionSpec::integer("threads", "Threads.", 1, -3, 5),
                            sdk::OptionSpec::number("share", "Share.", 1, 0.5, 1.5)};
  control_->on_open = [&](const sdk::Options& options) {
    opened.emplace_back(options.integer("threads"), options.number("share"));
  };
  rig();
  opened.clear();
  backend()->open_device(0, {{"threads", -3}, {"share", 0.5}});
  backend()->open_device(0, {{"threads", 5}, {"share", 1.5}});
  const std::vector<std::pair<std::int64_t, double>> ends = {{-3, 0.5}, {5, 1.5}};
  EXPECT_EQ(opened, ends);
  for (const std::int64_t value : {-4, 6}) {
    EXPECT_THAT(refusal({"threads", value}).what(),
                HasSubstr("'threads' is " + std::to_string(value) + "; its range is -3 to 5"));
  }
  for (const double value : {0.25, 1.75, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(refusal({"share", value}).what(), HasSubstr("; its range is 0.5 to 1.5"));
  }
  EXPECT_EQ(opened, ends);
}

TEST_F(OptionsTest, FlagsReachThePluginAsOneOrZero) {
  static std::vector<yoke_option> given;
  given.clear();
  control_->option_specs = {sdk::OptionSpec::flag("pin", "Pin.", true),
                            sdk::OptionSpec::flag("log", "Log.", false)};
  control_->backend.device_open = [](auto plugin, const yoke_device_args* args, auto out, auto error) {
    given.assign(args->options, args->options + args->option_count);
    return sdk::detail::device_open(plugin, args, out, error);
  };
  const std::vector<Option> options = {{"pin", false}, {"log", true}};
  backend()->open_device(0, options);
  ASSERT_EQ(given.size(), 2U);
  EXPECT_STREQ(given[0].name, "pin");
  EXPECT_EQ(given[0].type, YOKE_OPTION_FLAG);
  EXPECT_EQ(given[0].integer, 0);
  EXPECT_STREQ(given[1].name, "log");
  EXPECT_EQ(given[1].integer, 1);
}

TEST_F(OptionsTest, TextWithoutChoicesMayBeAnyTextWithoutZeroBytes) {
  std::string path;
  control_->option_specs = {sdk::OptionSpec::text("path", "A file.", "/tmp")};
  control_->on_open = [&](const sdk::Options& options) { path = options.text("path"); };
  backend()->open_device(0, {{"path", std::string("any text")}});
  EXPECT_EQ(path, "any text");
  backend()->open_device(0, {{"path", std::string()}});
  EXPECT_EQ(path, "");
  EXPECT_STREQ(refusal({"path", std::string("a\0b", 3)}).what(),
               "test0:0: option 'path' contains a zero byte");
}

TEST_F(OptionsTest, TypeThatTheRuntimeDoesNotKnowIsRefused) {
  for (const std::int32_t type : {0, 99}) {
    list({{"later", "?", type, YOKE_OPTION_SCOPE_DEVICE, 0, 9, 0, 0, 9, 0, "", ""}});
    rig_.reset();
    for (const OptionValue& value :
         {OptionValue(true), OptionValue(std::int64_t{1}), OptionValue(1.0), OptionValue(std::string("1"))}) {
      EXPECT_STREQ(refusal({"later", value}).what(),
                   "test0:0: option 'later' has a type that this version of "
                   "yoke does not support");
    }
    EXPECT_THAT(
        error_of([&] { (void)backend()->parse_options(std::vector<std::string>{"later=1"}); }),
        is_error(ErrorCode::kInvalidArgument, "has a type that this version of yoke does not support"));
  }
}

}  // namespace
}  // namespace yoke::test
