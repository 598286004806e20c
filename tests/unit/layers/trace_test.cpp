// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/trace_test.cpp: what is recorded, read back, and run once more; whole runtimes under both
// layers.
#include <dlfcn.h>
#include <sys/mman.h>
#include <yoke/runtime/trace.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "device/state.h"
#include "layers/functions.h"
#include "layers/session.h"
#include "layers/taint.h"
#include "layers/trace_format.h"
#include "loader/enter.h"
#include "loader/probe_protocol.h"
#include "rig.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kScale = R"(yoke.program 1
program scale(symbol row in 0..8 step 4) {
  arg x : f32[8, 4] in
  arg y : f32[4, 4] out
  y[n, o] = x[row + n, o] * 2.0
}
)";

class Trace : public ::testing::TestWithParam<Streams> {
 protected:
  Trace() {
    std::string pattern = (std::filesystem::temp_directory_path() / "yoke_layers_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Trace() override { std::filesystem::remove_all(folder_); }

  RuntimeOptions options(const std::string& names, bool with_data) const {
    RuntimeOptions all;
    all.layers = {.names = names,
                  .use_environment = false,
                  .fail_calls = false,
                  .trace_file = folder_ / "run.yoketrace",
                  .trace_data = with_data};
    return all;
  }
  std::vector<std::byte> file() const {
    std::ifstream in(folder_ / "run.yoketrace", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    return {begin, begin + bytes.size()};
  }

  // Copies, launches with a symbol, a wait between streams, a fill; gives back what came out.
  static std::vector<float> work(const Rig& rig) {
    std::vector<float> input(32);
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<float>(i) * 0.25F;
    }
    const auto x = buffer_of<float>(rig.device, 32);
    const auto y = buffer_of<float>(rig.device, 16);
    const auto first = rig.stream();
    const auto second = rig.stream();
    const auto routine = link(rig.device, kScale, {x, y});
    const float zero = 0;
    first->fill(y, &zero, sizeof(zero));
    first->from_host(x, input.data());
    const std::int64_t row[] = {4};
    first->launch(*routine, row);
    second->wait_for(first->record());
    return read<float>(*second, y);
  }
  // A recorded run, as the bytes of its file.
  std::vector<std::byte> record(bool with_data, const std::string& names = "trace") {
    {
      const Rig rig(GetParam(), options(names, with_data));
      EXPECT_EQ(work(rig)[0], 8.0F);
      violations_ = rig.runtime.validation().violations;
      for (const Violation& one : rig.runtime.validation().first) {
        ADD_FAILURE() << one.rule << " " << one.call << ": " << one.text;
      }
    }
    return file();  // closed with the last object of the runtime
  }
  ReplayReport run(const std::vector<std::byte>& bytes, Streams on) const {
    return run(bytes, Rig::make_control(on));
  }
  ReplayReport run(const std::vector<std::byte>& bytes, std::shared_ptr<Control> on) const {
    RuntimeOptions plain;
    plain.layers.use_environment = false;
    Runtime runtime(Rig::with_defaults(plain));
    register_backend(runtime, 1, std::move(on));
    ReplayOptions replay_options;
    replay_options.backend = "test1";
    return replay(runtime, bytes, replay_options);
  }

  std::filesystem::path folder_;
  std::uint64_t violations_ = 0;
};

TEST_P(Trace, ARunWithDataReplaysBitByBit) {
  const auto report = run(record(true), GetParam());
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_GT(report.calls, 10);
  EXPECT_EQ(report.skipped, 0);
  EXPECT_EQ(report.contents_equal, 1);
  EXPECT_EQ(report.cut, "");
  EXPECT_EQ(report.unfinished.size(), 0);
}

TEST_P(Trace, ARunReplaysOnABackendWithTheOtherKindOfStreams) {
  const auto other = GetParam() == Streams::kWorker ? Streams::kNative : Streams::kWorker;
  const auto report = run(record(true), other);
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.contents_equal, 1);
}

TEST_P(Trace, WithoutDataContentsAreMadeUpAndNotCompared) {
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

TEST_P(Trace, ProgramsThatABackendDoesNotRunAreSkippedWithWhatTheyWouldWrite) {
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

TEST_P(Trace, AStatementThatABackendDoesNotRunIsNoDifferenceEither) {
  const auto control = Rig::make_control(GetParam());
  control->unsupported = "2.0";
  const auto report = run(record(true), control);
  EXPECT_EQ(report.differences, 0) << (report.first.empty() ? "" : report.first[0].text);
  EXPECT_EQ(report.contents_unknown, 1);
  EXPECT_THAT(notes_of(report), HasSubstr("1 code_compile skipped: "));
  EXPECT_THAT(notes_of(report), HasSubstr("1 routine_launch skipped: what it works on was not made here"));
}

// A fill, a copy between buffers, and what they leave, compared.
TEST_P(Trace, FillsAndCopiesBetweenBuffersAreDoneByOtherCallsWhereABackendHasNone) {
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

TEST_P(Trace, AnOptionThatABackendDoesNotHaveIsLeftOut) {
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

TEST_P(Trace, WhatWasWrittenAfterASkippedCallIsComparedAgain) {
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

TEST_P(Trace, ARequiredCallThatFailsIsADifferenceAlsoOnABackendThatOffersLess) {
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

TEST_P(Trace, ALittleOtherFloatsAreCloseAndVeryOtherOnesADifference) {
  const auto bytes = record(true);
  const auto close = run(with_other_input(bytes, 0, std::byte{1}), GetParam());
  EXPECT_EQ(close.differences, 0);
  EXPECT_EQ(close.contents_close, 1);
  const auto far = run(with_other_input(bytes, 3, std::byte{0x42}), GetParam());
  EXPECT_EQ(far.differences, 1);
  ASSERT_FALSE(far.first.empty());
  EXPECT_THAT(far.first[0].text, HasSubstr("the contents differ"));
}

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

TEST_P(Trace, NoWaitOfAReplayIsLongerThanAMinuteWhateverWasRecorded) {
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
