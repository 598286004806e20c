// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_stream_test.cpp: events, faults and null handles in the SDK's tables.
#include <gmock/gmock.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/profile.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

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

TEST_F(SdkStreamTest, TimesNeedTwoEventsThatAreDoneAndHaveTiming) {
  begin();
  const auto record = [&](std::uint64_t flags) {
    auto args = sized<yoke_event_args>();
    args.flags = flags;
    yoke_event* event = nullptr;
    EXPECT_EQ(entered_->streams->event_record(stream_, &args, &event, error()), YOKE_STATUS_OK);
    return event;
  };
  yoke_event* const done = record(YOKE_EVENT_TIMING);
  yoke_event* const untimed = record(0);
  ASSERT_EQ(wait(), YOKE_STATUS_OK);
  control_->is_blocked = true;
  ASSERT_EQ(copy_in(), YOKE_STATUS_OK);
  yoke_event* const pending = record(YOKE_EVENT_TIMING);
  std::uint64_t elapsed_ns = 7;
  const auto elapsed = [&](yoke_event* start, yoke_event* stop) {
    return entered_->streams->event_elapsed(start, stop, &elapsed_ns, error());
  };
  EXPECT_EQ(elapsed(done, done), YOKE_STATUS_OK);
  EXPECT_EQ(elapsed_ns, 0U);
  const std::pair<yoke_event*, yoke_event*> refused[] = {
      {done, untimed}, {untimed, done}, {done, pending}, {pending, done}};
  for (const auto& pair : refused) {
    EXPECT_EQ(elapsed(pair.first, pair.second), YOKE_STATUS_FAILED_PRECONDITION);
    EXPECT_EQ(error()->text, "event_elapsed: both events must be done and recorded with YOKE_EVENT_TIMING");
  }
  control_->is_blocked = false;
  EXPECT_EQ(wait(), YOKE_STATUS_OK);
  EXPECT_EQ(elapsed(done, pending), YOKE_STATUS_OK);
  for (yoke_event* event : {done, untimed, pending}) {
    entered_->streams->event_destroy(event);
  }
}

TEST_F(SdkStreamTest, UnknownFlagsAreRefused) {
  begin();
  auto args = sized<yoke_event_args>();
  args.flags = YOKE_EVENT_TIMING | 6U;
  yoke_event* event = nullptr;
  EXPECT_EQ(entered_->streams->event_record(stream_, &args, &event, error()), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(error()->text, "event_record: unknown flags 6; update the plugin");
  auto stream_args = sized<yoke_stream_args>();
  stream_args.flags = 1;
  yoke_stream* stream = nullptr;
  EXPECT_EQ(entered_->streams->stream_create(device_, &stream_args, &stream, error()),
            YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(error()->text, "stream_create: unknown flags 1; update the plugin");
}

// A second stream of the device.
class TwoStreamsTest : public SdkStreamTest {
 protected:
  void begin() {
    SdkStreamTest::begin();
    const auto args = sized<yoke_stream_args>();
    ASSERT_EQ(entered_->streams->stream_create(device_, &args, &second_, error()), YOKE_STATUS_OK);
  }
  void TearDown() override {
    entered_->streams->stream_destroy(second_);
    SdkStreamTest::TearDown();
  }
  std::int32_t state_of_second() {
    std::int32_t state = -1;
    EXPECT_EQ(entered_->streams->stream_query(second_, &state, error()), YOKE_STATUS_OK);
    return state;
  }
  std::int32_t wait_for_second() { return entered_->streams->stream_wait(second_, kTimeoutNs, error()); }

  yoke_stream* second_ = nullptr;
};

TEST_F(TwoStreamsTest, StreamWaitsForTheEventOfAnother) {
  begin();
  control_->is_blocked = true;
  ASSERT_EQ(copy_in(), YOKE_STATUS_OK);
  const auto args = sized<yoke_event_args>();
  yoke_event* event = nullptr;
  ASSERT_EQ(entered_->streams->event_record(stream_, &args, &event, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state_of_second(), YOKE_STATE_DONE);
  ASSERT_EQ(entered_->streams->stream_wait_event(second_, event, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state_of_second(), YOKE_STATE_PENDING);
  EXPECT_EQ(entered_->streams->event_wait(event, 0, error()), YOKE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_EQ(entered_->streams->stream_wait_event(second_, nullptr, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "event is NULL");
  control_->is_blocked = false;
  EXPECT_EQ(wait_for_second(), YOKE_STATUS_OK);
  entered_->streams->event_destroy(event);
}

TEST_F(TwoStreamsTest, AbortsCancelOneStreamOrAllOfOneDevice) {
  begin();
  yoke_device* other = entered_->open(1);
  const auto args = sized<yoke_stream_args>();
  yoke_stream* far = nullptr;
  ASSERT_EQ(entered_->streams->stream_create(other, &args, &far, error()), YOKE_STATUS_OK);
  ASSERT_EQ(entered_->streams->stream_abort(stream_, error()), YOKE_STATUS_OK);
  EXPECT_EQ(wait(), YOKE_STATUS_ABORTED);
  EXPECT_EQ(wait_for_second(), YOKE_STATUS_OK);
  ASSERT_EQ(entered_->streams->device_abort(device_, error()), YOKE_STATUS_OK);
  EXPECT_TRUE(control_->is_aborted);
  EXPECT_EQ(wait_for_second(), YOKE_STATUS_ABORTED);
  EXPECT_EQ(entered_->streams->stream_wait(far, kTimeoutNs, error()), YOKE_STATUS_OK);
  entered_->streams->stream_destroy(far);
  entered_->close(other);
}

TEST_F(SdkStreamTest, CallbacksRunAfterTheWorkAndReceiveItsStatus) {
  begin();
  std::vector<std::int32_t> codes;
  const auto callback = [](void* user, std::int32_t status) {
    static_cast<std::vector<std::int32_t>*>(user)->push_back(status);
  };
  ASSERT_EQ(entered_->streams->stream_host_callback(stream_, callback, &codes, error()), YOKE_STATUS_OK);
  ASSERT_EQ(wait(), YOKE_STATUS_OK);
  control_->fail_after = 0;
  ASSERT_EQ(copy_in(), YOKE_STATUS_OK);
  ASSERT_EQ(entered_->streams->stream_host_callback(stream_, callback, &codes, error()), YOKE_STATUS_OK);
  EXPECT_EQ(wait(), YOKE_STATUS_INTERNAL);
  EXPECT_THAT(codes, testing::ElementsAre(YOKE_STATUS_OK, YOKE_STATUS_INTERNAL));
}

TEST_F(SdkStreamTest, TextForDebuggingEndsWhereTheCallersArrayEnds) {
  begin();
  std::string text(8, 'z');
  const auto& streams = *entered_->streams;
  EXPECT_EQ(streams.stream_debug_text(stream_, text.data(), 7, error()), YOKE_STATUS_OK);
  EXPECT_EQ(text, std::string("0 item\0z", 8));
  EXPECT_EQ(streams.stream_debug_text(stream_, nullptr, 0, error()), YOKE_STATUS_OK);
  EXPECT_EQ(streams.stream_debug_text(stream_, nullptr, 1, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "text is NULL");
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
  control_->provides = {.streams = true,
                        .programs = true,
                        .peers = true,
                        .memory = true,
                        .faults = true,
                        .collectives = true,
                        .profile = true};
  begin();
  const auto& [backend, streams, programs, memory, peers] = std::tie(
      *entered_->backend, *entered_->streams, *entered_->programs, *entered_->memory, *entered_->peers);
  const auto& faults = *entered_->table<yoke_fault_api>(YOKE_FAULT_TABLE);
  const auto& collectives = *entered_->table<yoke_collectives_api>(YOKE_COLLECTIVES_TABLE);
  const auto& profile = *entered_->table<yoke_profile_api>(YOKE_PROFILE_TABLE);
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
  const auto device_args = sized<yoke_device_args>();
  const auto buffer_args = sized<yoke_buffer_args>();
  const auto stream_args = sized<yoke_stream_args>();
  const auto pinned_args = sized<yoke_pinned_args>();
  const auto import_args = sized<yoke_import_args>();
  const auto profile_args = sized<yoke_profile_args>();
  auto memory_info = sized<yoke_memory_info>();
  auto buffer_info = sized<yoke_buffer_info>();
  auto collectives_info = sized<yoke_collectives_info>();
  auto group_id = sized<yoke_group_id>();
  auto communicator_args = sized<yoke_communicator_args>();
  communicator_args.id = &group_id.bytes[0];
  communicator_args.size = 1;
  yoke_device* device = nullptr;
  yoke_buffer* buffer = nullptr;
  yoke_stream* stream = nullptr;
  yoke_communicator* communicator = nullptr;
  yoke_event* recorded = nullptr;
  void* pinned = nullptr;
  std::uint64_t number = 0;
  const auto callback = [](void*, std::int32_t) {};
  ASSERT_EQ(streams.event_record(stream_, &event_args, &recorded, error()), YOKE_STATUS_OK);
  const yoke_collective row{};
  EXPECT_EQ(backend.device_close(nullptr, error()), YOKE_STATUS_OK);
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
        programs.routine_launch(stream_, nullptr, nullptr, 0, error()),
        backend.device_open(nullptr, &device_args, &device, error()),
        backend.device_memory(nullptr, &memory_info, error()),
        backend.buffer_create(nullptr, &buffer_args, &buffer, error()),
        backend.buffer_describe(nullptr, &buffer_info, error()),
        backend.from_host(stream_, nullptr, 0, "", 1, nullptr, error()),
        peers.peer_access(nullptr, device_, &state, error()),
        peers.peer_access(device_, nullptr, &state, error()),
        streams.stream_create(nullptr, &stream_args, &stream, error()),
        streams.stream_query(nullptr, &state, error()),
        streams.stream_wait_event(nullptr, recorded, error()),
        streams.event_elapsed(nullptr, recorded, &number, error()),
        streams.event_elapsed(recorded, nullptr, &number, error()),
        streams.stream_abort(nullptr, error()),
        streams.device_abort(nullptr, error()),
        streams.stream_host_callback(nullptr, callback, nullptr, error()),
        streams.stream_host_callback(stream_, nullptr, nullptr, error()),
        streams.stream_debug_text(nullptr, nullptr, 0, error()),
        memory.pinned_allocate(nullptr, &pinned_args, &pinned, error()),
        memory.buffer_device_address(nullptr, &number, error()),
        memory.buffer_import(nullptr, &import_args, &buffer, error()),
        memory.stream_native(nullptr, &native, error()),
        faults.fault_arm(nullptr, YOKE_FAULT_COPY, 1, 0, error()),
        faults.fault_clear(nullptr, error()),
        profile.profile_start(nullptr, &profile_args, error()),
        profile.profile_stop(nullptr, error()),
        profile.profile_fetch(nullptr, 0, 0, nullptr, &count, &number, error()),
        collectives.collectives_describe(nullptr, &collectives_info, error()),
        collectives.group_id_create(nullptr, &group_id, error()),
        collectives.communicator_create(nullptr, &communicator_args, &communicator, error()),
        collectives.communicator_query(nullptr, &state, error()),
        collectives.communicator_wait(nullptr, 0, error()),
        collectives.communicator_abort(nullptr, error()),
        collectives.collectives_queue(nullptr, 1, sizeof row, error()),
        collectives.collectives_queue(&row, 1, sizeof row, error())}) {
    EXPECT_EQ(result, YOKE_STATUS_INVALID_ARGUMENT);
  }
  streams.event_destroy(recorded);
  streams.event_destroy(nullptr);
  streams.stream_destroy(nullptr);
  backend.buffer_destroy(nullptr);
  programs.code_destroy(nullptr);
  programs.routine_destroy(nullptr);
  collectives.communicator_destroy(nullptr);
}

TEST_F(SdkStreamTest, NullArgumentsAndResultsAreNamed) {
  control_->provides = {.streams = true, .programs = true, .peers = true, .memory = true, .profile = true};
  begin();
  const auto& [backend, streams, programs, memory, peers] = std::tie(
      *entered_->backend, *entered_->streams, *entered_->programs, *entered_->memory, *entered_->peers);
  const auto& profile = *entered_->table<yoke_profile_api>(YOKE_PROFILE_TABLE);
  std::uint32_t count = 7;
  std::uint64_t number = 7;
  yoke_device* device = nullptr;
  yoke_buffer* buffer = nullptr;
  yoke_stream* stream = nullptr;
  yoke_event* event = nullptr;
  void* pinned = nullptr;
  const auto check = [&](std::int32_t code, const std::string& name) {
    EXPECT_EQ(code, YOKE_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(error()->text, name + " is NULL");
  };
  check(backend.device_count(entered_->plugin, nullptr, nullptr, 0, error()), "out_count");
  check(backend.device_describe(entered_->plugin, 0, nullptr, error()), "info");
  check(backend.device_open(entered_->plugin, nullptr, &device, error()), "args");
  check(backend.live_counts(entered_->plugin, nullptr, error()), "counts");
  check(backend.device_memory(device_, nullptr, error()), "info");
  check(backend.buffer_create(device_, nullptr, &buffer, error()), "args");
  check(backend.buffer_describe(buffer_, nullptr, error()), "info");
  check(peers.peer_access(device_, device_, nullptr, error()), "out_allowed");
  check(streams.stream_create(device_, nullptr, &stream, error()), "args");
  check(streams.stream_query(stream_, nullptr, error()), "out_state");
  check(streams.event_record(stream_, nullptr, &event, error()), "args");
  check(memory.pinned_allocate(device_, nullptr, &pinned, error()), "args");
  check(memory.buffer_device_address(buffer_, nullptr, error()), "out_address");
  check(memory.buffer_import(device_, nullptr, &buffer, error()), "args");
  check(memory.device_native(device_, nullptr, error()), "info");
  check(programs.formats(entered_->plugin, 0, 0, nullptr, nullptr, error()), "out_count");
  check(profile.profile_start(device_, nullptr, error()), "args");
  check(profile.profile_fetch(device_, 0, 0, nullptr, nullptr, &number, error()), "out_count");
  check(profile.profile_fetch(device_, 0, 0, nullptr, &count, nullptr, error()), "out_lost");
  check(profile.profile_fetch(device_, 1, 8, nullptr, &count, &number, error()), "records");
  const auto device_args = sized<yoke_device_args>();
  auto buffer_args = sized<yoke_buffer_args>();
  buffer_args.kind = YOKE_MEMORY_DEVICE;
  const auto stream_args = sized<yoke_stream_args>();
  const auto event_args = sized<yoke_event_args>();
  const auto pinned_args = sized<yoke_pinned_args>();
  auto import_args = sized<yoke_import_args>();
  import_args.kind = YOKE_MEMORY_HOST;
  const auto text = as_text("");
  check(backend.device_open(entered_->plugin, &device_args, nullptr, error()), "out_device");
  check(backend.buffer_create(device_, &buffer_args, nullptr, error()), "out_buffer");
  check(streams.stream_create(device_, &stream_args, nullptr, error()), "out_stream");
  check(streams.event_record(stream_, &event_args, nullptr, error()), "out_event");
  check(memory.pinned_allocate(device_, &pinned_args, nullptr, error()), "out_memory");
  check(memory.buffer_import(device_, &import_args, nullptr, error()), "out_buffer");
  check(programs.code_compile(device_, &text, nullptr, error()), "out_code");
  EXPECT_EQ(count, 7U);
  EXPECT_EQ(number, 7U);
}

}  // namespace
}  // namespace yoke::test
