// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/native_report_test.cpp: reports on native streams that are idle, are waiting, or have dropped old
// commands.
#include "rig.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

TEST(ReportTest, IdleStreamHasNoStep) {
  Rig rig;
  const auto stream = rig.stream("a\\b");
  const BufferView view = rig.buffer(4);
  stream->begin_step(3);
  fill<std::uint8_t>(*stream, view, 1);
  stream->wait();
  EXPECT_EQ(debug_info(*stream).step, -1);
  EXPECT_THAT(debug_json(debug_info(rig.runtime)), HasSubstr(R"("stream":"a\\b")"));
}

class NativeReportTest : public testing::Test {
 protected:
  Rig rig{Streams::kNative};
  const std::shared_ptr<Stream> writer = rig.stream("writer");
  const std::shared_ptr<Stream> reader = rig.stream("reader");
  const BufferView view = rig.buffer(8);
  const BufferView copy = rig.buffer(8);
};

TEST_F(NativeReportTest, WaitAfterTheOldestEventIsNotReported) {
  const BufferView own = rig.buffer(8);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*writer, view, 1);
  fill<std::uint8_t>(*reader, own, 1);
  (void)reader->record();
  reader->copy(copy, view);
  const StreamReport report = debug_info(*reader);
  EXPECT_EQ(report.running, "fill");
  EXPECT_EQ(report.waits_for, "");
  rig.control->is_blocked = false;
}

TEST_F(NativeReportTest, WaitIsReportedDespiteLaterCommands) {
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*writer, view, 1);
  reader->copy(copy, view);
  for (int i = 0; i < 40; ++i) {  // the report keeps only the latest ones
    fill<std::uint8_t>(*reader, copy, 1);
  }
  const StreamReport report = debug_info(*reader);
  EXPECT_EQ(report.running, "wait");
  EXPECT_EQ(report.waits_for, "writer");
  rig.control->is_blocked = false;
}

TEST_F(NativeReportTest, ForgottenCommandIsBeforeTheOldestThatIsKept) {
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*writer, view, 1);
  (void)writer->record();
  for (int i = 0; i < 40; ++i) {
    fill<std::uint8_t>(*writer, view, 1);
  }
  EXPECT_EQ(debug_info(*writer).running, "a command before fill");
  rig.control->is_blocked = false;
}

TEST_F(NativeReportTest, WaitForWorkThatHasEndedIsNotReported) {
  std::atomic<bool> is_open{false};
  rig.control->on_launch = [&](std::span<const std::int64_t>) { wait_until([&] { return is_open.load(); }); };
  const auto routine = link(rig.device,
                            "yoke.program 1\nprogram twice() {\n  arg x : f32[2] in\n  arg y : f32[2] out\n"
                            "  y[i] = x[i] * 2.0\n}\n",
                            {view, copy});
  auto ended = rig.stream("ended");
  rig.control->is_blocked = true;
  fill<float>(*ended, view, 1);
  reader->launch(*routine);
  EXPECT_EQ(debug_info(*reader).waits_for, "ended");
  rig.control->is_blocked = false;
  ended->wait();
  EXPECT_TRUE(wait_until([&] { return rig.control->launch_count == 1; }));
  EXPECT_EQ(debug_info(*reader).waits_for, "");
  EXPECT_EQ(read<float>(*writer, view)[0], 1.0F);  // now nothing refers to the stream that has ended
  ended.reset();
  const StreamReport report = debug_info(*reader);
  EXPECT_EQ(report.waits_for, "");
  EXPECT_EQ(report.running, "launch of 'twice'");
  is_open = true;
  reader->wait();
}

TEST_F(NativeReportTest, FirstOfSeveralWaitsIsReported) {
  const auto far_control = register_backend(rig.runtime, 1);
  const auto far = Stream::create(rig.runtime.backend("test1")->open_device(0), "far");
  const BufferView there = buffer_of<std::uint8_t>(far->device(), 8);
  rig.control->is_blocked = true;
  far_control->is_blocked = true;
  fill<std::uint8_t>(*writer, view, 1);
  fill<std::uint8_t>(*far, there, 1);
  reader->copy(copy, view);         // the device waits
  reader->wait_for(far->record());  // a worker waits
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(debug_info(*reader).waits_for, "writer");
  rig.control->is_blocked = false;
  EXPECT_TRUE(wait_until([&] { return debug_info(*reader).waits_for == "far"; }));
  far_control->is_blocked = false;
  reader->wait();
}

}  // namespace
}  // namespace yoke::test
