// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/native_test.cpp: when the runtime calls the streams and events of a backend.
#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "expected_leak.h"
#include "rig.h"

namespace yoke::test {
namespace {

// A backend whose next stream_query blocks until it is released. The calling thread holds the lock of the stream.
struct HeldQuery {
  static inline std::atomic<bool> holds_next{false};
  static inline std::atomic<bool> is_held{false};
  static inline std::atomic<int> call_count{0};

  static std::shared_ptr<Control> control() {
    holds_next = false;
    is_held = false;
    call_count = 0;
    auto made = Rig::make_control(Streams::kNative);
    made->stream.stream_query = [](yoke_stream* stream, std::int32_t* out_state, yoke_error* error) {
      ++call_count;
      if (holds_next.exchange(false)) {
        is_held = true;
        wait_until([] { return !is_held; });
      }
      return sdk::detail::stream_query(stream, out_state, error);
    };
    return made;
  }
  // The calls of `work`, one of which is held, on another thread.
  template <class Work>
  static std::thread start(const Work& work) {
    holds_next = true;
    std::thread thread(work);
    EXPECT_TRUE(wait_until([] { return is_held.load(); }));
    return thread;
  }
};

TEST(NativeStreamTest, WaitForAStreamThatIsClosedMeanwhileSucceeds) {
  static std::atomic<bool> records_on_null;
  records_on_null = false;
  const auto control = HeldQuery::control();
  control->stream.event_record = [](yoke_stream* stream, const yoke_event_args* args, yoke_event** out_event,
                                    yoke_error* error) {
    records_on_null = records_on_null || stream == nullptr;
    return sdk::detail::event_record(stream, args, out_event, error);
  };
  Rig rig(control);
  const auto waiting = rig.stream("waiting");
  auto other = rig.stream("other");
  const BufferView buffer = rig.buffer(2);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*waiting, part<std::uint8_t>(buffer, 0, 1), 1);
  fill<std::uint8_t>(*other, part<std::uint8_t>(buffer, 1, 1), 2);
  std::thread querying = HeldQuery::start([&] { (void)waiting->is_idle(); });
  std::thread queuing([&, event = other->record()] { waiting->wait_for(event); });
  std::this_thread::sleep_for(20ms);  // so that it has seen that the work is pending, and waits for the lock
  rig.control->is_blocked = false;
  other->wait();
  other.reset();
  HeldQuery::is_held = false;
  querying.join();
  queuing.join();
  EXPECT_NO_THROW(waiting->wait());
  EXPECT_FALSE(records_on_null);
}

// A driver's call may never return.
TEST(NativeStreamTest, ReportMakesNoCallWhileAnotherThreadDoes) {
  Rig rig(HeldQuery::control());
  const auto stream = rig.stream();
  const BufferView buffer = rig.buffer(1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  std::thread querying = HeldQuery::start([&] { (void)stream->is_idle(); });
  EXPECT_EQ(debug_info(*stream).queued, 1U);
  EXPECT_EQ(HeldQuery::call_count, 1);
  HeldQuery::is_held = false;
  querying.join();
  rig.control->is_blocked = false;
}

// A thread that waits for the lock of a buffer must not hold that of a buffer with a higher address: another thread may
// do the opposite.
TEST(NativeStreamTest, CopyLocksItsBuffersInOneOrder) {
  for (const bool is_staged : {false, true}) {
    Rig rig(HeldQuery::control());
    const auto of_other = register_backend(rig.runtime, 1, HeldQuery::control());
    const auto other = rig.runtime.backend("test1")->open_device(0);
    BufferView low = rig.buffer(64);
    BufferView high = is_staged ? buffer_of<std::uint8_t>(other, 64) : rig.buffer(64);
    if (std::less<>()(&high.buffer->hazards(), &low.buffer->hazards())) {
      std::swap(low, high);
    }
    std::vector<std::uint8_t> seen(64);
    const auto reader = Stream::create(low.buffer->device());
    const auto copier = Stream::create(high.buffer->device());
    const auto writer = Stream::create(high.buffer->device());
    rig.control->is_blocked = of_other->is_blocked = true;
    std::thread reading =
        HeldQuery::start([&] {  // asks whether reads have ended, with the lock, when the list is full
          for (std::size_t i = 0; i < seen.size(); ++i) {
            reader->to_host(&seen[i], part<std::uint8_t>(low, i, 1));
          }
        });
    std::thread copying([&] { copier->copy(high, low); });
    std::this_thread::sleep_for(20ms);  // so that it waits for the lock
    const auto written = std::async(std::launch::async, [&] { fill<std::uint8_t>(*writer, high, 1); });
    EXPECT_EQ(written.wait_for(10s), std::future_status::ready);
    HeldQuery::is_held = false;
    reading.join();
    copying.join();
    rig.control->is_blocked = of_other->is_blocked = false;
  }
}

TEST(NativeStreamTest, EventThatWasRecordedIsWaitedForEvenIfLaterOnesAreNot) {
  static std::atomic<int> record_count;
  static std::atomic<int> wait_count;
  record_count = 0;
  wait_count = 0;
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.event_record = [](yoke_stream* stream, const yoke_event_args* args, yoke_event** out_event,
                                    yoke_error* error) {
    return record_count++ == 0 ? sdk::detail::event_record(stream, args, out_event, error)
                               : YOKE_STATUS_RESOURCE_EXHAUSTED;
  };
  control->stream.stream_wait = [](yoke_stream* stream, std::uint64_t timeout_ns, yoke_error* error) {
    wait_count += timeout_ns != 0 ? 1 : 0;
    return sdk::detail::stream_wait(stream, timeout_ns, error);
  };
  Rig rig(control);
  const auto stream = rig.stream();
  const BufferView buffer = rig.buffer(1);
  control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  const Event first = stream->record();
  EXPECT_TRUE(wait_for_calls(*control, 1));
  fill<std::uint8_t>(*stream, buffer, 2);
  (void)stream->record();
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, first.wait(20ms));
  EXPECT_EQ(wait_count, 0) << "later work may take long";
  control->is_blocked = false;
}

TEST(NativeStreamTest, WaitOfAWorkerThatEndsAfterItsDeadlineSucceeds) {
  static std::atomic<bool> is_waiting;
  is_waiting = false;
  RuntimeOptions options;
  options.wait_timeout = 50ms;
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.event_wait = [](yoke_event* event, std::uint64_t timeout_ns, yoke_error* error) {
    is_waiting = true;
    std::this_thread::sleep_for(80ms);  // a plugin may return late
    return sdk::detail::event_wait(event, timeout_ns, error);
  };
  Rig rig(control, options);
  register_backend(rig.runtime, 1, Rig::make_control(Streams::kWorker));
  const auto stream = rig.stream();
  const auto waiting = Stream::create(rig.runtime.backend("test1")->open_device(0));
  const BufferView buffer = rig.buffer(1);
  control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  waiting->wait_for(stream->record());
  EXPECT_TRUE(wait_until([] { return is_waiting.load(); }));
  control->is_blocked = false;
  EXPECT_NO_THROW(waiting->wait(30s));
}

TEST(NativeStreamTest, StreamStaysOpenWhileAThreadIsInACallThatHangs) {
  static std::atomic<bool> hangs;
  static std::atomic<bool> is_waiting;
  static std::atomic<bool> destroyed_in_use;
  hangs = true;
  is_waiting = destroyed_in_use = false;
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.event_wait = [](yoke_event* event, std::uint64_t timeout_ns, yoke_error* error) {
    is_waiting = true;
    wait_until([] { return !hangs; }, 10s);
    is_waiting = false;
    return sdk::detail::event_wait(event, timeout_ns, error);
  };
  control->stream.stream_destroy = [](yoke_stream* stream) {
    destroyed_in_use = destroyed_in_use || is_waiting;
    sdk::detail::stream_destroy(stream);
  };
  const ExpectedLeak leak;
  Rig rig(control);
  auto stream = rig.stream();
  const BufferView buffer = rig.buffer(1);
  control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  std::thread waiting([event = stream->record()] { EXPECT_NO_THROW(event.wait()); });
  EXPECT_TRUE(wait_until([] { return is_waiting.load(); }));
  control->is_blocked = false;
  EXPECT_TRUE(wait_until([&] { return stream->is_idle(); }));
  stream.reset();
  EXPECT_TRUE(is_waiting) << "the destructor must not wait for the call";
  EXPECT_FALSE(destroyed_in_use);
  hangs = false;
  waiting.join();
}

}  // namespace
}  // namespace yoke::test
