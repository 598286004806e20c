// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/worker_stream_test.cpp: the streams of the SDK. Events, deadlines, abort of one stream and host
// callbacks are tests of the conformance kit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/sdk/worker_stream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace yoke::sdk {
namespace {

constexpr std::uint64_t kLong = 20'000'000'000;  // ns

Failure failure_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Failure& failure) {
    return failure;
  }
  ADD_FAILURE() << "no exception";
  return {YOKE_STATUS_OK, ""};
}

// Work that runs until `is_open` is set.
struct Gate {
  std::atomic<bool> is_open{false};
  std::atomic<bool> is_reached{false};
  void operator()() {
    is_reached = true;
    while (!is_open) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void await() const {
    while (!is_reached) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

class WorkerStreamTest : public testing::Test {
 protected:
  static void fail(Stream& stream, std::int32_t code, const char* text) {
    WorkerStream::run(&stream, [=] { throw Failure(code, text); });
  }

  std::shared_ptr<WorkerGroup> group_ = std::make_shared<WorkerGroup>();
  WorkerStream one_{group_};
  WorkerStream two_{group_};
};

TEST_F(WorkerStreamTest, WorkRunsInOrderOnTheStreamsThread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    WorkerStream::run(&one_, [&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  one_.wait(kLong);
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_NE(threads[0], std::this_thread::get_id());
  EXPECT_EQ(threads[0], threads[99]);
  EXPECT_EQ(one_.state(), YOKE_STATE_DONE);
}

TEST_F(WorkerStreamTest, NullStreamRunsWorkAndThrowsItsErrorInTheCall) {
  bool is_done = false;
  WorkerStream::run(nullptr, [&] { is_done = true; });
  EXPECT_TRUE(is_done);
  EXPECT_EQ(failure_of([] {
              WorkerStream::run(nullptr, [] { throw Failure(YOKE_STATUS_UNAVAILABLE, "no"); });
            }).code(),
            YOKE_STATUS_UNAVAILABLE);
}

TEST_F(WorkerStreamTest, SignalsAreBlockedOnTheStreamsThreadOnly) {
  sigset_t here;
  pthread_sigmask(SIG_SETMASK, nullptr, &here);
  EXPECT_EQ(sigismember(&here, SIGTERM), 0);
  int is_blocked = -1;
  WorkerStream::run(&one_, [&] {
    sigset_t there;
    pthread_sigmask(SIG_SETMASK, nullptr, &there);
    is_blocked = sigismember(&there, SIGTERM);
  });
  one_.wait(kLong);
  EXPECT_EQ(is_blocked, 1);
}

TEST_F(WorkerStreamTest, OtherExceptionsBecomeInternal) {
  WorkerStream::run(&one_, [] { throw std::runtime_error("a library's message"); });
  const Failure failure = failure_of([&] { one_.wait(kLong); });
  EXPECT_EQ(failure.code(), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(failure.text(), "a library's message");
  WorkerStream::run(&two_, [] { throw 7; });
  EXPECT_EQ(failure_of([&] { two_.wait(kLong); }).code(), YOKE_STATUS_INTERNAL);
}

TEST_F(WorkerStreamTest, LostDeviceFailsEveryLaterCallAndNoOtherDevice) {
  const auto others = std::make_shared<WorkerGroup>();
  WorkerStream other(others);
  Gate gate;
  WorkerStream::run(&one_, [&] { gate(); });
  fail(one_, YOKE_STATUS_DEVICE_LOST, "the card is gone");
  const std::unique_ptr<Event> event = one_.record(false);
  other.wait_event(*event);
  gate.is_open = true;
  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).code(), YOKE_STATUS_DEVICE_LOST);
  const std::function<void()> calls[] = {[&] { WorkerStream::run(&two_, [] {}); },
                                         [&] { (void)two_.record(false); },
                                         [&] { (void)two_.record(true); },
                                         [&] { two_.wait_event(*event); },
                                         [&] { two_.wait(kLong); },
                                         [&] { (void)WorkerStream(group_); }};
  for (const auto& call : calls) {
    EXPECT_EQ(failure_of(call).code(), YOKE_STATUS_DEVICE_LOST);
  }
  EXPECT_EQ(failure_of([&] { other.wait(kLong); }).code(), YOKE_STATUS_DEVICE_LOST);
  (void)other.record(true);
  WorkerStream third(others);
  third.wait(kLong);
  others->abort();
  others->fail(Failure(YOKE_STATUS_DEVICE_LOST, "gone, too"));
  EXPECT_EQ(failure_of([&] { (void)WorkerStream(others); }).code(), YOKE_STATUS_DEVICE_LOST);
}

TEST_F(WorkerStreamTest, FaultsAreQueuedLikeWork) {
  const auto begin = std::chrono::steady_clock::now();
  one_.pause(10'000'000);
  one_.record(false)->wait(kLong);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(10));
  one_.poison(Failure(YOKE_STATUS_UNAVAILABLE, "on purpose"));
  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).text(), "on purpose");
  two_.pause(std::numeric_limits<std::uint64_t>::max());
  const auto late = two_.record(false);
  EXPECT_EQ(failure_of([&] { late->wait(0); }).code(), YOKE_STATUS_DEADLINE_EXCEEDED);
  group_->abort();
  EXPECT_EQ(failure_of([&] { two_.wait(kLong); }).code(), YOKE_STATUS_ABORTED);
}

TEST_F(WorkerStreamTest, BuffersCopyAndFillInStreamOrder) {
  WorkerBuffer buffer(8);
  WorkerBuffer other(8);
  Gate gate;
  WorkerStream::run(&one_, [&] { gate(); });
  std::string source = "abcdefgh";
  EXPECT_EQ(buffer.from_host(&one_, 0, source.data(), 8), YOKE_SOURCE_UNTIL_EVENT);
  std::string pattern = "xy";
  other.fill(&one_, 0, 8, std::as_bytes(std::span(pattern)));
  pattern = "??";  // the call has returned
  buffer.copy_from(&one_, 2, other, 1, 4);
  std::string read = "........";
  buffer.to_host(&one_, 1, read.data(), 7);
  EXPECT_EQ(read, "........") << "the stream has not reached the copy";
  gate.is_open = true;
  one_.wait(kLong);
  EXPECT_EQ(read, "byxyxgh.");
}

TEST_F(WorkerStreamTest, EventsCoverTheWorkBeforeThemOnly) {
  WorkerStream::run(&one_, [] {});
  const std::unique_ptr<Event> before = one_.record(false);
  fail(one_, YOKE_STATUS_UNAVAILABLE, "first");
  const std::unique_ptr<Event> after = one_.record(false);
  const std::unique_ptr<Event> timed = one_.record(true);
  fail(one_, YOKE_STATUS_INTERNAL, "second");
  before->wait(kLong);
  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).text(), "first");
  EXPECT_EQ(before->state(), YOKE_STATE_DONE);
  for (Event* event : {after.get(), timed.get()}) {
    EXPECT_EQ(event->state(), YOKE_STATE_FAILED);
    EXPECT_EQ(failure_of([&] { event->wait(kLong); }).text(), "first");
  }
  EXPECT_EQ(one_.state(), YOKE_STATE_FAILED);
  two_.wait_event(*before);
  two_.wait(kLong);  // inherits nothing
  bool ran = false;
  WorkerStream::run(&two_, [&] { ran = true; });
  two_.wait(kLong);
  EXPECT_TRUE(ran);
  two_.wait_event(*after);
  WorkerStream::run(&two_, [&] { ran = false; });
  EXPECT_EQ(failure_of([&] { two_.wait(kLong); }).text(), "first");
  EXPECT_TRUE(ran) << "work after a failure is skipped";
}

TEST_F(WorkerStreamTest, WorkThatIsPendingIsCountedInTheErrorOfADeadline) {
  Gate gate;
  WorkerStream::run(&one_, [&] { gate(); });
  gate.await();
  EXPECT_EQ(one_.debug_text(), "0 items of work are queued on a worker thread");
  const std::unique_ptr<Event> first = one_.record(false);
  WorkerStream::run(&one_, [] {});
  EXPECT_EQ(one_.debug_text(), "1 item of work is queued on a worker thread");
  const std::unique_ptr<Event> second = one_.record(true);
  EXPECT_EQ(one_.debug_text(), "2 items of work are queued on a worker thread");
  const Failure early = failure_of([&] { first->wait(0); });
  EXPECT_EQ(early.code(), YOKE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_EQ(early.text(), "1 item of queued work did not finish within 0 ms");
  EXPECT_EQ(failure_of([&] { second->wait(2'000'000); }).text(),
            "3 items of queued work did not finish within 2 ms");
  EXPECT_EQ(one_.state(), YOKE_STATE_PENDING);
  gate.is_open = true;
  one_.wait(kLong);
  EXPECT_EQ(one_.state(), YOKE_STATE_DONE);
}

TEST_F(WorkerStreamTest, TimesAreThoseOfTheSteadyClock) {
  const auto now = [] {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  };
  const std::uint64_t begin = now();
  const auto first = one_.record(true);
  one_.pause(1'000'000);
  const auto second = one_.record(true);
  one_.wait(kLong);
  EXPECT_LE(begin, first->time_ns());
  EXPECT_LE(first->time_ns() + 1'000'000, second->time_ns());
  EXPECT_LE(second->time_ns(), now());
  EXPECT_EQ(second->elapsed_since(*first), second->time_ns() - first->time_ns());
  EXPECT_EQ(first->elapsed_since(*second), 0U);
}

TEST_F(WorkerStreamTest, AbortSkipsQueuedWorkAndReleasesAStreamThatWaits) {
  Gate gate;
  WorkerStream::run(&one_, [&] { gate(); });
  const std::unique_ptr<Event> event = one_.record(false);
  bool ran = false;
  two_.wait_event(*event);
  WorkerStream::run(&two_, [&] { ran = true; });
  gate.await();
  while (two_.debug_text() != "1 item of work is queued on a worker thread") {  // it waits for the event
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  two_.abort();
  const Failure failure = failure_of([&] { two_.wait(kLong); });  // while the other is blocked
  EXPECT_EQ(failure.code(), YOKE_STATUS_ABORTED);
  EXPECT_EQ(failure.text(), "the stream was aborted; destroy it and create another");
  EXPECT_FALSE(ran);
  EXPECT_EQ(event->state(), YOKE_STATE_PENDING);
  const std::unique_ptr<Event> later = two_.record(false);
  EXPECT_EQ(failure_of([&] { later->wait(kLong); }).code(), YOKE_STATUS_ABORTED);
  gate.is_open = true;
  one_.wait(kLong);
}

TEST_F(WorkerStreamTest, AbortOfAnIdleStreamKeepsEarlierEventsDone) {
  const std::unique_ptr<Event> before = one_.record(false);
  one_.abort();
  one_.abort();
  const std::unique_ptr<Event> after = one_.record(false);
  EXPECT_EQ(before->state(), YOKE_STATE_DONE);
  EXPECT_EQ(after->state(), YOKE_STATE_FAILED);
  EXPECT_EQ(one_.state(), YOKE_STATE_FAILED);
  EXPECT_EQ(failure_of([&] { one_.wait(0); }).code(), YOKE_STATUS_ABORTED);
}

TEST_F(WorkerStreamTest, AbortOfTheDeviceFailsAllStreamsButWorkMayStillBeQueued) {
  group_->abort();
  group_->fail(Failure(YOKE_STATUS_INTERNAL, "later"));
  WorkerStream third(group_);
  for (WorkerStream* stream : {&one_, &two_, &third}) {
    bool ran = false;
    WorkerStream::run(stream, [&] { ran = true; });
    const Failure failure = failure_of([&] { stream->wait(kLong); });
    EXPECT_EQ(failure.code(), YOKE_STATUS_ABORTED);
    EXPECT_EQ(failure.text(), "the device was aborted; close it and open it again");
    EXPECT_FALSE(ran);
  }
  group_->fail(Failure(YOKE_STATUS_DEVICE_LOST, "gone"));
  EXPECT_EQ(failure_of([&] { WorkerStream::run(&one_, [] {}); }).text(), "gone");
  EXPECT_EQ(failure_of([&] { (void)one_.record(false); }).text(), "gone");
  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).code(), YOKE_STATUS_ABORTED) << "the first failure";
  group_->fail(Failure(YOKE_STATUS_DEVICE_LOST, "again"));
  EXPECT_EQ(failure_of([&] { WorkerStream::run(&one_, [] {}); }).text(), "gone");
  EXPECT_EQ(failure_of([&] { (void)WorkerStream(group_); }).text(), "gone");
}

// The memory of both streams is freed, which the leak checker confirms.
TEST_F(WorkerStreamTest, TwoStreamsMayWaitForEachOther) {
  const auto first = one_.record(true);
  two_.wait_event(*first);
  const auto second = two_.record(true);
  one_.wait_event(*second);
  one_.wait_event(*first);  // its own
  one_.wait(kLong);
  two_.wait(kLong);
}

TEST_F(WorkerStreamTest, CallbacksReceiveTheErrorAlsoOfAFailedStream) {
  std::vector<std::int32_t> codes;
  const auto callback = [](void* user, std::int32_t status) {
    static_cast<std::vector<std::int32_t>*>(user)->push_back(status);
  };
  one_.host_callback(callback, &codes);
  fail(one_, YOKE_STATUS_DATA_LOSS, "no");
  one_.host_callback(callback, &codes);
  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).code(), YOKE_STATUS_DATA_LOSS);
  EXPECT_THAT(codes, testing::ElementsAre(YOKE_STATUS_OK, YOKE_STATUS_DATA_LOSS));
}

TEST_F(WorkerStreamTest, WorkReleasesItsCapturesBeforeItIsDone) {
  const auto memory = std::make_shared<int>(1);
  WorkerStream::run(&one_, [memory] {});
  one_.record(false)->wait(kLong);
  EXPECT_EQ(memory.use_count(), 1);
  fail(one_, YOKE_STATUS_INTERNAL, "no");
  WorkerStream::run(&one_, [memory] {});
  EXPECT_THROW(one_.wait(kLong), Failure);
  EXPECT_EQ(memory.use_count(), 1) << "of skipped work";
}

TEST_F(WorkerStreamTest, LackOfMemoryIsAFailure) {
  WorkerStream::run(&one_, [] { throw std::bad_alloc(); });
  const Failure failure = failure_of([&] { one_.wait(kLong); });
  EXPECT_EQ(failure.code(), YOKE_STATUS_RESOURCE_EXHAUSTED);
  EXPECT_EQ(failure.text(), "the plugin is out of host memory");
}

TEST_F(WorkerStreamTest, CopiesWithoutAStreamAreDoneInTheCall) {
  WorkerBuffer buffer(8);
  WorkerBuffer other(8);
  std::string read(8, '.');
  EXPECT_EQ(buffer.from_host(nullptr, 0, "abcdefgh", 8), YOKE_SOURCE_COPIED);
  other.fill(nullptr, 0, 8, std::as_bytes(std::span("12345678", 8)));
  other.copy_from(nullptr, 1, buffer, 2, 3);
  other.to_host(nullptr, 0, read.data(), 8);
  EXPECT_EQ(read, "1cde5678");
}

TEST_F(WorkerStreamTest, DestructorEndsAPauseAndRunsTheRemainingWork) {
  bool ran = false;
  {
    WorkerStream stream(group_);
    stream.pause(std::numeric_limits<std::uint64_t>::max());
    WorkerStream::run(&stream, [&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace yoke::sdk
