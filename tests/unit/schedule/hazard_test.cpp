// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/hazard_test.cpp: several streams compute the same
// results as one stream, independent of timing.
#include "random_work.h"
#include "schedule/hazards.h"
#include "schedule/queue_copies.h"

namespace yoke::test {
namespace {

class HazardTest : public testing::TestWithParam<std::tuple<Streams, int>> {};
INSTANTIATE_TEST_SUITE_P(Seeds, HazardTest,
                         testing::Combine(testing::Values(Streams::kWorker, Streams::kNative),
                                          testing::Range(1, 7)),
                         JoinedNames());

TEST_P(HazardTest, FourStreamsOnSharedBuffersMatchSequentialExecution) {
  const auto streams = std::get<Streams>(GetParam());
  const auto seed = static_cast<std::uint64_t>(std::get<int>(GetParam()));
  RuntimeOptions options;
  options.injected_delay_us = 150;
  options.injected_delay_seed = seed;
  Rig rig(streams, options);
  rig.control->delay_us = streams == Streams::kNative ? 50 : 0;
  expect_sequential_results(rig, seed, 400);
}

// A command that fails, and is then complete, between the first look at it and the second.
class FailingBetweenLooks {
 public:
  bool is_complete(std::uint64_t) const { return looks_++ > 0; }
  bool has_failed(std::uint64_t) const { return looks_++ > 0; }

 private:
  mutable int looks_ = 0;
};

TEST(OutcomeTest, CommandThatFailsDuringTheLookHasNotSucceeded) {
  EXPECT_FALSE(detail::outcome_of(FailingBetweenLooks(), 1).has_succeeded());
}

// The same with real streams: a writer fails while other streams queue commands that read what it wrote. None of them
// may miss the failure, whenever it comes.
TEST(OutcomeTest, NoReaderMissesAFailureThatComesWhileItIsQueued) {
  Rig rig;
  std::vector<std::uint8_t> seen(16);
  for (int round = 0; round < 200; ++round) {
    const auto writer = rig.stream();
    const auto reader = rig.stream();
    const BufferView buffer = rig.buffer(16);
    rig.control->fail_after = 0;
    fill<std::uint8_t>(*writer, buffer, 1);
    std::this_thread::sleep_for(std::chrono::microseconds(round % 50));
    EXPECT_ERROR(ErrorCode::kInternal, {
      reader->to_host(seen.data(), buffer);
      reader->wait();
    });
  }
}

class RangeTest : public testing::TestWithParam<Streams> {
 protected:
  Rig rig{GetParam()};
  const std::shared_ptr<Stream> first = rig.stream();
  const std::shared_ptr<Stream> second = rig.stream();
  const BufferView buffer = rig.buffer(16);
};
INSTANTIATE_TEST_SUITE_P(Streams, RangeTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

// Whether `count` calls have begun, before a blocked one gives up after 20 s.
bool run_together(const Control& control, std::uint64_t count) {
  return wait_until([&] { return control.call_count.load() >= count; }, 10s);
}

TEST_P(RangeTest, DisjointRangesOfOneBufferDoNotWaitForEachOther) {
  for (const std::size_t begin : {std::size_t{0}, std::size_t{8}}) {
    const std::uint64_t before = rig.control->call_count;
    rig.control->is_blocked = true;
    fill<std::uint8_t>(*first, part<std::uint8_t>(buffer, begin, 8), 1);
    EXPECT_TRUE(wait_for_calls(*rig.control, before + 1));
    fill<std::uint8_t>(*second, part<std::uint8_t>(buffer, 8 - begin, 8), 1);

    EXPECT_TRUE(run_together(*rig.control, before + 2));
    rig.control->is_blocked = false;
    first->wait();
    second->wait();
  }
}

TEST_P(RangeTest, ReadersDoNotWaitForEachOther) {
  std::vector<std::uint8_t> a(16);
  std::vector<std::uint8_t> b(16);
  rig.control->is_blocked = true;
  first->to_host(a.data(), buffer);
  second->to_host(b.data(), buffer);

  EXPECT_TRUE(run_together(*rig.control, 2));
  rig.control->is_blocked = false;
  first->wait();
  second->wait();
}

TEST_P(RangeTest, OverlappingWriteWaits) {
  std::vector<std::uint8_t> seen(9);
  rig.control->is_blocked = true;
  first->to_host(seen.data(), part<std::uint8_t>(buffer, 0, 9));
  fill<std::uint8_t>(*second, part<std::uint8_t>(buffer, 8, 8), 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  std::this_thread::sleep_for(50ms);

  EXPECT_EQ(rig.control->call_count.load(), 1U);
  rig.control->is_blocked = false;
  second->wait();
  EXPECT_EQ(seen[8], 0x5a);
}

TEST(LockingOrderTest, AccessesOfACopyAreSortedByBuffer) {
  detail::Hazards one;
  detail::Hazards two;
  const detail::Access a = {&one, 0, 4, true, false};
  const detail::Access b = {&two, 0, 4, false, true};
  const auto ab = detail::in_order(a, b);
  const auto ba = detail::in_order(b, a);
  EXPECT_EQ(ab[0].hazards, ba[0].hazards);
  EXPECT_EQ(ab[1].hazards, ba[1].hazards);
  EXPECT_NE(ab[0].hazards, ab[1].hazards);
}

TEST_P(RangeTest, ThreadsThatCopyInOppositeDirectionsDoNotDeadlock) {
  const BufferView a = buffer_of<std::int64_t>(rig.device, 4);
  const BufferView b = buffer_of<std::int64_t>(rig.device, 4);
  fill<std::uint8_t>(*first, a, 0);
  fill<std::uint8_t>(*first, b, 0);
  const auto run = [&](Stream& stream, const BufferView& to, const BufferView& from) {
    const auto routine = link(rig.device, mix_program(4), {from, to});
    for (int i = 0; i < 1500; ++i) {
      stream.copy(to, from);
      stream.launch(*routine);
    }
    stream.wait(20s);
  };

  std::thread thread([&] { run(*first, a, b); });
  run(*second, b, a);
  thread.join();
}

TEST_P(RangeTest, LaunchesOfOneRoutineDoNotOverlap) {
  const BufferView x = buffer_of<std::int64_t>(rig.device, 4);
  const BufferView y = buffer_of<std::int64_t>(rig.device, 4);
  fill<std::int64_t>(*first, x, 1);
  fill<std::int64_t>(*first, y, 1);
  first->wait();
  const auto routine = link(rig.device, mix_program(4), {x, y});
  rig.control->is_blocked = true;
  const std::uint64_t before = rig.control->call_count.load();

  first->launch(*routine);
  second->launch(*routine);
  EXPECT_TRUE(wait_for_calls(*rig.control, before + 1));
  std::this_thread::sleep_for(50ms);

  EXPECT_EQ(rig.control->call_count.load(), before + 1);
  rig.control->is_blocked = false;
  EXPECT_EQ(read<std::int64_t>(*second, y), (std::vector<std::int64_t>(4, 13)));
}

TEST_P(RangeTest, LaunchDoesNotUseTheBytesBetweenItsTensors) {
  const BufferView shared = buffer_of<std::int64_t>(rig.device, 12);
  const auto routine = link(rig.device,
                            "yoke.program 1\nprogram both() {\n  arg a : i64[4] out\n  arg b : i64[4] out\n"
                            "  a[i] = 1\n  b[i] = 2\n}\n",
                            {part<std::int64_t>(shared, 0, 4), part<std::int64_t>(shared, 8, 4)});
  const BufferView between = part<std::int64_t>(shared, 4, 4);
  rig.control->fail_after = 0;
  fill<std::int64_t>(*first, between, 3);
  EXPECT_ERROR(ErrorCode::kInternal, first->wait());

  second->launch(*routine);
  second->wait();

  const auto reader = rig.stream();
  EXPECT_ERROR(ErrorCode::kInternal, read<std::int64_t>(*reader, between))
      << "the launch did not overwrite it";
  EXPECT_EQ(read<std::int64_t>(*second, part<std::int64_t>(shared, 8, 4)), std::vector<std::int64_t>(4, 2));
}

TEST_P(RangeTest, ReadersWaitForAJoinAndInheritItsError) {
  const auto joining = rig.stream();
  const auto reader = rig.stream();
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*first, part<std::uint8_t>(buffer, 0, 8), 1);
  fill<std::uint8_t>(*second, part<std::uint8_t>(buffer, 8, 8), 2);
  joining->join(buffer);
  std::vector<std::uint8_t> seen(16);
  reader->to_host(seen.data(), buffer);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(joining->is_idle());
  rig.control->is_blocked = false;
  reader->wait();
  EXPECT_EQ(seen, (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}));

  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, part<std::uint8_t>(buffer, 0, 8), 3);
  joining->join(buffer);
  reader->to_host(seen.data(), buffer);
  EXPECT_ERROR(ErrorCode::kInternal, reader->wait());
}

TEST_P(RangeTest, LaterWorkOfTheSameStreamDoesNotHideAnErrorToInherit) {
  const BufferView from = part<std::uint8_t>(buffer, 0, 8);
  const BufferView to = part<std::uint8_t>(buffer, 8, 8);
  std::vector<std::uint8_t> seen(8);
  rig.control->is_blocked = true;
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*first, from, 1);
  first->to_host(seen.data(), to);

  second->copy(to, from);  // waits for both, and inherits the error of the fill

  EXPECT_FALSE(second->is_idle());
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kInternal, second->wait());
}

TEST_P(RangeTest, WriterWaitsForWorkThatAFailedJoinDidNotWaitFor) {
  const auto joining = rig.stream();
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*first, buffer, 1);
  ASSERT_TRUE(wait_for_calls(*rig.control, 1));
  joining->join(buffer);
  joining->abort();
  fill<std::uint8_t>(*second, buffer, 2);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(rig.control->call_count.load(), 1U) << "both writes must not be in the backend at the same time";
  rig.control->is_blocked = false;
  EXPECT_EQ(read<std::uint8_t>(*second, buffer)[0], 2);
}

TEST_P(RangeTest, BufferIsFreedAfterItsWork) {
  rig.control->delay_us = 20000;
  fill<std::uint8_t>(*first, rig.buffer(1 << 16), 1);
  EXPECT_TRUE(first->is_idle());
}

}  // namespace
}  // namespace yoke::test
