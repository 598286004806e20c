// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/worker_test.cpp: many streams on few threads.
#include <functional>
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

TEST(WorkerTest, StreamsThatWaitForOneAreAllWoken) {
  Rig rig(Streams::kWorker, with_workers(2));
  const auto streams = streams_of(rig, 3);
  const BufferView buffer = rig.buffer(1);
  const std::size_t threads = thread_count();
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*streams[0], buffer, 1);
  const Event written = streams[0]->record();
  streams[1]->wait_for(written);
  streams[2]->wait_for(written);
  std::this_thread::sleep_for(20ms);  // both are parked
  EXPECT_EQ(thread_count(), threads);
  streams[1]->abort();  // no longer waits
  EXPECT_ERROR(ErrorCode::kAborted, streams[1]->wait());
  rig.control->is_blocked = false;
  EXPECT_NO_THROW(streams[2]->wait(10s));
}

TEST(WorkerTest, ClosedStreamsLeaveTheWorkersToOthers) {
  Rig rig(Streams::kWorker, with_workers(1));
  const auto other = rig.stream();
  const BufferView buffer = rig.buffer(1);
  const std::size_t threads = thread_count();
  for (int round = 0; round < 300; ++round) {
    auto stream = rig.stream();
    fill<std::uint8_t>(*stream, buffer, 1);
    while (!stream->is_idle()) {
    }
    stream.reset();  // the worker may still look for more to do
    ASSERT_EQ(thread_count(), threads);
  }
  EXPECT_EQ(read<std::uint8_t>(*other, buffer)[0], 1);
}

TEST(WorkerTest, NativeStreamsLeaveTheWorkersToOthers) {
  auto native = Rig::make_control(Streams::kNative);
  native->stream.stream_host_callback = nullptr;
  Rig rig(native, with_workers(1));
  register_backend(rig.runtime, 1);
  const auto other = Stream::create(rig.runtime.backend("test1")->open_device(0));
  const BufferView there = buffer_of<std::uint8_t>(other->device(), 1);
  const std::size_t threads = thread_count();
  for (const bool needs_worker : {false, true}) {
    const std::uint64_t open = rig.backend->live_counts().streams;
    auto stream = rig.stream();
    if (needs_worker) {
      stream->host_callback([](ErrorCode) {});
      stream->wait();
    }
    stream.reset();
    EXPECT_EQ(rig.backend->live_counts().streams, open);
    EXPECT_EQ(thread_count(), threads);
    fill<std::uint8_t>(*other, there, 1);
    other->wait();
  }
  EXPECT_THAT(rig.log.all(), testing::IsEmpty());
}

// A worker in a callback is replaced. When it returns, one of the two is spare.
const std::string kClear = "() {\n  arg y : f32[1] out\n  y[i] = 0.0\n}\n";

// `wait` is called with the busy stream after everything is queued.
void expect_turns(const std::function<void(Stream&)>& wait) {
  Rig rig(Streams::kWorker, with_workers(1));
  const auto busy = rig.stream();
  const auto other = rig.stream();
  const auto a = link(rig.device, "yoke.program 1\nprogram a" + kClear, {rig.buffer(4)});
  const auto b = link(rig.device, "yoke.program 1\nprogram b" + kClear, {rig.buffer(4)});
  std::string order;  // guarded by the waits
  rig.control->on_run = [&](std::string_view program) { order += program; };
  rig.control->delay_us = 1100;  // longer than a turn
  rig.control->is_blocked = true;
  for (int i = 0; i < 40; ++i) {
    busy->launch(*a);
  }
  other->launch(*b);
  rig.control->is_blocked = false;
  wait(*busy);
  other->wait();
  EXPECT_LT(order.find('b'), 20U) << "a worker prefers the stream that it ran last, but not forever";
}

TEST(WorkerTest, LongWorkYieldsToOtherStreams) {
  expect_turns([](Stream& busy) { busy.wait(); });
}

TEST(WorkerTest, WaitingThreadsDoNotDelayTheTurnOfAnotherStream) {
  expect_turns([](Stream& busy) {
    for (bool is_done = false; !is_done;) {
      try {
        busy.wait(1ms);  // each time it looks whether a worker is free for the queued streams
        is_done = true;
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
      }
    }
  });
}

TEST(WorkerTest, RunningStreamYieldsToAnUrgentOne) {
  Rig rig(Streams::kWorker, with_workers(1));
  const auto normal = Stream::create(rig.device, "normal", 0);
  const auto urgent = Stream::create(rig.device, "urgent", 1);
  std::vector<std::shared_ptr<const Routine>> routines;
  for (const std::string name : {"a", "b", "c"}) {
    routines.push_back(link(rig.device, "yoke.program 1\nprogram " + name + kClear, {rig.buffer(4)}));
  }
  std::string order;  // guarded by the waits
  std::atomic<bool> is_queued{false};
  rig.control->on_run = [&](std::string_view program) {
    order += program;
    if (program == "a") {  // short, so that its turn is not over
      while (!is_queued) {
        std::this_thread::yield();
      }
      urgent->launch(*routines[2]);
    }
  };
  normal->launch(*routines[0]);
  normal->launch(*routines[1]);
  is_queued = true;
  normal->wait();
  urgent->wait();
  EXPECT_EQ(order, "acb");
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
  fill<std::uint8_t>(*normal, part<std::uint8_t>(buffer, 1, 1), 1);
  normal->wait();  // now the worker's caches have its data
  rig.control->is_blocked = true;
  const std::uint64_t before = rig.control->call_count.load();
  fill<std::uint8_t>(*first, part<std::uint8_t>(buffer, 0, 1), 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, before + 1));
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
  const auto other = rig.stream();
  EXPECT_TRUE(wait_until([&] { return debug_info(*waiting).waits_for == "slow"; }));
  std::this_thread::sleep_for(20ms);       // so that it parks
  other->host_callback([](ErrorCode) {});  // streams that did not park leave the deadlines of those that did
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

TEST(WorkerTest, ParkedStreamEndsItsWaitWhenTheOtherStreamFails) {
  Rig rig(Streams::kWorker, with_workers(2));
  const auto busy = rig.stream();
  const auto other = rig.stream();
  const BufferView buffer = rig.buffer(1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*busy, buffer, 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  other->wait_for(busy->record());
  busy->abort();
  EXPECT_ERROR(ErrorCode::kAborted, other->wait(10s));
  EXPECT_FALSE(busy->is_idle());  // its call still runs
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kAborted, busy->wait());
}

TEST(WorkerTest, AbortOfOneParkedStreamLeavesTheOthersWaiting) {
  Rig rig(Streams::kWorker, with_workers(1));
  const auto slow = rig.stream("slow");
  const auto aborted = rig.stream();
  const auto waiting = rig.stream();
  std::promise<void> gate;
  slow->host_callback([opened = gate.get_future().share()](ErrorCode) { opened.wait(); });
  for (const auto& stream : {aborted, waiting}) {
    stream->wait_for(slow->record());
    EXPECT_TRUE(wait_until([&] { return debug_info(*stream).waits_for == "slow"; }));
  }
  std::this_thread::sleep_for(20ms);  // so that they park
  aborted->abort();
  EXPECT_ERROR(ErrorCode::kAborted, aborted->wait());
  gate.set_value();
  EXPECT_NO_THROW(waiting->wait(10s)) << "nothing woke it";
}

TEST(WorkerTest, ParkedStreamThatIsWokenTwiceRunsOnce) {
  for (const bool first_by_deadline : {false, true}) {
    RuntimeOptions options = with_workers(1);
    options.wait_timeout = first_by_deadline ? 100ms : 30s;
    Rig rig(Streams::kWorker, options);
    const auto slow = rig.stream("slow");
    const auto waiting = rig.stream();
    const auto busy = rig.stream();
    const BufferView buffer = rig.buffer(1);
    std::promise<void> gate;
    std::atomic<int> call_count{0};
    slow->host_callback([opened = gate.get_future().share()](ErrorCode) { opened.wait(); });
    waiting->wait_for(slow->record());
    waiting->host_callback([&](ErrorCode) {
      ++call_count;
      std::this_thread::sleep_for(20ms);
    });
    EXPECT_TRUE(wait_until([&] { return debug_info(*waiting).waits_for == "slow"; }));
    std::this_thread::sleep_for(10ms);  // so that it parks
    rig.control->is_blocked = true;     // the only worker is busy, so that streams stay in the queue
    fill<std::uint8_t>(*busy, buffer, 1);
    EXPECT_TRUE(wait_for_calls(*rig.control, 1));
    if (first_by_deadline) {
      std::this_thread::sleep_for(100ms);
      EXPECT_ERROR(ErrorCode::kDeadlineExceeded, busy->wait(1ms));  // looks for missed deadlines
    }
    waiting->abort();
    waiting->abort();
    rig.control->is_blocked = false;
    EXPECT_ERROR(ErrorCode::kAborted, waiting->wait(30s));
    gate.set_value();
    slow->wait(30s);
    busy->wait(30s);
    EXPECT_EQ(call_count, 1) << first_by_deadline;
  }
}

}  // namespace
}  // namespace yoke::test
