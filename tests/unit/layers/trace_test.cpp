// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/trace_test.cpp: recording and reading traces, and whole runtimes with both layers.
#include <sys/mman.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "abi/functions.h"
#include "device/state.h"
#include "layers/session.h"
#include "loader/enter.h"
#include "loader/probe_protocol.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class Trace : public Recorded {};

TEST_P(Trace, BothLayersTogetherFindNoViolation) {
  for (const char* const names : {"validate,trace", "trace,validate"}) {
    const auto report = run(record(true, names), GetParam());
    EXPECT_EQ(report.differences, 0);
    EXPECT_EQ(report.contents_equal, 1)
        << report.calls << " calls, " << report.skipped << " skipped, " << report.cut;
  }
}

TEST_P(Trace, TextAndEventsNameTheCalls) {
  const auto bytes = record(false);
  std::ostringstream text;
  replay::print(bytes, text);
  EXPECT_THAT(text.str(), HasSubstr("routine_launch("));
  EXPECT_THAT(text.str(), HasSubstr("symbol_values=[4]"));
  std::ostringstream events;
  replay::write_chrome(bytes, events);
  EXPECT_THAT(events.str(), HasSubstr("\"name\": \"code_compile\""));
}

TEST_P(Trace, LogLinesOfThePluginAreRecorded) {
  {
    const Rig rig(GetParam(), options("trace", false));
    const yoke_host_api* const host = rig.control->host;
    host->log(host->host, YOKE_LOG_WARN, "card.hot degrees=90 and more", 19);
  }
  std::ostringstream text;
  replay::print(file(), text);
  EXPECT_THAT(text.str(), HasSubstr("log level=" + std::to_string(YOKE_LOG_WARN) + " card.hot degrees=90\n"));
}

TEST_P(Trace, MemoryUnmappedAfterItsCopyIsNotRead) {
  constexpr std::size_t kPage = 4096;
  for (const bool with_data : {false, true}) {
    {
      const Rig rig(GetParam(), options("trace", with_data));
      const auto x = buffer_of<std::uint8_t>(rig.device, kPage);
      const auto first = rig.stream();
      const auto second = rig.stream();
      void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      const std::uint8_t seven = 7;
      first->fill(x, &seven, 1);
      first->to_host(page, x);
      second->wait_for(first->record());
      second->wait();
      EXPECT_EQ(*static_cast<std::uint8_t*>(page), 7);
      ::munmap(page, kPage);
      first->wait();
    }
    EXPECT_EQ(run(file(), GetParam()).differences, 0);
  }
}

TEST_P(Trace, WithoutLayersTheHostCallsThePluginDirectly) {
  RuntimeOptions plain;
  plain.layers.use_environment = false;
  const Rig off(GetParam(), plain);
  const auto& state = off.backend->state();
  const auto* const own =
      static_cast<const yoke_backend_api*>(state.plugin->get_table(state.plugin.get(), YOKE_BACKEND_TABLE));
  EXPECT_EQ(state.backend.from_host, own->from_host);
  const Rig on(Rig::make_control(GetParam()), options("validate", false));
  EXPECT_NE(on.backend->state().backend.from_host, own->from_host);
}

TEST_P(Trace, ManyThreadsAndStreamsFindNoViolation) {
  {
    Rig rig(GetParam(), options("validate,trace", true));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&rig] {
        for (int k = 0; k < 5; ++k) {
          EXPECT_EQ(work(rig)[0], 8.0F);
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    const auto report = rig.runtime.validation();
    EXPECT_EQ(report.violations, 0) << (report.first.empty()
                                            ? ""
                                            : report.first[0].call + ": " + report.first[0].text);
  }
  const auto report = run(file(), GetParam());
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.unfinished.size(), 0);
  EXPECT_EQ(report.contents_equal, 20)
      << report.calls << " calls, " << report.skipped << " skipped, " << report.cut;
}

INSTANTIATE_TEST_SUITE_P(Streams, Trace, ::testing::Values(Streams::kWorker, Streams::kNative), streams_name);

TEST(TraceReader, OtherFilesAndVersionsAreRefused) {
  std::vector<std::byte> bytes(100);
  EXPECT_EQ(error_of([&] { const replay::Reader reader(bytes); }).code(), ErrorCode::kDataLoss);
  const auto part = std::span(bytes).first(8);
  EXPECT_EQ(error_of([&] { const replay::Reader reader(part); }).code(), ErrorCode::kDataLoss);
  std::memcpy(bytes.data(), layers::kTraceMagic, 8);
  bytes[8] = std::byte{9};
  EXPECT_EQ(error_of([&] { const replay::Reader reader(bytes); }).code(), ErrorCode::kUnimplemented);
}

TEST(LayerOptionsTest, UnknownLayerIsAnErrorThatListsTheLayers) {
  RuntimeOptions options;
  options.layers.names = "validate,tarce";
  EXPECT_THAT(error_of([&] { const Runtime runtime(options); }),
              is_error(ErrorCode::kInvalidArgument,
                       "unknown layer 'tarce'; the layers are validate and trace; did you mean 'trace'?"));
}

TEST(LayerOptionsTest, UnknownValueOfTheVariableIsAnError) {
  RuntimeOptions options;
  options.layers.names = "validate";
  ::setenv("YOKE_VALIDATE", "fial", 1);
  EXPECT_THAT(error_of([&] { const Runtime runtime(options); }),
              is_error(ErrorCode::kInvalidArgument, "YOKE_VALIDATE is 'fial'; its only value is fail"));
  ::unsetenv("YOKE_VALIDATE");
}

TEST(LayerOptionsTest, TraceFileThatIsRemovedIsReportedAtTheEnd) {
  const TemporaryFolder folder;
  std::vector<std::string> problems;
  const auto trace = [&](bool removes) {
    problems.clear();
    RuntimeOptions options;
    options.log_level = LogLevel::kOff;
    options.layers.names = "trace";
    options.layers.trace_file = folder / "run.yoketrace";
    options.layers.on_trace_problem = [&](const std::string& problem) { problems.push_back(problem); };
    const Runtime runtime(options);
    if (removes) {
      std::filesystem::remove(options.layers.trace_file);
    }
  };
  trace(false);
  EXPECT_THAT(problems, ::testing::IsEmpty());
  trace(true);
  EXPECT_THAT(problems, ::testing::ElementsAre("the trace " + (folder / "run.yoketrace").string() +
                                               " is incomplete: the file was removed while it was written"));
}

TEST(LoaderEnter, ExceptionDuringEntryLeavesNothingAttached) {
  const yoke_plugin_entry_fn entry = entry_of(0);
  for (const std::string_view stage : {loader::kStageEntry, loader::kStageTables}) {
    SCOPED_TRACE(stage);
    std::vector<std::string> lines;
    RuntimeOptions options;
    options.layers.names = "validate";
    options.layers.use_environment = false;
    options.log_sink = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
    auto owner = std::make_shared<detail::RuntimeState>(options);
    const std::weak_ptr<detail::RuntimeState> runtime = owner;
    owner->open_layers();
    loader::EnteredPlugin plugin;
    plugin.name = "test0";
    const auto enter = [&] {
      static_cast<void>(loader::enter(owner->host(), entry, {}, plugin, [&](const char* begun) {
        if (begun == stage) {
          throw std::bad_alloc();
        }
      }));
    };
    EXPECT_THROW(enter(), std::bad_alloc);
    EXPECT_EQ(plugin.host, nullptr);
    EXPECT_EQ(plugin.plugin, nullptr);
    owner.reset();
    EXPECT_TRUE(runtime.expired());
    EXPECT_THAT(lines, Not(Contains(HasSubstr("violation"))));
  }
}

// With the layer validate, which logs to `lines`.
RuntimeOptions logging_options(std::vector<std::string>& lines) {
  RuntimeOptions options;
  options.layers.names = "validate";
  options.layers.use_environment = false;
  options.log_level = LogLevel::kInfo;
  options.log_sink = [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); };
  return options;
}

TEST(RuntimeState, LogsTheCountOfViolationsAtTheEnd) {
  std::vector<std::string> lines;
  {
    const RuntimeOptions options = logging_options(lines);
    const auto state = std::make_shared<detail::RuntimeState>(options);
    state->open_layers();
    Violation broken{15, Culprit::kHost, false, "cc", "from_host", "an invalid handle"};
    state->layers->ledger->report(broken);
    state->layers->ledger->report(broken);
    broken.is_warning = true;
    state->layers->ledger->report(broken);
    EXPECT_THAT(lines, Not(Contains(HasSubstr("layer.off"))));
  }
  EXPECT_THAT(lines, Contains(HasSubstr("layer.off name=validate violations=2 warnings=1")));
}

// The state outlives the Runtime here, as after a leak.
TEST(RuntimeState, LogsTheCountOnceAfterALeak) {
  for (const bool ends_first : {false, true}) {
    SCOPED_TRACE(ends_first);
    std::vector<std::string> lines;
    const RuntimeOptions options = logging_options(lines);
    const auto count = [&] {
      return std::count_if(lines.begin(), lines.end(),
                           [](const std::string& line) { return line.find("layer.off") != line.npos; });
    };
    auto runtime = std::make_unique<Runtime>(options);
    auto copy = std::make_unique<Runtime>(*runtime);
    const auto control = register_backend(*runtime, 0);
    std::shared_ptr<Backend> backend = runtime->backend(control->name);
    auto state = backend->state().runtime;
    const auto leak = [&] { state->log_leak([] { return "buffer.leak device=test0:0"; }); };
    const auto end = [&] {
      runtime.reset();
      EXPECT_EQ(count(), 0);
      copy.reset();
    };
    ends_first ? end() : leak();
    EXPECT_EQ(count(), 0);
    ends_first ? leak() : end();
    EXPECT_EQ(count(), 1);
    EXPECT_THAT(lines.back(), HasSubstr("layer.off name=validate violations=0 warnings=0"));
    backend.reset();
    state.reset();
    EXPECT_EQ(count(), 1);
  }
}

TEST(FunctionTable, EveryFunctionHasARow) {
  std::size_t count = 0;
#define YOKE_TEST_ROW(table, member, need)                                       \
  EXPECT_STREQ(abi::row_of(abi::Function::member).name, #member);                \
  EXPECT_EQ(abi::row_of(abi::Function::member).function, abi::Function::member); \
  ++count;
  YOKE_ABI_FUNCTIONS(YOKE_TEST_ROW)
#undef YOKE_TEST_ROW
  EXPECT_EQ(count, abi::rows().size());
}

}  // namespace
}  // namespace yoke::test
