// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_test.cpp: what the SDK promises about errors, options, sizes, copies and live objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_backend.h"
#include "loaded_plugin.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

class SdkTest : public testing::Test {
 protected:
  SdkTest() { current_script = &script_; }

  // Opens device 0 with `on_open`, expecting a failure; gives back the code, and fills error_.
  std::int32_t open_with(Entered& entered, const std::vector<yoke_option>& options = {}) {
    yoke_device* device = nullptr;
    const std::int32_t code =
        entered.backend->device_open(entered.plugin, 0, options.data(),
                                     static_cast<std::uint32_t>(options.size()), &device, &entered.error);
    if (code == YOKE_OK) {
      entered.close(device);
    } else {
      EXPECT_EQ(device, nullptr) << "out-parameters stay untouched on failure";
      EXPECT_EQ(entered.error.code, code);
    }
    return code;
  }

  Script script_;
};

TEST_F(SdkTest, FailureKeepsItsCodeItsVendorCodeAndItsText) {
  Entered entered(fake_entry);
  script_.on_open = [](const sdk::Options&) { throw sdk::Failure(YOKE_UNAVAILABLE, "the card sleeps", 35); };

  EXPECT_EQ(open_with(entered), YOKE_UNAVAILABLE);
  EXPECT_EQ(entered.error.text, "the card sleeps");
  EXPECT_EQ(entered.error.vendor_code, 35);
}

TEST_F(SdkTest, FailureThatSaysOkIsStillAFailure) {
  Entered entered(fake_entry);
  script_.on_open = [](const sdk::Options&) { throw sdk::Failure(YOKE_OK, "confused"); };

  EXPECT_EQ(open_with(entered), YOKE_INTERNAL);
}

TEST_F(SdkTest, BadAllocBecomesResourceExhausted) {
  Entered entered(fake_entry);
  script_.on_open = [](const sdk::Options&) { throw std::bad_alloc(); };

  EXPECT_EQ(open_with(entered), YOKE_RESOURCE_EXHAUSTED);
}

TEST_F(SdkTest, OtherExceptionsBecomeInternalWithTheirText) {
  Entered entered(fake_entry);
  script_.on_open = [](const sdk::Options&) { throw std::logic_error("off by one"); };
  EXPECT_EQ(open_with(entered), YOKE_INTERNAL);
  EXPECT_EQ(entered.error.text, "off by one");

  script_.on_open = [](const sdk::Options&) { throw 42; };
  EXPECT_EQ(open_with(entered), YOKE_INTERNAL);
}

TEST_F(SdkTest, GivingBackNothingIsInternal) {
  Entered entered(fake_entry);
  script_.opens_nothing = true;

  EXPECT_EQ(open_with(entered), YOKE_INTERNAL);
  EXPECT_THAT(entered.error.text, HasSubstr("open_device"));
}

TEST_F(SdkTest, ExceptionInTheConstructorIsTheEntrysFailure) {
  TestHost host;
  const yoke_entry_args args = host.args();
  yoke_plugin* plugin = nullptr;
  yoke_error error;
  const auto throws = []() -> std::unique_ptr<sdk::Backend> { throw std::runtime_error("no way"); };

  EXPECT_EQ(sdk::enter(&args, &plugin, &error, {"fake", "1", "tests"}, throws), YOKE_INTERNAL);
  EXPECT_EQ(plugin, nullptr);
  EXPECT_EQ(error.text, "no way");
}

TEST_F(SdkTest, NobodyHasToWantTheText) {
  Entered entered(fake_entry);
  yoke_device* device = nullptr;

  EXPECT_EQ(entered.backend->device_open(entered.plugin, 2, nullptr, 0, &device, nullptr), YOKE_OUT_OF_RANGE);
}

TEST_F(SdkTest, NoDeviceIsAnAnswerWithAReason) {
  script_.device_count = 0;
  Entered entered(fake_entry);
  std::uint32_t count = 7;

  EXPECT_EQ(entered.backend->device_count(entered.plugin, &count, &entered.error), YOKE_OK);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(entered.error.text, "no card is plugged in");
}

TEST_F(SdkTest, OrdinalOutOfRangeNamesTheBackendAndHowManyThereAre) {
  Entered entered(fake_entry);
  yoke_device_info info{};
  info.struct_size = sizeof info;

  EXPECT_EQ(entered.backend->device_describe(entered.plugin, 2, &info, &entered.error), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(entered.error.text, "there is no device 2: backend 'fake' has 2");
}

TEST_F(SdkTest, TablesThatAreNotProvidedAreNull) {
  script_.provides = {};
  Entered entered(fake_entry);

  EXPECT_NE(entered.backend, nullptr);
  EXPECT_EQ(entered.streams, nullptr);
  EXPECT_EQ(entered.programs, nullptr);
  EXPECT_EQ(entered.peers, nullptr);
}

TEST_F(SdkTest, OptionsNotGivenHaveTheirDefaults) {
  Entered entered(fake_entry);
  script_.on_open = [](const sdk::Options& options) {
    EXPECT_EQ(options.integer("threads"), 4);
    EXPECT_EQ(options.number("share"), 0.5);
    EXPECT_EQ(options.text("mode"), "fast");
    EXPECT_FALSE(options.flag("verify"));
    EXPECT_FALSE(options.given("threads"));
  };

  EXPECT_EQ(open_with(entered), YOKE_OK);
}

TEST_F(SdkTest, OptionsGivenArriveAlsoInLongerRowsOfANewerHost) {
  Entered entered(fake_entry);
  struct LongerOption {
    yoke_option known;
    std::uint64_t added;
  };
  std::array<LongerOption, 3> options{};
  options[0].known = integer_option("threads", 8);
  options[1].known = {0, "share", YOKE_OPTION_NUMBER, 0, 0, 0.25, nullptr};
  options[2].known = {0, "mode", YOKE_OPTION_TEXT, 0, 0, 0, "exact"};
  for (LongerOption& option : options) {
    option.known.struct_size = sizeof option;
    option.added = 0xFFFFFFFFFFFFFFFF;
  }
  script_.on_open = [](const sdk::Options& given) {
    EXPECT_EQ(given.integer("threads"), 8);
    EXPECT_EQ(given.number("share"), 0.25);
    EXPECT_EQ(given.text("mode"), "exact");
    EXPECT_TRUE(given.given("mode"));
  };
  yoke_device* device = nullptr;

  ASSERT_EQ(entered.backend->device_open(entered.plugin, 0, &options[0].known, 3, &device, &entered.error),
            YOKE_OK)
      << entered.error.text;
  entered.close(device);
}

TEST_F(SdkTest, UnknownOptionIsRefusedWithTheNamesOfTheKnownOnes) {
  Entered entered(fake_entry);

  EXPECT_EQ(open_with(entered, {integer_option("treads", 8)}), YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "unknown option 'treads'; known are: threads, share, mode, verify");
}

TEST_F(SdkTest, OptionOutOfItsRangeOfAWrongTypeOrTwiceIsRefused) {
  Entered entered(fake_entry);

  EXPECT_EQ(open_with(entered, {integer_option("threads", 65)}), YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "option 'threads' is 65, allowed are 1 to 64");
  EXPECT_EQ(open_with(entered, {integer_option("share", 1)}), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(entered.error.text, HasSubstr("type"));
  EXPECT_EQ(open_with(entered, {integer_option("threads", 2), integer_option("threads", 3)}),
            YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "option 'threads' is given twice");
  EXPECT_EQ(open_with(entered, {{sizeof(yoke_option), "mode", YOKE_OPTION_TEXT, 0, 0, 0, "fast|exact"}}),
            YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "option 'mode' is 'fast|exact', allowed are fast|exact");
  const double not_a_number = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(
      open_with(entered, {{sizeof(yoke_option), "share", YOKE_OPTION_NUMBER, 0, 0, not_a_number, nullptr}}),
      YOKE_INVALID_ARGUMENT);
}

TEST_F(SdkTest, RowsFillTheCapacityAndTheCountIsAlwaysWhole) {
  Entered entered(fake_entry);
  std::array<yoke_option_spec, 3> specs{};
  for (yoke_option_spec& spec : specs) {
    spec.struct_size = sizeof spec;
  }
  std::uint32_t count = 0;

  EXPECT_EQ(entered.backend->option_specs(entered.plugin, 0, nullptr, &count, nullptr), YOKE_OK);
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(entered.backend->option_specs(entered.plugin, 2, specs.data(), &count, nullptr), YOKE_OK);
  EXPECT_EQ(count, 4U);
  EXPECT_STREQ(specs[0].name, "threads");
  EXPECT_EQ(specs[0].integer_max, 64);
  EXPECT_STREQ(specs[1].name, "share");
  EXPECT_EQ(specs[2].name, nullptr) << "rows behind the capacity stay untouched";
  EXPECT_EQ(entered.backend->option_specs(entered.plugin, 2, nullptr, &count, nullptr),
            YOKE_INVALID_ARGUMENT);
}

TEST_F(SdkTest, InfoStructIsFilledAsFarAsItsCallerKnowsIt) {
  Entered entered(fake_entry);
  yoke_device_info info{};
  info.struct_size = offsetof(yoke_device_info, type_mask);
  info.type_mask = 0x1234;

  ASSERT_EQ(entered.backend->device_describe(entered.plugin, 1, &info, &entered.error), YOKE_OK);
  EXPECT_STREQ(info.unique_id, "fake:1");
  EXPECT_EQ(info.type_mask, 0x1234U) << "behind the caller's struct_size";
  EXPECT_EQ(info.struct_size, offsetof(yoke_device_info, type_mask));

  info.struct_size = 0;
  EXPECT_EQ(entered.backend->device_describe(entered.plugin, 1, &info, &entered.error),
            YOKE_INVALID_ARGUMENT);
}

TEST_F(SdkTest, TextThatIsTooLongIsCutBetweenTwoLetters) {
  Entered entered(fake_entry);
  yoke_device_info info{};
  info.struct_size = sizeof info;

  ASSERT_EQ(entered.backend->device_describe(entered.plugin, 0, &info, &entered.error), YOKE_OK);
  EXPECT_EQ(std::string(info.name), std::string(126, 'n'));
  EXPECT_EQ(info.type_mask, (1U << YOKE_F32) | (1U << YOKE_BOOL));
}

TEST_F(SdkTest, PluginWithLiveObjectsIsKeptRatherThanFreed) {
  Entered entered(fake_entry);
  yoke_device* device = entered.open();

  entered.plugin->destroy(entered.plugin);

  EXPECT_THAT(entered.host.lines(), testing::Contains(HasSubstr("plugin.destroy kept=1")));
  entered.close(device);
}

TEST_F(SdkTest, DestroysAcceptNull) {
  script_.provides.streams = true;
  Entered entered(fake_entry);

  EXPECT_EQ(entered.backend->device_close(nullptr, nullptr), YOKE_OK);
  entered.backend->buffer_destroy(nullptr);
  entered.streams->stream_destroy(nullptr);
  entered.streams->event_destroy(nullptr);
  entered.programs->code_destroy(nullptr);
  entered.programs->routine_destroy(nullptr);
  entered.plugin->destroy(nullptr);
}

TEST_F(SdkTest, WhatADeviceDoesNotOverrideIsUnimplemented) {
  script_.provides.streams = true;
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  yoke_stream* stream = nullptr;

  EXPECT_EQ(entered.streams->stream_create(device, 0, &stream, &entered.error), YOKE_UNIMPLEMENTED);
  EXPECT_EQ(entered.error.text, "the backend has no streams");
  EXPECT_EQ(entered.streams->device_abort(device, nullptr), YOKE_UNIMPLEMENTED);
  EXPECT_EQ(entered.live_counts().streams, 0U);
  entered.close(device);
}

TEST_F(SdkTest, ForkedChildGetsFailedPreconditionFromEveryCall) {
  Entered entered(fake_entry);
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 8);

  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    std::uint32_t count = 0;
    char byte = 0;
    const bool refused =
        entered.backend->device_count(entered.plugin, &count, nullptr) == YOKE_FAILED_PRECONDITION &&
        entered.backend->to_host(nullptr, buffer, 0, &byte, 1, nullptr) == YOKE_FAILED_PRECONDITION &&
        entered.backend->device_close(device, nullptr) == YOKE_FAILED_PRECONDITION;
    entered.backend->buffer_destroy(buffer);  // must leave the parent's object alone
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);

  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  entered.backend->buffer_destroy(buffer);
  entered.close(device);
}

TEST_F(SdkTest, ForkBeforeTheFirstDeviceIsOpenHurtsNobody) {
  Entered entered(fake_entry);

  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    yoke_device* device = nullptr;
    const std::int32_t code = entered.backend->device_open(entered.plugin, 0, nullptr, 0, &device, nullptr);
    ::_exit(code == YOKE_OK && entered.backend->device_close(device, nullptr) == YOKE_OK ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);

  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

}  // namespace
}  // namespace yoke::test
