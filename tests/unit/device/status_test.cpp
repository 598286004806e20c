// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/status_test.cpp: the checked call: texts on failure, nothing at all on success.
#include <atomic>
#include <cstdint>

#include "device/call.h"
#include "lab.h"

namespace yoke::test {

extern std::atomic<std::uint64_t> allocation_count;  // count_allocations.cpp

namespace {

using detail::Status;
using StatusTest = LabTest;

TEST_F(StatusTest, ASuccessfulCallAllocatesNothing) {
  yoke_memory_info info{};
  info.struct_size = sizeof(info);
  yoke_device* const handle = device()->get();
  const auto& opened = *device();
  detail::call<&yoke_backend_api::device_memory>(opened, handle, &info);

  const auto before = allocation_count.load();
  for (int i = 0; i < 100; ++i) {
    detail::call<&yoke_backend_api::device_memory>(opened, handle, &info);
  }
  EXPECT_EQ(allocation_count.load(), before);
}

TEST_F(StatusTest, AskingForALevelThatIsNotLoggedAllocatesNothing) {
  (void)backend();
  const auto before = allocation_count.load();
  bool logged = false;
  for (int i = 0; i < 100; ++i) {
    logged = logged || runtime_->logs(LogLevel::kDebug);
    runtime_->log(LogLevel::kDebug, "a line that nobody reads");
  }
  EXPECT_EQ(allocation_count.load(), before);
  EXPECT_FALSE(logged);
}

TEST_F(StatusTest, ALongTextIsCutBetweenCharacters) {
  std::string text(Status::kTextCapacity - 1, 'a');
  text += "\xc3\xa9 and more";  // its two bytes lie on both sides of the cut
  Status status;
  status.set(YOKE_INTERNAL, 0, text);
  EXPECT_EQ(status.text(), std::string(Status::kTextCapacity - 1, 'a'));
}

TEST_F(StatusTest, AStatusTakesNoTextAndANullObject) {
  Status status;
  detail::error_set(status.get(), YOKE_ABORTED, 5, nullptr, 7);
  EXPECT_EQ(status.text(), "");
  EXPECT_EQ(status.code(), YOKE_ABORTED);
  EXPECT_EQ(status.vendor_code(), 5);
  detail::error_set(nullptr, YOKE_ABORTED, 0, "nobody listens", 14);
}

TEST_F(StatusTest, AFailureWithoutATextStillMakesASentence) {
  const Status status;
  EXPECT_STREQ(detail::make_error("cc:0", "fill", YOKE_DEVICE_LOST, status).what(),
               "cc:0: fill: the plugin gave no reason (DEVICE_LOST)");
}

TEST_F(StatusTest, AMissingOptionalFunctionAnswersUnimplemented) {
  ASSERT_FALSE(backend()->has_streams());
  yoke_device* const handle = device()->get();
  const auto error = error_of([&] { detail::call<&yoke_stream_api::device_abort>(*device(), handle); });
  EXPECT_STREQ(error.what(), "lab:0: device_abort: the backend does not offer it (UNIMPLEMENTED)");
}

}  // namespace
}  // namespace yoke::test
