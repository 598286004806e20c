// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/arguments_trace_test.cpp: the layer trace records every kind of argument, results and contents.
#include <yoke/ext/collectives.h>
#include <yoke/ext/peer.h>

#include <chrono>
#include <numeric>
#include <sstream>
#include <string_view>
#include <thread>

#include "layers/call.h"
#include "layers_test.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHash = "[0-9a-f]{32}";

class TraceArguments : public LayersTest {
 protected:
  TraceArguments() { trace_file = folder_ / "run.yoketrace"; }
  // Returns the records so far as text.
  std::string printed() {
    file_ = read_bytes(trace_file);
    std::ostringstream text;
    replay::print(file_, text);
    return text.str();
  }
  // Whether the trace has these contents.
  bool has_blob(const void* memory, std::uint64_t byte_count) {
    file_ = read_bytes(trace_file);
    replay::Reader reader(file_);
    replay::Record record;
    while (reader.next(record)) {
    }
    std::span<const std::byte> found;
    return reader.blob(layers::hash_of(memory, byte_count), found) && found.size() == byte_count &&
           std::memcmp(found.data(), memory, byte_count) == 0;
  }
  // How often the bytes are in the trace.
  std::size_t count_of(std::string_view bytes) {
    file_ = read_bytes(trace_file);
    const std::string_view all(reinterpret_cast<const char*>(file_.data()), file_.size());
    std::size_t count = 0;
    for (std::size_t at = all.find(bytes); at != all.npos; at = all.find(bytes, at + 1)) {
      ++count;
    }
    return count;
  }

  const TemporaryFolder folder_;
  std::vector<std::byte> file_;
};

TEST_F(TraceArguments, OptionsOfEveryTypeAreRecorded) {
  control->option_specs = {sdk::OptionSpec::flag("fast", "a flag", false),
                           sdk::OptionSpec::integer("count", "an integer", 1, -9, 9),
                           sdk::OptionSpec::number("ratio", "a number", 1, 0, 9),
                           sdk::OptionSpec::text("mode", "a text", "")};
  enter("trace");
  const yoke_option options[] = {{"fast", YOKE_OPTION_FLAG, 0, 1, 0, nullptr},
                                 {"count", YOKE_OPTION_INTEGER, 0, -2, 0, nullptr},
                                 {"ratio", YOKE_OPTION_NUMBER, 0, 0, 0.5, nullptr},
                                 {"mode", YOKE_OPTION_TEXT, 0, 0, 0, "safe"}};
  auto args = sized<yoke_device_args>();
  args.options = &options[0];
  args.option_count = 4;
  args.option_stride = sizeof(yoke_option);
  args.ordinal = 1;
  yoke_device* opened = nullptr;
  ASSERT_EQ(backend->device_open(plugin, &args, &opened, error()), YOKE_STATUS_OK) << status.text;
  EXPECT_THAT(printed(),
              HasSubstr("device_open(flags=0, options=[fast=1, count=-2, ratio=0.500000, mode=safe], "
                        "option_count=4, option_stride=40, ordinal=1, out_device=device 2) = OK\n"));
  backend->device_close(opened, error());
  EXPECT_THAT(printed(), HasSubstr("device_close(device=device 2) = OK\n"));
}

TEST_F(TraceArguments, InfosRowsAndTextsHaveTheSizeThatWasWritten) {
  control->option_specs = {sdk::OptionSpec::flag("fast", "a flag", false)};
  enter("trace");
  count_devices();
  EXPECT_THAT(printed(), HasSubstr("device_count(out_count=2, out_reason=\"\", reason_capacity=64) = OK\n"));
  auto info = sized<yoke_memory_info>();
  backend->device_memory(device, &info, error());
  EXPECT_THAT(printed(), HasSubstr("device_memory(device=device 1, info=<32 bytes>) = OK\n"));
  yoke_option_spec rows[3] = {};
  std::uint32_t count = 0;
  backend->option_specs(plugin, 3, sizeof(rows[0]), &rows[0], &count, error());
  EXPECT_THAT(printed(),
              HasSubstr("option_specs(capacity=3, stride=88, specs=<88 bytes>, out_count=1) = OK\n"));
  backend->option_specs(plugin, 0, sizeof(rows[0]), nullptr, &count, error());
  EXPECT_THAT(printed(),
              HasSubstr("option_specs(capacity=0, stride=88, specs=<0 bytes>, out_count=1) = OK\n"));
}

TEST_F(TraceArguments, FailedCallHasItsErrorAndNoResults) {
  control->backend.device_memory = [](auto, auto, auto error) {
    return fail(error, YOKE_STATUS_INTERNAL, "the driver is gone");
  };
  control->backend.device_count = [](auto, auto, auto, auto, auto error) {
    return fail(error, YOKE_STATUS_UNAVAILABLE, "no driver");
  };
  control->backend.to_host = [](auto, auto, auto, auto, auto, auto error) {
    return fail(error, YOKE_STATUS_INTERNAL, "fails");
  };
  enter("trace");
  count_devices();
  auto info = sized<yoke_memory_info>();
  backend->device_memory(device, &info, error());
  std::byte data[16] = {};
  backend->to_host(nullptr, make_buffer(16), 0, data, 16, error());
  const std::string text = printed();
  EXPECT_THAT(text, HasSubstr("device_count(out_count=?, out_reason=\"\", reason_capacity=64) = "
                              "UNAVAILABLE \"no driver\"\n"));
  EXPECT_THAT(text, HasSubstr("info=<0 bytes>) = INTERNAL \"the driver is gone\"\n"));
  EXPECT_THAT(text, HasSubstr("src_offset=0, dst=NULL, byte_count=16) = INTERNAL \"fails\"\n"));
}

TEST_F(TraceArguments, ErrorTextsAreCut) {
  static const std::string text(4'001, 'x');
  control->backend.device_memory = [](auto, auto, auto error) {
    return fail(error, YOKE_STATUS_INTERNAL, text.c_str());
  };
  enter("trace");
  auto info = sized<yoke_memory_info>();
  backend->device_memory(device, &info, error());
  EXPECT_THAT(printed(), HasSubstr("INTERNAL \"" + std::string(4'000, 'x') + "\"\n"));
}

TEST_F(TraceArguments, ProgramsBindingsAndSymbolsAreRecorded) {
  enter("trace");
  auto* const x = make_buffer(512);
  auto* const y = make_buffer(64);
  auto* const code = compile(kScale);
  const yoke_binding bindings[] = {{x, 256, 128, 0}, {y, 0, 64, 0}};
  const yoke_binding work{x, 0, 256, 0};
  auto args = sized<yoke_link_args>();
  args.bindings = &bindings[0];
  args.binding_count = 2;
  args.binding_stride = sizeof(yoke_binding);
  args.workspace = &work;
  yoke_routine* routine = nullptr;
  ASSERT_EQ(programs->routine_link(code, &args, &routine, error()), YOKE_STATUS_OK) << status.text;
  args.workspace = nullptr;
  auto* const plain = link(code, {{x, 256, 128, 0}, {y, 0, 64, 0}});
  const std::int64_t row[] = {4};
  EXPECT_EQ(programs->routine_launch(nullptr, routine, &row[0], 1, error()), YOKE_STATUS_OK);
  programs->routine_destroy(routine);
  const std::string text = printed();
  EXPECT_TRUE(has_blob(kScale, std::strlen(kScale))) << "also without contents of copies";
  EXPECT_THAT(text, HasSubstr("out_code=code 4) = OK\n"));
  EXPECT_THAT(text,
              HasSubstr("bindings=[buffer 2+256:128, buffer 3+0:64], binding_count=2, binding_stride=32, "
                        "workspace=[buffer 2+0:256], entry=0, out_routine=routine 5) = OK\n"));
  EXPECT_THAT(text, HasSubstr("workspace=[], entry=0, out_routine=routine 6) = OK\n"));
  EXPECT_THAT(text, HasSubstr("routine_launch(stream=NULL, routine=routine 5, symbol_values=[4], "
                              "symbol_count=1) = OK\n"));
  EXPECT_NE(plain, nullptr);
}

TEST_F(TraceArguments, CollectivesHaveTheirHandlesAndNumbers) {
  control->provides.collectives = true;
  enter("trace");
  const auto* const table =
      static_cast<const yoke_collectives_api*>(plugin->get_table(plugin, YOKE_COLLECTIVES_TABLE));
  auto id = sized<yoke_group_id>();
  EXPECT_EQ(table->group_id_create(device, &id, error()), YOKE_STATUS_OK);
  auto args = sized<yoke_communicator_args>();
  args.id = &id.bytes[0];
  args.size = 2;
  yoke_communicator* member = nullptr;
  EXPECT_EQ(table->communicator_create(device, &args, &member, error()), YOKE_STATUS_OK);
  EXPECT_EQ(table->communicator_wait(member, 1'000'000'000, error()), YOKE_STATUS_OK);
  auto* const stream = make_stream();  // number 3
  auto* const buffer = make_buffer(64);
  yoke_collective row{member,        stream, nullptr, 0, buffer, 8, 3, YOKE_COLLECTIVE_BROADCAST,
                      YOKE_TYPE_F32, 0,      1,       0};
  EXPECT_EQ(table->collectives_queue(&row, 1, sizeof(row), error()), YOKE_STATUS_OK) << status.text;
  streams->stream_wait(stream, 10'000'000'000, error());
  file_ = read_bytes(trace_file);
  replay::Reader reader(file_);
  std::vector<std::uint64_t> words;
  for (replay::Record record; reader.next(record);) {
    if (record.type == replay::Record::Type::kCall && record.function->name == "collectives_queue") {
      words = record.values[0].list;
    }
  }
  EXPECT_THAT(words,
              ::testing::ElementsAre(2, 3, 0, 0, 4, 8, 3, YOKE_COLLECTIVE_BROADCAST, YOKE_TYPE_F32, 0, 1, 0));
  table->communicator_destroy(member);
}

TEST_F(TraceArguments, ContentsThatAStreamWritesAreRecordedWhenItIsDone) {
  enter("trace");
  auto* const stream = make_stream();
  auto* const buffer = make_buffer(16);
  std::byte data[16] = {};
  std::iota(reinterpret_cast<std::uint8_t*>(data), reinterpret_cast<std::uint8_t*>(data) + 16, 101);
  EXPECT_EQ(copy_in(nullptr, buffer, data, 16), YOKE_STATUS_OK);
  EXPECT_THAT(printed(), ContainsRegex(std::string("src=<16 bytes ") + kHash +
                                       ">, byte_count=16, out_source=1\\) = OK\n"));
  EXPECT_EQ(copy_in(nullptr, buffer, nullptr, 0), YOKE_STATUS_OK);
  EXPECT_THAT(printed(), HasSubstr("src=NULL, byte_count=0, out_source=1) = OK\n"));
  EXPECT_EQ(backend->to_host(nullptr, buffer, 0, data, 16, error()), YOKE_STATUS_OK);
  EXPECT_THAT(printed(), ContainsRegex(std::string("dst=<16 bytes ") + kHash + ">, byte_count=16\\) = OK\n"));
  EXPECT_EQ(backend->to_host(stream, buffer, 0, data, 16, error()), YOKE_STATUS_OK);
  EXPECT_THAT(printed(), HasSubstr("dst=<16 bytes later>, byte_count=16) = OK\n"));
  EXPECT_THAT(printed(), Not(HasSubstr("contents of call")));
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  EXPECT_THAT(printed(), ContainsRegex("#6 to_host.*\n.*\n? *contents of call #6: "));
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  const std::string text = printed();
  EXPECT_EQ(text.find("contents of call"), text.rfind("contents of call")) << "recorded once";
  EXPECT_FALSE(has_blob(data, 16));
  EXPECT_EQ(backend->fill(nullptr, buffer, 0, 16, "pat\1", 4, error()), YOKE_STATUS_OK);
  EXPECT_TRUE(has_blob("pat\1", 4)) << "a pattern is always recorded";
}

TEST_F(TraceArguments, FailedWorkHasNoContents) {
  enter("trace");
  auto* const stream = make_stream();
  auto* const buffer = make_buffer(16);
  control->fail_after = 0;
  std::byte data[16] = {};
  EXPECT_EQ(backend->to_host(stream, buffer, 0, data, 16, error()), YOKE_STATUS_OK);
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_INTERNAL);
  EXPECT_THAT(printed(), Not(HasSubstr("contents of call")));
  EXPECT_THAT(printed(),
              HasSubstr("timeout_ns=10000000000) = INTERNAL \"the test injected this failure\"\n"));
}

TEST_F(TraceArguments, EqualContentsAreWrittenOnce) {
  trace_data = true;
  enter("trace");
  auto* const buffer = make_buffer(16);
  const char data[] = "sixteen bytes!!";
  static_assert(sizeof(data) == 16);
  copy_in(nullptr, buffer, data, 16);
  copy_in(nullptr, buffer, data, 16);
  EXPECT_EQ(count_of(data), 1U);
  EXPECT_TRUE(has_blob(data, 16));
}

TEST_F(TraceArguments, SpansAndLogLinesReachTheHostToo) {
  static std::vector<std::string> seen;
  seen.clear();
  host.api().trace_begin = [](void*, const char* name) { seen.emplace_back(name); };
  host.api().trace_end = [](void*) { seen.emplace_back("end"); };
  enter("trace");
  const auto* const h = plugin_host;
  h->trace_begin(h->host, "upload");
  h->trace_end(h->host);
  EXPECT_THAT(seen, ::testing::ElementsAre("upload", "end"));
  h->log(h->host, YOKE_LOG_INFO, "card.cold and more", 9);
  h->log(h->host, YOKE_LOG_INFO, nullptr, 0);
  EXPECT_THAT(host.lines(), ::testing::Contains(std::to_string(YOKE_LOG_INFO) + " card.cold"));
  EXPECT_THAT(printed(), HasSubstr("span upload\n"));
  EXPECT_THAT(printed(), HasSubstr("log level=" + std::to_string(YOKE_LOG_INFO) + " card.cold\n"));
}

TEST_F(TraceArguments, HostsWithoutOptionalFunctionsAreServed) {
  host.api().trace_begin = nullptr;
  host.api().trace_end = nullptr;
  host.api().log = nullptr;
  host.api().allocate = nullptr;
  host.api().deallocate = nullptr;
  enter("trace");
  const auto* const h = plugin_host;
  EXPECT_EQ(h->log, nullptr);
  EXPECT_EQ(h->allocate, nullptr);
  EXPECT_EQ(h->deallocate, nullptr);
  EXPECT_EQ(h->get_table, nullptr);
  h->trace_begin(h->host, "upload");
  h->trace_end(h->host);
  EXPECT_THAT(printed(), HasSubstr("span upload\n"));
}

TEST_F(TraceArguments, TimesAreThoseOfTheCalls) {
  control->backend.device_memory = [](auto...) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return YOKE_STATUS_OK;
  };
  const std::uint64_t before = layers::now_ns();
  enter("trace");
  auto info = sized<yoke_memory_info>();
  backend->device_memory(device, &info, error());
  const std::uint64_t most = layers::now_ns() - before;
  file_ = read_bytes(trace_file);
  replay::Reader reader(file_);
  std::uint64_t last = 0;
  for (replay::Record record; reader.next(record);) {
    if (record.type == replay::Record::Type::kCall || record.type == replay::Record::Type::kSpan) {
      EXPECT_LE(record.begin_ns + record.duration_ns, most);
      EXPECT_GE(record.begin_ns, last);
      last = record.begin_ns + record.duration_ns;
      const bool is_slow = record.function != nullptr && record.function->name == "device_memory";
      EXPECT_TRUE(!is_slow || record.duration_ns >= 2'000'000);
    }
  }
  EXPECT_GT(last, 2'000'000);
}

}  // namespace
}  // namespace yoke::test
