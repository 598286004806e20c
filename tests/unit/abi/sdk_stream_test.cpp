// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_stream_test.cpp: events, faults and null handles in the SDK's tables.
#include <gmock/gmock.h>
#include <yoke/ext/fault.h>

#include <chrono>
#include <thread>
#include <tuple>

#include "sdk_fixture.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

TEST_F(SdkStreamTest, EventsAreDoneAfterTheWorkBeforeThemAndTellTheTime) {
  begin();
  auto args = sized<yoke_event_args>();
  args.flags = YOKE_EVENT_TIMING;
  yoke_event* start = nullptr;
  yoke_event* stop = nullptr;
  control_->is_blocked = true;
  ASSERT_EQ(entered_->streams->event_record(stream_, &args, &start, error()), YOKE_STATUS_OK);
  EXPECT_EQ(entered_->streams->event_wait(start, kTimeoutNs, error()), YOKE_STATUS_OK);
  EXPECT_EQ(copy_in(), YOKE_STATUS_OK);
  ASSERT_EQ(entered_->streams->event_record(stream_, &args, &stop, error()), YOKE_STATUS_OK);
  std::int32_t state = -1;
  EXPECT_EQ(entered_->streams->event_query(stop, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_PENDING);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  control_->is_blocked = false;

  EXPECT_EQ(entered_->streams->event_wait(stop, kTimeoutNs, error()), YOKE_STATUS_OK);
  EXPECT_EQ(entered_->streams->event_query(stop, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_DONE);
  std::uint64_t elapsed_ns = 0;
  EXPECT_EQ(entered_->streams->event_elapsed(start, stop, &elapsed_ns, error()), YOKE_STATUS_OK);
  EXPECT_GE(elapsed_ns, 2'000'000U);
  EXPECT_EQ(entered_->streams->event_elapsed(stop, start, &elapsed_ns, error()), YOKE_STATUS_OK);
  EXPECT_EQ(elapsed_ns, 0U);
  entered_->streams->event_destroy(start);
  entered_->streams->event_destroy(stop);
}

TEST_F(SdkStreamTest, ArmedFaultFailsTheNthCallOfItsKind) {
  control_->provides.faults = true;
  begin();
  const auto* faults = entered_->table<yoke_fault_api>(YOKE_FAULT_TABLE);
  ASSERT_NE(faults, nullptr);
  EXPECT_EQ(faults->fault_arm(device_, YOKE_FAULT_EVENT_LATE, 1, 1000, error()), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_THAT(error()->text, HasSubstr("faults of kind 4 (late events)"));
  EXPECT_EQ(faults->fault_arm(device_, YOKE_FAULT_COPY, 2, 0, error()), YOKE_STATUS_OK);
  EXPECT_EQ(faults->fault_clear(device_, error()), YOKE_STATUS_OK);
  EXPECT_EQ(copy_in(), YOKE_STATUS_OK);
  EXPECT_EQ(copy_in(), YOKE_STATUS_OK);
  EXPECT_EQ(wait(), YOKE_STATUS_OK);

  EXPECT_EQ(faults->fault_arm(device_, YOKE_FAULT_COPY, 2, 0, error()), YOKE_STATUS_OK);
  EXPECT_EQ(copy_in(), YOKE_STATUS_OK);
  EXPECT_EQ(wait(), YOKE_STATUS_OK);
  EXPECT_EQ(copy_in(), YOKE_STATUS_OK) << "on a stream the work fails";
  EXPECT_EQ(wait(), YOKE_STATUS_UNAVAILABLE);
}

TEST_F(SdkStreamTest, NullHandlesAreRefused) {
  control_->provides.memory = true;
  begin();
  const auto& [backend, streams, programs, memory] =
      std::tie(*entered_->backend, *entered_->streams, *entered_->programs, *entered_->memory);
  std::uint32_t count = 0;
  std::int32_t state = 0;
  auto info = sized<yoke_device_info>();
  auto native = sized<yoke_native_info>();
  auto live = sized<yoke_live_counts>();
  auto argument_info = sized<yoke_argument_info>();
  auto entry_info = sized<yoke_entry_info>();
  const auto event_args = sized<yoke_event_args>();
  const auto link_args = sized<yoke_link_args>();
  const auto compile_args = as_text("");
  yoke_event* event = nullptr;
  yoke_code* code = nullptr;
  yoke_routine* routine = nullptr;
  for (const std::int32_t result :
       {backend.device_count(nullptr, &count, nullptr, 0, error()),
        backend.device_describe(nullptr, 0, &info, error()),
        backend.live_counts(nullptr, &live, error()),
        backend.option_specs(nullptr, 0, 0, nullptr, &count, error()),
        backend.device_to_device(stream_, nullptr, 0, buffer_, 0, 1, error()),
        backend.device_to_device(stream_, buffer_, 0, nullptr, 0, 1, error()),
        backend.fill(stream_, nullptr, 0, 1, &state, 1, error()),
        backend.to_host(stream_, nullptr, 0, &count, 1, error()),
        streams.event_record(nullptr, &event_args, &event, error()),
        streams.event_query(nullptr, &state, error()),
        streams.event_wait(nullptr, 0, error()),
        streams.stream_wait(nullptr, 0, error()),
        memory.device_native(nullptr, &native, error()),
        programs.formats(nullptr, 0, 0, nullptr, &count, error()),
        programs.can_compile(nullptr, &compile_args, 0, 0, nullptr, &count, error()),
        programs.code_entry_count(nullptr, &count, error()),
        programs.code_argument(nullptr, 0, 0, &argument_info, error()),
        programs.code_compile(nullptr, &compile_args, &code, error()),
        programs.code_describe(nullptr, 0, &entry_info, error()),
        programs.routine_link(nullptr, &link_args, &routine, error()),
        programs.routine_launch(stream_, nullptr, nullptr, 0, error())}) {
    EXPECT_EQ(result, YOKE_STATUS_INVALID_ARGUMENT);
  }
}

TEST(MachineHolds, WhatFitsItsMemory) {
  EXPECT_TRUE(sdk::machine_holds(std::uint64_t{1} << 30));
  EXPECT_FALSE(sdk::machine_holds(std::uint64_t{1} << 60));
}

}  // namespace
}  // namespace yoke::test
