// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/callback_test.cpp: host callbacks in a stream, by
// the backend or by a thread of the runtime.
#include <yoke/runtime/keep_until_done.h>

#include <atomic>
#include <future>
#include <stdexcept>

#include "rig.h"
#include "thread_count.h"

namespace yoke::test {
namespace {

// The caller of a callback: the worker thread of a backend without streams, the backend, or the runtime's
// helper thread for a backend whose streams have no callbacks.
enum class Caller { kWorker, kBackend, kHelper };

void PrintTo(Caller caller, std::ostream* out) {
  *out << (caller == Caller::kWorker ? "Worker" : caller == Caller::kBackend ? "Backend" : "Helper");
}

class CallbackTest : public testing::TestWithParam<Caller> {
 protected:
  static std::shared_ptr<Control> control() {
    auto made = Rig::make_control(GetParam() == Caller::kWorker ? Streams::kWorker : Streams::kNative);
    if (GetParam() == Caller::kHelper) {
      made->stream.stream_host_callback = nullptr;
    }
    return made;
  }
  // Queues a callback that records its status.
  void queue() {
    stream->host_callback([this](ErrorCode status) {
      ++calls;
      last_status = status;
    });
  }

  Rig rig{control()};
  const std::shared_ptr<Stream> stream = rig.stream("called");
  const BufferView buffer = rig.buffer(4);
  std::atomic<int> calls{0};
  std::atomic<ErrorCode> last_status{ErrorCode::kUnknown};
};
INSTANTIATE_TEST_SUITE_P(Callers, CallbackTest,
                         testing::Values(Caller::kWorker, Caller::kBackend, Caller::kHelper),
                         testing::PrintToStringParamName());

TEST_P(CallbackTest, RunsOnceBetweenEarlierAndLaterWork) {
  std::promise<void> gate;
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  stream->host_callback([&, opened = gate.get_future().share()](ErrorCode status) {
    ++calls;
    last_status = status;
    opened.wait();
  });
  fill<std::uint8_t>(*stream, buffer, 2);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, 0) << "earlier work is pending";
  rig.control->is_blocked = false;
  EXPECT_TRUE(wait_until([&] { return calls == 1; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(rig.control->call_count, 1U) << "later work must wait for the callback";
  EXPECT_FALSE(stream->is_idle());

  gate.set_value();
  stream->wait();

  EXPECT_EQ(calls, 1);
  EXPECT_EQ(last_status, ErrorCode::kOk);
  EXPECT_EQ(read<std::uint8_t>(*stream, buffer)[0], 2);
}

TEST_P(CallbackTest, CallbacksRunInOrder) {
  std::vector<int> order;  // the callbacks of one stream do not overlap
  for (int i = 0; i < 50; ++i) {
    stream->host_callback([&order, i](ErrorCode) { order.push_back(i); });
    if (i % 3 == 0) {
      fill<std::uint8_t>(*stream, buffer, 1);
    }
  }
  stream->wait();
  ASSERT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(CallbackTest, FailedStreamCallsWithItsError) {
  rig.control->fail_after = 0;
  rig.control->fail_code = YOKE_STATUS_DATA_LOSS;
  fill<std::uint8_t>(*stream, buffer, 1);
  queue();
  EXPECT_ERROR(ErrorCode::kDataLoss, stream->wait());
  EXPECT_TRUE(wait_until([&] { return calls == 1; }));
  EXPECT_EQ(last_status, ErrorCode::kDataLoss);

  queue();  // after the failure is known

  EXPECT_TRUE(wait_until([&] { return calls == 2; }));
  EXPECT_EQ(last_status, ErrorCode::kDataLoss);
}

TEST_P(CallbackTest, AbortedStreamCallsOnceAfterItsWork) {
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*stream, buffer, 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  queue();

  stream->abort();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, 0) << "aborted work still runs";
  rig.control->is_blocked = false;

  EXPECT_ERROR(ErrorCode::kAborted, stream->wait());
  EXPECT_TRUE(wait_until([&] { return calls == 1; }));
  EXPECT_EQ(last_status, ErrorCode::kAborted);
}

TEST_P(CallbackTest, ExceptionFailsTheStream) {
  stream->host_callback([](ErrorCode) { throw std::runtime_error("oops"); });
  EXPECT_THAT(error_of([&] { stream->wait(); }),
              is_error(ErrorCode::kUnknown, "stream 'called': a host callback threw an exception: oops"));
}

TEST_P(CallbackTest, EmptyCallbackIsRefused) {
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->host_callback({}));
}

TEST(CallbackRefusalTest, CallbackThatTheBackendRefusesRunsOnTheHelperThread) {
  auto control = Rig::make_control(Streams::kNative);
  control->stream.stream_host_callback = [](yoke_stream*, yoke_host_callback_fn, void*, yoke_error*) {
    return YOKE_STATUS_UNAVAILABLE;
  };
  Rig rig(control);
  const auto stream = rig.stream();
  std::atomic<int> calls{0};
  std::atomic<ErrorCode> status{ErrorCode::kOk};

  stream->host_callback([&](ErrorCode code) {
    status = code;
    ++calls;
  });

  EXPECT_ERROR(ErrorCode::kUnavailable, stream->wait());
  EXPECT_TRUE(wait_until([&] { return calls == 1; }));
  EXPECT_EQ(status, ErrorCode::kUnavailable);
}

class KeepUntilDoneTest : public testing::Test {
 protected:
  static RuntimeOptions one_worker() {
    RuntimeOptions options;
    options.worker_threads = 1;
    return options;
  }
  static void keep(Stream& stream) { stream.host_callback(detail::KeepUntilDone{std::make_shared<int>(1)}); }
};

TEST_F(KeepUntilDoneTest, NeedsNoOtherWorker) {
  Rig rig(Streams::kWorker, one_worker());
  const std::vector<std::shared_ptr<Stream>> streams = {rig.stream(), rig.stream(), rig.stream()};
  const BufferView buffer = rig.buffer(1);
  const std::size_t threads = thread_count();
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*streams[0], buffer, 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  for (const auto& stream : streams) {
    keep(*stream);
  }
  rig.control->is_blocked = false;
  for (const auto& stream : streams) {
    stream->wait();
  }
  EXPECT_EQ(thread_count(), threads);
}

TEST_F(KeepUntilDoneTest, LeavesTheWorkerToOtherStreamsWhileABackendWorks) {
  auto native = Rig::make_control(Streams::kNative);
  native->stream.stream_host_callback = nullptr;
  Rig rig(native, one_worker());
  register_backend(rig.runtime, 1);
  const auto other = Stream::create(rig.runtime.backend("test1")->open_device(0));
  const BufferView there = buffer_of<std::uint8_t>(other->device(), 1);
  const auto stream = rig.stream();
  const BufferView here = rig.buffer(1);
  native->is_blocked = true;
  fill<std::uint8_t>(*stream, here, 1);
  keep(*stream);
  std::this_thread::sleep_for(20ms);  // the worker waits for the fill

  fill<std::uint8_t>(*other, there, 1);

  EXPECT_TRUE(wait_until([&] { return other->is_idle(); }, 5000ms));
  EXPECT_FALSE(stream->is_idle());
  native->is_blocked = false;
  stream->wait();
}

}  // namespace
}  // namespace yoke::test
