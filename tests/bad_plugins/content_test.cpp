// SPDX-License-Identifier: Apache-2.0
// tests/bad_plugins/content_test.cpp: plugins that the linker refuses, or whose entry, prefix, names and
// tables are wrong: the same sentence with and without a probe.
#include "bad_plugin_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  const char* name;
  const char* sentence;  // empty: it loads
  const char* stage;
};

void PrintTo(const Case& bad, std::ostream* out) {
  *out << bad.name;
}

class BadContent : public BadPluginTest, public ::testing::WithParamInterface<Case> {
 protected:
  void expect(const Outcome& outcome) {
    const Case& bad = GetParam();
    EXPECT_EQ(outcome.report.stage, bad.stage);
    if (*bad.sentence == '\0') {
      EXPECT_EQ(outcome.sentence, "");
    } else {
      EXPECT_THAT(outcome.sentence, AllOf(HasSubstr(bad.sentence), HasSubstr(outcome.report.mend)));
      EXPECT_NE(outcome.report.mend, "");
    }
    for (const char byte : outcome.sentence) {
      EXPECT_TRUE(byte >= 0x20 && byte < 0x7f) << "a terminal must not see " << static_cast<int>(byte);
    }
  }
};

TEST_P(BadContent, IsRefusedInTheProbe) {
  const auto outcome = ask(with_probe(), GetParam().name);
  expect(outcome);
  EXPECT_EQ(outcome.report.probed, "yes");
  if (!outcome.sentence.empty()) {
    EXPECT_FALSE(is_mapped(file(GetParam().name).string())) << "it never came into this process";
  }
}

TEST_P(BadContent, IsRefusedInThisProcess) {
  const auto outcome = ask(without_probe(), GetParam().name);
  expect(outcome);
  EXPECT_EQ(outcome.report.probed, "no: probing is turned off");
}

constexpr Case kCases[] = {
    {"missing_dependency", "the linker refused it: libbad_dependency.so: cannot open shared object file",
     "checked"},
    {"undefined_symbol", "undefined symbol: bad_dependency", "checked"},
    {"no_entry", "it exports no yoke_plugin_entry", "opened"},
    {"entry_of_dependency", "its yoke_plugin_entry comes from another library that it links", "opened"},
    {"entry_is_data", "its yoke_plugin_entry is data, not a function", "opened"},
    {"refuses", "its entry answered UNAVAILABLE: the driver is too old\\x07", "entered"},
    {"throw_in_entry", "its entry threw an exception: no device\\x1b[2J", "entered"},
    {"null_plugin", "its entry answered OK without a plugin", "entered"},
    {"garbage_plugin", "what its entry gave back does not begin with yoke's magic number", "entered"},
    {"wild_plugin", "what its entry gave back, 0x10, points where no memory is", "entered"},
    {"misaligned_plugin", "is not aligned to 8 bytes", "entered"},
    {"wrong_magic", "what its entry gave back does not begin with yoke's magic number", "entered"},
    {"prefix_size_zero", "its prefix has 0 bytes, and yoke's has 72", "entered"},
    {"prefix_size_small", "its prefix has 16 bytes, and yoke's has 72", "entered"},
    {"prefix_size_absurd", "its prefix has 4294967295 bytes, and yoke's has 72", "entered"},
    {"null_destroy", "its prefix lacks destroy", "entered"},
    {"wild_get_table", "its get_table points to 0x10, where no code is", "entered"},
    {"newer_major", "it speaks plugin ABI 1.", "entered"},
    {"newer_minor", "", "loaded"},
    {"older_minor", "", "loaded"},
    {"wrong_name", "it calls itself 'other', not 'wrong_name'", "entered"},
    {"path_name", "its backend name '../../etc/passwd' is none", "entered"},
    {"empty_name", "its backend name is empty", "entered"},
    {"null_name", "it has no backend name", "entered"},
    {"wild_name", "its backend name lies at 0x10, where no memory is", "entered"},
    {"long_name", "its backend name has more than 64 characters ('xxxxxxxxxxxxxxxxxxxxxxxx...')", "entered"},
    {"not_utf8_name", "its backend name 'caf\\xe9\\x1b[2J' is none", "entered"},
    {"wild_version", "its plugin_version lies at 0x10, where no memory is", "entered"},
    {"no_table", "it does not offer the required table yoke.backend/1", "entered"},
    {"throw_in_get_table", "its get_table threw an exception of a type that yoke does not know", "entered"},
    {"wild_table", "its table yoke.backend/1 points where no memory is", "entered"},
    {"misaligned_table", "its table yoke.backend/1 is not aligned to 8 bytes", "entered"},
    {"table_size_zero", "its table yoke.backend/1 says that it has 0 bytes", "entered"},
    {"table_size_small", "its required functions are incomplete: yoke.backend/1 lacks to_host, live_counts;",
     "entered"},
    {"table_size_absurd", "its table yoke.backend/1 says that it has 18446744073709551615 bytes", "entered"},
    {"null_required", "its required functions are incomplete: yoke.backend/1 lacks device_open;", "entered"},
    {"wild_required", "its required functions are incomplete: yoke.backend/1 lacks device_open;", "entered"},
    {"null_required_stream", "yoke.stream/1 lacks stream_create, ", "entered"},
    {"null_optional", "", "loaded"},
};
INSTANTIATE_TEST_SUITE_P(Every, BadContent, ::testing::ValuesIn(kCases),
                         [](const auto& given) { return std::string(given.param.name); });

// Layers stand between the loader and the plugin: they believe it no more than the loader does.
TEST_P(BadContent, IsRefusedBehindLayersAsWell) {
  auto given = without_probe();
  given.layers.names = "validate,trace";
  given.layers.trace_file = root_ / "trace";
  expect(ask(given, GetParam().name));
}

class BadAnswer : public BadPluginTest {};

TEST_F(BadAnswer, AMissingOptionalFunctionIsUnimplementedAndNeverCalled) {
  place("null_optional");
  const auto backend = Runtime(with_probe()).backend("null_optional");
  EXPECT_TRUE(backend->option_specs().empty());
  EXPECT_EQ(backend->state().backend.option_specs(backend->state().plugin, 0, nullptr, nullptr, nullptr),
            YOKE_UNIMPLEMENTED);
}

TEST_F(BadAnswer, WhatAListOfOptionsGetsWrongIsNamed) {
  const auto sentence = [&](const std::string& name) {
    place(name);
    const auto backend = Runtime(with_probe()).backend(name);
    const auto error = error_of([&] { (void)backend->option_specs(); });
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    return std::string(error.what());
  };
  EXPECT_THAT(sentence("count_above_capacity"),
              HasSubstr("the plugin 'count_above_capacity' gave more rows than it has room for"));
  EXPECT_THAT(sentence("duplicate_option"),
              HasSubstr("the plugin 'duplicate_option' gave the option 'speed' twice"));
  EXPECT_THAT(sentence("wild_option"), HasSubstr("a text that lies where no memory is"));
}

TEST_F(BadAnswer, OkWithoutADeviceIsThePluginsFault) {
  place("no_result");
  const auto backend = Runtime(with_probe()).backend("no_result");
  EXPECT_THAT(error_of([&] { backend->open_device(0); }).what(),
              HasSubstr("device_open: the plugin 'no_result' answered OK without a result"));
}

TEST_F(BadAnswer, TextsOfAPluginReachATerminalEscaped) {
  place("good");
  EXPECT_EQ(Runtime(with_probe()).backend("good")->version(), "0.0\\x07");
}

}  // namespace
}  // namespace yoke::test
