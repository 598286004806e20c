// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/replay_test.cpp: a trace run once more: on the same backend, on others that offer less,
// on other input.
#include <algorithm>
#include <array>
#include <sstream>

#include "device/state.h"
#include "layers/taint.h"
#include "layers/trace_format.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Replay : public Recorded {};

TEST_P(Replay, ARunWithDataReplaysBitByBit) {
  const auto report = run(record(true), GetParam());
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_GT(report.calls, 10);
  EXPECT_EQ(report.skipped, 0);
  EXPECT_EQ(report.contents_equal, 1);
  EXPECT_EQ(report.cut, "");
  EXPECT_EQ(report.unfinished.size(), 0);
}

TEST_P(Replay, ARunReplaysOnABackendWithTheOtherKindOfStreams) {
  const auto other = GetParam() == Streams::kWorker ? Streams::kNative : Streams::kWorker;
  const auto report = run(record(true), other);
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.contents_equal, 1);
}

TEST_P(Replay, WithoutDataContentsAreMadeUpAndNotCompared) {
  const auto report = run(record(false), GetParam());
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.contents_equal, 0);
  EXPECT_EQ(report.contents_unknown, 1);
  EXPECT_THAT(report.why_unknown, HasSubstr("no contents"));
}

std::string notes_of(const ReplayReport& report) {
  std::string text;
  for (const ReplayNote& note : report.notes) {
    text += std::to_string(note.calls) + " " + note.function + " " + note.text + "\n";
  }
  return text;
}

TEST_P(Replay, ProgramsThatABackendDoesNotRunAreSkippedWithWhatTheyWouldWrite) {
  const auto control = Rig::make_control(GetParam());
  control->has_programs = false;
  const auto report = run(record(true), control);
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.contents_equal, 0);
  EXPECT_EQ(report.contents_unknown, 1);
  EXPECT_THAT(report.why_unknown, HasSubstr("calls that were skipped"));
  EXPECT_THAT(notes_of(report), HasSubstr("1 routine_launch skipped: it runs no programs"));
  EXPECT_GE(report.skipped, 5);
}

TEST_P(Replay, AStatementThatABackendDoesNotRunIsNoDifferenceEither) {
  const auto control = Rig::make_control(GetParam());
  control->unsupported = "2.0";
  const auto report = run(record(true), control);
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.contents_unknown, 1);
  EXPECT_THAT(notes_of(report), HasSubstr("1 code_compile skipped: "));
  EXPECT_THAT(notes_of(report), HasSubstr("1 routine_launch skipped: what it works on was not made here"));
}

// A fill, a copy between buffers, and what they leave, compared.
TEST_P(Replay, FillsAndCopiesBetweenBuffersAreDoneByOtherCallsWhereABackendHasNone) {
  {
    const Rig rig(GetParam(), options("trace", true));
    const auto x = buffer_of<float>(rig.device, 600'000);  // more than one piece
    const auto y = buffer_of<float>(rig.device, 600'000);
    const auto stream = rig.stream();
    const std::array<float, 2> pattern = {1.0F, 2.0F};
    stream->fill(x, pattern.data(), sizeof(pattern));
    stream->copy(part<float>(y, 10, 500'000), part<float>(x, 1, 500'000));
    EXPECT_EQ(read<float>(*stream, part<float>(y, 10, 500'000)).back(), 1.0F);
  }
  const auto control = Rig::make_control(GetParam());
  control->is_bare = true;
  const auto report = run(file(), control);
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.contents_equal, 1) << report.why_unknown;
  EXPECT_EQ(report.emulated, 2) << notes_of(report);
}

TEST_P(Replay, AnOptionThatABackendDoesNotHaveIsLeftOut) {
  {
    auto with_null = Rig::with_defaults(options("trace", true));
    with_null.plugin_dirs = {YOKE_TEST_PLUGIN_DIR};
    Runtime runtime(with_null);
    const Option limit{"memory_limit", std::int64_t{1} << 20U};
    static_cast<void>(runtime.backend("null")->open_device(0, {&limit, 1}));
  }
  const auto report = run(file(), GetParam());
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_THAT(notes_of(report), HasSubstr("1 device_open done without its option 'memory_limit'"));
}

TEST_P(Replay, WhatWasWrittenAfterASkippedCallIsComparedAgain) {
  {
    const Rig rig(GetParam(), options("trace", true));
    const auto x = buffer_of<float>(rig.device, 32);
    const auto y = buffer_of<float>(rig.device, 16);
    const auto stream = rig.stream();
    const std::vector<float> input(32, 3.0F);
    const auto routine = link(rig.device, kScale, {x, y});
    const std::int64_t row[] = {4};
    stream->from_host(x, input.data());
    stream->launch(*routine, row);
    stream->from_host(part<float>(y, 0, 8), input.data());
    EXPECT_EQ(read<float>(*stream, part<float>(y, 0, 8))[0], 3.0F);
    EXPECT_EQ(read<float>(*stream, part<float>(y, 7, 2))[1], 6.0F);
    EXPECT_EQ(read<float>(*stream, x)[0], 3.0F);
  }
  const auto control = Rig::make_control(GetParam());
  control->has_programs = false;
  const auto report = run(file(), control);
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.contents_equal, 2);
  EXPECT_EQ(report.contents_unknown, 1);
}

TEST_P(Replay, ARequiredCallThatFailsIsADifferenceAlsoOnABackendThatOffersLess) {
  const auto control = Rig::make_control(GetParam());
  control->has_programs = false;
  control->fail_code = YOKE_UNIMPLEMENTED;
  control->fail_after = 1;  // the fill; then from_host
  const auto report = run(record(true), control);
  EXPECT_GE(report.differences, 1) << notes_of(report);
}

// Changes one byte of the recorded input, behind `at` bytes of an element, and the record's check with it.
std::vector<std::byte> with_other_input(std::vector<std::byte> bytes, std::size_t behind, std::byte value) {
  const float element = 20 * 0.25F;  // in the rows that are scaled, and nowhere else in the file
  const auto* const pattern = reinterpret_cast<const std::byte*>(&element);
  const auto found = std::search(bytes.begin(), bytes.end(), pattern, pattern + sizeof(element));
  EXPECT_NE(found, bytes.end());
  const auto at = static_cast<std::size_t>(found - bytes.begin()) + behind;
  bytes.at(at) = value;
  for (std::size_t begin = sizeof(layers::TraceHeader); begin < bytes.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, &bytes[begin], sizeof(size));
    const auto check = static_cast<std::uint32_t>(layers::hash_of(&bytes[begin + layers::kRecordHead], size));
    std::memcpy(&bytes[begin + sizeof(size)], &check, sizeof(check));
    begin += layers::kRecordHead + size;
  }
  return bytes;
}

TEST_P(Replay, ALittleOtherFloatsAreCloseAndVeryOtherOnesADifference) {
  const auto bytes = record(true);
  const auto close = run(with_other_input(bytes, 0, std::byte{1}), GetParam());
  EXPECT_EQ(close.differences, 0);
  EXPECT_EQ(close.contents_close, 1);
  const auto far = run(with_other_input(bytes, 3, std::byte{0x42}), GetParam());
  EXPECT_EQ(far.differences, 1);
  ASSERT_FALSE(far.first.empty());
  EXPECT_THAT(far.first[0].text, HasSubstr("the contents differ"));
}

TEST_P(Replay, NoWaitOfAReplayIsLongerThanAMinuteWhateverWasRecorded) {
  if (GetParam() == Streams::kWorker) {
    GTEST_SKIP() << "without streams there are no waits";
  }
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  {
    const Rig rig(GetParam(), options("trace", false));
    const auto& api = rig.backend->state().stream;
    yoke_stream* stream = nullptr;
    ASSERT_EQ(api.stream_create(rig.device->get(), 0, &stream, nullptr), YOKE_OK);
    EXPECT_EQ(api.stream_wait(stream, kHour, nullptr), YOKE_OK);
    api.stream_destroy(stream);
  }
  const auto bytes = file();
  {
    Runtime runtime(Rig::with_defaults(options("trace", false)));  // the replay's own calls
    register_backend(runtime, 1, Rig::make_control(GetParam()));
    ReplayOptions replay_options;
    replay_options.backend = "test1";
    EXPECT_EQ(replay(runtime, bytes, replay_options).differences, 0);
  }
  std::ostringstream text;
  print_trace(file(), text);
  EXPECT_THAT(text.str(), HasSubstr("timeout_ns=60000000000"));
  EXPECT_THAT(text.str(), Not(HasSubstr("timeout_ns=3600000000000")));
}

INSTANTIATE_TEST_SUITE_P(Streams, Replay, ::testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST(TaintTest, RangesAreJoinedAndCut) {
  layers::Taint taint;
  const layers::Taint::Buffer one{1, 1};
  const layers::Taint::Buffer other{1, 2};
  const std::uint64_t end = ~std::uint64_t{0};
  std::vector<bool> plain(64);  // the same, bit by bit
  std::uint64_t seed = 1;
  for (int i = 0; i < 2000; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t begin = (seed >> 40U) % 64;
    const std::uint64_t count = (seed >> 50U) % (64 - begin + 1);
    const bool adds = (seed >> 63U) != 0;
    adds ? taint.add(one, begin, count) : taint.remove(one, begin, count);
    std::fill_n(plain.begin() + static_cast<std::ptrdiff_t>(begin), count, adds);
    for (std::uint64_t at = 0; at < plain.size(); ++at) {
      ASSERT_EQ(taint.meets(one, at, 1), plain[at]) << i << " " << at;
    }
    EXPECT_EQ(taint.meets(one, 0, 64), std::find(plain.begin(), plain.end(), true) != plain.end());
  }
  EXPECT_FALSE(taint.meets(other, 0, end));
  taint.add(other, 5, end);
  EXPECT_TRUE(taint.meets(other, end - 1, end));
  taint.remove(other);
  EXPECT_FALSE(taint.meets(other, 0, end));
}

}  // namespace
}  // namespace yoke::test
