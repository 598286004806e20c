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
