// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_fault_test.cpp: faults on purpose ("yoke.fault/1"), lost devices, and aborts.
#include <gmock/gmock.h>
#include <yoke/ext/fault.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "recording_backend.h"
#include "sdk_fixture.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

class SdkFaultTest : public SdkStreamTest {
 protected:
  SdkFaultTest() { control_->provides.faults = true; }
  void begin() {
    SdkStreamTest::begin();
    faults_ = entered_->table<yoke_fault_api>(YOKE_FAULT_TABLE);
    ASSERT_NE(faults_, nullptr);
  }
  std::int32_t arm(std::int32_t kind, std::uint64_t nth) {
    return faults_->fault_arm(device_, kind, nth, 0, error());
  }
  // Runs each kind of copy with a null stream. Returns the codes.
  std::vector<std::int32_t> copies() {
    const auto& api = *entered_->backend;
    std::string host = "12345678";
    return {api.from_host(nullptr, buffer_, 0, host.data(), 8, nullptr, error()),
            api.to_host(nullptr, buffer_, 0, host.data(), 8, error()),
            api.device_to_device(nullptr, buffer_, 0, buffer_, 8, 8, error()),
            api.fill(nullptr, buffer_, 0, 8, "x", 1, error())};
  }

  const yoke_fault_api* faults_ = nullptr;
};

TEST_F(SdkFaultTest, UnknownKindsAndTheZerothCallAreRefused) {
  begin();
  for (const std::int32_t kind : {YOKE_FAULT_ALLOCATION - 1, YOKE_FAULT_DEVICE_LOST + 1}) {
    EXPECT_EQ(arm(kind, 1), YOKE_STATUS_UNIMPLEMENTED);
    EXPECT_EQ(error()->text, "unknown kind of fault: " + std::to_string(kind));
  }
  EXPECT_EQ(arm(YOKE_FAULT_COPY, 0), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "nth is 0; calls are counted from 1");
}

TEST_F(SdkFaultTest, AllocationsFailOnPurpose) {
  begin();
  yoke_buffer* buffer = nullptr;
  ASSERT_EQ(arm(YOKE_FAULT_ALLOCATION, 2), YOKE_STATUS_OK);
  for (int i = 1; i <= 3; ++i) {
    const bool fails = i == 2;
    EXPECT_EQ(entered_->try_buffer(device_, 8, YOKE_MEMORY_DEVICE, &buffer),
              fails ? YOKE_STATUS_OUT_OF_DEVICE_MEMORY : YOKE_STATUS_OK);
    if (!fails) {
      entered_->backend->buffer_destroy(buffer);
    }
  }
  EXPECT_EQ(error()->text, "this allocation fails on purpose (yoke.fault/1)");
}

TEST_F(SdkFaultTest, EachKindOfCopyIsACallOfItsFault) {
  begin();
  for (std::uint64_t nth = 1; nth <= 4; ++nth) {
    ASSERT_EQ(arm(YOKE_FAULT_COPY, nth), YOKE_STATUS_OK);
    std::vector<std::int32_t> expected(4, YOKE_STATUS_OK);
    expected[nth - 1] = YOKE_STATUS_UNAVAILABLE;
    EXPECT_EQ(copies(), expected);
    EXPECT_EQ(error()->text, "this copy fails on purpose (yoke.fault/1)");
  }
  EXPECT_EQ(copies(), std::vector<std::int32_t>(4, YOKE_STATUS_OK));
  ASSERT_EQ(arm(YOKE_FAULT_LAUNCH, 1), YOKE_STATUS_OK);
  EXPECT_EQ(copies(), std::vector<std::int32_t>(4, YOKE_STATUS_OK)) << "they are not launches";
}

TEST_F(SdkFaultTest, LaunchesFailOnPurpose) {
  sdk::Entry entry;
  entry.name = "nothing";
  control_->entries = {entry};
  begin();
  yoke_code* code = entered_->compile(device_, "any");
  yoke_routine* routine = entered_->link(code, 0, {}, nullptr);
  const auto launch = [&] {
    return entered_->programs->routine_launch(nullptr, routine, nullptr, 0, error());
  };
  ASSERT_EQ(arm(YOKE_FAULT_COPY, 1), YOKE_STATUS_OK);
  EXPECT_EQ(launch(), YOKE_STATUS_OK) << "it is not a copy";
  ASSERT_EQ(arm(YOKE_FAULT_LAUNCH, 1), YOKE_STATUS_OK);
  EXPECT_EQ(launch(), YOKE_STATUS_UNAVAILABLE);
  EXPECT_EQ(error()->text, "this launch fails on purpose (yoke.fault/1)");
  EXPECT_EQ(launch(), YOKE_STATUS_OK);
  EXPECT_EQ(control_->launch_count, 2U);
  entered_->programs->routine_destroy(routine);
  entered_->programs->code_destroy(code);
}

TEST_F(SdkFaultTest, LostDeviceStaysLostAndCanBeClosed) {
  begin();
  const auto& api = *entered_->backend;
  std::int32_t state = -1;
  EXPECT_EQ(entered_->streams->stream_query(stream_, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_DONE);
  ASSERT_EQ(arm(YOKE_FAULT_DEVICE_LOST, 1), YOKE_STATUS_OK);
  EXPECT_EQ(api.fill(nullptr, buffer_, 0, 8, "x", 1, error()), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(error()->text, "the device was lost on purpose (yoke.fault/1); close it and open it again");
  ASSERT_EQ(faults_->fault_clear(device_, error()), YOKE_STATUS_OK);

  EXPECT_EQ(copies(), std::vector<std::int32_t>(4, YOKE_STATUS_DEVICE_LOST));
  yoke_buffer* buffer = nullptr;
  EXPECT_EQ(entered_->try_buffer(device_, 8, YOKE_MEMORY_DEVICE, &buffer), YOKE_STATUS_DEVICE_LOST);
  const auto stream_args = sized<yoke_stream_args>();
  const auto event_args = sized<yoke_event_args>();
  yoke_stream* stream = nullptr;
  yoke_event* event = nullptr;
  EXPECT_EQ(entered_->streams->stream_create(device_, &stream_args, &stream, error()),
            YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(entered_->streams->event_record(stream_, &event_args, &event, error()), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(wait(), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(entered_->streams->stream_query(stream_, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_FAILED);
  auto info = sized<yoke_memory_info>();
  EXPECT_EQ(api.device_memory(device_, &info, error()), YOKE_STATUS_OK);
}

TEST_F(SdkFaultTest, CopyFromALostDeviceFails) {
  begin();
  yoke_device* other = entered_->open(0);
  yoke_buffer* target = entered_->buffer(other, 8);
  const auto copy = [&] {
    return entered_->backend->device_to_device(nullptr, target, 0, buffer_, 0, 8, error());
  };
  EXPECT_EQ(copy(), YOKE_STATUS_OK);
  ASSERT_EQ(arm(YOKE_FAULT_DEVICE_LOST, 1), YOKE_STATUS_OK);
  EXPECT_EQ(entered_->backend->fill(nullptr, buffer_, 0, 8, "x", 1, error()), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(copy(), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(entered_->backend->fill(nullptr, target, 0, 8, "x", 1, error()), YOKE_STATUS_OK)
      << "only one handle is lost";
  entered_->backend->buffer_destroy(target);
  entered_->close(other);
}

// Memory of work that may still run must not be freed.
TEST_F(SdkFaultTest, WaitsForALostDeviceReportPendingWork) {
  begin();
  control_->is_blocked = true;
  ASSERT_EQ(copy_in(), YOKE_STATUS_OK);
  ASSERT_EQ(arm(YOKE_FAULT_DEVICE_LOST, 1), YOKE_STATUS_OK);
  ASSERT_EQ(copy_in(), YOKE_STATUS_OK) << "the loss is queued";
  std::int32_t state = -1;
  EXPECT_EQ(entered_->streams->stream_wait(stream_, 0, error()), YOKE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_EQ(entered_->streams->stream_query(stream_, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_PENDING);
  control_->is_blocked = false;
  EXPECT_EQ(wait(), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(entered_->streams->stream_query(stream_, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_FAILED);
}

TEST_F(SdkFaultTest, ErrorOfWorkBeforeTheLossIsReportedAsTheLoss) {
  begin();
  control_->fail_after = 0;
  ASSERT_EQ(copy_in(), YOKE_STATUS_OK);
  EXPECT_EQ(wait(), YOKE_STATUS_INTERNAL);
  ASSERT_EQ(arm(YOKE_FAULT_DEVICE_LOST, 1), YOKE_STATUS_OK);
  ASSERT_EQ(copy_in(), YOKE_STATUS_OK);
  EXPECT_EQ(wait(), YOKE_STATUS_DEVICE_LOST);
}

TEST_F(SdkFaultTest, OnlyTheArmedEventIsLate) {
  Entered entered(&recording_entry);
  yoke_device* device = entered.open();
  const auto stream_args = sized<yoke_stream_args>();
  yoke_stream* stream = nullptr;
  ASSERT_EQ(entered.streams->stream_create(device, &stream_args, &stream, nullptr), YOKE_STATUS_OK);
  const auto* faults = entered.table<yoke_fault_api>(YOKE_FAULT_TABLE);
  auto args = sized<yoke_event_args>();
  args.flags = YOKE_EVENT_TIMING;
  std::vector<yoke_event*> events;
  const auto record = [&] {
    yoke_event* event = nullptr;
    EXPECT_EQ(entered.streams->event_record(stream, &args, &event, &entered.error), YOKE_STATUS_OK);
    events.push_back(event);
    return event;
  };
  const auto arm = [&](std::int32_t kind, std::uint64_t nth, std::uint64_t delay_ns) {
    EXPECT_EQ(faults->fault_arm(device, kind, nth, delay_ns, nullptr), YOKE_STATUS_OK);
  };
  arm(YOKE_FAULT_EVENT_LATE, 2, 3'000'000);
  arm(YOKE_FAULT_COPY, 9, 1);  // has no delay
  yoke_event* const start = record();
  yoke_event* const late = record();
  EXPECT_EQ(entered.streams->event_wait(late, kTimeoutNs, nullptr), YOKE_STATUS_OK);
  std::uint64_t elapsed_ns = 0;
  EXPECT_EQ(entered.streams->event_elapsed(start, late, &elapsed_ns, nullptr), YOKE_STATUS_OK);
  EXPECT_GE(elapsed_ns, 3'000'000U);

  arm(YOKE_FAULT_EVENT_LATE, 2, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(entered.streams->event_wait(record(), kTimeoutNs, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered.streams->event_wait(record(), 0, nullptr), YOKE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_EQ(entered.streams->stream_abort(stream, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered.streams->event_wait(events.back(), kTimeoutNs, nullptr), YOKE_STATUS_ABORTED);
  for (yoke_event* event : events) {
    entered.streams->event_destroy(event);
  }
  entered.streams->stream_destroy(stream);
  entered.close(device);
}

}  // namespace
}  // namespace yoke::test
