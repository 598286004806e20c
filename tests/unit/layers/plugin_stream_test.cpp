// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/plugin_stream_test.cpp: the layer validate finds violations by the plugin in work on streams:
// waits, states, events, host callbacks. Each test replaces functions with wrong ones.
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "layers_test.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ValidateStreams : public LayersTest {
 protected:
  void wait(yoke_stream* stream) { streams->stream_wait(stream, 1'000'000'000, error()); }
  void query(yoke_stream* stream) {
    std::int32_t state = 0;
    streams->stream_query(stream, &state, error());
  }
};

// Makes stream_wait fail once with `code` and then succeed.
void fail_once(Control& control, std::int32_t code) {
  static std::int32_t next = YOKE_STATUS_OK;
  next = code;
  control.stream.stream_wait = [](auto, auto, yoke_error* e) {
    const std::int32_t now = std::exchange(next, YOKE_STATUS_OK);
    return now == YOKE_STATUS_OK ? now : fail(e, now, "the work failed");
  };
}

TEST_F(ValidateStreams, WaitThatReturnsTooEarlyIsReported) {
  control->stream.event_wait = [](auto...) { return YOKE_STATUS_OK; };
  control->stream.event_query = [](auto, auto out_state, auto) {
    *out_state = YOKE_STATE_PENDING;
    return YOKE_STATUS_OK;
  };
  control->stream.stream_wait = [](auto, auto, auto error) {
    return fail(error, YOKE_STATUS_DEADLINE_EXCEEDED, "pending");
  };
  enter();
  auto* stream = make_stream();
  streams->event_wait(record(stream), 1'000, error());
  wait(stream);
  EXPECT_THAT(found(), ElementsAre("21 plugin event_wait", "21 plugin stream_wait"));
}

TEST_F(ValidateStreams, ErrorThatDisappearsIsReported) {
  fail_once(*control, YOKE_STATUS_UNAVAILABLE);
  enter();
  auto* stream = make_stream();
  wait(stream);
  wait(stream);
  EXPECT_THAT(found(), ElementsAre("19 plugin stream_wait"));
  fail_once(*control, YOKE_STATUS_DEVICE_LOST);
  enter();
  wait(make_stream());
  make_buffer(16);
  EXPECT_THAT(found(), ElementsAre("19 plugin buffer_create"));
}

TEST_F(ValidateStreams, StreamThatWaitsForALostDeviceDoesNotLoseItsOwn) {
  fail_once(*control, YOKE_STATUS_DEVICE_LOST);
  enter();
  yoke_device* const mine = device;
  device = open_device(1);
  yoke_event* const of_other = record(make_stream());
  device = mine;
  yoke_stream* const first = make_stream();
  yoke_stream* const second = make_stream();
  EXPECT_EQ(streams->stream_wait_event(first, of_other, error()), YOKE_STATUS_OK);
  EXPECT_EQ(streams->stream_wait_event(second, record(first), error()), YOKE_STATUS_OK);
  wait(second);  // reports that the other device is lost
  make_buffer(16);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(ValidateStreams, AbortedStreamThatSucceedsIsReported) {
  control->stream.stream_abort = [](auto...) { return YOKE_STATUS_OK; };
  enter();
  auto* const aborted = make_stream();
  EXPECT_EQ(streams->stream_abort(aborted, error()), YOKE_STATUS_OK);
  wait(make_stream());
  EXPECT_THAT(found(), IsEmpty());
  wait(aborted);
  EXPECT_THAT(found(), ElementsAre("46 plugin stream_wait"));
}

TEST_F(ValidateStreams, WrongStatesAreReported) {
  static std::int32_t next = 0;
  next = YOKE_STATE_FAILED;
  control->stream.stream_query = [](auto, auto out_state, auto) {
    *out_state = next;
    return YOKE_STATUS_OK;
  };
  enter();
  auto* const stream = make_stream();
  query(stream);
  EXPECT_THAT(found(), IsEmpty());
  next = YOKE_STATE_DONE;
  query(stream);
  EXPECT_THAT(found(), ElementsAre("19 plugin stream_query"));
  next = 3;
  query(make_stream());
  EXPECT_THAT(found(), ElementsAre("19 plugin stream_query", "44 plugin stream_query"));
}

TEST_F(ValidateStreams, WaitThatReturnsLongAfterItsDeadlineIsReported) {
  control->stream.stream_wait = [](auto, auto, yoke_error* e) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return fail(e, YOKE_STATUS_DEADLINE_EXCEEDED, "pending");
  };
  enter();
  streams->stream_wait(make_stream(), 1'000'000, error());
  EXPECT_THAT(found(true), Contains("21 plugin stream_wait"));
  EXPECT_THAT(found(), IsEmpty());
}

// The work continues after the wait has returned an error.
TEST_F(ValidateStreams, TargetWrittenAfterItsWorkHasEndedIsReported) {
  static std::atomic<std::uint8_t>* target = nullptr;
  static std::atomic<bool> is_over{false};
  is_over = false;
  control->backend.to_host = [](auto...) { return YOKE_STATUS_OK; };
  control->stream.stream_wait = [](auto, auto, yoke_error* e) {
    return fail(e, YOKE_STATUS_ABORTED, "the work was aborted");
  };
  enter();
  std::vector<std::atomic<std::uint8_t>> data(16);
  target = data.data();
  std::thread work([] {
    while (!is_over) {
      ++*target;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  std::vector<std::string> seen;
  for (int i = 0; i < 100 && seen.empty();
       ++i) {  // on a loaded machine, the thread may not run for some milliseconds
    auto* const stream = make_stream();
    backend->to_host(stream, make_buffer(16), 0, data.data(), 16, error());
    wait(stream);
    seen = found();
  }
  is_over = true;
  work.join();
  EXPECT_THAT(seen, ElementsAre("45 plugin to_host"));
}

TEST_F(ValidateStreams, IgnoredFlagsAndTimingAreReported) {
  control->stream.stream_create = [](auto on, auto, auto out, auto e) {
    const yoke_stream_args known{sizeof(known), 0, 0, 0};
    return sdk::detail::stream_create(on, &known, out, e);
  };
  control->stream.event_elapsed = [](auto, auto, std::uint64_t* out_ns, auto) {
    *out_ns = 1;
    return YOKE_STATUS_OK;
  };
  enter();
  const yoke_stream_args stream_args{sizeof(stream_args), 8, 0, 0};
  yoke_stream* stream = nullptr;
  streams->stream_create(device, &stream_args, &stream, error());
  auto* const event = record(stream, YOKE_EVENT_TIMING);
  std::uint64_t ns = 0;
  streams->event_elapsed(event, event, &ns, error());
  EXPECT_THAT(found(), ElementsAre("40 host stream_create", "40 plugin stream_create"));
  auto* const untimed = record(stream);
  streams->event_elapsed(event, untimed, &ns, error());
  EXPECT_THAT(found(), Contains("43 plugin event_elapsed"));
  streams->stream_wait(stream, 10'000'000'000, error());
  streams->stream_destroy(stream);
}

void count_call(void* count, std::int32_t /*status*/) {
  ++*static_cast<std::atomic<int>*>(count);
}

TEST_F(ValidateStreams, HostCallbackIsPassedOn) {
  enter();
  auto* const stream = make_stream();
  std::atomic<int> count{0};
  EXPECT_EQ(streams->stream_host_callback(stream, count_call, &count, error()), YOKE_STATUS_OK);
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  EXPECT_EQ(count, 1);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(ValidateStreams, HostCallbackCalledTwiceOrNeverIsReported) {
  static int repeats = 0;
  control->stream.stream_host_callback = [](auto, auto callback, void* user, auto) {
    for (int i = 0; i < repeats; ++i) {
      callback(user, YOKE_STATUS_OK);
    }
    return YOKE_STATUS_OK;
  };
  enter();
  auto* const stream = make_stream();
  std::atomic<int> count{0};
  repeats = 2;
  streams->stream_host_callback(stream, count_call, &count, error());
  EXPECT_EQ(count, 1);
  EXPECT_THAT(found(), ElementsAre("58 plugin stream_host_callback"));
  repeats = 0;
  streams->stream_host_callback(stream, count_call, &count, error());
  streams->stream_wait(stream, 10'000'000'000, error());
  EXPECT_THAT(found(), ElementsAre("58 plugin stream_host_callback", "58 plugin stream_host_callback"));
}

}  // namespace
}  // namespace yoke::test
