// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/report_test.cpp: lists of streams, waiting for all of a device, and what reports say about them.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "rig.h"

namespace yoke::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- copies between contexts, case by case ----

class DeviceToDevice : public testing::TestWithParam<Streams> {
 protected:
  DeviceToDevice()
      : rig(GetParam()), dst(rig.stream("dst")), src(Stream::create(rig.backend->open_device(1), "src")) {
    set(src, "a", {1, 2});
  }
  Rig rig;
  Context dst;
  Context src;
};
INSTANTIATE_TEST_SUITE_P(Streams, DeviceToDevice, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(DeviceToDevice, IsAnErrorIfTheSourceHasNoSuchTensor) {
  set(dst, "b", {0, 0});
  EXPECT_ERROR(ErrorCode::kNotFound, device_to_device("b", MergeUse::kNone, dst, src));
  EXPECT_ERROR(ErrorCode::kNotFound, device_to_device("c", MergeUse::kCopy, dst, src));
  EXPECT_ERROR(ErrorCode::kNotFound, device_to_device("c", MergeUse::kStreaming, dst, src));
}

TEST_P(DeviceToDevice, IsEmptyIfTheDestinationHasNoSuchTensor) {
  EXPECT_FALSE(device_to_device("a", MergeUse::kNone, dst, src));
  EXPECT_FALSE(device_to_device("in neither", MergeUse::kNone, dst, src));
  EXPECT_THAT(error_of([&] { device_to_device("a", MergeUse::kNone, dst, src).run(); }),
              is_error(ErrorCode::kFailedPrecondition, "the Transfer is empty"));
  EXPECT_TRUE(device_to_device("a", MergeUse::kCopy, dst, src));
}

TEST_P(DeviceToDevice, CopiesBetweenContexts) {
  set(dst, "a", {0, 0});
  const Transfer transfer = device_to_device("a", MergeUse::kNone, dst, src);
  ASSERT_TRUE(transfer);
  EXPECT_EQ(get(dst, "a"), (std::vector<float>{0, 0}));  // not yet
  transfer.run();
  const Event written = dst.stream()->record();
  EXPECT_EQ(get(dst, "a"), (std::vector<float>{1, 2}));
  EXPECT_TRUE(written.is_done());
}

TEST_P(DeviceToDevice, WaitsForTheWriterOfTheSource) {
  set(dst, "a", {0, 0});
  const Transfer transfer = device_to_device("a", MergeUse::kNone, dst, src);
  const float seven = 7;
  rig.control->is_blocked = true;
  src.stream()->fill(src.tensor("a").view, &seven, sizeof(seven));
  transfer.run();
  rig.control->is_blocked = false;
  EXPECT_EQ(get(dst, "a"), (std::vector<float>{7, 7}));
}

TEST_P(DeviceToDevice, StreamsWithoutACopy) {
  const Transfer transfer = device_to_device("a", MergeUse::kStreaming, dst, src);
  const auto code =
      compile(rig.device,
              "yoke.program 1\nprogram twice() {\n  arg merged : f32[2] in\n  arg out : f32[2] out\n"
              "  out[i] = merged[i] * 2.0\n}\n");
  dst.allocate("out", {YOKE_TYPE_F32, {2}});
  const LinkedRoutine consumer = dst.link_merge(code, "twice", "merged", transfer);
  transfer.run();
  consumer.run();
  EXPECT_EQ(get(dst, "out"), (std::vector<float>{2, 4}));
}

// ---- streams of a device ----

TEST(LiveStreams, AreListedPerDevice) {
  Rig rig;
  const auto other = rig.backend->open_device(0);
  register_backend(rig.runtime, 1, Rig::make_control(Streams::kWorker));
  const auto of_another_backend = rig.runtime.backend("test1")->open_device(0);
  EXPECT_NE(other->id(), rig.device->id());
  EXPECT_NE(of_another_backend->id(), rig.device->id());
  EXPECT_NE(of_another_backend->id(), other->id());
  const auto first = rig.stream();
  auto second = rig.stream();
  const auto foreign = Stream::create(other);
  EXPECT_EQ(first->name(), "test0:0/stream0");
  EXPECT_THAT(rig.device->streams(), ElementsAre(first, second));
  EXPECT_THAT(other->streams(), ElementsAre(foreign));
  second.reset();
  EXPECT_THAT(rig.device->streams(), ElementsAre(first));
  EXPECT_EQ(rig.stream()->name(), "test0:0/stream2");  // names are not used again
}

TEST(LiveStreams, HaveUniqueIds) {
  Rig rig;
  register_backend(rig.runtime, 1, Rig::make_control(Streams::kNative));
  const auto twin = rig.backend->open_device(0);
  std::vector<std::shared_ptr<Stream>> streams = {
      rig.stream(), Stream::create(twin),
      Stream::create(rig.runtime.backend("test1")->open_device(0), "mine"), rig.stream("mine")};
  EXPECT_EQ(streams[0]->name(), streams[1]->name()) << "two handles of one device";
  std::vector<std::uint64_t> stream_ids;
  std::vector<std::uint64_t> device_ids;
  for (const StreamReport& report : debug_info(rig.runtime)) {
    stream_ids.push_back(report.stream_id);
    device_ids.push_back(report.device_id);
  }
  EXPECT_THAT(stream_ids,
              ElementsAre(streams[0]->id(), streams[1]->id(), streams[2]->id(), streams[3]->id()));
  EXPECT_THAT(device_ids,
              ElementsAre(rig.device->id(), twin->id(), streams[2]->device()->id(), rig.device->id()));
  std::sort(stream_ids.begin(), stream_ids.end());
  EXPECT_EQ(std::adjacent_find(stream_ids.begin(), stream_ids.end()), stream_ids.end());
  const std::uint64_t last = stream_ids.back();
  streams.clear();
  EXPECT_GT(rig.stream()->id(), last) << "ids are not used again";
}

TEST(LiveStreams, AreWaitedForTogether) {
  RuntimeOptions options;
  options.injected_delay_us = 20000;
  Rig rig(Streams::kWorker, options);
  const std::vector<std::shared_ptr<Stream>> streams = {rig.stream(), rig.stream(), rig.stream()};
  std::vector<Event> events;
  for (const auto& stream : streams) {
    fill<std::uint8_t>(*stream, rig.buffer(16), 1);
    events.push_back(stream->record());
  }
  sync_device(*rig.device);
  for (const Event& event : events) {
    EXPECT_TRUE(event.is_done());
  }
}

TEST(LiveStreams, AllAreWaitedForIfOneHasFailed) {
  RuntimeOptions options;
  options.injected_delay_us = 20000;
  Rig rig(Streams::kWorker, options);
  const auto failing = rig.stream("failing");
  const auto working = rig.stream("working");
  failing->abort();
  fill<std::uint8_t>(*working, rig.buffer(16), 1);
  const Event done = working->record();
  EXPECT_THAT(error_of([&] { sync_device(*rig.device); }), is_error(ErrorCode::kAborted, "failing"));
  EXPECT_TRUE(done.is_done());
}

// ---- reports ----

class WaitingStreams : public testing::TestWithParam<Streams> {};
INSTANTIATE_TEST_SUITE_P(Streams, WaitingStreams, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(WaitingStreams, AreReportedWithWhatTheyWaitFor) {
  Rig rig(GetParam());
  const auto writer = rig.stream("writer");
  const auto reader = rig.stream("reader");
  const BufferView view = rig.buffer(16);
  const BufferView copy = rig.buffer(16);
  rig.control->is_blocked = true;
  writer->begin_step(3);
  fill<std::uint8_t>(*writer, view, 1);
  reader->copy(copy, view);
  ASSERT_TRUE(wait_until(
      [&] { return debug_info(*writer).running == "fill" && debug_info(*reader).waits_for == "writer"; }));
  const StreamReport at_writer = debug_info(*writer);
  EXPECT_EQ(at_writer.stream, "writer");
  EXPECT_EQ(at_writer.device, "test0:0");
  EXPECT_EQ(at_writer.step, 3);
  EXPECT_EQ(at_writer.queued, 1U);
  EXPECT_EQ(at_writer.completed, 0U);
  EXPECT_EQ(at_writer.error, "");
  EXPECT_EQ(debug_info(*reader).waits_for_command, 1U);
  const std::vector<StreamReport> all = debug_info(rig.runtime);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(debug_table(all),
            "id  stream  step  done  runs  waits for                 error\n"
            "0   writer  3     0/1   fill\n"
            "1   reader        0/1   wait  writer (id 0), command 1\n");
  EXPECT_THAT(
      debug_json(all),
      HasSubstr("{\"stream_id\":1,\"device_id\":0,\"stream\":\"reader\",\"device\":\"test0:0\","
                "\"step\":-1,\"queued\":1,\"completed\":0,\"running\":\"wait\","
                "\"waits_for\":\"writer\",\"waits_for_id\":0,\"waits_for_command\":1,\"error\":\"\"}]"));
  EXPECT_THAT(error_of([&] { reader->wait(10ms); }),
              is_error(ErrorCode::kDeadlineExceeded,
                       "(1 pending command; it waits for command 1 of stream 'writer', which runs fill"));
  EXPECT_THAT(error_of([&] { writer->wait(10ms); }),
              is_error(ErrorCode::kDeadlineExceeded, "(1 pending command; it runs fill)"));
  rig.control->is_blocked = false;
  sync_device(*rig.device);
  EXPECT_EQ(debug_info(*reader).waits_for, "");
  EXPECT_EQ(debug_info(*reader).completed, 1U);
  EXPECT_EQ(debug_table({}), "id  stream  step  done  runs  waits for  error\n");
  EXPECT_EQ(debug_json({}), "[]");
}

TEST(DebugInfo, NamesTheRoutineAndTheError) {
  Rig rig;
  Context context(rig.stream("a \"b\""));
  set(context, "x", {1, 2});
  const auto code =
      compile(rig.device,
              "yoke.program 1\nprogram a_program_with_a_name_that_is_longer_than_a_report_keeps() {\n"
              "  arg x : f32[2] inout\n  x[i] = x[i] + 1.0\n}\n");
  const LinkedRoutine routine =
      context.link(code, "a_program_with_a_name_that_is_longer_than_a_report_keeps");
  rig.control->is_blocked = true;
  routine.run();
  EXPECT_TRUE(wait_until([&] { return !debug_info(*context.stream()).running.empty(); }));
  EXPECT_EQ(debug_info(*context.stream()).running,
            "launch of 'a_program_with_a_name_that_is_longer_than_a_rep'");
  context.stream()->abort();
  rig.control->is_blocked = false;
  EXPECT_TRUE(wait_until([&] { return debug_info(*context.stream()).running.empty(); }));
  EXPECT_EQ(debug_info(*context.stream()).error, "stream 'a \"b\"' was aborted");
  EXPECT_THAT(debug_json(debug_info(rig.runtime)),
              HasSubstr("\"error\":\"stream 'a \\\"b\\\"' was aborted\""));
}

// Adds 1 to the tensor x.
LinkedRoutine link_grow(const Rig& rig, Context& context) {
  set(context, "x", {1, 2});
  const auto code = compile(
      rig.device, "yoke.program 1\nprogram grow() {\n  arg x : f32[2] inout\n  x[i] = x[i] + 1.0\n}\n");
  return context.link(code, "grow");
}

// The host knows what a device has completed only from events.
TEST(DebugInfo, OfANativeStreamNamesTheCommandsThatMayRun) {
  Rig rig(Streams::kNative);
  Context context(rig.stream("native"));
  const auto stream = context.stream();
  const LinkedRoutine grow = link_grow(rig, context);
  const BufferView other = rig.buffer(16);
  const std::uint64_t before = debug_info(*stream).completed;
  const auto running = [&] { return debug_info(*stream).running; };
  rig.control->is_blocked = true;
  grow.run();
  EXPECT_EQ(running(), "launch of 'grow'");
  fill<std::uint8_t>(*stream, other, 1);
  EXPECT_EQ(running(), "launch of 'grow' or the command after it");
  fill<std::uint8_t>(*stream, other, 1);
  EXPECT_EQ(running(), "launch of 'grow' or one of the 2 commands after it");
  EXPECT_THAT(error_of([&] { stream->wait(10ms); }),
              is_error(ErrorCode::kDeadlineExceeded,
                       "(3 pending commands; it runs launch of 'grow' or one of the 2 commands after it)"));
  for (int i = 0; i < 10; ++i) {
    grow.run();
  }
  EXPECT_EQ(running(), "launch of 'grow' or one of the 2 commands after it")
      << "the wait has recorded an event";
  rig.control->is_blocked = false;
  stream->wait();
  EXPECT_EQ(running(), "");
  EXPECT_EQ(debug_info(*stream).completed, before + 13);
  rig.control->is_blocked = true;
  for (int i = 0; i < 100; ++i) {
    grow.run();
  }
  EXPECT_EQ(running(), "a command before launch of 'grow'") << "the report keeps only the latest ones";
  stream->host_callback([](ErrorCode) {});
  rig.control->is_blocked = false;
  stream->wait();
}

std::atomic<bool> is_in_driver{false};
std::atomic<bool> driver_hangs{true};

std::atomic<bool> was_queried{false};  // while the driver hung

TEST(DebugInfo, DoesNotWaitForACallOfTheDriverThatHangs) {
  is_in_driver = was_queried = false;
  driver_hangs = true;
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.stream_query = [](yoke_stream* stream, std::int32_t* state, yoke_error* error) {
    was_queried = was_queried || (is_in_driver && driver_hangs);
    return sdk::detail::stream_query(stream, state, error);
  };
  control->program.routine_launch = [](auto...) {
    is_in_driver = true;
    while (driver_hangs) {
      std::this_thread::sleep_for(1ms);
    }
    return YOKE_STATUS_OK;
  };
  Rig rig(control);
  Context context(rig.stream("hung"));
  const auto stream = context.stream();
  const LinkedRoutine grow = link_grow(rig, context);
  stream->wait();
  std::thread caller([&] { grow.run(); });
  for (int round = 0; round < 5000 && !is_in_driver; ++round) {
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_TRUE(is_in_driver || (caller.join(), false));
  auto report = std::async(std::launch::async, [&] { return debug_info(*stream); });
  const bool is_given = report.wait_for(10s) == std::future_status::ready;
  driver_hangs = false;
  caller.join();
  ASSERT_TRUE(is_given);
  EXPECT_EQ(report.get().running, "launch of 'grow'");
  EXPECT_FALSE(was_queried) << "another call of the same stream";
}

TEST(DebugInfo, OfANativeStreamEndsAtAWaitForPendingWork) {
  Rig rig(Streams::kNative);
  const auto writer = rig.stream("writer");
  const auto reader = rig.stream("reader");
  const BufferView view = rig.buffer(16);
  const BufferView copy = rig.buffer(16);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*writer, view, 1);
  fill<std::uint8_t>(*reader, copy, 2);
  reader->copy(copy, view);
  const StreamReport report = debug_info(*reader);
  EXPECT_EQ(report.running, "fill") << "the copy cannot run yet";
  EXPECT_EQ(report.waits_for, "writer");
  EXPECT_EQ(report.waits_for_id, writer->id());
  EXPECT_EQ(report.waits_for_command, 1U);
  rig.control->is_blocked = false;
  sync_device(*rig.device);
  EXPECT_EQ(debug_info(*reader).waits_for, "");
}

}  // namespace
}  // namespace yoke::test
