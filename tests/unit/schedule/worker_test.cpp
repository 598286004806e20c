// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/worker_test.cpp: many streams on few threads.
#include <future>

#include "rig.h"
#include "thread_count.h"

namespace yoke::test {
namespace {

RuntimeOptions with_workers(std::uint32_t count) {
  RuntimeOptions options;
  options.worker_threads = count;
  return options;
}

std::vector<std::shared_ptr<Stream>> streams_of(const Rig& rig, std::size_t count) {
  std::vector<std::shared_ptr<Stream>> streams;
  for (std::size_t k = 0; k < count; ++k) {
    streams.push_back(rig.stream());
  }
  return streams;
}

TEST(WorkerTest, ManyStreamsRunOnFewThreads) {
  const std::size_t before = thread_count();
  {
    Rig rig(Streams::kWorker, with_workers(3));
    const auto streams = streams_of(rig, 64);
    const BufferView buffer = rig.buffer(64);
    std::size_t most = 0;
    for (int round = 0; round < 100; ++round) {
      for (std::size_t k = 0; k < streams.size(); ++k) {
        fill<std::uint8_t>(*streams[k], part<std::uint8_t>(buffer, k, 1), static_cast<std::uint8_t>(round));
      }
      most = std::max(most, thread_count());
    }
    for (const auto& stream : streams) {
      stream->wait();
    }
    EXPECT_EQ(most, before + 3);
    EXPECT_EQ(read<std::uint8_t>(*streams[0], buffer), std::vector<std::uint8_t>(64, 99));
  }
  EXPECT_TRUE(wait_until([&] { return thread_count() <= before; })) << "they end with the last stream";
}

TEST(WorkerTest, DefaultIsAtMostOneThreadPerCore) {
  const std::size_t before = thread_count();
  Rig rig;
  const auto streams = streams_of(rig, 64);
  EXPECT_GT(thread_count(), before);
  EXPECT_LE(thread_count(), before + std::max(1U, std::thread::hardware_concurrency()));
}

// Queued in the order in which a single worker could never run them if waits held it.
TEST(WorkerTest, WaitingStreamsHoldNoWorker) {
  constexpr std::size_t kCount = 40;
  Rig rig(Streams::kWorker, with_workers(1));
  const auto streams = streams_of(rig, kCount);
  const BufferView buffer = rig.buffer(1);
  std::vector<std::size_t> order;  // guarded by the waits
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*streams[kCount - 1], buffer, 1);
  for (std::size_t k = kCount - 1; k-- > 0;) {
    streams[k]->wait_for(streams[k + 1]->record());
    streams[k]->host_callback([&order, k](ErrorCode) { order.push_back(k); });
  }
  rig.control->is_blocked = false;
  streams[0]->wait();

  ASSERT_EQ(order.size(), kCount - 1);
  EXPECT_TRUE(std::is_sorted(order.rbegin(), order.rend()));
}

TEST(WorkerTest, BlockedCallbacksHoldNoWorker) {
  constexpr std::size_t kCount = 8;
  Rig rig(Streams::kWorker, with_workers(1));
  const auto streams = streams_of(rig, kCount);
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  std::atomic<std::size_t> blocked{0};
  for (std::size_t k = 0; k + 1 < kCount; ++k) {
    streams[k]->host_callback([&](ErrorCode) {
      ++blocked;
      opened.wait();
    });
  }
  EXPECT_TRUE(wait_until([&] { return blocked == kCount - 1; }));
  streams.back()->host_callback([&](ErrorCode) { gate.set_value(); });
  EXPECT_TRUE(opened.wait_for(30s) == std::future_status::ready);
  for (const auto& stream : streams) {
    stream->wait();
  }
}

TEST(WorkerTest, CallThatHangsHoldsUpOnlyItsStream) {
  RuntimeOptions options = with_workers(1);
  options.wait_timeout = 2s;  // so a worker is replaced after 250 ms
  Rig rig(Streams::kWorker, options);
  const auto hanging = rig.stream();
  const auto other = rig.stream();
  const BufferView buffer = rig.buffer(1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*hanging, buffer, 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  std::atomic<bool> ran{false};
  other->host_callback([&](ErrorCode) { ran = true; });
  EXPECT_NO_THROW(other->wait(1500ms));
  EXPECT_TRUE(ran);
  EXPECT_FALSE(hanging->is_idle());
  rig.control->is_blocked = false;
  hanging->wait();
}

TEST(WorkerTest, UrgentStreamsRunFirst) {
  Rig rig(Streams::kWorker, with_workers(1));
  const auto first = rig.stream();
  const auto normal = Stream::create(rig.device, "normal", 0);
  const auto urgent = Stream::create(rig.device, "urgent", 1);
  const BufferView buffer = rig.buffer(3);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*first, part<std::uint8_t>(buffer, 0, 1), 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  rig.control->fail_after = 1;  // the call after this one fails
  fill<std::uint8_t>(*normal, part<std::uint8_t>(buffer, 1, 1), 1);
  fill<std::uint8_t>(*urgent, part<std::uint8_t>(buffer, 2, 1), 1);
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kInternal, urgent->wait());
  EXPECT_NO_THROW(normal->wait());
}

TEST(WorkerTest, ParkedStreamFailsAtItsDeadline) {
  RuntimeOptions options = with_workers(2);
  options.wait_timeout = 300ms;
  Rig rig(Streams::kWorker, options);
  const auto slow = rig.stream("slow");
  const auto waiting = rig.stream("waiting");
  const BufferView buffer = rig.buffer(1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*slow, buffer, 1);
  waiting->wait_for(slow->record());
  std::atomic<bool> has_failed{false};
  waiting->host_callback([&](ErrorCode code) { has_failed = code == ErrorCode::kAborted; });
  EXPECT_TRUE(wait_until([&] { return has_failed.load(); })) << "also if no thread of the application waits";
  EXPECT_THAT(error_of([&] { waiting->wait(30s); }),
              is_error(ErrorCode::kAborted, "'waiting'", "'slow' did not finish", "300 ms"));
  rig.control->is_blocked = false;
  slow->wait(30s);
}

TEST(WorkerTest, ParkedStreamCanBeAborted) {
  Rig rig(Streams::kWorker, with_workers(1));
  const auto slow = rig.stream();
  const auto waiting = rig.stream();
  const BufferView buffer = rig.buffer(1);
  std::promise<void> gate;
  slow->host_callback([opened = gate.get_future().share()](ErrorCode) { opened.wait(); });
  waiting->wait_for(slow->record());
  std::this_thread::sleep_for(20ms);  // so that it parks
  waiting->abort();
  EXPECT_ERROR(ErrorCode::kAborted, waiting->wait());
  gate.set_value();
  slow->wait();
}

}  // namespace
}  // namespace yoke::test
