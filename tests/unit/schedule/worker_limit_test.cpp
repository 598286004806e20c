// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/worker_limit_test.cpp: how many threads run streams, when they start and when they end.
#include <pthread.h>

#include <algorithm>
#include <future>

#include "rig.h"
#include "thread_count.h"

namespace yoke::test {
namespace {

RuntimeOptions with_one_worker() {
  RuntimeOptions options;
  options.worker_threads = 1;
  return options;
}

// A callback that blocks a stream, and so the thread that runs it.
class Gate {
 public:
  explicit Gate(const std::shared_ptr<Stream>& stream) : stream_(stream) {
    stream_->host_callback([this, opened = open_.get_future().share()](ErrorCode) {
      is_closed_ = true;
      opened.wait();
    });
    EXPECT_TRUE(wait_until([this] { return is_closed_.load(); }));
  }
  void open() {
    open_.set_value();
    stream_->wait();
  }

 private:
  const std::shared_ptr<Stream> stream_;
  std::promise<void> open_;
  std::atomic<bool> is_closed_{false};
};

// A runtime with one worker and a second thread, which replaced the worker in a callback and is busy when it returns.
// The first thread is then spare.
struct SpareRig : Rig {
  SpareRig() : Rig(Streams::kWorker, with_one_worker()) {
    Gate gate(called);
    control->is_blocked = true;
    fill<std::uint8_t>(*busy, part<std::uint8_t>(buffer, 0, 1), 1);
    EXPECT_TRUE(wait_for_calls(*control, 1));
    fill<std::uint8_t>(*queued, part<std::uint8_t>(buffer, 1, 1), 2);
    gate.open();
  }
  const std::shared_ptr<Stream> called = stream();
  const std::shared_ptr<Stream> busy = stream();
  const std::shared_ptr<Stream> queued = stream();
  const BufferView buffer = Rig::buffer(2);
};

TEST(WorkerLimitTest, SpareWorkersRunNothing) {
  SpareRig rig;
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(rig.control->call_count, 1U) << "one worker is busy, and one is the limit";
  rig.control->is_blocked = false;
  EXPECT_EQ(read<std::uint8_t>(*rig.queued, rig.buffer), (std::vector<std::uint8_t>{1, 2}));
}

// Only the last one ends, because the others are known by their numbers.
TEST(WorkerLimitTest, SpareWorkersEnd) {
  SpareRig first_is_spare;
  SpareRig last_is_spare;
  const std::size_t before = thread_count();
  last_is_spare.control->is_blocked = false;
  last_is_spare.queued->wait();
  Gate gate(last_is_spare.queued);  // on the second thread, so that the first one takes the next work
  last_is_spare.control->is_blocked = true;
  const std::uint64_t calls = last_is_spare.control->call_count;
  fill<std::uint8_t>(*last_is_spare.busy, last_is_spare.buffer, 3);
  EXPECT_TRUE(wait_for_calls(*last_is_spare.control, calls + 1));
  gate.open();
  EXPECT_TRUE(wait_until([&] { return thread_count() < before; }, 10s));
  std::this_thread::sleep_for(200ms);  // the other runtime's spare worker looks at the same time
  EXPECT_EQ(thread_count(), before - 1);
  for (SpareRig* rig : {&first_is_spare, &last_is_spare}) {
    rig->control->is_blocked = false;
    for (const auto& stream : {rig->called, rig->busy, rig->queued}) {
      fill<std::uint8_t>(*stream, rig->buffer, 4);
      EXPECT_NO_THROW(stream->wait(10s));
    }
  }
}

TEST(WorkerLimitTest, SpareWorkersAreUsedAgain) {
  Rig rig(Streams::kWorker, with_one_worker());
  const std::size_t before = thread_count();
  const auto called = rig.stream();
  const auto other = rig.stream();
  for (int round = 0; round < 12; ++round) {
    Gate gate(called);
    other->host_callback([](ErrorCode) {});
    other->wait();
    gate.open();
  }
  EXPECT_LE(thread_count(), before + 3);
}

TEST(WorkerLimitTest, WaitsForStreamsOfWorkersHoldNoThread) {
  Rig rig(Streams::kWorker, with_one_worker());
  const std::size_t before = thread_count();
  const auto slow = rig.stream("slow");
  Gate gate(slow);
  std::vector<std::shared_ptr<Stream>> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(rig.stream());
    waiting.back()->wait_for(slow->record());
  }
  EXPECT_TRUE(wait_until([&] {
    return std::all_of(waiting.begin(), waiting.end(),
                       [](const auto& stream) { return debug_info(*stream).waits_for == "slow"; });
  }));
  EXPECT_LE(thread_count(), before + 3);
  gate.open();
  for (const auto& stream : waiting) {
    stream->wait();
  }
}

TEST(WorkerLimitTest, BusyWorkerIsNotReplacedAtOnce) {
  Rig rig(Streams::kWorker, with_one_worker());
  const auto busy = rig.stream();
  const auto other = rig.stream();
  const BufferView buffer = rig.buffer(1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*busy, buffer, 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  other->host_callback([](ErrorCode) {});
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, other->wait(100ms));
  rig.control->is_blocked = false;
  other->wait();
}

TEST(WorkerLimitTest, StreamThatNoThreadCanRunIsRefused) {
  Rig rig;
  pthread_attr_t normal;
  pthread_attr_t huge;
  ASSERT_EQ(pthread_getattr_default_np(&normal), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 50U), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  EXPECT_THAT(error_of([&] { rig.stream("refused"); }),
              is_error(ErrorCode::kResourceExhausted, "'refused'", "could not start a worker thread"));
  ASSERT_EQ(pthread_setattr_default_np(&normal), 0);
  const auto stream = rig.stream();
  fill<std::uint8_t>(*stream, rig.buffer(1), 1);
  EXPECT_NO_THROW(stream->wait());
}

}  // namespace
}  // namespace yoke::test
