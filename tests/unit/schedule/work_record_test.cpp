// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/work_record_test.cpp: RuntimeOptions::on_work gets the work of streams that the runtime runs, and
// of streams whose backend has yoke.profile/1.
#include <mutex>

#include "rig.h"

namespace yoke::test {
namespace {

using Kind = WorkRecord::Kind;

struct Recorded {
  Kind kind;
  std::string stream, name;
  std::uint64_t byte_count;
  std::int64_t step;
  std::uint64_t begin_ns, end_ns;
};

class WorkRecordTest : public testing::TestWithParam<Streams> {
 protected:
  static std::shared_ptr<Control> control() {
    auto made = Rig::make_control(GetParam());
    made->provides.profile = true;
    return made;
  }
  RuntimeOptions options() {
    RuntimeOptions given;
    given.on_work = [this](const WorkRecord& work) {
      const std::lock_guard lock(mutex_);
      all_.push_back({work.kind, std::string(work.stream), std::string(work.name), work.byte_count, work.step,
                      work.begin_ns, work.end_ns});
    };
    return given;
  }
  std::vector<Recorded> recorded() {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  // Whether records have bytes and steps.
  static bool is_detailed() { return GetParam() == Streams::kWorker; }

 private:
  std::mutex mutex_;
  std::vector<Recorded> all_;
};
INSTANTIATE_TEST_SUITE_P(Streams, WorkRecordTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(WorkRecordTest, ExceptionsAreDropped) {
  std::atomic<int> record_count = 0;
  RuntimeOptions throwing;
  throwing.on_work = [&](const WorkRecord&) {
    ++record_count;
    throw std::runtime_error("not an Error");
  };
  Rig rig(control(), throwing);
  const auto stream = rig.stream();
  const BufferView view = rig.buffer(4);
  for (int i = 0; i < 2; ++i) {
    fill<std::uint8_t>(*stream, view, 7);
    stream->wait();
  }
  EXPECT_EQ(record_count, 2);
}

TEST_P(WorkRecordTest, EachPieceOfWorkHasARecordOnceAWaitForItReturns) {
  Rig rig(control(), options());
  const auto stream = rig.stream("lane");
  const BufferView view = buffer_of<float>(rig.device, 1);
  const auto code =
      compile(rig.device, "yoke.program 1\nprogram one() {\n  arg a : f32[1] out\n  a[i] = 1.0\n}\n");
  const auto routine = Routine::link(code, 0, {view});
  const float sent = 3;
  stream->from_host(view, &sent);
  stream->begin_step(7);
  stream->launch(*routine);
  EXPECT_EQ(read<float>(*stream, view), std::vector<float>{1});

  const std::vector<Recorded> all = recorded();
  ASSERT_EQ(all.size(), 3U);
  const std::vector<std::pair<Kind, std::string>> expected = {
      {Kind::kCopy, "from_host"}, {Kind::kLaunch, "one"}, {Kind::kCopy, "to_host"}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].kind, expected[i].first) << i;
    EXPECT_EQ(all[i].name, expected[i].second);
    EXPECT_EQ(all[i].stream, "lane");
    EXPECT_LE(all[i].begin_ns, all[i].end_ns);
    EXPECT_TRUE(i == 0 || all[i - 1].end_ns <= all[i].begin_ns) << i;
  }
  EXPECT_EQ(all[0].byte_count, is_detailed() ? 4U : 0U);
  EXPECT_EQ(all[0].step, -1);
  EXPECT_EQ(all[1].step, is_detailed() ? 7 : -1);
}

TEST_P(WorkRecordTest, FailedAndSkippedWorkHasNone) {
  Rig rig(control(), options());
  const auto stream = rig.stream();
  const BufferView view = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;
  rig.control->fail_after = 1;
  for (int i = 0; i < 4; ++i) {
    fill<std::uint8_t>(*stream, view, 0);
  }
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kInternal, stream->wait());
  EXPECT_EQ(recorded().size(), 1U);
}

TEST(WorkRecordWorkerTest, WaitNamesTheStreamThatWasWaitedFor) {
  std::mutex mutex;
  std::vector<std::string> waits;
  RuntimeOptions options;
  options.on_work = [&](const WorkRecord& work) {
    const std::lock_guard lock(mutex);
    if (work.kind == Kind::kWait) {
      waits.push_back(std::string(work.stream) + " for " + std::string(work.name));
      EXPECT_GE(work.end_ns - work.begin_ns, 10'000'000U);
    }
  };
  Rig rig(Streams::kWorker, options);
  const auto writer = rig.stream("writer");
  const auto reader = rig.stream("reader");
  const BufferView view = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*writer, view, 1);
  std::uint8_t got = 0;
  reader->to_host(&got, view);
  std::this_thread::sleep_for(20ms);  // so that the reader starts to wait
  rig.control->is_blocked = false;
  reader->wait();
  EXPECT_EQ(waits, std::vector<std::string>{"reader for writer"});
}

TEST(WorkRecordWorkerTest, CopiesHaveTheirTensorAndBytes) {
  std::mutex mutex;
  std::vector<std::string> copies;
  RuntimeOptions options;
  options.on_work = [&](const WorkRecord& work) {
    const std::lock_guard lock(mutex);
    copies.push_back(std::string(work.name) + " " + std::string(work.tensor) + " " +
                     std::to_string(work.byte_count));
  };
  Rig rig(Streams::kWorker, options);
  Context context(rig.stream());
  Context other(rig.stream());
  set(context, "x", {1, 2});
  other.init_from_device("x", context);
  other.stream()->wait();
  std::vector<float> values(2);
  other.to_host("x", std::as_writable_bytes(std::span<float>(values)));
  other.stream()->wait();
  EXPECT_EQ(copies, (std::vector<std::string>{"from_host x 8", "device_to_device x 8", "to_host x 8"}));
}

TEST(WorkRecordWorkerTest, JoinsHaveNone) {
  std::atomic<int> record_count = 0;
  RuntimeOptions options;
  options.on_work = [&](const WorkRecord&) { ++record_count; };
  Rig rig(Streams::kWorker, options);
  const auto stream = rig.stream();
  const BufferView view = rig.buffer(4);
  for (int i = 0; i < 20000; ++i) {  // some take longer than others
    stream->join(view);
  }
  stream->wait();
  EXPECT_EQ(record_count, 0);
}

}  // namespace
}  // namespace yoke::test
