// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/device_test.cpp: devices and buffers over a plugin that misbehaves on request.
#include "device/state.h"
#include "fixture.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class PluginDeviceTest : public LoaderTest {
 protected:
  std::shared_ptr<Backend> backend(const std::string& variant) {
    return Runtime(options({folder_with(variant)})).backend("good");
  }
  std::string option_error(const Option& option) {
    const auto error = error_of([&] { backend_->open_device(1, std::vector{option}); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  std::shared_ptr<Backend> backend_;
};

TEST_F(PluginDeviceTest, ADescriptionThatIsNotClosedByAZeroIsReadNoFurtherThanItsArray) {
  const auto info = backend("good")->device_info(1);
  EXPECT_EQ(info.name, std::string(YOKE_NAME_CAPACITY, 'n'));
  EXPECT_EQ(info.unique_id, "test:1");
  EXPECT_EQ(info.compute_unit_count, 1U) << "0 is no answer";
}

TEST_F(PluginDeviceTest, AFailedCallNamesDeviceCallReasonAndCode) {
  const auto device = backend("good")->open_device(0);
  const auto error = error_of([&] { Buffer(device, 1U << 21U); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfDeviceMemory);
  EXPECT_STREQ(error.what(),
               "good:0: buffer_create: the device has 1 MiB (OUT_OF_DEVICE_MEMORY, vendor code 2)");
}

TEST_F(PluginDeviceTest, AnUnknownCodeIsShownAsUnknown) {
  const auto device = backend("good")->open_device(1);
  const auto error = error_of([&] { (void)device->memory(); });
  EXPECT_EQ(error.code(), ErrorCode::kUnknown);
  EXPECT_STREQ(error.what(),
               "good:1: device_memory: a code that nobody knows (UNKNOWN code 99, vendor code -7)");
}

TEST_F(PluginDeviceTest, OkWithoutAResultIsThePluginsFault) {
  const auto device = backend("empty_results")->open_device(0);
  const auto error = error_of([&] { Buffer(device, 8); });
  EXPECT_EQ(error.code(), ErrorCode::kInternal);
  EXPECT_STREQ(error.what(),
               "good:0: buffer_create: the plugin 'good' answered OK without a result: report it to its "
               "author (INTERNAL)");
}

TEST_F(PluginDeviceTest, ACountAboveItsCapacityIsThePluginsFault) {
  const auto loaded = backend("growing_count");
  const auto error = error_of([&] { (void)loaded->option_specs(); });
  EXPECT_EQ(error.code(), ErrorCode::kInternal);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("good: option_specs: the plugin 'good' gave more rows")));
}

TEST_F(PluginDeviceTest, NoDeviceIsAnAnswerWithAReason) {
  const auto loaded = backend("no_device");
  EXPECT_EQ(loaded->device_count(), 0U);
  EXPECT_EQ(loaded->no_device_reason(), "no accelerator is plugged in");
  const auto error = error_of([&] { loaded->open_device(0); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
  EXPECT_STREQ(error.what(), "good:0: there is no such device: no accelerator is plugged in");
}

TEST_F(PluginDeviceTest, ADeviceBeyondTheLastIsNamed) {
  EXPECT_STREQ(error_of([&] { backend("good")->open_device(2); }).what(),
               "good:2: there is no such device: 'good' has 2, numbered from 0");
}

TEST_F(PluginDeviceTest, OptionsReachThePluginAsGiven) {
  const std::vector<Option> given = {
      {"threads", std::int64_t{8}}, {"share", 0.25}, {"mode", std::string("exact")}, {"pin", true}};
  backend("good")->open_device(0, given);
  EXPECT_THAT(lines_,
              Contains("2 test.open threads=8/0/- share=0/0.25/- mode=0/0/exact pin=1/0/- backend=good"));
}

TEST_F(PluginDeviceTest, AWholeNumberIsANumber) {
  backend("good")->open_device(0, std::vector<Option>{{"share", std::int64_t{1}}});
  EXPECT_THAT(lines_, Contains("2 test.open share=0/1/- backend=good"));
}

TEST_F(PluginDeviceTest, OptionsThatTheSchemaForbidsNeverReachThePlugin) {
  backend_ = backend("good");
  EXPECT_EQ(option_error({"thread", std::int64_t{1}}),
            "good:1: option 'thread' is unknown: this backend has threads, share, mode, pin");
  EXPECT_EQ(option_error({"threads", std::int64_t{9}}), "good:1: option 'threads' is 9: give 1 to 8");
  EXPECT_EQ(option_error({"threads", 2.0}), "good:1: option 'threads' must be an integer");
  EXPECT_EQ(option_error({"share", 1.5}), "good:1: option 'share' is 1.5: give 0 to 1");
  EXPECT_EQ(option_error({"mode", std::string("wild")}),
            "good:1: option 'mode' is 'wild': give one of fast, exact");
  EXPECT_EQ(option_error({"pin", std::int64_t{1}}), "good:1: option 'pin' must be true or false");
  const auto twice = error_of([&] {
    backend_->open_device(1, std::vector<Option>{{"pin", true}, {"pin", false}});
  });
  EXPECT_STREQ(twice.what(), "good:1: option 'pin' is given twice: give it once");
  EXPECT_THAT(lines_, ::testing::Not(Contains(HasSubstr("test.open"))));
}

TEST_F(PluginDeviceTest, OptionsAreReadFromTextsByTheSchemasTypes) {
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

TEST_F(PluginDeviceTest, TextsThatAreNoOptionsAreRefusedInASentence) {
  const auto loaded = backend("good");
  const auto sentence = [&](const std::string& text) {
    const auto error = error_of([&] { (void)loaded->parse_options(std::vector<std::string>{text}); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
    return std::string(error.what());
  };
  EXPECT_EQ(sentence("threads"), "good: an option is written name=value, not 'threads'");
  EXPECT_EQ(sentence("=8"), "good: an option is written name=value, not '=8'");
  EXPECT_EQ(sentence("thread=8"),
            "good: option 'thread' is unknown: this backend has threads, share, mode, pin");
  EXPECT_EQ(sentence("threads=eight"), "good: option 'threads' takes a whole number, not 'eight'");
  EXPECT_EQ(sentence("threads=8 "), "good: option 'threads' takes a whole number, not '8 '");
  EXPECT_EQ(sentence("threads=99999999999999999999"),
            "good: option 'threads' takes a whole number, not '99999999999999999999'");
  EXPECT_EQ(sentence("threads=9"), "good: option 'threads' is 9: give 1 to 8");
  EXPECT_EQ(sentence("share=half"), "good: option 'share' takes a number, not 'half'");
  EXPECT_EQ(sentence("share=nan"), "good: option 'share' is nan: give 0 to 1");
  EXPECT_EQ(sentence("mode=wild"), "good: option 'mode' is 'wild': give one of fast, exact");
  EXPECT_EQ(sentence("pin=yes"), "good: option 'pin' takes on or off, not 'yes'");
}

TEST_F(PluginDeviceTest, TheSchemaIsReadable) {
  const auto specs = backend("good")->option_specs();
  ASSERT_EQ(specs.size(), 4U);
  EXPECT_EQ(specs[0].name, "threads");
  EXPECT_EQ(specs[0].integer_max, 8);
  EXPECT_EQ(specs[2].text_choices, (std::vector<std::string>{"fast", "exact"}));
}

TEST_F(PluginDeviceTest, ACloseThatFindsLivingObjectsIsLoggedAndThePluginIsLeftAlone) {
  auto loaded = backend("good");
  auto device = loaded->open_device(0);
  yoke_buffer* forgotten = nullptr;
  // Behind the runtime's back, as a program that uses the table itself might.
  const std::unique_ptr<detail::BackendState> left(&loaded->state());  // nobody's, once the backend is gone
  const auto* api = &left->backend;
  ASSERT_EQ(api->buffer_create(device->get(), 8, YOKE_MEMORY_DEVICE, &forgotten, nullptr), YOKE_OK);

  yoke_device* const handle = device->get();
  device.reset();
  loaded.reset();

  EXPECT_THAT(lines_,
              Contains(AllOf(HasSubstr("4 device.leak device=good:0"), HasSubstr("1 buffer is alive"))));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("4 plugin.leak name=good"), HasSubstr("unclosed_devices=1"))));
  EXPECT_THAT(lines_, ::testing::Not(Contains(HasSubstr("test.destroy"))));
  api->buffer_destroy(forgotten);  // the state was left to the plugin, so its table is still there
  EXPECT_EQ(api->device_close(handle, nullptr), YOKE_OK);
}

}  // namespace
}  // namespace yoke::test
