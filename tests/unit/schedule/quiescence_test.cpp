// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/quiescence_test.cpp: a wait reports failed and
// aborted work only when it no longer uses memory.
#include <atomic>
#include <optional>

#include "expected_leak.h"
#include "rig.h"

namespace yoke::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

class QuiescenceTest : public testing::TestWithParam<Streams> {
 protected:
  // Starts a copy that writes to `target` and blocks in the backend.
  void start_blocked_copy() {
    rig.control->is_blocked = true;
    stream->to_host(target.data(), buffer);
    EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  }

  Rig rig{GetParam()};
  const std::shared_ptr<Stream> stream = rig.stream("quiet");
  const BufferView buffer = rig.buffer(64);
  std::vector<std::uint8_t> target = std::vector<std::uint8_t>(64);
};
INSTANTIATE_TEST_SUITE_P(Streams, QuiescenceTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(QuiescenceTest, AbortedWorkIsReportedWhenItHasEnded) {
  start_blocked_copy();
  const Event event = stream->record();
  for (int i = 0; i < 100; ++i) {
    stream->to_host(target.data(), buffer);
  }

  stream->abort();

  for (const auto& wait : {std::function<void()>([&] { stream->wait(50ms); }),
                           std::function<void()>([&] { event.wait(50ms); })}) {
    EXPECT_THAT(error_of(wait), is_error(ErrorCode::kDeadlineExceeded, "still uses its memory"))
        << "the copy still writes to the target";
  }
  EXPECT_FALSE(event.is_done());
  EXPECT_FALSE(stream->is_idle());
  EXPECT_EQ(target[0], 0);
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kAborted, event.wait());
  EXPECT_ERROR(ErrorCode::kAborted, stream->wait());
  EXPECT_EQ(target[63], 0x5a) << "the copy has ended";
  EXPECT_EQ(rig.control->call_count, 1U) << "queued copies are skipped";
}

TEST_P(QuiescenceTest, AbortOfOneStreamLeavesOthersUnaffected) {
  const auto other = rig.stream("other");
  const BufferView mine = rig.buffer(1);
  start_blocked_copy();

  stream->abort();
  rig.control->is_blocked = false;
  fill<std::uint8_t>(*other, mine, 7);

  EXPECT_EQ(read<std::uint8_t>(*other, mine)[0], 7);
  EXPECT_ERROR(ErrorCode::kAborted, stream->wait());
  EXPECT_FALSE(rig.control->is_aborted) << "the device must not be aborted";
}

TEST_P(QuiescenceTest, WaiterInheritsTheErrorAndIsItselfQuiescent) {
  const auto waiter = rig.stream("waiter");
  const BufferView other = rig.buffer(64);
  rig.control->is_blocked = true;
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*stream, buffer, 1);
  waiter->copy(other, buffer);
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, waiter->wait(20ms));
  rig.control->is_blocked = false;
  EXPECT_THAT(error_of([&] { waiter->wait(); }),
              is_error(ErrorCode::kInternal, "the test injected this failure"));
  EXPECT_EQ(rig.control->call_count, 1U) << "the copy that reads the failed result is skipped";
  const auto late = rig.stream("late");
  late->to_host(target.data(), part<std::uint8_t>(buffer, 1, 1));
  EXPECT_ERROR(ErrorCode::kInternal, late->wait()) << "the failure was known before the call";
}

TEST_P(QuiescenceTest, LostDeviceIsReportedWhenItsWorkHasEnded) {
  rig.control->fail_code = YOKE_STATUS_DEVICE_LOST;
  rig.control->fail_after = 0;
  start_blocked_copy();
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, stream->wait(20ms));
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kDeviceLost, stream->wait());
}

TEST(NativeQuiescenceTest, WithoutStreamAbortTheDeviceIsAborted) {
  auto control = Rig::make_control(Streams::kNative);
  control->stream.stream_abort = nullptr;
  Rig rig(control);
  const auto stream = rig.stream();
  const auto other = rig.stream();
  stream->abort();
  EXPECT_TRUE(rig.control->is_aborted);
  fill<std::uint8_t>(*other, rig.buffer(1), 1);
  EXPECT_ERROR(ErrorCode::kAborted, other->wait());
}

TEST(NativeQuiescenceTest, FailedEventRecordAbortsTheStreamAndKeepsItsMemory) {
  auto control = Rig::make_control(Streams::kNative);
  control->stream.event_record = [](auto...) { return YOKE_STATUS_RESOURCE_EXHAUSTED; };
  Rig rig(control);
  const auto stream = rig.stream();
  const BufferView buffer = rig.buffer(64);
  std::vector<std::uint8_t> target(64);
  rig.control->is_blocked = true;
  stream->to_host(target.data(), buffer);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  stream->to_host(target.data(), buffer);

  const Event event = stream->record();

  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, event.wait(20ms));
  rig.control->is_blocked = false;
  EXPECT_THAT(
      error_of([&] { event.wait(); }),
      is_error(ErrorCode::kResourceExhausted, "event_record after to_host or the command after it failed"));
  EXPECT_EQ(target[63], 0x5a);
  EXPECT_EQ(rig.control->call_count, 1U) << "the abort skips the second copy";
}

// An abort would replace the error that streams inherit from this one.
TEST(NativeQuiescenceTest, FailedEventRecordOnALostDeviceDoesNotAbortTheStream) {
  auto control = Rig::make_control(Streams::kNative);
  control->stream.event_record = [](auto...) { return YOKE_STATUS_DEVICE_LOST; };
  Rig rig(control);
  const auto stream = rig.stream();
  const BufferView buffer = rig.buffer(64);
  std::vector<std::uint8_t> target(64);
  rig.control->is_blocked = true;
  stream->to_host(target.data(), buffer);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  stream->to_host(target.data(), buffer);

  const Event event = stream->record();

  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, event.wait(20ms));
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kDeviceLost, event.wait());
  EXPECT_EQ(rig.control->call_count, 2U) << "an abort skips the second copy";
}

TEST(NativeQuiescenceTest, FailedStateOfAQueryIsTheErrorOfTheStream) {
  Rig rig(Streams::kNative);
  const auto stream = rig.stream();
  rig.control->fail_after = 0;
  rig.control->fail_code = YOKE_STATUS_DATA_LOSS;
  fill<std::uint8_t>(*stream, rig.buffer(4), 1);
  Error error(ErrorCode::kOk, "");
  EXPECT_TRUE(wait_until([&] {  // only queries, no wait
    try {
      return stream->is_idle();
    } catch (const Error& thrown) {
      error = thrown;
      return true;
    }
  }));
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_THAT(error.what(), HasSubstr("the test injected this failure"));
}

TEST(NativeQuiescenceTest, StreamWhoseWorkDoesNotEndStaysOpen) {
  const ExpectedLeak leak;
  RuntimeOptions options;
  options.wait_timeout = 50ms;
  options.layers.names = "validate";
  options.layers.use_environment = false;
  LogLines lines;
  options.log_sink = lines.sink();
  options.log_level = LogLevel::kInfo;
  std::optional<Rig> open(std::in_place, Streams::kNative, options);
  Rig& rig = *open;
  std::vector<std::uint8_t> target(64);
  {
    const BufferView buffer = rig.buffer(64);
    const auto stream = rig.stream("stuck");
    rig.control->is_blocked = true;
    stream->to_host(target.data(), buffer);
    EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  }
  EXPECT_THAT(lines.all(), Contains(HasSubstr("stream.abandon stream=\"stuck\" reason=\"")));
  EXPECT_THAT(lines.all(), Contains(HasSubstr("buffer.leak device=test0:0 bytes=64")));
  EXPECT_EQ(rig.backend->live_counts().streams, 1U);
  rig.control->is_blocked = false;
  EXPECT_TRUE(wait_until([&] { return rig.control->ended_count == 1; }));
  EXPECT_EQ(target[63], 0x5a);
  EXPECT_FALSE(rig.control->freed_in_use);
  open.reset();  // the stream keeps the runtime's state alive, and the layers report nevertheless
  EXPECT_THAT(lines.all().back(), HasSubstr("layer.off name=validate violations=0"));
}

// A thread that waits in the driver after the work has ended.
TEST(NativeQuiescenceTest, StreamThatAThreadUsesStaysOpen) {
  static std::atomic<bool> is_waiting;
  static std::atomic<bool> hangs;
  is_waiting = false;
  hangs = true;
  const ExpectedLeak leak;
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.event_wait = [](yoke_event* event, std::uint64_t timeout_ns, yoke_error* error) {
    is_waiting = true;
    while (hangs) {
      std::this_thread::sleep_for(1ms);
    }
    return sdk::detail::event_wait(event, timeout_ns, error);
  };
  Rig rig(control);
  const BufferView buffer = rig.buffer(4);
  auto stream = rig.stream("used");
  control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  std::thread waiter([event = stream->record()] { event.wait(); });
  EXPECT_TRUE(wait_until([&] { return is_waiting.load(); }));
  control->is_blocked = false;
  EXPECT_TRUE(wait_until([&] { return stream->is_idle(); }));

  stream.reset();

  EXPECT_EQ(rig.backend->live_counts().streams, 1U);
  EXPECT_THAT(rig.log.all(), Contains(HasSubstr("stream.abandon stream=\"used\"")));
  hangs = false;
  waiter.join();
}

TEST(WorkerQuiescenceTest, AbandonedStreamIsLoggedOnce) {
  const ExpectedLeak leak;
  RuntimeOptions options;
  options.wait_timeout = 50ms;
  Rig rig(Streams::kWorker, options);
  const BufferView buffer = rig.buffer(4);
  auto stream = rig.stream("stuck");
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  stream->abort();
  stream.reset();
  EXPECT_THAT(rig.log.all(), testing::ElementsAre(HasSubstr("stream.abandon stream=\"stuck\"")));
  rig.control->is_blocked = false;
  EXPECT_TRUE(wait_until([&] { return rig.control->ended_count == 1; }));
}

}  // namespace
}  // namespace yoke::test
