// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/plugin_test.cpp: what the layer validate finds a plugin doing: one bent function each.
#include <signal.h>

#include <cfenv>
#include <stdexcept>

#include "crooked.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PluginRules : public LayersTest {
 protected:
  std::int32_t create(yoke_buffer** out) { return backend->buffer_create(device, 16, 1, out, error()); }
  std::int32_t count_devices() {
    std::uint32_t count = 0;
    return backend->device_count(plugin, &count, error());
  }
  yoke_buffer* out_ = nullptr;
};

TEST_F(PluginRules, OkWithoutAResult) {
  plugin_side->backend.buffer_create = [](yoke_device*, std::uint64_t, std::int32_t, yoke_buffer** out,
                                          yoke_error*) {
    *out = nullptr;
    return YOKE_OK;
  };
  plugin_side->backend.device_count = [](yoke_plugin*, std::uint32_t*, yoke_error*) { return YOKE_OK; };
  enter();
  create(&out_);
  count_devices();
  EXPECT_THAT(found(), ElementsAre("12 plugin buffer_create", "12 plugin device_count"));
}

TEST_F(PluginRules, AFailureThatWritesItsResult) {
  plugin_side->backend.buffer_create = [](yoke_device*, std::uint64_t, std::int32_t, yoke_buffer** out,
                                          yoke_error* e) {
    *out = reinterpret_cast<yoke_buffer*>(out);
    return fail(e, YOKE_OUT_OF_DEVICE_MEMORY, "no room");
  };
  enter();
  EXPECT_EQ(create(&out_), YOKE_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(out_, nullptr);
  EXPECT_THAT(found(), ElementsAre("10 plugin buffer_create"));
}

TEST_F(PluginRules, AFailureWithoutText) {
  plugin_side->backend.device_count = [](yoke_plugin*, std::uint32_t*, yoke_error*) { return YOKE_INTERNAL; };
  enter();
  count_devices();
  EXPECT_THAT(found(), ElementsAre("10 plugin device_count"));
}

TEST_F(PluginRules, ACodeThatIsNone) {
  plugin_side->backend.device_count = [](yoke_plugin*, std::uint32_t*, yoke_error* e) {
    return fail(e, 99, "what?");
  };
  enter();
  count_devices();
  EXPECT_THAT(found(), ElementsAre("11 plugin device_count"));
}

TEST_F(PluginRules, ATextOnSuccessAndATextThatIsNoUtf8) {
  plugin_side->backend.buffer_describe = [](yoke_buffer*, yoke_buffer_info* info, yoke_error* e) {
    info->byte_count = 16;
    fail(e, YOKE_OK, "\xff\xfe");
    return YOKE_OK;
  };
  enter();
  yoke_buffer_info info{};
  info.struct_size = sizeof(info);
  backend->buffer_describe(make_buffer(16), &info, error());
  EXPECT_THAT(found(), ElementsAre("10 plugin buffer_describe", "10 plugin buffer_describe"));
}

TEST_F(PluginRules, AnErrorThatIsSetAfterTheCallOrFromAnotherThread) {
  static yoke_error* kept = nullptr;
  plugin_side->backend.device_count = [](yoke_plugin*, std::uint32_t* out, yoke_error* e) {
    std::thread([e] { fail(e, YOKE_INTERNAL, "from elsewhere"); }).join();
    kept = e;
    *out = 1;
    return YOKE_OK;
  };
  enter();
  count_devices();
  fail(kept, YOKE_INTERNAL, "too late");
  EXPECT_THAT(found(), ElementsAre("10 plugin device_count", "10 plugin device_count"));
}

TEST_F(PluginRules, AnInfoThatIsWrittenBeyondItsEndOrGetsAnotherSize) {
  plugin_side->backend.buffer_describe = [](yoke_buffer* buffer, yoke_buffer_info* info, yoke_error*) {
    info->byte_count = buffer->bytes.size();
    reinterpret_cast<std::byte*>(info)[info->struct_size] = std::byte{1};
    info->struct_size = 8;
    return YOKE_OK;
  };
  enter();
  yoke_buffer_info info{};
  info.struct_size = sizeof(info);
  backend->buffer_describe(make_buffer(16), &info, error());
  EXPECT_THAT(found(), ElementsAre("5 plugin buffer_describe", "5 plugin buffer_describe"));
}

TEST_F(PluginRules, MoreRowsThanThereIsRoomFor) {
  plugin_side->backend.option_specs = [](yoke_plugin*, std::uint32_t, yoke_option_spec* specs,
                                         std::uint32_t* out, yoke_error*) {
    specs[1].type = YOKE_OPTION_FLAG;
    *out = 2;
    return YOKE_OK;
  };
  enter();
  yoke_option_spec rows[2] = {};
  rows[0].struct_size = rows[1].struct_size = sizeof(yoke_option_spec);
  std::uint32_t count = 0;
  backend->option_specs(plugin, 1, rows, &count, error());
  EXPECT_EQ(rows[1].type, 0);  // the host's memory is untouched
  EXPECT_THAT(found(), ElementsAre("12 plugin option_specs"));
}

TEST_F(PluginRules, ATableThatChangesAfterItWasGivenOut) {
  enter();
  plugin_side->backend.fill = [](yoke_stream*, yoke_buffer*, std::uint64_t, std::uint64_t, const void*,
                                 std::uint32_t, yoke_error*) { return YOKE_OK; };
  backend->device_close(device, error());
  plugin->destroy(plugin);
  EXPECT_THAT(found(), ElementsAre("6 plugin destroy"));
}

TEST_F(PluginRules, CountersThatDoNotFitWhatIsAlive) {
  enter();
  make_buffer(16);
  ++plugin_side->live.events;
  yoke_live_counts counts{};
  counts.struct_size = sizeof(counts);
  backend->live_counts(plugin, &counts, error());
  EXPECT_THAT(found(), ElementsAre("14 plugin live_counts"));
  --plugin_side->live.events;
  backend->live_counts(plugin, &counts, error());
  EXPECT_THAT(found(), ElementsAre("14 plugin live_counts"));
}

TEST_F(PluginRules, MemoryThatContradictsItself) {
  plugin_side->backend.device_memory = [](yoke_device*, yoke_memory_info* info, yoke_error*) {
    info->used_bytes = info->peak_bytes = 1;
    return YOKE_OK;
  };
  enter();
  make_buffer(16);
  yoke_memory_info info{sizeof(info), 0, 0, 0};
  backend->device_memory(device, &info, error());
  EXPECT_THAT(found(), ElementsAre("26 plugin device_memory"));
}

TEST_F(PluginRules, ASourceWordThatIsNone) {
  plugin_side->source = 7;
  enter();
  const std::vector<std::byte> data(16);
  copy_in(make_stream(), make_buffer(16), data.data(), 16);
  EXPECT_THAT(found(), ElementsAre("16 plugin from_host"));
}

TEST_F(PluginRules, OkForARangeThatLeavesTheBuffer) {
  plugin_side->backend.to_host = [](yoke_stream*, yoke_buffer*, std::uint64_t, void*, std::uint64_t,
                                    yoke_error*) { return YOKE_OK; };
  enter();
  std::vector<std::byte> data(32);
  backend->to_host(nullptr, make_buffer(16), 0, data.data(), 32, error());
  EXPECT_THAT(found(), ElementsAre("16 host to_host", "16 plugin to_host"));
}

TEST_F(PluginRules, AWaitThatGivesUpTooEarlyOrAnswersOkTooEarly) {
  plugin_side->stream.event_wait = [](yoke_event*, std::uint64_t, yoke_error*) { return YOKE_OK; };
  plugin_side->stream.stream_wait = [](yoke_stream*, std::uint64_t, yoke_error* e) {
    return fail(e, YOKE_DEADLINE_EXCEEDED, "not done");
  };
  plugin_side->is_done = false;
  enter();
  auto* stream = make_stream();
  streams->event_wait(record(stream), 1'000, error());
  streams->stream_wait(stream, 1'000'000'000, error());
  EXPECT_THAT(found(), ElementsAre("21 plugin event_wait", "21 plugin stream_wait"));
}

TEST_F(PluginRules, AWaitThatReturnsLongAfterItsDeadline) {
  plugin_side->stream.stream_wait = [](yoke_stream*, std::uint64_t, yoke_error* e) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return fail(e, YOKE_DEADLINE_EXCEEDED, "not done");
  };
  enter();
  streams->stream_wait(make_stream(), 1'000'000, error());
  EXPECT_THAT(found(true), Contains("21 plugin stream_wait"));
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(PluginRules, ABoundedCallThatTakesLongIsAWarning) {
  plugin_side->backend.device_count = [](yoke_plugin*, std::uint32_t* out, yoke_error*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    *out = 1;
    return YOKE_OK;
  };
  enter();
  count_devices();
  EXPECT_THAT(found(true), Contains("20 plugin device_count"));
  EXPECT_EQ(layers::validation(*session).violations, 0);
  EXPECT_GE(layers::validation(*session).warnings, 1);
}

TEST_F(PluginRules, AnErrorThatDoesNotStay) {
  enter();
  auto* stream = make_stream();
  plugin_side->failure = YOKE_UNAVAILABLE;
  streams->stream_wait(stream, 1'000, error());
  plugin_side->failure = YOKE_OK;
  streams->stream_wait(stream, 1'000, error());
  EXPECT_THAT(found(), ElementsAre("19 plugin stream_wait"));
}

TEST_F(PluginRules, ALostDeviceThatComesBack) {
  enter();
  auto* stream = make_stream();
  plugin_side->failure = YOKE_DEVICE_LOST;
  streams->stream_wait(stream, 1'000, error());
  plugin_side->failure = YOKE_OK;
  create(&out_);
  EXPECT_THAT(found(), ElementsAre("19 plugin buffer_create"));
}

TEST_F(PluginRules, FloatingPointModeSignalsAndLocaleAreItsHosts) {
  plugin_side->backend.device_count = [](yoke_plugin*, std::uint32_t* out, yoke_error*) {
    std::fesetround(FE_DOWNWARD);
    *out = 1;
    return YOKE_OK;
  };
  plugin_side->program.code_compile = [](yoke_device* on, const yoke_program_text* text, yoke_code** out,
                                         yoke_error* e) {
    ::signal(SIGUSR2, SIG_IGN);
    return calls::code_compile(on, text, out, e);
  };
  enter();
  count_devices();
  std::fesetround(FE_TONEAREST);
  compile("yoke.program 1\nprogram one() {\n  arg a : f32[4] out\n  a[i] = 1.0\n}\n");
  ::signal(SIGUSR2, SIG_DFL);
  EXPECT_THAT(found(), ElementsAre("22 plugin device_count", "22 plugin code_compile"));
  EXPECT_THAT(lines, Contains(HasSubstr("the floating-point mode")));
  EXPECT_THAT(lines, Contains(HasSubstr("a signal handler")));
}

TEST_F(PluginRules, AnExceptionBecomesAnAnswer) {
  plugin_side->on_call = [] { throw std::runtime_error("oops"); };
  enter();
  const std::vector<std::byte> data(16);
  EXPECT_EQ(copy_in(nullptr, make_buffer(16), data.data(), 16), YOKE_INTERNAL);
  EXPECT_THAT(status.text, HasSubstr("oops"));
  EXPECT_THAT(found(), Contains("13 plugin from_host"));
}

TEST_F(PluginRules, ADestroyThatThrowsIsReportedAndOver) {
  plugin_side->on_destroy = [] { throw std::runtime_error("oops"); };
  enter();
  void* const memory = plugin_side->host.allocate(plugin_side->host.host, 16, 8);
  backend->device_close(device, error());
  EXPECT_THROW(plugin->destroy(plugin), std::runtime_error);
  plugin->destroy(plugin);
  EXPECT_THAT(found(), ElementsAre("13 plugin destroy", "15 plugin destroy", "35 host destroy"));
  std::free(memory);
}

TEST_F(PluginRules, AnEntryOrATableThatThrowsIsReportedAndOver) {
  plugin_side->on_table = [] { throw std::runtime_error("oops"); };
  EXPECT_THROW(enter(), std::runtime_error);
  EXPECT_THAT(found(), ElementsAre("13 plugin get_table"));
  plugin_side->on_entry = [] { throw 7; };
  EXPECT_THROW(enter(), int);
  plugin_side->host.log(plugin_side->host.host, YOKE_LOG_INFO, "late", 4);
  EXPECT_THAT(found(), ElementsAre("13 plugin yoke_plugin_entry", "35 plugin log"));
}

TEST_F(PluginRules, SpansLinesAndMemoryOfTheHost) {
  enter();
  const yoke_host_api& host = plugin_side->host;
  host.trace_end(host.host);
  host.log(host.host, 9, "two\nlines", 9);
  void* const memory = host.allocate(host.host, 16, 8);
  host.deallocate(host.host, memory);
  host.deallocate(host.host, memory);
  EXPECT_THAT(found(), ElementsAre("20 plugin host.trace_end", "22 plugin host.log", "22 plugin host.log",
                                   "15 plugin host.deallocate"));
}

TEST_F(PluginRules, ALogLineAfterDestroy) {
  enter();
  backend->device_close(device, error());
  plugin->destroy(plugin);
  plugin_side->host.log(plugin_side->host.host, YOKE_LOG_INFO, "late", 4);
  EXPECT_THAT(found(), ElementsAre("35 plugin log"));
}

TEST_F(PluginRules, AskedToItFailsTheCall) {
  plugin_side->source = 7;
  enter("validate", true);
  const std::vector<std::byte> data(16);
  EXPECT_EQ(copy_in(make_stream(), make_buffer(16), data.data(), 16), YOKE_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("the plugin broke rule 16"));
}

TEST_F(PluginRules, OneThatKeepsThemIsNotBlamed) {
  enter();
  count_devices();
  yoke_option_spec row{};
  row.struct_size = sizeof(row);
  std::uint32_t count = 0;
  backend->option_specs(plugin, 1, &row, &count, error());
  EXPECT_EQ(count, 2U);
  EXPECT_STREQ(row.name, "first");
  EXPECT_THAT(found(), IsEmpty());
}

}  // namespace
}  // namespace yoke::test
