// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/hostile_trace_test.cpp: traces that nobody recorded, and what a replay lets them do.
#include <yoke/runtime/trace.h>

#include <cmath>
#include <future>

#include "forged.h"
#include "layers/contents.h"
#include "rig.h"

namespace yoke::test {
namespace {

using F = layers::Function;
using ::testing::HasSubstr;

class HostileTrace : public ::testing::Test {
 protected:
  HostileTrace() : rig_(Streams::kNative) {
    options_.backend = "test0";
    options_.memory_limit = 1U << 20U;
    rig_.device.reset();
  }
  ~HostileTrace() override {
    const yoke_live_counts live = rig_.backend->live_counts();
    EXPECT_EQ(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines, 0);
  }
  ReplayReport run() { return replay(rig_.runtime, forged_.bytes(), options_); }
  Error refusal() {
    return error_of([&] { static_cast<void>(run()); });
  }
  // A stream stays in its work until the replay aborts its device, and a while longer.
  Error refusal_while_blocked() {
    rig_.control->is_blocked = true;
    const auto unblock = unblock_when_aborted();
    const Error error = refusal();
    unblock.wait();
    return error;
  }
  std::future<void> unblock_when_aborted() const {
    return std::async(std::launch::async, [control = rig_.control] {
      const auto limit = std::chrono::steady_clock::now() + 20s;
      while (!control->is_aborted && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(1ms);
      }
      std::this_thread::sleep_for(50ms);
      control->is_blocked = false;
    });
  }
  // 1: its device, 2: a buffer, 3: a stream, which copies to all of it.
  void copy_on_stream(std::uint64_t byte_count) {
    forged_.call(F::buffer_create, {1, byte_count, YOKE_MEMORY_DEVICE, 2});
    forged_.call(F::stream_create, {1, 0, 3});
    forged_.call(F::from_host, {3, 2, 0, byte_count, byte_count, 0});
  }

  Rig rig_;
  Forged forged_;
  ReplayOptions options_;
};

TEST_F(HostileTrace, ABufferLargerThanTheMemoryLimitEndsTheReplay) {
  forged_.call(F::buffer_create, {1, std::uint64_t{1} << 50U, YOKE_MEMORY_DEVICE, 2});
  const Error error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.what(), HasSubstr("call #1, buffer_create: the trace wants 1125899906842624 bytes"));
  EXPECT_THAT(error.what(), HasSubstr("larger memory limit"));
}

TEST_F(HostileTrace, ManyBuffersCountTogetherUntilTheyAreDestroyed) {
  for (int i = 0; i < 100; ++i) {
    forged_.call(F::buffer_create, {1, 1U << 19U, YOKE_MEMORY_DEVICE, 2});
    forged_.call(F::buffer_destroy, {2});
  }
  EXPECT_EQ(run().differences, 0);
  for (const std::uint64_t name : {3U, 4U, 5U}) {
    forged_.call(F::buffer_create, {1, 1U << 19U, YOKE_MEMORY_DEVICE, name});
  }
  EXPECT_EQ(refusal().code(), ErrorCode::kResourceExhausted);
}

TEST_F(HostileTrace, ABufferThatWasRefusedWhenRecordedIsNone) {
  forged_.call(F::buffer_create, {1, std::uint64_t{1} << 50U, YOKE_MEMORY_DEVICE, 0},
               YOKE_OUT_OF_DEVICE_MEMORY);
  const ReplayReport report = run();
  EXPECT_EQ(report.differences, 0);
  ASSERT_EQ(report.notes.size(), 1);
  EXPECT_THAT(report.notes[0].text, HasSubstr("more than the memory limit"));
}

TEST_F(HostileTrace, WhatWasRefusedWhenRecordedIsNoneAlsoWhereOnlyTheRestIsTooLittle) {
  forged_.call(F::buffer_create, {1, 10U << 16U, YOKE_MEMORY_DEVICE, 2});
  forged_.call(F::buffer_create, {1, 8U << 16U, YOKE_MEMORY_DEVICE, 0}, YOKE_OUT_OF_DEVICE_MEMORY);
  forged_.call(F::to_host, {0, 2, 0, 8U << 16U, 8U << 16U}, YOKE_OUT_OF_DEVICE_MEMORY);
  const ReplayReport report = run();
  EXPECT_EQ(report.differences, 0);
  EXPECT_EQ(report.skipped, 2);
}

// A long trace copies more than it may have at once, and nobody waits in it.
TEST_F(HostileTrace, SourcesOfCopiesThatAreDoneDoNotCount) {
  copy_on_stream(1U << 18U);
  for (int i = 0; i < 100; ++i) {
    forged_.call(F::from_host, {3, 2, 0, 1U << 18U, 1U << 18U, 0});
  }
  const ReplayReport report = run();
  EXPECT_EQ(report.differences, 0);
  EXPECT_EQ(report.replayed, report.calls);
}

TEST_F(HostileTrace, WhatCopiesWouldLeaveOnTheHostCountsToo) {
  forged_.call(F::buffer_create, {1, 1U << 18U, YOKE_MEMORY_DEVICE, 2});
  for (int i = 0; i < 10; ++i) {
    forged_.call(F::to_host, {0, 2, 0, 1U << 18U, 1U << 18U});  // and its contents never come
  }
  const Error error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.what(), HasSubstr("to_host"));
}

TEST_F(HostileTrace, ProgramsThatAreCompiledAgainAndAgainCountToo) {
  for (int i = 0; i < 1000; ++i) {
    forged_.call(F::code_compile, {1, 1, 2});
  }
  const Error error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.what(), HasSubstr("code_compile"));
}

// They are all looked at before the first call, and known until the last one is.
TEST_F(HostileTrace, ProgramsThatAreGoneAgainCountWhereTheyDiffer) {
  constexpr std::uint64_t kFirst = 10;
  options_.memory_limit = 5 * 64 * std::string_view(kDouble).size();
  for (std::uint64_t i = 0; i < 5; ++i) {
    forged_.program(kFirst + i);
    forged_.call(F::code_compile, {1, kFirst + i, 2});
    forged_.call(F::code_destroy, {2});
  }
  EXPECT_EQ(run().differences, 0);
  forged_.program(kFirst + 5);
  forged_.call(F::code_compile, {1, kFirst + 5, 2});
  EXPECT_THAT(refusal().what(), HasSubstr("call #11, code_compile: the trace wants"));
}

TEST_F(HostileTrace, MoreStreamsOrDevicesThanAnybodyNeedsEndTheReplay) {
  for (int i = 0; i < 63; ++i) {
    forged_.call(F::device_open, {0, 0, 0, 1});
  }
  EXPECT_EQ(run().differences, 0);
  Forged streams = forged_;
  forged_.call(F::device_open, {0, 0, 0, 1});
  EXPECT_THAT(refusal().what(), HasSubstr("more than 64 open devices"));
  forged_ = streams;
  options_.stream_limit = 100;
  for (std::uint64_t i = 0; i < 100; ++i) {
    forged_.call(F::stream_create, {1, 0, 2});
  }
  EXPECT_EQ(run().differences, 0);
  forged_.call(F::stream_create, {1, 0, 2});
  EXPECT_THAT(refusal().what(), HasSubstr("more than 100 streams"));
}

TEST_F(HostileTrace, ANameThatIsGivenTwiceLeavesNothingAlive) {
  for (int i = 0; i < 3; ++i) {
    forged_.call(F::buffer_create, {1, 64, YOKE_MEMORY_DEVICE, 2});
    forged_.call(F::stream_create, {1, 0, 3});
    forged_.call(F::buffer_create, {1, 64, YOKE_MEMORY_DEVICE, 0});
  }
  EXPECT_EQ(run().differences, 0);
}

TEST_F(HostileTrace, ABufferIsNotDestroyedUnderARoutine) {
  forged_.call(F::buffer_create, {1, 128, YOKE_MEMORY_DEVICE, 2});
  forged_.call(F::code_compile, {1, 1, 3});
  forged_.call(F::routine_link, {3, 0, 2, 2, 0, 0, 4});
  forged_.call(F::buffer_destroy, {2});
  forged_.call(F::routine_launch, {0, 4, 0, 0});
  forged_.call(F::routine_destroy, {4});
  forged_.call(F::buffer_destroy, {2});
  const ReplayReport report = run();
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.skipped, 1);
  ASSERT_EQ(report.notes.size(), 1);
  EXPECT_THAT(report.notes[0].text, HasSubstr("a routine that is bound to it is alive"));
  EXPECT_EQ(rig_.control->launch_count.load(), 1);
}

TEST_F(HostileTrace, ItEndsBehindItsTimeLimit) {
  options_.time_limit = std::chrono::milliseconds(20);
  rig_.control->delay_us = 1000;
  forged_.call(F::buffer_create, {1, 64, YOKE_MEMORY_DEVICE, 2});
  for (int i = 0; i < 1000; ++i) {
    forged_.call(F::to_host, {0, 2, 0, 64, 64});
  }
  const Error error = refusal();
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(error.what(), HasSubstr("may take 20 ms"));
}

// The stream is in the copy all the time: what it reads may be gone only behind stream_destroy.
TEST_F(HostileTrace, MemoryThatAStreamStillUsesIsNotFreed) {
  options_.timeout = std::chrono::milliseconds(20);
  copy_on_stream(1U << 16U);
  forged_.call(F::buffer_destroy, {2});
  const Error error = refusal_while_blocked();
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(error.what(), HasSubstr("still busy"));
}

// The time limit ends the wait, and the wait at the end: else the copy would go on until it is no longer
// blocked, after 20 s.
TEST_F(HostileTrace, AWaitThatTheTimeLimitEndsIsNoDifference) {
  options_.time_limit = std::chrono::milliseconds(200);
  copy_on_stream(1U << 16U);
  forged_.call(F::stream_wait, {3, 1000});
  options_.progress = [&](std::uint64_t,
                          std::uint64_t) {  // behind that call; the wait at the end would go well
    rig_.control->is_blocked = false;
    std::this_thread::sleep_for(100ms);
  };
  EXPECT_THAT(refusal_while_blocked().what(), HasSubstr("may take 200 ms"));
  EXPECT_TRUE(rig_.control->is_aborted);
}

TEST_F(HostileTrace, WorkThatIsBusyBehindTheTimeLimitIsNotBlamed) {
  options_.time_limit = std::chrono::milliseconds(200);
  copy_on_stream(1U << 16U);
  forged_.call(F::buffer_destroy, {2});
  EXPECT_THAT(refusal_while_blocked().what(), HasSubstr("may take 200 ms"));
  EXPECT_TRUE(rig_.control->is_aborted);
}

// The copy runs on when the waits for its stream have ended: its source counts until stream_destroy.
TEST_F(HostileTrace, WhatAnAbortedStreamMayUseStaysUntilItIsGone) {
  rig_.control->abort_ends_waits = true;
  copy_on_stream(1U << 18U);
  forged_.call(F::device_abort, {1});
  forged_.call(F::stream_wait, {3, 1000}, YOKE_ABORTED);
  Forged gone = forged_;
  forged_.call(F::buffer_create, {1, 3U << 18U, YOKE_MEMORY_DEVICE, 4});
  EXPECT_EQ(refusal_while_blocked().code(), ErrorCode::kResourceExhausted);

  gone.call(F::stream_destroy, {3});
  gone.call(F::buffer_create, {1, 3U << 18U, YOKE_MEMORY_DEVICE, 4});
  forged_ = gone;
  EXPECT_EQ(run().differences, 0);
}

// What it is about only the address sanitizer sees: without it, memory that was freed can be written.
TEST_F(HostileTrace, ACopyThatOnlyFailedWhenRecordedHasItsMemoryUntilItIsDone) {
  rig_.control->delay_us = 20'000;
  forged_.call(F::buffer_create, {1, 1U << 16U, YOKE_MEMORY_DEVICE, 2});
  forged_.call(F::stream_create, {1, 0, 3});
  forged_.call(F::to_host, {3, 2, 0, 1U << 16U, 1U << 16U}, YOKE_INTERNAL);
  EXPECT_EQ(run().differences, 1);
  EXPECT_EQ(rig_.control->call_count.load(), 1);
}

TEST_F(HostileTrace, ContentsMayComeWhenTheirStreamIsGone) {
  forged_.call(F::buffer_create, {1, 64, YOKE_MEMORY_DEVICE, 2});
  forged_.call(F::stream_create, {1, 0, 3});
  forged_.call(F::to_host, {3, 2, 0, 64, 64});
  forged_.call(F::stream_destroy, {3});
  forged_.content(3);
  EXPECT_EQ(run().contents_unknown, 1);
}

TEST(TypesTest, WhoComesFirstKeepsItsBytes) {
  using program::Type;
  layers::Types types;
  types.add(8, 8, Type::kF64);
  types.add(0, 24, Type::kF32);
  types.add(2, 30, Type::kF16);
  EXPECT_EQ(types.at(0, 100), Type::kF32);
  EXPECT_EQ(types.at(2, 100), Type::kU8);  // between two elements
  EXPECT_EQ(types.at(8, 100), Type::kF64);
  EXPECT_EQ(types.at(8, 12), Type::kU8);  // not all of it
  EXPECT_EQ(types.at(20, 100), Type::kF32);
  EXPECT_EQ(types.at(24, 100), Type::kF16);
  EXPECT_EQ(types.at(32, 100), Type::kU8);
  types.add(~std::uint64_t{0} - 4, 100, Type::kI32);  // leaves 64 bits
  EXPECT_EQ(types.at(~std::uint64_t{0} - 4, ~std::uint64_t{0}), Type::kI32);
}

// With a walk over all of them for each one, this would take hours.
TEST(TypesTest, AMillionRangesOverEachOtherAreNothing) {
  constexpr std::uint64_t kCount = 1'000'000;
  layers::Types types;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    types.add(4 * (kCount - i), 8 * i + 4, program::Type::kF32);
  }
  std::vector<std::byte> bytes(4 * kCount);
  make_up(bytes, 4 * kCount, types, 1);
  float last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - sizeof(last), sizeof(last));
  EXPECT_NE(last, 0.0F);
  EXPECT_LE(std::abs(last), 1.0F);
}

}  // namespace
}  // namespace yoke::test
