// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/replay_run.cpp: a trace, run on backends in this process: on null, which has every table, and on
// the tests' own, whose streams are threads that touch memory when the call has long returned.
#include <yoke/program/text.h>
#include <yoke/runtime/trace.h>
#include <yoke/sdk/entry.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "../support/test_backend.h"
#include "guarded.h"
#include "harness.h"
#include "layers/functions.h"
#include "null/null.h"
#include "small_program.h"

namespace yoke::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMemory = std::uint64_t{4} << 20U;
// Behind the time limit: the end waits once more, aborts, and may give up on streams after a second; one call
// may take long, and a machine with more to do longer.
constexpr std::chrono::seconds kMostBehind(10);

std::int32_t enter_null(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  return sdk::enter(args, out_plugin, error, {"null", "1.0.0", "the tests"},
                    [] { return std::make_unique<null::Backend>(); });
}

// One for all inputs: plugins are never unloaded, and a leak is what is left after each input.
Runtime& runtime() {
  static Runtime all = [] {
    RuntimeOptions options;
    options.search_environment = false;
    options.log_level = LogLevel::kOff;
    options.layers.use_environment = false;
    Runtime made(options);
    made.register_backend("null", enter_null);
    for (const int slot : {0, 1}) {
      const auto control = std::make_shared<test::Control>();
      control->has_streams = true;
      control->has_programs = slot == 0;
      test::register_backend(made, slot, control);
    }
    return made;
  }();
  return all;
}

void check_report(const ReplayReport& report) {
  require(report.replayed + report.skipped == report.calls, "calls that were neither done nor skipped");
  require(report.emulated <= report.replayed, "more calls done by others than calls done");
  require(report.first.size() == std::min<std::uint64_t>(report.differences, 100), "differences not listed");
  for (const ReplayDifference& difference : report.first) {
    require(!difference.text.empty(), "a difference without a sentence");
  }
  std::uint64_t noted = 0;
  for (const ReplayNote& note : report.notes) {
    require(!note.text.empty(), "a note without a sentence");
    noted += note.calls;
  }
  require(noted >= report.skipped + report.emulated, "calls that were skipped, and no reason");
  require(report.contents_unknown == 0 || !report.why_unknown.empty(), "contents unknown, and no reason");
}

// How many calls were done; 0: it was refused.
std::uint64_t run_on(const std::string& name, std::span<const std::byte> file, const ReplayTimes& times) {
  std::uint64_t done = 0;
  ReplayOptions options;
  options.backend = name;
  options.memory_limit = kMemory;
  options.stream_limit = 256;
  options.timeout = times.timeout;
  options.time_limit = times.time_limit;
  const auto begin = Clock::now();
  try {
    const ReplayReport report = yoke::replay(runtime(), file, options);
    check_report(report);
    done = report.replayed;
  } catch (const Error& error) {
    const auto code = error.code();
    require(code == ErrorCode::kDataLoss || code == ErrorCode::kUnimplemented ||
                code == ErrorCode::kResourceExhausted || code == ErrorCode::kDeadlineExceeded,
            std::string("refused with another code: ") + error.what());
    require(std::string_view(error.what()).find(' ') != std::string_view::npos, "no sentence");
  }
  require(Clock::now() - begin < times.time_limit + kMostBehind, "a replay that does not end in its time");
  const yoke_live_counts live = runtime().backend(name)->live_counts();
  require(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines == 0,
          "objects of " + name + " are alive after the replay");
  return done;
}

// Whether all that it compiles is small, so that launches end.
bool has_small_programs(std::span<const std::byte> file) {
  TraceReader reader(file);
  TraceRecord record;
  while (reader.next(record)) {
  }
  reader.rewind();
  while (reader.next(record)) {
    if (record.type != TraceRecord::Type::kCall) {
      continue;
    }
    for (std::size_t i = 0; i < record.values.size(); ++i) {
      std::span<const std::byte> text;
      if (static_cast<layers::Kind>(record.function->arguments[i].kind) != layers::Kind::kProgramText ||
          !reader.blob(record.values[i].hash, text)) {
        continue;
      }
      try {
        const auto module = program::parse({reinterpret_cast<const char*>(text.data()), text.size()});
        if (!std::all_of(module.programs.begin(), module.programs.end(), small_enough)) {
          return false;
        }
      } catch (const program::ProgramError&) {  // no backend runs it
      }
    }
  }
  return true;
}

}  // namespace

std::uint64_t replay_run(std::span<const std::uint8_t> input, const ReplayTimes& times) {
  const Guarded memory(input.size());
  std::copy(input.begin(), input.end(), memory.data());
  const auto file = std::as_bytes(std::span(memory.data(), input.size()));
  bool launches = false;
  try {
    launches = has_small_programs(file);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnimplemented,
            std::string("refused with another code: ") + error.what());
    return 0;
  }
  const std::uint64_t done = run_on("null", file, times);
  return std::min(done, run_on(launches ? "test0" : "test1", file, times));
}

}  // namespace yoke::fuzz
