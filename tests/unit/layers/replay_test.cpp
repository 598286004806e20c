// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/replay_test.cpp: replays traces on the same
// backend, on other backends, and with changed input.
#include <algorithm>
#include <sstream>

#include "device/state.h"
#include "recorded.h"
#include "replay/contents.h"
#include "test_paths.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Replay : public Recorded {
 protected:
  static std::string skips_of(const replay::Report& report) {
    std::string text;
    for (const replay::Skip& skip : report.skips) {
      text += std::to_string(skip.calls) + " " + skip.function + ": " + skip.reason + "\n";
    }
    return text;
  }
  static std::string first_of(const replay::Report& report) {
    return report.first.empty() ? "" : report.first[0].function + ": " + report.first[0].text;
  }
};

TEST_P(Replay, RunWithDataIsBitEqualOnBackendsWithEitherKindOfStreams) {
  const auto bytes = record(true);
  for (const Streams streams : {Streams::kWorker, Streams::kNative}) {
    const auto report = run(bytes, streams);
    EXPECT_EQ(report.differences, 0) << first_of(report);
    EXPECT_GT(report.calls, 10);
    if (streams == GetParam()) {
      EXPECT_EQ(report.skipped, 0);
    }
    EXPECT_EQ(report.contents_equal, 1);
    EXPECT_EQ(report.cut, "");
    EXPECT_EQ(report.unfinished.size(), 0);
  }
}

// After a query has reported the end of work, a host need not order other streams after it.
TEST_P(Replay, QueriedWorkHasEndedBeforeLaterCalls) {
  for (const bool by_event : {true, false}) {
    {
      const Rig rig(GetParam(), options("trace", true));
      const auto buffer = buffer_of<float>(rig.device, 4);
      const auto first = rig.stream();
      for (const float value : {1.0F, 2.0F, 3.0F}) {
        first->fill(buffer, &value, sizeof(value));
      }
      const Event last = first->record();
      wait_until([&] { return by_event ? last.is_done() : first->is_idle(); });
      EXPECT_EQ(read<float>(*rig.stream(), buffer)[0], 3.0F);
    }
    const auto control = Rig::make_control(GetParam());
    control->delay_us = 20'000;  // the fills take longer than a copy that does not wait for them
    const auto report = run(file(), control);
    EXPECT_EQ(report.differences, 0) << first_of(report);
    EXPECT_EQ(report.contents_equal, 1);
  }
}

TEST_P(Replay, ContentsAreGeneratedAndNotComparedWithoutData) {
  const auto report = run(record(false), GetParam());
  EXPECT_EQ(report.differences, 0) << first_of(report);
  EXPECT_EQ(report.contents_equal, 0);
  EXPECT_EQ(report.contents_ignored, 1);
  EXPECT_THAT(report.why_ignored, HasSubstr("the trace has no contents"));
}

TEST_P(Replay, ProgramsAreSkippedOnABackendWithoutThem) {
  const auto control = Rig::make_control(GetParam());
  control->provides.programs = false;
  const auto report = run(record(true), control);
  EXPECT_EQ(report.differences, 0) << first_of(report);
  EXPECT_EQ(report.contents_ignored, 1);
  EXPECT_EQ(report.why_ignored, "calls that write them were skipped");
  EXPECT_THAT(skips_of(report), HasSubstr("1 routine_launch: the backend does not offer it"));
}

TEST_P(Replay, UnsupportedCodeAndItsDependentCallsAreSkipped) {
  const auto control = Rig::make_control(GetParam());
  control->unsupported = "2.0";
  const auto report = run(record(true), control);
  EXPECT_EQ(report.differences, 0) << first_of(report);
  EXPECT_EQ(report.contents_ignored, 1);
  EXPECT_THAT(skips_of(report), HasSubstr("1 code_compile: there is no unit for 2.0"));
  EXPECT_THAT(skips_of(report), HasSubstr("1 routine_launch: an object that it uses was not created"));
}

TEST_P(Replay, CountThatThePluginDidNotWriteDiffersFromOne) {
  {
    const auto control = Rig::make_control(GetParam());
    control->program.code_entry_count = [](auto...) { return YOKE_STATUS_OK; };
    const Rig rig(control, options("trace", true));
    EXPECT_THAT(error_of([&] { compile(rig.device, kScale); }).what(), HasSubstr("code_entry_count"));
  }
  const auto report = run(file(), GetParam());
  EXPECT_EQ(report.differences, 1);
  EXPECT_EQ(first_of(report), "code_entry_count: the code has 1 entry instead of 0");
}

TEST_P(Replay, OptionsArePassedToTheRecordedBackendOnly) {
  {
    auto with_null = Rig::with_defaults(options("trace", true));
    with_null.plugin_dirs = {test::plugin_folder()};
    Runtime runtime(with_null);
    const Option limit{"memory_limit", std::int64_t{1} << 20U};
    static_cast<void>(runtime.backend("null")->open_device(0, {&limit, 1}));
  }
  const auto report = run(file(), GetParam());  // whose backend has no such option
  EXPECT_EQ(report.differences, 0) << first_of(report);
}

TEST_P(Replay, OnlyCallsOfTheBackendItselfAreRepeatedIfTheTraceHasThem) {
  {
    Rig rig(GetParam(), options("trace", true));
    EXPECT_EQ(work(rig)[0], 8.0F);
    register_backend(rig.runtime, 1, Rig::make_control(GetParam()));
    const auto device = rig.runtime.backend("test1")->open_device(0);
    const auto buffer = buffer_of<float>(device, 4);
    const auto stream = Stream::create(device);
    const float one = 1;
    stream->fill(buffer, &one, sizeof(one));
    EXPECT_EQ(read<float>(*stream, buffer)[3], 1.0F);
  }
  const auto control = Rig::make_control(GetParam());
  control->provides.programs = false;  // only the calls of the other backend need programs
  const auto report = run(file(), control);
  EXPECT_EQ(report.differences, 0) << first_of(report);
  EXPECT_EQ(report.contents_equal, 1);
  EXPECT_EQ(report.contents_ignored, 0);
  EXPECT_THAT(skips_of(report),
              HasSubstr("1 routine_launch: the call belongs to another backend in the trace"));
  EXPECT_THAT(skips_of(report), Not(HasSubstr("the backend does not offer it")));
}

TEST_P(Replay, CallThatFailsIsADifference) {
  const auto control = Rig::make_control(GetParam());
  control->fail_after = 1;
  const auto report = run(record(true), control);
  EXPECT_GE(report.differences, 1);
  const std::string failed = "returned INTERNAL (the test injected this failure) instead of ";
  EXPECT_THAT(first_of(report), ::testing::AnyOf(HasSubstr(failed + "OK"),
                                                 // of a wait that gave up when it was recorded
                                                 HasSubstr(failed + "DEADLINE_EXCEEDED")));
}

// Changes one byte of a float in the recorded input, and the checksum of its record.
std::vector<std::byte> with_other_input(std::vector<std::byte> bytes, std::size_t byte_of_float,
                                        std::byte value) {
  const float element = 20 * 0.25F;  // in the rows that are scaled, and nowhere else in the file
  const auto* const pattern = reinterpret_cast<const std::byte*>(&element);
  const auto found = std::search(bytes.begin(), bytes.end(), pattern, pattern + sizeof(element));
  EXPECT_NE(found, bytes.end());
  bytes.at(static_cast<std::size_t>(found - bytes.begin()) + byte_of_float) = value;
  for (std::size_t begin = sizeof(layers::TraceHeader); begin < bytes.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, &bytes[begin], sizeof(size));
    const std::uint32_t check = layers::checksum_of(&bytes[begin + layers::kRecordHead], size);
    std::memcpy(&bytes[begin + sizeof(size)], &check, sizeof(check));
    begin += layers::kRecordHead + size;
  }
  return bytes;
}

TEST_P(Replay, FloatsWithinToleranceMatch) {
  const auto bytes = record(true);
  const auto close = run(with_other_input(bytes, 0, std::byte{1}), GetParam());
  EXPECT_EQ(close.differences, 0);
  EXPECT_EQ(close.contents_close, 1);
  const auto far = run(with_other_input(bytes, 3, std::byte{0x42}), GetParam());
  EXPECT_EQ(far.differences, 1);
  EXPECT_THAT(first_of(far), HasSubstr("the contents differ"));
}

// Copies of a trace with one byte changed are noticed, prefixes are replayed to their end, and nothing stays
// alive.
TEST_P(Replay, DamagedTracesNeverCrash) {
  const auto whole = record(true);
  RuntimeOptions plain;
  plain.layers.use_environment = false;
  Rig rig(GetParam(), plain);
  rig.device.reset();
  replay::Options options;
  options.backend = "test0";
  std::uint64_t most = 0;
  for (std::size_t at = sizeof(layers::TraceHeader); at < whole.size(); at += 37) {
    SCOPED_TRACE(at);
    const auto prefix = replay::run(rig.runtime, std::span(whole).first(at), options);
    EXPECT_THAT(prefix.cut, HasSubstr("the file ends at byte " + std::to_string(at)));
    EXPECT_GE(prefix.replayed, most);
    most = prefix.replayed;
    auto damaged = whole;
    damaged[at] ^= std::byte{0x40};
    try {
      EXPECT_NE(replay::run(rig.runtime, damaged, options).cut, "") << "a length that exceeds the file";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
    }
  }
  EXPECT_GT(most, 10);
  const yoke_live_counts live = rig.backend->live_counts();
  EXPECT_EQ(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines, 0);
}

TEST_P(Replay, WaitsHaveTheTimeoutOfTheReplay) {
  if (GetParam() == Streams::kWorker) {
    GTEST_SKIP() << "without streams there are no waits";
  }
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  {
    const Rig rig(GetParam(), options("trace", false));
    const auto& api = rig.backend->state().stream;
    yoke_stream* stream = nullptr;
    const yoke_stream_args stream_args{sizeof(stream_args), 0, 0, 0};
    ASSERT_EQ(api.stream_create(rig.device->get(), &stream_args, &stream, nullptr), YOKE_STATUS_OK);
    EXPECT_EQ(api.stream_wait(stream, kHour, nullptr), YOKE_STATUS_OK);
    api.stream_destroy(stream);
  }
  const auto bytes = file();
  {
    Runtime runtime(Rig::with_defaults(options("trace", false)));  // records the replay
    register_backend(runtime, 1, Rig::make_control(GetParam()));
    replay::Options replay_options;
    replay_options.backend = "test1";
    EXPECT_EQ(replay::run(runtime, bytes, replay_options).differences, 0);
  }
  std::ostringstream text;
  replay::print(file(), text);
  EXPECT_THAT(text.str(), HasSubstr("timeout_ns=60000000000"));
  EXPECT_THAT(text.str(), Not(HasSubstr("timeout_ns=3600000000000")));
}

TEST_P(Replay, StreamThatStaysBusyEndsTheReplay) {
  if (GetParam() == Streams::kWorker) {
    GTEST_SKIP() << "without streams there are no waits";
  }
  const auto bytes = record(true);
  Rig rig(GetParam());
  rig.device.reset();
  replay::Options options;
  options.backend = "test0";
  options.timeout = std::chrono::milliseconds(20);
  rig.control->is_blocked = true;
  std::thread unblock([&] {
    wait_until([&] { return rig.control->is_aborted.load(); });
    rig.control->is_blocked = false;
  });
  const Error error = error_of([&] { static_cast<void>(replay::run(rig.runtime, bytes, options)); });
  unblock.join();
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(error.what(), HasSubstr("a stream was still busy"));
}

INSTANTIATE_TEST_SUITE_P(Streams, Replay, ::testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST(TypesTest, ElementsHaveTheTypeOfTheirRange) {
  using program::Type;
  replay::Types types;
  types.add(8, 24, Type::kF32);
  types.add(8, 8, Type::kF64);  // the first one stays
  types.add(32, 4, Type::kF16);
  EXPECT_EQ(types.at(0, 100), Type::kU8);
  EXPECT_EQ(types.at(8, 100), Type::kF32);
  EXPECT_EQ(types.at(10, 100), Type::kU8);  // between two elements
  EXPECT_EQ(types.at(28, 30), Type::kU8);   // not a whole element
  EXPECT_EQ(types.at(34, 100), Type::kF16);
  EXPECT_EQ(types.at(36, 100), Type::kU8);
}

}  // namespace
}  // namespace yoke::test
