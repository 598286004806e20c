// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/status_test.cpp: the checked call: a text on failure, no cost on success.
#include "count_allocations.h"
#include "device/call.h"
#include "device_test.h"

namespace yoke::test {
namespace {

using detail::Status;
using StatusTest = DeviceTest;

TEST_F(StatusTest, SuccessfulCallAllocatesNothing) {
  yoke_memory_info info{};
  info.struct_size = sizeof(info);
  const Device& opened = *device();
  detail::call<&yoke_backend_api::device_memory>(opened, opened.get(), &info);

  const auto before = allocation_count();
  for (int i = 0; i < 100; ++i) {
    detail::call<&yoke_backend_api::device_memory>(opened, opened.get(), &info);
  }
  EXPECT_EQ(allocation_count(), before);
}

TEST_F(StatusTest, DisabledLogLevelAllocatesNothing) {
  const Runtime& runtime = rig().runtime;
  const auto before = allocation_count();
  bool logged = false;
  for (int i = 0; i < 100; ++i) {
    logged = logged || runtime.logs(LogLevel::kDebug);
    runtime.log(LogLevel::kDebug, "a line below the log level");
  }
  EXPECT_EQ(allocation_count(), before);
  EXPECT_FALSE(logged);
}

TEST_F(StatusTest, LongTextIsCutBetweenCharacters) {
  std::string text(Status::kTextCapacity - 1, 'a');
  text += "\xc3\xa9 and more";  // the cut would split this two-byte character
  Status status;
  status.set(YOKE_STATUS_INTERNAL, 0, text);
  EXPECT_EQ(status.text(), std::string(Status::kTextCapacity - 1, 'a'));
}

TEST_F(StatusTest, MistakeOfAPluginIsDescribedInAtMost255Bytes) {
  Status status;
  EXPECT_EQ(detail::blame(backend()->state(), status, "returned no buffer"), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(status.text(), "the plugin 'test0' returned no buffer; report this to its author");
  EXPECT_EQ(status.code(), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(status.vendor_code(), 0);
  detail::blame(backend()->state(), status, std::string(300, 'x'));
  const std::string head = "the plugin 'test0' ";
  EXPECT_EQ(status.text(), head + std::string(255 - head.size(), 'x'));
}

TEST_F(StatusTest, NullTextAndNullStatusAreAccepted) {
  Status status;
  detail::error_set(status.get(), YOKE_STATUS_ABORTED, 5, nullptr, 7);
  EXPECT_EQ(status.text(), "");
  EXPECT_EQ(status.code(), YOKE_STATUS_ABORTED);
  EXPECT_EQ(status.vendor_code(), 5);
  detail::error_set(nullptr, YOKE_STATUS_ABORTED, 0, "dropped", 7);
}

TEST_F(StatusTest, FailureWithoutTextIsReportedAsASentence) {
  const Status status;
  EXPECT_STREQ(detail::make_error("cc:0", "fill", YOKE_STATUS_DEVICE_LOST, status).what(),
               "cc:0: fill: the plugin gave no reason (DEVICE_LOST)");
}

TEST_F(StatusTest, MissingOptionalFunctionReturnsUnimplemented) {
  ASSERT_FALSE(backend()->has_streams());
  yoke_device* const handle = device()->get();
  const auto error = error_of([&] { detail::call<&yoke_stream_api::device_abort>(*device(), handle); });
  EXPECT_STREQ(error.what(), "test0:0: device_abort: the backend does not offer it (UNIMPLEMENTED)");
}

}  // namespace
}  // namespace yoke::test
