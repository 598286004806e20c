// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/closing_test.cpp: destructors of streams and Stream::finish wait for work, and then leave nothing
// behind.
#include <array>
#include <atomic>
#include <future>
#include <thread>

#include "rig.h"
#include "thread_count.h"

namespace yoke::test {
namespace {

// Lets blocked calls go on a moment later.
class Unblocking {
 public:
  explicit Unblocking(const Rig& rig)
      : thread_([control = rig.control] {
          std::this_thread::sleep_for(20ms);
          control->is_blocked = false;
        }) {}
  ~Unblocking() { thread_.join(); }
  Unblocking(const Unblocking&) = delete;
  Unblocking& operator=(const Unblocking&) = delete;

 private:
  std::thread thread_;
};

class ClosingTest : public testing::TestWithParam<Streams> {
 protected:
  static RuntimeOptions with_timeout(std::chrono::milliseconds timeout) {
    RuntimeOptions options;
    options.wait_timeout = timeout;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Streams, ClosingTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(ClosingTest, DestructorWaitsForWorkUnlessAWaitHasMissedTheDeadline) {
  enum class Before { kNothing, kWaitForEarlierWork, kShortWait };
  Rig rig(GetParam());
  const BufferView buffer = rig.buffer(1);
  for (const Before before : {Before::kNothing, Before::kWaitForEarlierWork, Before::kShortWait}) {
    auto stream = rig.stream();
    if (before == Before::kWaitForEarlierWork) {
      fill<std::uint8_t>(*stream, buffer, 1);
      stream->wait();
    }
    rig.control->is_blocked = true;
    fill<std::uint8_t>(*stream, buffer, 1);
    fill<std::uint8_t>(*stream, buffer, 2);
    const Event event = stream->record();
    if (before == Before::kShortWait) {
      EXPECT_ERROR(ErrorCode::kDeadlineExceeded, stream->wait(1ms));
    }
    const Unblocking soon(rig);
    stream.reset();
    EXPECT_NO_THROW(event.wait(0ns)) << static_cast<int>(before);
  }
}

TEST_P(ClosingTest, DestructorWaitsForWorkIfSomeWasDoneSinceAWaitMissedTheDeadline) {
  Rig rig(GetParam(), with_timeout(1s));
  const BufferView buffer = rig.buffer(1);
  auto stream = rig.stream();
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, stream->wait());
  rig.control->is_blocked = false;
  stream->wait(30s);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  fill<std::uint8_t>(*stream, buffer, 2);
  const Event event = stream->record();
  const Unblocking soon(rig);
  stream.reset();
  EXPECT_NO_THROW(event.wait(0ns));
}

TEST_P(ClosingTest, FinishWaitsForAllStreams) {
  Rig rig(GetParam());
  const std::array<std::shared_ptr<Stream>, 3> streams = {rig.stream(), nullptr, rig.stream()};
  const BufferView buffer = rig.buffer(2);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*streams[0], part<std::uint8_t>(buffer, 0, 1), 1);
  fill<std::uint8_t>(*streams[2], part<std::uint8_t>(buffer, 1, 1), 1);
  const Unblocking soon(rig);
  Stream::finish(streams);
  for (const auto& stream : {streams[0], streams[2]}) {
    EXPECT_NO_THROW(stream->wait(0ns));
  }
}

TEST(ClosingNativeTest, StreamThatHasMissedADeadlineAgainIsAbortedAtOnce) {
  static std::atomic<bool>* is_blocked = nullptr;
  static std::atomic<int> wait_count;
  static std::atomic<int> waits_before_abort;
  const auto control = Rig::make_control(Streams::kNative);
  is_blocked = &control->is_blocked;
  waits_before_abort = -1;
  control->stream.event_wait = [](yoke_event* event, std::uint64_t timeout_ns, yoke_error* error) {
    ++wait_count;
    return sdk::detail::event_wait(event, timeout_ns, error);
  };
  control->stream.stream_abort = [](yoke_stream* stream, yoke_error* error) {
    waits_before_abort = wait_count.load();
    *is_blocked = false;
    return sdk::detail::stream_abort(stream, error);
  };
  RuntimeOptions options;
  options.wait_timeout = 50ms;
  Rig rig(control, options);
  auto stream = rig.stream();
  const BufferView buffer = rig.buffer(1);
  for (const bool ends : {true, false}) {
    control->is_blocked = true;
    fill<std::uint8_t>(*stream, buffer, 1);
    EXPECT_ERROR(ErrorCode::kDeadlineExceeded, stream->wait());
    if (ends) {
      control->is_blocked = false;
      stream->wait(30s);
    }
  }
  wait_count = 0;
  stream.reset();
  EXPECT_EQ(waits_before_abort, 0);
}

TEST(ClosingWorkerTest, HostMemoryOfACopyThatHangsStays) {
  RuntimeOptions options;
  options.wait_timeout = 50ms;
  Rig rig(Streams::kWorker, options);
  const auto control = std::make_shared<Control>();
  control->provides.memory = true;
  register_backend(rig.runtime, 1, control);
  const auto far = rig.runtime.backend("test1")->open_device(0);
  BufferView here = rig.buffer(4);
  BufferView there = buffer_of<std::uint8_t>(far, 4);
  auto stream = rig.stream();
  control->is_blocked = true;
  stream->copy(here, there);
  EXPECT_TRUE(wait_for_calls(*control, 1));
  Event event = stream->record();
  stream.reset();
  EXPECT_EQ(control->live_pinned_count, 2) << "the copy still writes to it";
  control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kAborted, event.wait(30s));
  here = there = {};  // these refer to the stream, too
  event = {};
  EXPECT_TRUE(wait_until([&] { return control->live_pinned_count == 0; }, 10s));
}

TEST(ClosingWorkerTest, StreamsThatHaveJustWorkedLeaveTheWorkersOnce) {
  Rig rig;
  const std::size_t before = thread_count();
  auto last = rig.stream();
  const BufferView buffer = rig.buffer(1);
  for (int round = 0; round < 300; ++round) {
    fill<std::uint8_t>(*rig.stream(), buffer, 1);
  }
  last.reset();
  EXPECT_TRUE(wait_until([&] { return thread_count() <= before; }, 10s))
      << "the workers end with the last stream";
}

TEST(ClosingWorkerTest, NativeStreamsLeaveTheWorkersOnlyIfTheyJoinedThem) {
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.stream_host_callback = nullptr;  // so a worker calls back
  Rig rig(control);
  const std::size_t before = thread_count();
  auto plain = rig.stream();
  auto calling = rig.stream();
  plain.reset();
  calling->host_callback([](ErrorCode) {});
  calling->wait();
  std::this_thread::sleep_for(5ms);  // so that the worker leaves the stream
  calling.reset();
  EXPECT_TRUE(wait_until([&] { return thread_count() <= before; }, 10s));
  EXPECT_EQ(rig.log.all(), std::vector<std::string>()) << "a stream was left open";
}

TEST(ClosingWorkerTest, WorkersOfOtherStreamsGoOn) {
  RuntimeOptions options;
  options.worker_threads = 1;
  Rig rig(Streams::kWorker, options);
  const auto busy = rig.stream();
  auto idle = rig.stream();
  const BufferView buffer = rig.buffer(1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*busy, buffer, 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  const auto closed = std::async(std::launch::async, [&] { idle.reset(); });
  EXPECT_EQ(closed.wait_for(10s), std::future_status::ready);
  rig.control->is_blocked = false;
  EXPECT_NO_THROW(busy->wait());
}

}  // namespace
}  // namespace yoke::test
