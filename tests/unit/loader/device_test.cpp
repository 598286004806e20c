// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/device_test.cpp: errors of devices and buffers, invalid results of a plugin, and options.
#include "loader_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class PluginDeviceTest : public LoaderTest {
 protected:
  std::shared_ptr<Backend> backend(const std::string& name) {
    place(name);
    return Runtime(options()).backend(name);
  }
};

TEST_F(PluginDeviceTest, UnterminatedNameIsReadUpToTheEndOfItsArray) {
  const auto info = backend("unterminated_name")->device_info(1);
  EXPECT_EQ(info.name, std::string(YOKE_NAME_CAPACITY, 'n'));
  EXPECT_EQ(info.unique_id, "test:1");
  EXPECT_EQ(info.compute_unit_count, 1U) << "0 is not valid";
}

TEST_F(PluginDeviceTest, UnknownCodeBecomesUnknown) {
  const auto loaded = backend("unknown_code");
  const auto error = error_of([&] { loaded->open_device(1); });
  EXPECT_EQ(error.code(), ErrorCode::kUnknown);
  EXPECT_STREQ(error.what(), "unknown_code:1: device_open: a reason (UNKNOWN code 99, vendor code -7)");
}

TEST_F(PluginDeviceTest, OkWithoutResultIsAnErrorOfThePlugin) {
  EXPECT_THAT(error_of([&] { backend("no_result")->open_device(0); }),
              is_error(ErrorCode::kInternal, "no_result:0: device_open: ", "the plugin 'no_result'",
                       "report this to its author (INTERNAL)"));
}

TEST_F(PluginDeviceTest, InvalidOptionListIsAnErrorOfThePlugin) {
  const std::pair<std::string, const char*> cases[] = {
      {"count_above_capacity", "reported more rows than fit"},
      {"duplicate_option", "listed the option 'mode' twice"},
      {"wild_option", "a text in unreadable memory"}};
  for (const auto& [name, text] : cases) {
    const auto loaded = backend(name);
    EXPECT_THAT(error_of([&] { (void)loaded->option_specs(); }),
                is_error(ErrorCode::kInternal, "option_specs: the plugin '" + name + "'", text));
  }
}

TEST_F(PluginDeviceTest, TextsOfAPluginAreEscaped) {
  EXPECT_EQ(backend("odd_version")->version(), "0.0\\x07");
}

TEST_F(PluginDeviceTest, OptionsReachThePluginAsGiven) {
  const auto loaded = backend("good");
  const std::vector<Option> given = {
      {"threads", std::int64_t{8}}, {"share", 0.25}, {"mode", std::string("exact")}, {"pin", true}};
  loaded->open_device(0, given);
  EXPECT_THAT(lines_, Contains("2 test.open threads=8 share=0.250000 mode=exact pin=1 backend=good"));
  loaded->open_device(0, std::vector<Option>{{"share", std::int64_t{1}}});  // an integer is also a number
  EXPECT_THAT(lines_, Contains("2 test.open threads=2 share=1.000000 mode=fast pin=0 backend=good"));
}

TEST_F(PluginDeviceTest, OptionsMayBeInBraces) {
  const auto loaded = backend("good");
  loaded->open_device(0, {{"threads", 4}});
  EXPECT_THAT(lines_, Contains("2 test.open threads=4 share=0.500000 mode=fast pin=0 backend=good"));
  loaded->open_device(0, {{"threads", 8}, {"share", 0.25}, {"mode", "exact"}, {"pin", true}});
  EXPECT_THAT(lines_, Contains("2 test.open threads=8 share=0.250000 mode=exact pin=1 backend=good"));
  loaded->open_device(0, {});
  EXPECT_THAT(lines_, Contains("2 test.open threads=2 share=0.500000 mode=fast pin=0 backend=good"));
  EXPECT_EQ(loaded->parse_options({"threads=8", "mode=exact"}).size(), 2U);
}

TEST_F(PluginDeviceTest, OptionsOutsideTheSchemaDoNotReachThePlugin) {
  const auto loaded = backend("good");
  const std::pair<std::vector<Option>, const char*> cases[] = {
      {{{"thread", std::int64_t{1}}},
       "option 'thread' is unknown; the options are threads, share, mode, pin; did you mean 'threads'?"},
      {{{"threads", std::int64_t{9}}}, "option 'threads' is 9; its range is 1 to 8"},
      {{{"level", std::int64_t{1}}},
       "option 'level' is an option of the whole plugin; set it with --plugin-option, or in "
       "RuntimeOptions::plugin_options"},
      {{{"threads", 2.0}}, "option 'threads' must be an integer"},
      {{{"threads", true}}, "option 'threads' must be an integer"},
      {{{"share", std::string("0.5")}}, "option 'share' must be a number"},
      {{{"mode", std::int64_t{1}}}, "option 'mode' must be a text"},
      {{{"share", 1.5}}, "option 'share' is 1.5; its range is 0 to 1"},
      {{{"mode", std::string("wild")}}, "option 'mode' is 'wild'; its values are fast, exact"},
      {{{"pin", std::int64_t{1}}}, "option 'pin' must be true or false"},
      {{{"pin", true}, {"pin", false}}, "option 'pin' is given twice"}};
  for (const auto& [given, text] : cases) {
    const auto error = error_of([&, &given = given] { loaded->open_device(1, given); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.what(), std::string("good:1: ") + text);
  }
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("test.open"))));
}

TEST_F(PluginDeviceTest, OptionTextsAreParsedByTheSchemasTypes) {
  const auto loaded = backend("good");
  const std::vector<std::string> texts = {"threads=8", "share=1e-1", "mode=exact", "pin=on"};
  const auto options = loaded->parse_options(texts);
  ASSERT_EQ(options.size(), 4U);
  EXPECT_EQ(options[0].name, "threads");
  EXPECT_EQ(options[0].value, OptionValue(std::int64_t{8}));
  EXPECT_EQ(options[1].value, OptionValue(0.1));
  EXPECT_EQ(options[2].value, OptionValue(std::string("exact")));
  EXPECT_EQ(options[3].value, OptionValue(true));
  EXPECT_TRUE(loaded->parse_options({}).empty());
  for (const auto& [text, value] :
       {std::pair("pin=off", false), std::pair("pin=0", false), std::pair("pin=1", true)}) {
    EXPECT_EQ(loaded->parse_options(std::vector<std::string>{text}).at(0).value, OptionValue(value)) << text;
  }
}

TEST_F(PluginDeviceTest, InvalidOptionTextsAreRefused) {
  const auto loaded = backend("good");
  const std::pair<const char*, const char*> cases[] = {
      {"threads", "'threads' is not an option; write name=value"},
      {"=8", "'=8' is not an option; write name=value"},
      {"thread=8",
       "option 'thread' is unknown; the options are threads, share, mode, pin; did you mean 'threads'?"},
      {"mode=exat", "option 'mode' is 'exat'; its values are fast, exact; did you mean 'exact'?"},
      {"threads=eight", "option 'threads' must be an integer, not 'eight'"},
      {"threads=8 ", "option 'threads' must be an integer, not '8 '"},
      {"threads=99999999999999999999", "option 'threads' must be an integer, not '99999999999999999999'"},
      {"threads=9", "option 'threads' is 9; its range is 1 to 8"},
      {"share=half", "option 'share' must be a number, not 'half'"},
      {"share=nan", "option 'share' is nan; its range is 0 to 1"},
      {"mode=wild", "option 'mode' is 'wild'; its values are fast, exact"},
      {"pin=yes", "option 'pin' must be on or off, not 'yes'"},
      {"pin=no", "option 'pin' must be on or off, not 'no'"},
      {"pin=", "option 'pin' must be on or off, not ''"},
      {"pin=2", "option 'pin' must be on or off, not '2'"}};
  for (const auto& [text, why] : cases) {
    const auto error =
        error_of([&, &text = text] { (void)loaded->parse_options(std::vector<std::string>{text}); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.what(), std::string("good: ") + why);
  }
}

TEST_F(PluginDeviceTest, FailedCloseIsLoggedAndThePluginIsNotDestroyed) {
  auto loaded = backend("good");
  auto device = loaded->open_device(0);
  yoke_buffer* forgotten = nullptr;
  const std::unique_ptr<detail::BackendState> leaked(&loaded->state());  // by the backend, below
  const auto* api = &leaked->backend;
  // Created without the knowledge of the runtime.
  const yoke_buffer_args args = {
      .struct_size = sizeof(args), .flags = 0, .byte_count = 8, .kind = YOKE_MEMORY_DEVICE, .reserved = 0};
  ASSERT_EQ(api->buffer_create(device->get(), &args, &forgotten, nullptr), YOKE_STATUS_OK);

  yoke_device* const handle = device->get();
  device.reset();
  loaded.reset();

  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("4 device.leak device=good:0"), HasSubstr("1 buffer"))));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("4 plugin.leak name=good"), HasSubstr("unclosed_devices=1"))));
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("test.destroy"))));
  api->buffer_destroy(forgotten);
  EXPECT_EQ(api->device_close(handle, nullptr), YOKE_STATUS_OK);
}

}  // namespace
}  // namespace yoke::test
