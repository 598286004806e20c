// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/fallback_test.cpp: the fallback backend runs programs that a backend cannot run, in
// order, and counts them (plugin_api/RULES.md, rule 27).
#include <thread>

#include "fallback_rig.h"
#include "random_work.h"

namespace yoke::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ints = std::vector<std::int32_t>;

struct Case {
  Streams streams = Streams::kWorker;  // of the device
  bool is_staged = false;              // the host cannot address the fallback device's memory
};

void PrintTo(const Case& which, std::ostream* out) {
  PrintTo(which.streams, out);
  *out << (which.is_staged ? "Staged" : "InPlace");
}

class FallbackTest : public testing::TestWithParam<Case> {
 protected:
  static std::shared_ptr<Control> fallback_of(const Case& which) {
    auto control = std::make_shared<Control>();
    if (which.is_staged) {
      control->make_bare();
    }
    return control;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, FallbackTest,
                         testing::Values(Case{Streams::kWorker, false}, Case{Streams::kWorker, true},
                                         Case{Streams::kNative, false}, Case{Streams::kNative, true}),
                         testing::PrintToStringParamName());

TEST_P(FallbackTest, ProgramRunsOnTheFallbackAndResultsAreCopiedBack) {
  FallbackRig rig(FallbackRig::without_programs(GetParam().streams), fallback_of(GetParam()));
  const auto stream = Stream::create(rig.device);
  const BufferView memory = buffer_of<std::int32_t>(rig.device, 1024);
  const Ints a(256, 3), b(256, 4), sum(256, 5);
  stream->from_host(part<std::int32_t>(memory, 0, 256), a.data());
  stream->from_host(part<std::int32_t>(memory, 256, 256), b.data());
  stream->from_host(part<std::int32_t>(memory, 512, 256), sum.data());
  const auto routine = link(rig.device, kAddTo,
                            {part<std::int32_t>(memory, 0, 256), part<std::int32_t>(memory, 256, 256),
                             part<std::int32_t>(memory, 512, 256)});

  launch(*stream, *routine, 2);

  EXPECT_EQ(read<std::int32_t>(*stream, part<std::int32_t>(memory, 512, 256)), Ints(256, 15));
  EXPECT_EQ(read<std::int32_t>(*stream, part<std::int32_t>(memory, 0, 256)), a);
  EXPECT_EQ(rig.control->launch_count, 0U);
  EXPECT_EQ(rig.fallback_control->launch_count, 1U);
}

TEST_P(FallbackTest, RandomWorkOnSeveralStreamsMatchesSequentialExecution) {
  RuntimeOptions options;
  options.injected_delay_us = 200;
  FallbackRig rig(FallbackRig::without_programs(GetParam().streams), fallback_of(GetParam()), options);
  rig.control->delay_us = GetParam().streams == Streams::kNative ? 30 : 0;
  expect_sequential_results(rig, 7, 300);
}

TEST_P(FallbackTest, UnchangedArgumentsAreNotCopiedAgain) {
  FallbackRig rig(FallbackRig::without_programs(GetParam().streams), fallback_of(GetParam()));
  const auto stream = Stream::create(rig.device);
  const auto other = Stream::create(rig.device);
  const auto buffers = ones(*stream);
  const Ints again(256, 1);
  const auto routine = link(rig.device, kAddTo, buffers);
  const std::uint64_t one = 1024 * (GetParam().is_staged ? 2 : 1);  // bytes of one argument, one way
  const auto bytes_of_launch = [&](Stream& on) {
    const auto before = rig.runtime.fallbacks().at(0).byte_count;
    launch(on, *routine);
    on.wait();
    return rig.runtime.fallbacks().at(0).byte_count - before;
  };

  EXPECT_EQ(bytes_of_launch(*stream), 4 * one) << "three arguments, one result";
  EXPECT_EQ(bytes_of_launch(*stream), one) << "only the result";
  stream->from_host(buffers[1], again.data());
  EXPECT_EQ(bytes_of_launch(*stream), 2 * one) << "one argument was written meanwhile";
  other->from_host(buffers[2], again.data());
  EXPECT_EQ(bytes_of_launch(*stream), 2 * one) << "one argument was written by another stream";
  EXPECT_EQ(bytes_of_launch(*other), 4 * one) << "another stream does not reuse copies";
  EXPECT_EQ(read<std::int32_t>(*stream, buffers[2]), Ints(256, 5));
}

TEST_P(FallbackTest, ArgumentsThatAreOnlyWrittenAreNotCopiedToTheFallback) {
  FallbackRig rig(FallbackRig::without_programs(GetParam().streams), fallback_of(GetParam()));
  const auto stream = Stream::create(rig.device);
  const BufferView written = buffer_of<std::int32_t>(rig.device, 4);
  const auto routine =
      link(rig.device, "yoke.program 1\nprogram ones() {\n  arg y : i32[4] out\n  y[i] = 1\n}\n", {written});
  stream->launch(*routine);
  EXPECT_EQ(read<std::int32_t>(*stream, written), Ints(4, 1));
  EXPECT_EQ(rig.runtime.fallbacks().at(0).byte_count, GetParam().is_staged ? 32U : 16U) << "one way";
}

// A launch records for the first 64 arguments whether they are unchanged.
TEST_P(FallbackTest, ManyArgumentsAreCopiedAgainWhenTheyChange) {
  constexpr std::size_t kCount = 70;
  FallbackRig rig(FallbackRig::without_programs(GetParam().streams), fallback_of(GetParam()));
  const auto stream = Stream::create(rig.device);
  std::vector<BufferView> bindings;
  std::string declared;
  std::string total = "0";
  for (std::size_t i = 0; i < kCount; ++i) {
    bindings.push_back(buffer_of<std::int32_t>(rig.device, 1));
    fill<std::int32_t>(*stream, bindings.back(), 1);
    const std::string name = "x" + std::to_string(i);
    declared += "  arg " + name + " : i32[1] in\n";
    total += " + " + name + "[i]";
  }
  const BufferView result = buffer_of<std::int32_t>(rig.device, 1);
  bindings.push_back(result);
  const auto routine = link(
      rig.device,
      "yoke.program 1\nprogram add_up() {\n" + declared + "  arg y : i32[1] out\n  y[i] = " + total + "\n}\n",
      bindings);
  stream->launch(*routine);
  EXPECT_EQ(read<std::int32_t>(*stream, result), Ints{70});
  for (const std::size_t changed : {std::size_t{63}, std::size_t{64}, std::size_t{69}}) {
    fill<std::int32_t>(*stream, bindings[changed], 2);
  }
  stream->launch(*routine);
  EXPECT_EQ(read<std::int32_t>(*stream, result), Ints{73});
}

TEST(Fallback, LaunchesAreCountedByRoutineAndEachReasonIsLoggedOnce) {
  FallbackRig rig;
  const auto stream = Stream::create(rig.device);
  const auto buffers = arguments(rig.device);
  const auto add = link(rig.device, kAddTo, buffers);
  std::string text = kAddTo;
  const auto renamed = link(rig.device, text.replace(text.find("add_to"), 6, "add_up"), buffers);
  rig.fallback_control->delay_us = 2000;

  launch(*stream, *add);
  launch(*stream, *add);
  launch(*stream, *link(rig.device, kAddTo, buffers));  // a second routine of the same program
  launch(*stream, *renamed);
  stream->wait();

  const auto counts = rig.runtime.fallbacks();
  ASSERT_EQ(counts.size(), 2U);
  EXPECT_EQ(counts[0].routine, "add_to");
  EXPECT_EQ(counts[0].device, "test0:0");
  EXPECT_EQ(counts[0].to, "test1:0");
  EXPECT_EQ(counts[0].reason, "it does not provide yoke.program/1");
  EXPECT_EQ(counts[0].launch_count, 3U);
  EXPECT_GT(counts[0].byte_count, 3U * 1024U);
  EXPECT_GE(counts[0].time, 6ms);
  EXPECT_EQ(counts[1].routine, "add_up");
  EXPECT_EQ(counts[1].launch_count, 1U);
  EXPECT_THAT(rig.log.all(), ElementsAre("fallback routine=add_to device=test0:0 reason=\"it does not "
                                         "provide yoke.program/1\" to=test1"));
}

TEST(Fallback, OnlyUnsupportedProgramsFallBack) {
  auto control = std::make_shared<Control>();
  control->unsupported = "* i32(factor)";
  FallbackRig rig(control);
  const auto stream = Stream::create(rig.device);
  const auto buffers = arguments(rig.device);
  const auto far = link(rig.device, kAddTo, buffers);
  const auto near = link(rig.device,
                         "yoke.program 1\nprogram copy() {\n  arg a : i32[256] in\n  arg b : i32[256] out\n"
                         "  b[i] = a[i]\n}\n",
                         {buffers[0], buffers[1]});

  stream->launch(*near);
  launch(*stream, *far);
  stream->wait();

  EXPECT_EQ(rig.control->launch_count, 1U);
  EXPECT_EQ(rig.fallback_control->launch_count, 1U);
  const auto counts = rig.runtime.fallbacks();
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_THAT(counts[0].reason, AllOf(HasSubstr("program 'add_to', statement 1 `c[i] = "),
                                      HasSubstr("there is no unit for * i32(factor)")));
}

TEST(Fallback, BackendThatRunsItsProgramsHasNoFallbacks) {
  RuntimeOptions options;
  options.strict = true;
  FallbackRig rig(std::make_shared<Control>(), nullptr, options);
  const auto stream = rig.stream();
  launch(*stream, *link(rig.device, kAddTo, arguments(rig.device)));
  stream->wait();
  EXPECT_EQ(compile(rig.device, kAddTo)->fallback(), nullptr);
  EXPECT_THAT(rig.runtime.fallbacks(), IsEmpty());
}

TEST(Fallback, ThreadsLaunchOneRoutineOnSeparateStreams) {
  FallbackRig rig;
  const auto first = Stream::create(rig.device);
  const auto buffers = ones(*first);
  const auto routine = link(rig.device, kAddTo, buffers);
  constexpr int kThreads = 4, kLaunches = 50;

  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto stream = Stream::create(rig.device);
      for (int i = 0; i < kLaunches; ++i) {
        launch(*stream, *routine);
      }
      stream->wait();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  EXPECT_EQ(read<std::int32_t>(*first, buffers[2]), Ints(256, 1 + 2 * kThreads * kLaunches));
  EXPECT_EQ(rig.runtime.fallbacks().at(0).launch_count, static_cast<std::uint64_t>(kThreads * kLaunches));
}

TEST(Fallback, ObjectsMayBeDestroyedInAnyOrder) {
  FallbackRig rig;
  const auto backend = rig.runtime.backend("test0");
  const auto fallback = rig.runtime.backend("test1");
  auto stream = Stream::create(rig.device);
  {
    auto code = compile(rig.device, kAddTo);
    auto routine = Routine::link(code, 0, arguments(rig.device));
    rig.fallback_control->delay_us = 5000;
    launch(*stream, *routine);
    code.reset();
    stream.reset();
  }
  rig.device.reset();
  EXPECT_EQ(backend->live_counts().devices, 0U);
  EXPECT_EQ(fallback->live_counts().devices, 0U);
  EXPECT_EQ(fallback->live_counts().buffers, 0U);
}

}  // namespace
}  // namespace yoke::test
