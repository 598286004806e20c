// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/worker_stream_test.cpp: the SDK's streams for work that is calls: order, errors that stay,
// deadlines, events between streams, abort.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/sdk/worker_stream.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace yoke::sdk {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kLong = 20'000'000'000;  // ns; a test that waits so long has failed

Failure failure_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Failure& failure) {
    return failure;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {YOKE_OK, ""};
}

// Work that runs until it is let go.
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

TEST_F(WorkerStreamTest, WorkRunsInOrderOnAThreadOfItsOwn) {
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
  EXPECT_TRUE(one_.done());
}

TEST_F(WorkerStreamTest, OnANullStreamWorkIsDoneAtOnceAndItsErrorIsTheCalls) {
  bool is_done = false;
  WorkerStream::run(nullptr, [&] { is_done = true; });
  EXPECT_TRUE(is_done);
  EXPECT_EQ(
      failure_of([] { WorkerStream::run(nullptr, [] { throw Failure(YOKE_UNAVAILABLE, "no"); }); }).code(),
      YOKE_UNAVAILABLE);
}

TEST_F(WorkerStreamTest, TheFirstErrorStaysAndWorkBehindItIsSkipped) {
  bool ran = false;
  const auto before = one_.record();
  fail(one_, YOKE_UNAVAILABLE, "the first");
  fail(one_, YOKE_INTERNAL, "the second");
  WorkerStream::run(&one_, [&] { ran = true; });
  const auto behind = one_.record();

  for (int i = 0; i < 2; ++i) {
    const Failure failure = failure_of([&] { one_.wait(kLong); });
    EXPECT_EQ(failure.code(), YOKE_UNAVAILABLE);
    EXPECT_EQ(failure.text(), "the first");
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(failure_of([&] { behind->wait(kLong); }).text(), "the first");
  EXPECT_EQ(failure_of([&] { (void)one_.done(); }).text(), "the first");
  before->wait(kLong);
  EXPECT_TRUE(before->done());
  two_.wait(kLong);
}

TEST_F(WorkerStreamTest, TheCallersSignalsAreAsBeforeAndTheThreadGetsNone) {
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

TEST_F(WorkerStreamTest, WhatIsNoFailureBecomesOne) {
  WorkerStream::run(&one_, [] { throw std::runtime_error("a library's words"); });
  const Failure failure = failure_of([&] { one_.wait(kLong); });
  EXPECT_EQ(failure.code(), YOKE_INTERNAL);
  EXPECT_EQ(failure.text(), "a library's words");
  WorkerStream::run(&two_, [] { throw 7; });
  EXPECT_EQ(failure_of([&] { two_.wait(kLong); }).code(), YOKE_INTERNAL);
}

TEST_F(WorkerStreamTest, AWaitEndsAtItsDeadlineAndNothingIsLost) {
  const auto gate = std::make_shared<Gate>();
  WorkerStream::run(&one_, [gate] { (*gate)(); });
  const auto event = one_.record();
  EXPECT_FALSE(one_.done());
  EXPECT_FALSE(event->done());
  EXPECT_EQ(failure_of([&] { one_.wait(0); }).code(), YOKE_DEADLINE_EXCEEDED);
  EXPECT_EQ(failure_of([&] { event->wait(5'000'000); }).code(), YOKE_DEADLINE_EXCEEDED);
  gate->is_open = true;
  event->wait(std::numeric_limits<std::uint64_t>::max());
  one_.wait(0 + kLong);
}

TEST_F(WorkerStreamTest, AnEventOrdersStreamsAndHandsItsErrorOn) {
  const auto gate = std::make_shared<Gate>();
  std::atomic<int> value{0};
  WorkerStream::run(&one_, [gate, &value] {
    (*gate)();
    value = 1;
  });
  two_.wait_event(*one_.record());
  int seen = -1;
  WorkerStream::run(&two_, [&] { seen = value; });
  gate->is_open = true;
  two_.wait(kLong);
  EXPECT_EQ(seen, 1);

  fail(one_, YOKE_DATA_LOSS, "gone");
  two_.wait_event(*one_.record());
  EXPECT_EQ(failure_of([&] { two_.wait(kLong); }).code(), YOKE_DATA_LOSS);
}

TEST_F(WorkerStreamTest, AStreamMayWaitForItsOwnEventAndForOneOfAStreamThatIsGone) {
  one_.wait_event(*one_.record());
  std::unique_ptr<Event> event;
  {
    WorkerStream gone(group_);
    event = gone.record();
  }
  one_.wait_event(*event);
  one_.wait(kLong);
  EXPECT_TRUE(event->done());
}

TEST_F(WorkerStreamTest, EventsTellTheTimeBetweenThem) {
  const auto begin = one_.record();
  WorkerStream::run(&one_, [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
  const auto end = one_.record();
  end->wait(kLong);
  EXPECT_GE(end->elapsed_since(*begin), 10'000'000U);
}

TEST_F(WorkerStreamTest, AbortGivesUpWhatIsQueuedAndWakesWhoWaitsForAnotherStream) {
  const auto gate = std::make_shared<Gate>();
  auto other_group = std::make_shared<WorkerGroup>();
  WorkerStream busy(other_group);
  WorkerStream::run(&busy, [gate] { (*gate)(); });
  bool ran = false;
  one_.wait_event(*busy.record());
  WorkerStream::run(&one_, [&] { ran = true; });

  group_->abort();

  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).code(), YOKE_ABORTED);
  EXPECT_EQ(failure_of([&] { two_.wait(0); }).code(), YOKE_ABORTED) << "an idle stream as well";
  WorkerStream late(group_);
  EXPECT_EQ(failure_of([&] { late.wait(0); }).code(), YOKE_ABORTED) << "and a new one";
  EXPECT_FALSE(ran);
  gate->is_open = true;
  busy.wait(kLong);
}

TEST_F(WorkerStreamTest, ALostDeviceFailsEveryStreamOfItsGroup) {
  const auto gate = std::make_shared<Gate>();
  WorkerStream::run(&two_, [gate] { (*gate)(); });
  gate->await();
  fail(one_, YOKE_DEVICE_LOST, "it fell off the bus");
  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).code(), YOKE_DEVICE_LOST);
  gate->is_open = true;
  EXPECT_EQ(failure_of([&] { two_.wait(kLong); }).code(), YOKE_DEVICE_LOST);
}

TEST_F(WorkerStreamTest, FaultsArePutInTheQueueLikeWork) {
  const auto begin = std::chrono::steady_clock::now();
  one_.pause(10'000'000);
  one_.record()->wait(kLong);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(10));
  one_.poison(Failure(YOKE_UNAVAILABLE, "on purpose"));
  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).text(), "on purpose");
  two_.pause(std::numeric_limits<std::uint64_t>::max());
  const auto late = two_.record();
  EXPECT_EQ(failure_of([&] { late->wait(0); }).code(), YOKE_DEADLINE_EXCEEDED);
  group_->abort();
  EXPECT_EQ(failure_of([&] { two_.wait(kLong); }).code(), YOKE_ABORTED);
}

TEST_F(WorkerStreamTest, DestroyingAStreamEndsItsPauseAndDoesTheRest) {
  bool ran = false;
  {
    WorkerStream stream(group_);
    stream.pause(std::numeric_limits<std::uint64_t>::max());
    WorkerStream::run(&stream, [&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

TEST_F(WorkerStreamTest, BuffersCopyAndFillInTheirTurn) {
  WorkerBuffer a(64);
  WorkerBuffer b(64);
  const std::vector<std::byte> sent(64, std::byte{3});
  std::vector<std::byte> got(64);
  const auto gate = std::make_shared<Gate>();
  WorkerStream::run(&one_, [gate] { (*gate)(); });
  EXPECT_EQ(a.from_host(&one_, 0, sent.data(), 64), YOKE_SOURCE_UNTIL_EVENT);
  {
    const std::vector<std::byte> pattern = {std::byte{1}, std::byte{2}};
    a.fill(&one_, 8, 4, pattern);
  }
  b.copy_from(&one_, 0, a, 4, 60);
  b.to_host(&one_, 0, got.data(), 12);
  EXPECT_EQ(got, std::vector<std::byte>(64)) << "nothing has run yet";
  gate->is_open = true;
  one_.wait(kLong);
  EXPECT_EQ(got[0], std::byte{3});
  EXPECT_EQ(got[4], std::byte{1});
  EXPECT_EQ(got[7], std::byte{2});
  EXPECT_EQ(got[8], std::byte{3});
  EXPECT_EQ(a.from_host(nullptr, 0, sent.data(), 64), YOKE_SOURCE_COPIED);
}

}  // namespace
}  // namespace yoke::sdk
