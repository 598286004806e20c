// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/event_test.cpp: order on a stream, events, deadlines, a full queue, invalid arguments.
#include <atomic>
#include <set>

#include "rig.h"

namespace yoke::test {
namespace {

class EventTest : public testing::TestWithParam<Streams> {
 protected:
  Rig rig{GetParam()};
  const std::shared_ptr<Stream> stream = rig.stream("slow");
  const BufferView buffer = rig.buffer(8);
};
INSTANTIATE_TEST_SUITE_P(Streams, EventTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(EventTest, EventIsDoneAfterTheWorkBeforeIt) {
  std::vector<std::uint8_t> target(8);
  rig.control->is_blocked = true;
  const Event before = stream->record();
  stream->to_host(target.data(), buffer);
  const Event after = stream->record();

  EXPECT_TRUE(before.is_done());
  EXPECT_FALSE(after.is_done());
  EXPECT_FALSE(stream->is_idle());
  rig.control->is_blocked = false;
  after.wait();
  EXPECT_TRUE(after.is_done());
  EXPECT_TRUE(stream->is_idle());
  EXPECT_EQ(target[7], 0x5a);
}

TEST_P(EventTest, WaitEndsAtItsDeadlineAndTheWorkContinues) {
  std::vector<std::uint8_t> target(8);
  rig.control->is_blocked = true;
  stream->to_host(target.data(), buffer);
  const Event event = stream->record();

  EXPECT_THAT(error_of([&] { event.wait(20ms); }), is_error(ErrorCode::kDeadlineExceeded, "slow", "20 ms"));
  rig.control->is_blocked = false;
  stream->wait();
  event.wait(0ns);
}

TEST_P(EventTest, EventOutlivesItsStream) {
  Event event;
  {
    const auto ended = rig.stream();
    fill<std::uint8_t>(*ended, buffer, 0);
    event = ended->record();
  }
  EXPECT_TRUE(event.is_done());
  event.wait(0ns);
}

TEST_P(EventTest, EventOfAnotherDeviceCanBeWaitedFor) {
  const auto far = rig.backend->open_device(1);
  const auto first = Stream::create(far);
  const auto second = rig.stream();
  rig.control->is_blocked = true;
  const BufferView there = buffer_of<std::uint8_t>(far, 1);
  const BufferView here = rig.buffer(1);
  fill<std::uint8_t>(*first, there, 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  second->wait_for(first->record());
  fill<std::uint8_t>(*second, here, 1);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(rig.control->call_count, 1U) << "the second stream waits";
  rig.control->is_blocked = false;
  second->wait();
  EXPECT_TRUE(first->is_idle());
}

TEST_P(EventTest, WaitForOwnOrFinishedWorkHasNoEffect) {
  const auto other = rig.stream();
  rig.control->delay_us = 2000;
  fill<std::uint8_t>(*stream, buffer, 1);
  stream->wait_for(stream->record());
  stream->wait_for(other->record());
  stream->wait_for(Event());
  EXPECT_TRUE(Event().is_done());
  Event().wait(0ns);
  Event().wait();
  stream->wait();
  EXPECT_TRUE(stream->is_idle());
}

TEST_P(EventTest, MoreCommandsThanTheQueueHoldsRunInOrder) {
  const BufferView number = buffer_of<std::uint32_t>(rig.device, 1);
  constexpr std::uint32_t kCount = 5000;
  std::vector<std::uint32_t> seen(kCount);

  for (std::uint32_t i = 0; i < kCount; ++i) {
    stream->fill(number, &i, 4);
    stream->to_host(&seen[i], number);
  }
  stream->wait();

  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(seen[i], i);
  }
}

TEST_P(EventTest, SeveralThreadsMayWaitForOneStream) {
  const BufferView number = buffer_of<std::uint32_t>(rig.device, 1);
  rig.control->delay_us = 300;
  std::vector<Event> events;
  for (std::uint32_t i = 0; i < 50; ++i) {
    stream->fill(number, &i, 4);
    events.push_back(stream->record());
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&events, t] {
      for (std::size_t i = static_cast<std::size_t>(t); i < events.size(); i += 3) {
        events[i].wait();
        EXPECT_TRUE(events[i].is_done());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(NativeEventTest, DeviceWaitsForEventsOfItsBackendOnly) {
  static std::atomic<int> waits;
  waits = 0;
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.stream_wait_event = [](yoke_stream* stream, yoke_event* event, yoke_error* error) {
    ++waits;
    return sdk::detail::stream_wait_event(stream, event, error);
  };
  Rig rig(control);
  const auto far_control = register_backend(rig.runtime, 1, Rig::make_control(Streams::kNative));
  const auto far = Stream::create(rig.runtime.backend("test1")->open_device(0));
  const auto near = rig.stream();
  const auto stream = rig.stream();
  const BufferView here = rig.buffer(1);
  const BufferView there = buffer_of<std::uint8_t>(far->device(), 1);
  control->is_blocked = true;
  far_control->is_blocked = true;
  fill<std::uint8_t>(*near, here, 1);
  fill<std::uint8_t>(*far, there, 1);

  stream->wait_for(near->record());
  EXPECT_EQ(waits, 1);
  stream->wait_for(far->record());

  control->is_blocked = false;
  near->wait();
  EXPECT_FALSE(stream->is_idle()) << "the other backend works";
  far_control->is_blocked = false;
  stream->wait();
  EXPECT_EQ(waits, 1);
}

// A native stream has 8 events of the plugin, which it uses again.
TEST(NativeEventTest, EventIsNotDestroyedWhileAThreadWaitsForIt) {
  static std::mutex mutex;
  static std::multiset<yoke_event*> waited_for;
  static std::size_t destroyed_early = 0;
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.event_wait = [](yoke_event* event, std::uint64_t timeout_ns, yoke_error* error) {
    const auto held = [&] {
      const std::lock_guard lock(mutex);
      return waited_for.insert(event);
    }();
    const std::int32_t code = sdk::detail::event_wait(event, timeout_ns, error);
    const std::lock_guard lock(mutex);
    waited_for.erase(held);
    return code;
  };
  control->stream.event_destroy = [](yoke_event* event) {
    const std::lock_guard lock(mutex);
    destroyed_early += waited_for.count(event);
    if (waited_for.count(event) == 0) {
      sdk::detail::event_destroy(event);
    }
  };
  Rig rig(control);
  const auto stream = rig.stream();
  const BufferView buffer = rig.buffer(4);
  control->is_blocked = true;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i) {
    fill<std::uint8_t>(*stream, buffer, 1);
    threads.emplace_back([event = stream->record()] { event.wait(); });
    const auto is_waiting = [&] {
      const std::lock_guard lock(mutex);
      return waited_for.size() == i + 1;
    };
    for (int round = 0; round < 5000 && !is_waiting(); ++round) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(is_waiting());
  }
  fill<std::uint8_t>(*stream, buffer, 2);
  const Event last = stream->record();
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, last.wait(20ms));
  const auto other = rig.stream();
  other->wait_for(last);  // on the host, because no event is free
  EXPECT_FALSE(other->is_idle());
  control->is_blocked = false;
  for (std::thread& thread : threads) {
    thread.join();
  }
  last.wait();
  other->wait();
  EXPECT_EQ(destroyed_early, 0U);
}

TEST_P(EventTest, InvalidArgumentsAreRefusedBeforeAnythingIsQueued) {
  std::vector<std::uint8_t> memory(32);
  const BufferView wide = rig.buffer(16);
  const std::uint64_t before = rig.control->call_count.load();

  EXPECT_ERROR(ErrorCode::kOutOfRange, stream->from_host({wide.buffer, 8, 16}, memory.data()));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->from_host(wide, nullptr));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->to_host(nullptr, wide));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->to_host(memory.data(), {}));
  struct Fill {
    std::size_t byte_count;
    std::uint32_t pattern_byte_count;
  };
  for (const Fill& one : {Fill{16, 0}, Fill{15, 3}, Fill{16, 16}, Fill{6, 4}}) {
    EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->fill(part<std::uint8_t>(wide, 0, one.byte_count),
                                                           memory.data(), one.pattern_byte_count));
  }
  EXPECT_ERROR(ErrorCode::kInvalidArgument, Stream::create(nullptr));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->copy({wide.buffer, 0, 8}, {wide.buffer, 4, 8}));
  EXPECT_THAT(
      error_of([&] {
        stream->copy({wide.buffer, 0, 8}, {wide.buffer, 8, 4});
      }).what(),
      testing::AllOf(testing::HasSubstr("slow"), testing::HasSubstr("4 bytes"), testing::HasSubstr("8")));

  stream->wait();
  EXPECT_EQ(rig.control->call_count.load(), before);
}

TEST_P(EventTest, EmptyRangesQueueNothing) {
  const BufferView none = {buffer.buffer, 8, 0};
  stream->from_host(none, nullptr);
  stream->to_host(nullptr, none);
  stream->copy(none, {rig.buffer(4).buffer, 0, 0});
  fill<std::uint8_t>(*stream, none, 1);
  stream->join(none);
  EXPECT_EQ(debug_info(*stream).queued, 0U);
}

TEST_P(EventTest, PatternOfTwoBytesFills) {
  fill<std::uint16_t>(*stream, buffer, 0x0102);
  EXPECT_EQ(read<std::uint16_t>(*stream, buffer), std::vector<std::uint16_t>(4, 0x0102));
}

TEST_P(EventTest, DestroyedStreamFinishesItsWork) {
  auto ended = rig.stream();
  fill<std::uint8_t>(*ended, buffer, 1);
  ended->wait();
  rig.control->delay_us = 20000;
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*ended, buffer, 2);
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, ended->wait(1ms)) << "a short timeout does not abort the stream";
  fill<std::uint8_t>(*ended, buffer, 3);
  rig.control->is_blocked = false;
  ended.reset();
  EXPECT_EQ(read<std::uint8_t>(*stream, buffer)[0], 3);
}

TEST_P(EventTest, SymbolOutOfRangeIsRefusedBeforeAnythingIsQueued) {
  const BufferView x = buffer_of<float>(rig.device, 60);
  const BufferView y = buffer_of<float>(rig.device, 10);
  const auto routine =
      link(rig.device,
           "yoke.program 1\nprogram rows(symbol row in 0..60 step 10) {\n  arg x : f32[60] in\n"
           "  arg y : f32[10] out\n  y[i] = x[row + i]\n}\n",
           {x, y});
  std::vector<float> data(60);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<float>(i);
  }
  stream->from_host(x, data.data());
  const auto launch = [&](std::vector<std::int64_t> values) { stream->launch(*routine, values); };

  for (const std::int64_t bad :
       {std::int64_t{-10}, std::int64_t{60}, std::int64_t{5}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_THAT(error_of([&] { launch({bad}); }),
                is_error(ErrorCode::kOutOfRange, "'rows'", "'row'", std::to_string(bad), "[0, 60)"));
  }
  EXPECT_ERROR(ErrorCode::kInvalidArgument, launch({}));
  const auto from_five = link(
      rig.device,
      "yoke.program 1\nprogram rows(symbol row in 5..51) {\n  arg x : f32[60] in\n  arg y : f32[10] out\n"
      "  y[i] = x[row + i]\n}\n",
      {x, y});
  for (const std::int64_t bad : {4, 51}) {
    EXPECT_ERROR(ErrorCode::kOutOfRange, stream->launch(*from_five, {&bad, 1}));
  }
  launch({50});

  EXPECT_EQ(read<float>(*stream, y)[9], 59.0F);
  EXPECT_EQ(rig.control->launch_count.load(), 1U);
}

TEST_P(EventTest, ManySymbolsArePassed) {
  std::string symbols;
  std::string sum = "0";
  for (int i = 0; i < 20; ++i) {
    symbols += (i == 0 ? "symbol s" : ", symbol s") + std::to_string(i) + " in 0..100";
    sum += " + s" + std::to_string(i);
  }
  const BufferView y = buffer_of<std::int64_t>(rig.device, 1);
  const auto routine =
      link(rig.device,
           "yoke.program 1\nprogram many(" + symbols + ") {\n  arg y : i64[1] out\n  y[0] = " + sum + "\n}\n",
           {y});
  std::vector<std::int64_t> values(20);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int64_t>(i);
  }

  stream->launch(*routine, values);

  EXPECT_EQ(read<std::int64_t>(*stream, y)[0], 190);
}

}  // namespace
}  // namespace yoke::test
