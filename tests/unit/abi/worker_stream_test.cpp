// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/worker_stream_test.cpp: the streams of the SDK: order, errors,
// deadlines, events, abort and host callbacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/sdk/worker_stream.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace yoke::sdk {
namespace {

using testing::HasSubstr;

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

TEST_F(WorkerStreamTest, FirstErrorStaysAndLaterWorkIsSkipped) {
  bool ran = false;
  const auto before = one_.record(false);
  fail(one_, YOKE_STATUS_UNAVAILABLE, "the first");
  fail(one_, YOKE_STATUS_INTERNAL, "the second");
  WorkerStream::run(&one_, [&] { ran = true; });
  const auto after = one_.record(false);

  for (int i = 0; i < 2; ++i) {
    const Failure failure = failure_of([&] { one_.wait(kLong); });
    EXPECT_EQ(failure.code(), YOKE_STATUS_UNAVAILABLE);
    EXPECT_EQ(failure.text(), "the first");
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(failure_of([&] { after->wait(kLong); }).text(), "the first");
  EXPECT_EQ(after->state(), YOKE_STATE_FAILED);
  EXPECT_EQ(one_.state(), YOKE_STATE_FAILED);
  before->wait(kLong);
  EXPECT_EQ(before->state(), YOKE_STATE_DONE);
  two_.wait(kLong);
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

TEST_F(WorkerStreamTest, WaitEndsAtItsDeadlineAndCanBeRepeated) {
  const auto gate = std::make_shared<Gate>();
  WorkerStream::run(&one_, [gate] { (*gate)(); });
  const auto event = one_.record(false);
  EXPECT_EQ(one_.state(), YOKE_STATE_PENDING);
  EXPECT_EQ(event->state(), YOKE_STATE_PENDING);
  EXPECT_EQ(failure_of([&] { one_.wait(0); }).code(), YOKE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_EQ(failure_of([&] { event->wait(5'000'000); }).code(), YOKE_STATUS_DEADLINE_EXCEEDED);
  gate->is_open = true;
  event->wait(std::numeric_limits<std::uint64_t>::max());
  one_.wait(kLong);
}

TEST_F(WorkerStreamTest, EventOrdersStreamsOfTwoDevicesAndCarriesItsError) {
  WorkerStream far(std::make_shared<WorkerGroup>());
  const auto gate = std::make_shared<Gate>();
  std::atomic<int> value{0};
  WorkerStream::run(&one_, [gate, &value] {
    (*gate)();
    value = 1;
  });
  far.wait_event(*one_.record(false));
  int seen = -1;
  WorkerStream::run(&far, [&] { seen = value; });
  gate->is_open = true;
  far.wait(kLong);
  EXPECT_EQ(seen, 1);

  fail(one_, YOKE_STATUS_DATA_LOSS, "gone");
  far.wait_event(*one_.record(false));
  EXPECT_EQ(failure_of([&] { far.wait(kLong); }).code(), YOKE_STATUS_DATA_LOSS);
}

TEST_F(WorkerStreamTest, StreamMayWaitForItsOwnEventAndForOneOfADestroyedStream) {
  one_.wait_event(*one_.record(false));
  std::unique_ptr<Event> event;
  {
    WorkerStream gone(group_);
    event = gone.record(false);
  }
  one_.wait_event(*event);
  one_.wait(kLong);
  EXPECT_EQ(event->state(), YOKE_STATE_DONE);
}

TEST_F(WorkerStreamTest, ElapsedTimeCoversTheWorkBetweenEvents) {
  const auto begin = one_.record(true);
  WorkerStream::run(&one_, [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
  const auto end = one_.record(true);
  end->wait(kLong);
  EXPECT_GE(end->elapsed_since(*begin), 10'000'000U);
}

TEST_F(WorkerStreamTest, AbortOfTheGroupSkipsQueuedWorkAndEndsWaitsForOtherStreams) {
  const auto gate = std::make_shared<Gate>();
  auto other_group = std::make_shared<WorkerGroup>();
  WorkerStream busy(other_group);
  WorkerStream::run(&busy, [gate] { (*gate)(); });
  bool ran = false;
  one_.wait_event(*busy.record(false));
  WorkerStream::run(&one_, [&] { ran = true; });

  group_->abort();

  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).code(), YOKE_STATUS_ABORTED);
  EXPECT_EQ(failure_of([&] { two_.wait(0); }).code(), YOKE_STATUS_ABORTED) << "an idle stream";
  WorkerStream late(group_);
  EXPECT_EQ(failure_of([&] { late.wait(0); }).code(), YOKE_STATUS_ABORTED) << "a new stream";
  EXPECT_FALSE(ran);
  gate->is_open = true;
  busy.wait(kLong);
}

TEST_F(WorkerStreamTest, AbortAffectsOneStreamAndEventsRecordedAfterIt) {
  const auto before = one_.record(false);
  one_.abort();
  const auto after = one_.record(false);
  bool ran = false;
  WorkerStream::run(&two_, [&] { ran = true; });

  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).code(), YOKE_STATUS_ABORTED);
  EXPECT_EQ(before->state(), YOKE_STATE_DONE);
  EXPECT_EQ(after->state(), YOKE_STATE_FAILED);
  two_.wait(kLong);
  EXPECT_TRUE(ran);
}

TEST_F(WorkerStreamTest, WaitsAfterAnAbortReturnWhenRunningWorkHasEnded) {
  const auto gate = std::make_shared<Gate>();
  std::atomic<bool> has_ended{false};
  WorkerStream::run(&one_, [gate, &has_ended] {
    (*gate)();
    has_ended = true;
  });
  const auto event = one_.record(false);
  gate->await();
  one_.abort();

  EXPECT_EQ(one_.state(), YOKE_STATE_PENDING);
  EXPECT_EQ(failure_of([&] { event->wait(5'000'000); }).code(), YOKE_STATUS_DEADLINE_EXCEEDED);
  gate->is_open = true;
  EXPECT_EQ(failure_of([&] { event->wait(kLong); }).code(), YOKE_STATUS_ABORTED);
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(one_.state(), YOKE_STATE_FAILED);
}

TEST_F(WorkerStreamTest, HostCallbacksRunOnceInOrderWithTheStatus) {
  struct Call {
    std::vector<std::pair<std::string, std::int32_t>>* calls;
    std::string name;
  };
  std::vector<std::pair<std::string, std::int32_t>> calls;
  const auto gate = std::make_shared<Gate>();
  std::array<Call, 4> users;
  const auto post = [&](std::size_t i, const char* name) {
    users[i] = {&calls, name};
    one_.host_callback(
        [](void* user, std::int32_t status) {
          const Call& call = *static_cast<Call*>(user);
          call.calls->emplace_back(call.name, status);
        },
        &users[i]);
  };
  WorkerStream::run(&one_, [gate] { (*gate)(); });
  post(0, "good");
  WorkerStream::run(&one_, [&] { calls.emplace_back("work", 0); });
  fail(one_, YOKE_STATUS_DATA_LOSS, "gone");
  post(1, "poisoned");
  post(2, "again");
  EXPECT_TRUE(calls.empty());
  gate->is_open = true;
  (void)failure_of([&] { one_.wait(kLong); });
  one_.abort();
  post(3, "aborted");
  (void)failure_of([&] { one_.wait(kLong); });

  using testing::Pair;
  EXPECT_THAT(calls, testing::ElementsAre(
                         Pair("good", 0), Pair("work", 0), Pair("poisoned", YOKE_STATUS_DATA_LOSS),
                         Pair("again", YOKE_STATUS_DATA_LOSS), Pair("aborted", YOKE_STATUS_DATA_LOSS)));
}

TEST_F(WorkerStreamTest, LostDeviceFailsEveryStreamOfItsGroup) {
  const auto gate = std::make_shared<Gate>();
  WorkerStream::run(&two_, [gate] { (*gate)(); });
  gate->await();
  fail(one_, YOKE_STATUS_DEVICE_LOST, "it fell off the bus");
  EXPECT_EQ(failure_of([&] { one_.wait(kLong); }).code(), YOKE_STATUS_DEVICE_LOST);
  gate->is_open = true;
  EXPECT_EQ(failure_of([&] { two_.wait(kLong); }).code(), YOKE_STATUS_DEVICE_LOST);
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

TEST_F(WorkerStreamTest, DestructorEndsAPauseAndRunsTheRemainingWork) {
  bool ran = false;
  {
    WorkerStream stream(group_);
    stream.pause(std::numeric_limits<std::uint64_t>::max());
    WorkerStream::run(&stream, [&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

TEST_F(WorkerStreamTest, BuffersCopyAndFillInStreamOrder) {
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
