// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/failure_test.cpp: failing calls poison, errors are inherited where results are read,
// abort and destructors end.
#include <filesystem>

#include "rig.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace yoke::test {
namespace {

class FailureTest : public testing::TestWithParam<Streams> {
 protected:
  void fill(Stream& stream, const BufferView& buffer, std::uint8_t value) { stream.fill(buffer, &value, 1); }
  Rig rig{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Streams, FailureTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(FailureTest, FirstFailureIsWhatEveryLaterWaitSays) {
  const auto stream = rig.stream("poor");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 4);
  fill(*stream, buffer, 1);
  const Event good = stream->record();
  good.wait();
  rig.control->fail_after = 0;
  fill(*stream, buffer, 2);
  const Event bad = stream->record();
  fill(*stream, buffer, 3);

  for (int round = 0; round < 2; ++round) {
    const Error error = error_of([&] { stream->wait(); });
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'poor'"),
                                             testing::HasSubstr("the test asked for this failure")));
    EXPECT_EQ(error_of([&] { bad.wait(); }).code(), ErrorCode::kInternal);
    EXPECT_EQ(error_of([&] { (void)bad.is_done(); }).code(), ErrorCode::kInternal);
    EXPECT_EQ(error_of([&] { (void)stream->is_idle(); }).code(), ErrorCode::kInternal);
  }
  good.wait();  // what was done before is still done
  EXPECT_TRUE(good.is_done());
}

TEST_P(FailureTest, CommandsBehindAFailureAreSkipped) {
  const auto stream = rig.stream();
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 4);
  fill(*stream, buffer, 1);
  stream->wait();
  rig.control->fail_after = 0;
  fill(*stream, buffer, 2);
  (void)error_of([&] { stream->wait(); });
  for (int i = 0; i < 3000; ++i) {
    fill(*stream, buffer, 3);
  }
  (void)error_of([&] { stream->wait(); });

  EXPECT_EQ(read<std::uint8_t>(*rig.stream(), part<std::uint8_t>(buffer, 0, 0)).size(), 0U);
  const auto fresh = rig.stream();
  fill(*fresh, buffer, 4);  // overwrites what the failed stream left: no error of its
  EXPECT_EQ(read<std::uint8_t>(*fresh, buffer)[0], 4);
}

TEST_P(FailureTest, WhoReadsWhatAFailedStreamWroteInheritsItsError) {
  const auto writer = rig.stream("writer");
  const auto reader = rig.stream("reader");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 4);
  const BufferView other = buffer_of<std::uint8_t>(rig.device, 4);
  rig.control->is_blocked = true;
  rig.control->fail_after = 0;
  fill(*writer, buffer, 1);
  reader->copy(other, buffer);
  rig.control->is_blocked = false;

  const Error error = error_of([&] { reader->wait(); });

  EXPECT_EQ(error.code(), ErrorCode::kInternal);
  EXPECT_THAT(error.what(), testing::HasSubstr("the test asked for this failure"));
  const auto late = rig.stream("late");
  std::uint8_t value = 0;
  late->to_host(&value, part<std::uint8_t>(buffer, 1, 1));
  EXPECT_EQ(error_of([&] { late->wait(); }).code(), ErrorCode::kInternal);
}

TEST_P(FailureTest, WaitForAFailedEventFailsTheWaiter) {
  const auto first = rig.stream("first");
  const auto second = rig.stream("second");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 4);
  rig.control->fail_after = 0;
  fill(*first, buffer, 1);
  (void)error_of([&] { first->wait(); });

  second->wait_for(first->record());

  EXPECT_THAT(error_of([&] { second->wait(); }).what(),
              testing::AllOf(testing::HasSubstr("'second'"), testing::HasSubstr("'first'")));
}

TEST_P(FailureTest, AFailedReaderDoesNotFailTheNextWriter) {
  const auto reader = rig.stream("reader");
  const auto writer = rig.stream("writer");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  fill(*writer, buffer, 1);
  writer->wait();
  std::uint8_t value = 0;
  rig.control->fail_after = 0;
  reader->to_host(&value, buffer);
  (void)error_of([&] { reader->wait(); });

  fill(*writer, buffer, 2);

  EXPECT_EQ(read<std::uint8_t>(*writer, buffer)[0], 2);
}

TEST_P(FailureTest, LostDeviceFailsEveryStreamOfIt) {
  const auto first = rig.stream("first");
  const auto second = rig.stream("second");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->fail_code = YOKE_DEVICE_LOST;
  rig.control->fail_after = 0;
  fill(*first, buffer, 1);

  EXPECT_EQ(error_of([&] { first->wait(); }).code(), ErrorCode::kDeviceLost);
  const Error error = error_of([&] { second->wait(); });

  EXPECT_EQ(error.code(), ErrorCode::kDeviceLost);
  EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'second'"), testing::HasSubstr("test0:0")));
  EXPECT_EQ(error_of([&] { (void)rig.stream()->is_idle(); }).code(), ErrorCode::kDeviceLost);
}

TEST_P(FailureTest, AbortEndsWaitsAndDropsWhatIsQueued) {
  const auto stream = rig.stream("doomed");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;
  for (int i = 0; i < 100; ++i) {
    fill(*stream, buffer, 1);
  }
  std::thread killer([&] {
    std::this_thread::sleep_for(30ms);
    stream->abort();
  });
  const auto start = std::chrono::steady_clock::now();

  const Error error = error_of([&] { stream->wait(); });

  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_THAT(error.what(), testing::HasSubstr("'doomed'"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s) << "the call itself would block for 20 s";
  killer.join();
  rig.control->is_blocked = false;
  EXPECT_LE(rig.control->call_count.load(), 1U);
}

TEST_P(FailureTest, AbortEndsAStreamThatWaitsForAnother) {
  const auto stuck = rig.stream("stuck");
  const auto waiter = rig.stream("waiter");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;
  fill(*stuck, buffer, 1);
  fill(*waiter, buffer, 2);
  waiter->abort();

  EXPECT_EQ(error_of([&] { waiter->wait(); }).code(), ErrorCode::kAborted);
  rig.control->is_blocked = false;
}

TEST_P(FailureTest, IdleStreamThatWasAbortedSaysSo) {
  const auto stream = rig.stream();
  stream->abort();
  EXPECT_EQ(error_of([&] { stream->wait(); }).code(), ErrorCode::kAborted);
  EXPECT_EQ(error_of([&] { (void)stream->is_idle(); }).code(), ErrorCode::kAborted);
}

TEST(FailureWorkerTest, MessageNamesTheProgramThatFailed) {
  Rig rig;
  const auto stream = rig.stream("named");
  const BufferView y = buffer_of<float>(rig.device, 2);
  const auto routine =
      link(rig.device, "yoke.program 1\nprogram ones() {\n  arg y : f32[2] out\n  y[i] = 1.0\n}\n", {y});
  rig.control->fail_after = 0;
  stream->launch(*routine);

  EXPECT_STREQ(error_of([&] { stream->wait(); }).what(),
               "stream 'named': launch of 'ones' failed: the test asked for this failure (INTERNAL)");
}

TEST(FailureWorkerTest, StreamThatWaitsTooLongForAnotherNamesBoth) {
  RuntimeOptions options;
  options.wait_timeout = 60ms;
  Rig rig(Streams::kWorker, options);
  const auto stuck = rig.stream("stuck");
  const auto waiter = rig.stream("waiter");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;
  const std::uint8_t zero = 0;
  stuck->fill(buffer, &zero, 1);
  waiter->fill(buffer, &zero, 1);

  const Error error = error_of([&] { waiter->wait(30s); });

  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'waiter'"), testing::HasSubstr("'stuck'"),
                                           testing::HasSubstr("60 ms")));
  rig.control->is_blocked = false;
  stuck->wait(30s);
}

TEST(FailureWorkerTest, FullQueueThatDoesNotMoveIsAnErrorAtTheDeadline) {
  RuntimeOptions options;
  options.wait_timeout = 100ms;
  Rig rig(Streams::kWorker, options);
  const auto stream = rig.stream("full");
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;
  const std::uint8_t zero = 0;

  const Error error = error_of([&] {
    for (int i = 0; i < 3000; ++i) {
      stream->fill(buffer, &zero, 1);
    }
  });

  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'full'"), testing::HasSubstr("1024")));
  rig.control->is_blocked = false;
  EXPECT_EQ(error_of([&] { stream->wait(30s); }).code(), ErrorCode::kDeadlineExceeded);
}

// Of this process.
std::size_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(FailureWorkerTest, DestructorsEndWhileACallHangs) {
  RuntimeOptions options;
  options.wait_timeout = 50ms;
  auto control = std::make_shared<Control>();
  const auto start = std::chrono::steady_clock::now();
  std::thread([] {}).join();  // with the first one the thread sanitizer starts one of its own
  const std::size_t threads = thread_count();
  {
#ifdef __SANITIZE_ADDRESS__
    const __lsan::ScopedDisabler leaks;  // what the hanging call may still touch is kept on purpose
#endif
    Rig rig(control, options);
    const auto stream = rig.stream();
    const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
    const std::uint8_t zero = 0;
    control->is_blocked = true;
    stream->fill(buffer, &zero, 1);
    stream->fill(buffer, &zero, 1);
    EXPECT_TRUE(wait_for_calls(*control, 1));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s) << "the call itself would block for 20 s";
  control->is_blocked = false;
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (thread_count() > threads && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_LE(thread_count(), threads) << "the abandoned worker ends";
  EXPECT_EQ(control->call_count.load(), 1U);
}

}  // namespace
}  // namespace yoke::test
