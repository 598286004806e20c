// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/trace_test.cpp: what is recorded, and read back; whole runtimes under both layers.
#include <dlfcn.h>
#include <sys/mman.h>

#include <sstream>
#include <thread>

#include "device/state.h"
#include "layers/functions.h"
#include "layers/session.h"
#include "layers/trace_format.h"
#include "loader/enter.h"
#include "loader/probe_protocol.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class Trace : public Recorded {};

TEST_P(Trace, BothLayersOnTopOfEachOtherFindNothing) {
  const auto report = run(record(true, "validate,trace"), GetParam());
  EXPECT_EQ(violations_, 0);
  EXPECT_EQ(report.differences, 0);
  EXPECT_EQ(report.contents_equal, 1)
      << report.calls << " calls, " << report.skipped << " skipped, " << report.cut;
  EXPECT_EQ(run(record(true, "trace,validate"), GetParam()).differences, 0);
  EXPECT_EQ(violations_, 0);
}

TEST_P(Trace, ATraceThatIsCutIsReadUpToTheCut) {
  const auto whole = record(true);
  std::uint64_t most = 0;
  for (std::size_t size = sizeof(layers::TraceHeader); size < whole.size(); size += 37) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    TraceReader reader(part);
    TraceRecord one;
    std::uint64_t count = 0;
    while (reader.next(one)) {
      ++count;
    }
    EXPECT_THAT(reader.cut(), HasSubstr("byte "));
    EXPECT_GE(count, most);
    most = count;
  }
  EXPECT_GT(most, 10);
}

TEST_P(Trace, FlippedBytesAreFoundByTheCheck) {
  const auto whole = record(true);
  for (std::size_t at = sizeof(layers::TraceHeader); at < whole.size(); at += 97) {
    auto bytes = whole;
    bytes[at] ^= std::byte{0x40};
    TraceReader reader(bytes);
    TraceRecord one;
    while (reader.next(one)) {
    }
    EXPECT_NE(reader.cut(), "") << at;
  }
}

TEST_P(Trace, ListsAndPicturesNameTheCalls) {
  const auto bytes = record(false);
  std::ostringstream text;
  print_trace(bytes, text);
  EXPECT_THAT(text.str(), HasSubstr("routine_launch("));
  EXPECT_THAT(text.str(), HasSubstr("symbol_values=[4]"));
  std::ostringstream picture;
  write_chrome_trace(bytes, picture);
  EXPECT_THAT(picture.str(), HasSubstr("\"name\": \"code_compile\""));
}

TEST_P(Trace, MemoryThatTheHostFreesWhenAnotherStreamTellsItIsNotTouched) {
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

TEST_P(Trace, OffThereIsNothingBetween) {
  RuntimeOptions plain;
  plain.layers.use_environment = false;
  const Rig off(GetParam(), plain);
  const auto& state = off.backend->state();
  const auto* const own =
      static_cast<const yoke_backend_api*>(state.plugin->get_table(state.plugin, YOKE_BACKEND_TABLE));
  EXPECT_EQ(state.backend.from_host, own->from_host);
  const Rig on(Rig::make_control(GetParam()), options("validate", false));
  EXPECT_NE(on.backend->state().backend.from_host, own->from_host);
}

TEST_P(Trace, ManyStreamsOfManyThreadsAreCleanUnderBothLayers) {
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

// One record of hostile fields, with a good check.
std::vector<std::byte> trace_of(const std::vector<std::vector<std::byte>>& payloads) {
  layers::TraceHeader header{};
  std::memcpy(header.magic, layers::kTraceMagic, sizeof(header.magic));
  header.version = layers::kTraceVersion;
  std::vector<std::byte> bytes(sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (const auto& payload : payloads) {
    const auto size = static_cast<std::uint32_t>(payload.size());
    const auto check = static_cast<std::uint32_t>(layers::hash_of(payload.data(), payload.size()));
    for (const std::uint32_t word : {size, check}) {
      const auto* const at = reinterpret_cast<const std::byte*>(&word);
      bytes.insert(bytes.end(), at, at + sizeof(word));
    }
    bytes.insert(bytes.end(), payload.begin(), payload.end());
  }
  return bytes;
}

TEST(TraceReaderTest, ClaimedCountsAllocateNothing) {
  std::vector<std::byte> function;
  layers::Encoder describe(function, layers::RecordType::kFunction);
  describe.number(1);
  describe.text("t");
  describe.text("f");
  describe.number(1);
  describe.byte(static_cast<std::uint8_t>(layers::Kind::kSymbols));
  describe.byte(0);
  describe.text("values");
  std::vector<std::byte> call;
  layers::Encoder to(call, layers::RecordType::kCall);
  for (const unsigned field : {1U, 1U, 1U, 0U, 0U, 0U, 0U, 0U}) {
    to.number(field);
  }
  to.number(std::uint64_t{1} << 60U);  // so many symbols
  const auto bytes = trace_of({function, call});
  TraceReader reader(bytes);
  TraceRecord one;
  EXPECT_FALSE(reader.next(one));
  EXPECT_THAT(reader.cut(), HasSubstr("less than its fields"));
  EXPECT_LT(one.values.empty() ? 0 : one.values[0].list.capacity(), 1000);
}

TEST(TraceReaderTest, WhatIsNoTraceIsSaidToBeNone) {
  const std::vector<std::byte> zeros(100);
  EXPECT_EQ(error_of([&] { const TraceReader reader(zeros); }).code(), ErrorCode::kDataLoss);
  auto newer = trace_of({});
  newer[8] = std::byte{9};
  EXPECT_EQ(error_of([&] { const TraceReader reader(newer); }).code(), ErrorCode::kUnimplemented);
}

TEST(LayerOptionsTest, AnUnknownLayerIsAnErrorThatListsThem) {
  RuntimeOptions options;
  options.layers.names = "validate,tarce";
  const Error error = error_of([&] { const Runtime runtime(options); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("'tarce': there are validate and trace"));
}

// Called by the loader, which owns what it enters. Not of layers alone: they are entered in the same way.
TEST(LoaderEnter, WhatThrowsOnTheWayInLeavesNothingAttached) {
  void* const library = ::dlopen(YOKE_TEST_PLUGIN_DIR "/libyoke_backend_null.so", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto entry = reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(library, YOKE_PLUGIN_ENTRY_SYMBOL));
  ASSERT_NE(entry, nullptr);
  for (const std::string_view stage : {loader::kStageEntry, loader::kStageTables}) {
    SCOPED_TRACE(stage);
    std::vector<std::string> lines;
    RuntimeOptions options;
    options.layers.names = "validate";
    options.layers.use_environment = false;
    options.log_sink = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
    auto owner = std::make_shared<detail::RuntimeState>(options);
    const std::weak_ptr<detail::RuntimeState> runtime = owner;
    {
      detail::BackendState state(std::move(owner));
      state.name = "null";
      const auto enter = [&] {
        static_cast<void>(loader::enter(state, entry, [&](const char* begun) {
          if (begun == stage) {
            throw std::bad_alloc();
          }
        }));
      };
      EXPECT_THROW(enter(), std::bad_alloc);
      EXPECT_EQ(state.host, nullptr);
      EXPECT_EQ(state.plugin, nullptr);
    }
    EXPECT_TRUE(runtime.expired());
    EXPECT_THAT(lines, Not(Contains(HasSubstr("violation"))));
  }
}

TEST(RuntimeState, SaysAtTheEndWhatValidateFound) {
  std::vector<std::string> lines;
  RuntimeOptions options;
  options.layers.names = "validate";
  options.layers.use_environment = false;
  options.log_level = LogLevel::kInfo;
  options.log_sink = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  {
    const auto state = std::make_shared<detail::RuntimeState>(options);
    state->layers = layers::open_session(options.layers, {});
    Violation broken{15, Culprit::kHost, false, "cc", "from_host", "a handle that is not alive"};
    state->layers->ledger()->report(broken);
    state->layers->ledger()->report(broken);
    broken.is_warning = true;
    state->layers->ledger()->report(broken);
    EXPECT_THAT(lines, Not(Contains(HasSubstr("layer.off"))));
  }
  EXPECT_THAT(lines, Contains(HasSubstr("layer.off name=validate violations=2 warnings=1")));
}

TEST(FunctionTable, EveryFunctionOfTheListsHasARow) {
  std::size_t count = 0;
#define YOKE_TEST_ROW(table, member, need)                                                \
  EXPECT_STREQ(layers::row_of(layers::Function::member).name, #member);                   \
  EXPECT_EQ(layers::row_of(layers::Function::member).function, layers::Function::member); \
  ++count;
  YOKE_LAYERS_FUNCTIONS(YOKE_TEST_ROW)
#undef YOKE_TEST_ROW
  EXPECT_EQ(count, layers::rows().size());
}

}  // namespace
}  // namespace yoke::test
