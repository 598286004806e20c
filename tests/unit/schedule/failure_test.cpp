// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/failure_test.cpp: failing calls poison their stream, readers of their results inherit
// the error, and aborts and destructors return.

#include "expected_leak.h"
#include "rig.h"
#include "thread_count.h"

namespace yoke::test {
namespace {

class FailureTest : public testing::TestWithParam<Streams> {
 protected:
  Rig rig{GetParam()};
  const std::shared_ptr<Stream> first = rig.stream("first");
  const std::shared_ptr<Stream> second = rig.stream("second");
  const BufferView buffer = rig.buffer(4);
};
INSTANTIATE_TEST_SUITE_P(Streams, FailureTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(FailureTest, EveryLaterWaitReportsTheFirstFailure) {
  fill<std::uint8_t>(*first, buffer, 1);
  const Event good = first->record();
  good.wait();
  rig.control->is_blocked = true;  // queuing throws a failure that is known
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, buffer, 2);
  const Event bad = first->record();
  fill<std::uint8_t>(*first, buffer, 3);
  rig.control->is_blocked = false;

  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(error_of([&] { first->wait(); }),
                is_error(ErrorCode::kInternal, "'first'", "the test injected this failure"));
    EXPECT_ERROR(ErrorCode::kInternal, bad.wait());
    EXPECT_ERROR(ErrorCode::kInternal, (void)bad.is_done());
    EXPECT_ERROR(ErrorCode::kInternal, (void)first->is_idle());
  }
  good.wait();  // earlier work is still done
  EXPECT_TRUE(good.is_done());
}

TEST_P(FailureTest, FailureDoesNotAffectEarlierEvents) {
  rig.control->is_blocked = true;  // so that nothing is known of either event until both are complete
  rig.control->fail_after = 1;
  fill<std::uint8_t>(*first, buffer, 1);
  const Event good = first->record();
  fill<std::uint8_t>(*first, buffer, 2);
  const Event bad = first->record();
  rig.control->is_blocked = false;

  EXPECT_ERROR(ErrorCode::kInternal, bad.wait());
  EXPECT_TRUE(good.is_done());
  good.wait();
}

TEST_P(FailureTest, QueuingOnAFailedStreamIsAnError) {
  fill<std::uint8_t>(*first, buffer, 1);
  first->wait();
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, buffer, 2);
  (void)error_of([&] { first->wait(); });
  const std::uint64_t calls = rig.control->call_count;
  std::uint32_t value = 0;
  for (const auto& queue : {std::function<void()>([&] { fill<std::uint8_t>(*first, buffer, 3); }),
                            std::function<void()>([&] { first->to_host(&value, buffer); }),
                            std::function<void()>([&] { first->from_host(buffer, &value); }),
                            std::function<void()>([&] { first->copy(rig.buffer(4), buffer); }),
                            std::function<void()>([&] { first->wait_for(second->record()); })}) {
    EXPECT_THAT(error_of(queue), is_error(ErrorCode::kInternal, "'first'", "the test injected this failure"));
  }
  EXPECT_EQ(rig.control->call_count, calls);

  EXPECT_EQ(read<std::uint8_t>(*rig.stream(), part<std::uint8_t>(buffer, 0, 0)).size(), 0U);
  const auto fresh = rig.stream();
  fill<std::uint8_t>(*fresh, buffer, 4);  // overwrites the result of the failed stream, so inherits no error
  EXPECT_EQ(read<std::uint8_t>(*fresh, buffer)[0], 4);
}

TEST_P(FailureTest, ErrorNamesTheStepOfTheFailedWork) {
  for (std::int64_t step = 0; step < 200; ++step) {
    first->begin_step(step);
    fill<std::uint8_t>(*first, buffer, 1);
  }
  first->wait();
  rig.control->is_blocked = true;
  rig.control->fail_after = 2;
  for (std::int64_t step = 200; step < 204; ++step) {
    first->begin_step(step);
    fill<std::uint8_t>(*first, buffer, 1);
    (void)first->record();
  }
  rig.control->is_blocked = false;

  EXPECT_THAT(error_of([&] { first->wait(); }), is_error(ErrorCode::kInternal, "stream 'first', step 202: "));
}

TEST_P(FailureTest, WaitForAFailedEventFailsTheWaiter) {
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, buffer, 1);
  (void)error_of([&] { first->wait(); });

  second->wait_for(first->record());

  EXPECT_THAT(error_of([&] { second->wait(); }).what(),
              testing::AllOf(testing::HasSubstr("'second'"), testing::HasSubstr("'first'")));
}

TEST_P(FailureTest, WriterDoesNotInheritTheErrorOfAFailedReader) {
  fill<std::uint8_t>(*second, buffer, 1);
  second->wait();
  std::uint32_t value = 0;
  rig.control->fail_after = 0;
  first->to_host(&value, buffer);
  (void)error_of([&] { first->wait(); });

  fill<std::uint8_t>(*second, buffer, 2);

  EXPECT_EQ(read<std::uint8_t>(*second, buffer)[0], 2);
}

TEST_P(FailureTest, WriteOfAPartKeepsTheErrorOfTheRest) {
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, buffer, 1);
  (void)error_of([&] { first->wait(); });

  fill<std::uint8_t>(*second, part<std::uint8_t>(buffer, 0, 2), 2);
  second->wait();

  const auto third = rig.stream("third");
  EXPECT_THAT(error_of([&] { read<std::uint8_t>(*third, part<std::uint8_t>(buffer, 2, 2)); }),
              is_error(ErrorCode::kInternal, "'third'", "'first'"));
}

TEST_P(FailureTest, LostDeviceFailsEveryStream) {
  rig.control->fail_code = YOKE_STATUS_DEVICE_LOST;
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, buffer, 1);

  EXPECT_ERROR(ErrorCode::kDeviceLost, first->wait());
  EXPECT_THAT(error_of([&] { second->wait(); }), is_error(ErrorCode::kDeviceLost, "'second'", "test0:0"));
  EXPECT_ERROR(ErrorCode::kDeviceLost, (void)rig.stream()->is_idle());
}

TEST_P(FailureTest, LossOfADeviceLeavesThoseThatWaitForItUsable) {
  const auto device = rig.backend->open_device(1);
  const auto waiting = Stream::create(device, "waiting");
  const BufferView copied = buffer_of<std::uint8_t>(device, 4);
  EXPECT_FALSE(first->failure());
  rig.control->is_blocked = true;  // the failure is not known when the copy is queued
  rig.control->fail_code = YOKE_STATUS_DEVICE_LOST;
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, buffer, 1);
  waiting->copy(copied, buffer);
  rig.control->is_blocked = false;

  EXPECT_ERROR(ErrorCode::kDeviceLost, waiting->wait());
  EXPECT_ERROR(ErrorCode::kDeviceLost, first->wait());
  EXPECT_TRUE(rig.device->is_lost());
  EXPECT_FALSE(device->is_lost());
  ASSERT_TRUE(first->failure() && waiting->failure());
  EXPECT_LT(first->failure()->order, waiting->failure()->order);
  EXPECT_EQ(first->failure()->device, rig.device);
  EXPECT_EQ(waiting->failure()->device, GetParam() == Streams::kNative ? device : rig.device);
  const auto again = Stream::create(device, "again");
  fill<std::uint8_t>(*again, copied, 7);
  EXPECT_EQ(read<std::uint8_t>(*again, copied), std::vector<std::uint8_t>(4, 7));
}

TEST_P(FailureTest, StreamThatFailedFirstIsKnown) {
  rig.control->is_blocked = true;
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, buffer, 1);
  std::vector<std::uint8_t> values(4);
  second->to_host(values.data(), buffer);
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kInternal, second->wait());
  EXPECT_ERROR(ErrorCode::kInternal, first->wait());
  ASSERT_TRUE(first->failure() && second->failure());
  EXPECT_LT(first->failure()->order, second->failure()->order);
  const auto aborted = rig.stream("aborted");
  aborted->abort();
  EXPECT_ERROR(ErrorCode::kAborted, aborted->wait());
  EXPECT_FALSE(aborted->failure());
}

TEST_P(FailureTest, AbortEndsAWaitForAnotherStream) {
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*first, buffer, 1);
  fill<std::uint8_t>(*second, buffer, 2);
  second->abort();

  EXPECT_ERROR(ErrorCode::kAborted, second->wait());
  rig.control->is_blocked = false;
}

TEST_P(FailureTest, AbortedIdleStreamReportsIt) {
  first->abort();
  EXPECT_ERROR(ErrorCode::kAborted, first->wait());
  EXPECT_ERROR(ErrorCode::kAborted, (void)first->is_idle());
}

TEST_P(FailureTest, MessageNamesTheFailedProgram) {
  const auto stream = rig.stream("named");
  const BufferView y = buffer_of<float>(rig.device, 2);
  const auto routine =
      link(rig.device, "yoke.program 1\nprogram ones() {\n  arg y : f32[2] out\n  y[i] = 1.0\n}\n", {y});
  rig.control->fail_after = 0;
  stream->launch(*routine);

  EXPECT_STREQ(error_of([&] { stream->wait(); }).what(),
               "stream 'named': launch of 'ones' failed: the test injected this failure (INTERNAL)");
}

TEST_P(FailureTest, FinishWaitsForAllStreams) {
  rig.control->delay_us = 5000;
  fill<std::uint8_t>(*first, buffer, 1);
  const std::shared_ptr<Stream> streams[] = {nullptr, first, second};
  Stream::finish(streams);
  EXPECT_TRUE(first->is_idle());
  EXPECT_TRUE(second->is_idle()) << "not aborted";
}

TEST_P(FailureTest, FinishAbortsAllStreamsIfOneIsLate) {
  RuntimeOptions options;
  options.wait_timeout = 50ms;
  Rig late(GetParam(), options);
  const BufferView view = late.buffer(4);
  const std::shared_ptr<Stream> streams[] = {nullptr, late.stream("late"), late.stream("idle")};
  late.control->is_blocked = true;
  fill<std::uint8_t>(*streams[1], view, 1);
  Stream::finish(streams);
  late.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kAborted, streams[1]->wait(30s));
  EXPECT_ERROR(ErrorCode::kAborted, streams[2]->wait(30s));
}

TEST(FailureNativeTest, MessageNamesTheWorkThatMayHaveFailed) {
  Rig rig(Streams::kNative);
  const auto stream = rig.stream("named");
  const BufferView buffer = rig.buffer(4);
  rig.control->is_blocked = true;
  rig.control->fail_after = 1;
  for (int i = 0; i < 3; ++i) {
    fill<std::uint8_t>(*stream, buffer, 1);
  }
  rig.control->is_blocked = false;

  EXPECT_STREQ(
      error_of([&] { stream->wait(); }).what(),
      "stream 'named': fill or one of the 2 commands after it failed: the test injected this failure "
      "(INTERNAL)");
}

TEST(FailureNativeTest, MessageNamesTheWorkOfTheFirstEventThatFailed) {
  for (const int earlier : {0, 7}) {  // a stream keeps its events in a ring of 8
    Rig rig(Streams::kNative);
    const auto stream = rig.stream("named");
    const BufferView buffer = rig.buffer(4);
    const auto record = [&](int count) {
      rig.control->is_blocked = true;
      for (int i = 0; i < count; ++i) {
        fill<std::uint8_t>(*stream, buffer, 1);
        (void)stream->record();
      }
      rig.control->is_blocked = false;
    };
    record(earlier);
    stream->wait();
    rig.control->fail_after = 0;
    record(3);
    EXPECT_STREQ(error_of([&] { stream->wait(); }).what(),
                 "stream 'named': fill failed: the test injected this failure (INTERNAL)");
  }
}

TEST(FailureNativeTest, MessageNamesTheCallIfNoWorkIsPending) {
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.stream_query = [](auto...) { return YOKE_STATUS_UNAVAILABLE; };
  Rig rig(control);
  const auto other = rig.stream();
  const auto stream = rig.stream("named");
  const BufferView buffer = rig.buffer(4);
  control->is_blocked = true;
  fill<std::uint8_t>(*other, buffer, 1);
  stream->wait_for(other->record());
  EXPECT_FALSE(stream->is_idle());  // calls stream_query
  control->is_blocked = false;
  other->wait();
  EXPECT_STREQ(error_of([&] { stream->wait(); }).what(),
               "stream 'named': stream_query failed: the plugin gave no reason (UNAVAILABLE)");
}

TEST(FailureWorkerTest, MessageOfACopyWithoutATensorNamesNone) {
  Rig rig;
  const auto stream = rig.stream("named");
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*stream, rig.buffer(4), 1);
  EXPECT_STREQ(error_of([&] { stream->wait(); }).what(),
               "stream 'named': fill of 4 bytes failed: the test injected this failure (INTERNAL)");
}

TEST(FailureWorkerTest, QueueAcceptsCommandsUntilItIsFull) {
  RuntimeOptions options;
  options.wait_timeout = 2s;
  Rig rig(Streams::kWorker, options);
  const auto stream = rig.stream();
  const BufferView buffer = rig.buffer(1);
  rig.control->is_blocked = true;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1020; ++i) {
    fill<std::uint8_t>(*stream, buffer, 0);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s) << "no command waited for room";
  rig.control->is_blocked = false;
  stream->wait(30s);
}

TEST(FailureWorkerTest, TimedOutWaitForAnotherStreamNamesBoth) {
  RuntimeOptions options;
  options.wait_timeout = 60ms;
  Rig rig(Streams::kWorker, options);
  const auto stuck = rig.stream("stuck");
  const auto waiter = rig.stream("waiter");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*stuck, buffer, 0);
  fill<std::uint8_t>(*waiter, buffer, 0);

  EXPECT_THAT(error_of([&] { waiter->wait(30s); }),
              is_error(ErrorCode::kAborted, "'waiter'", "'stuck'", "60 ms"));
  rig.control->is_blocked = false;
  stuck->wait(30s);
}

TEST(FailureWorkerTest, QueueThatStaysFullIsAnErrorAtTheDeadline) {
  RuntimeOptions options;
  options.wait_timeout = 100ms;
  Rig rig(Streams::kWorker, options);
  const auto stream = rig.stream("full");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;

  EXPECT_THAT(error_of([&] {
                for (int i = 0; i < 3000; ++i) {
                  fill<std::uint8_t>(*stream, buffer, 0);
                }
              }),
              is_error(ErrorCode::kResourceExhausted, "'full'", "1024"));
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kResourceExhausted, stream->wait(30s));
}

TEST(FailureWorkerTest, DestructorsEndWhileACallHangs) {
  RuntimeOptions options;
  options.wait_timeout = 2500ms;
  auto control = std::make_shared<Control>();
  const auto start = std::chrono::steady_clock::now();
  const std::size_t threads = thread_count();
  {
    const ExpectedLeak leak;  // of memory that the hanging call may still use
    Rig rig(control, options);
    const auto stream = rig.stream();
    const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
    control->is_blocked = true;
    fill<std::uint8_t>(*stream, buffer, 0);
    fill<std::uint8_t>(*stream, buffer, 0);
    EXPECT_TRUE(wait_for_calls(*control, 1));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 4500ms) << "stream and buffer must share a deadline";
  control->is_blocked = false;
  EXPECT_TRUE(wait_until([&] { return thread_count() <= threads; })) << "the abandoned worker must end";
  EXPECT_EQ(control->call_count.load(), 1U);
}

}  // namespace
}  // namespace yoke::test
