// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/host_test.cpp: the layer validate finds violations of the host.
#include <algorithm>
#include <sstream>

#include "layers_test.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ValidateHost : public LayersTest {};

TEST_F(ValidateHost, CorrectHostIsNotBlamed) {
  enter();
  auto* buffer = make_buffer(64);
  auto* stream = make_stream();
  copy_in(stream, buffer, kData.data(), 64);
  auto* event = record(stream);
  EXPECT_EQ(streams->event_wait(event, 10'000'000'000, error()), YOKE_STATUS_OK);
  streams->event_destroy(event);
  streams->stream_destroy(stream);
  backend->buffer_destroy(buffer);
  EXPECT_EQ(backend->device_close(device, error()), YOKE_STATUS_OK);
  EXPECT_EQ(backend->device_close(nullptr, error()), YOKE_STATUS_OK);
  backend->buffer_destroy(nullptr);
  streams->stream_destroy(nullptr);
  streams->event_destroy(nullptr);
  programs->code_destroy(nullptr);
  programs->routine_destroy(nullptr);
  plugin->destroy(plugin);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(ValidateHost, CloseWithLiveBufferIsReported) {
  enter();
  auto* buffer = make_buffer(16);
  EXPECT_EQ(backend->device_close(device, error()), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(found(), ElementsAre("14 host device_close"));
  backend->buffer_destroy(buffer);
  EXPECT_EQ(backend->device_close(device, error()), YOKE_STATUS_OK);  // the device stayed open
}

TEST_F(ValidateHost, RangeThatExceedsBufferIsReported) {
  enter();
  auto* buffer = make_buffer(16);
  EXPECT_EQ(copy_in(nullptr, buffer, kData.data(), 8, 9), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(copy_in(nullptr, buffer, kData.data(), 8, ~std::uint64_t{0}), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_THAT(found(), ElementsAre("16 host from_host", "16 host from_host"));
  EXPECT_THAT(lines, Contains(HasSubstr("8 bytes at offset 9 exceed the 16-byte buffer")));
}

TEST_F(ValidateHost, OverlappingCopyAndWrongPatternAreReported) {
  enter();
  auto* buffer = make_buffer(16);
  const std::byte pattern[4] = {};
  backend->device_to_device(nullptr, buffer, 0, buffer, 4, 8, error());
  backend->fill(nullptr, buffer, 0, 12, pattern, 3, error());
  backend->fill(nullptr, buffer, 0, 6, pattern, 4, error());
  EXPECT_THAT(found(), ElementsAre("16 host device_to_device", "16 host fill", "16 host fill"));
}

TEST_F(ValidateHost, DestroyingBufferOrStreamWithPendingWorkIsReported) {
  do_no_work(*control);
  enter();
  auto* buffer = make_buffer(16);
  auto* stream = make_stream();
  copy_in(stream, buffer, kData.data(), 16);
  backend->buffer_destroy(buffer);
  EXPECT_THAT(found(), ElementsAre("15 host buffer_destroy"));
  streams->stream_destroy(stream);
  EXPECT_THAT(found(), ElementsAre("15 host buffer_destroy", "18 host stream_destroy"));
}

TEST_F(ValidateHost, LaunchUsesTheBuffersOfItsRoutine) {
  do_no_work(*control);
  enter();
  auto* x = make_buffer(128);
  auto* y = make_buffer(64);
  auto* routine = link(compile(kScale), {{x, 0, 128, 0}, {y, 0, 64, 0}});
  auto* stream = make_stream();
  const std::int64_t row[] = {0};
  programs->routine_launch(stream, routine, row, 1, error());
  programs->routine_destroy(routine);
  backend->buffer_destroy(x);
  EXPECT_THAT(found(), ElementsAre("15 host routine_destroy", "15 host buffer_destroy"));
  streams->stream_wait(stream, 10'000'000'000, error());
  backend->buffer_destroy(y);
  EXPECT_THAT(found(), ElementsAre("15 host routine_destroy", "15 host buffer_destroy"));
}

TEST_F(ValidateHost, WaitOnStreamAlsoCompletesWorkItWaitedFor) {
  do_no_work(*control);
  enter();
  auto* buffer = make_buffer(16);
  auto* first = make_stream();
  auto* second = make_stream();
  copy_in(first, buffer, kData.data(), 16);
  streams->stream_wait_event(second, record(first), error());
  streams->stream_wait(second, 10'000'000'000, error());
  backend->buffer_destroy(buffer);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(ValidateHost, SourceChangedBeforeCopyIsDoneIsReported) {
  do_no_work(*control, YOKE_SOURCE_UNTIL_EVENT);
  enter();
  std::vector<std::byte> data(4096);
  auto* buffer = make_buffer(4096);
  auto* stream = make_stream();
  copy_in(stream, buffer, data.data(), 4096);
  data[100] = std::byte{1};
  streams->stream_wait(stream, 10'000'000'000, error());
  EXPECT_THAT(found(), ElementsAre("16 host from_host"));
  copy_in(stream, buffer, data.data(), 4096);
  streams->stream_wait(stream, 10'000'000'000, error());
  data[100] = std::byte{2};  // allowed after the wait
  EXPECT_THAT(found(), ElementsAre("16 host from_host"));
}

TEST_F(ValidateHost, HostCallbackMayChangeTheSourcesOfEarlierCopies) {
  do_no_work(*control, YOKE_SOURCE_UNTIL_EVENT);
  enter();
  std::vector<std::byte> data(64);
  auto* buffer = make_buffer(64);
  auto* stream = make_stream();
  const auto change = [](void* user, std::int32_t) { *static_cast<std::byte*>(user) = std::byte{1}; };
  for (const bool too_early : {false, true}) {
    copy_in(stream, buffer, data.data(), 64);
    data[1] = std::byte{too_early};
    streams->stream_host_callback(stream, change, data.data(), error());
    streams->stream_wait(stream, 10'000'000'000, error());
    EXPECT_EQ(found().size(), too_early ? 1U : 0U);
  }
}

TEST_F(ValidateHost, SourceThatIsAlsoATargetMayChange) {
  do_no_work(*control, YOKE_SOURCE_UNTIL_EVENT);
  enter();
  std::vector<std::byte> staging(64, std::byte{1});
  auto* buffer = make_buffer(64);
  auto* stream = make_stream();
  copy_in(stream, buffer, staging.data(), 64);
  backend->to_host(stream, buffer, 0, staging.data(), 64, error());  // in order after the copy
  staging[0] = std::byte{0};
  streams->stream_wait(stream, 10'000'000'000, error());
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(ValidateHost, WrongSymbolCountAndOverlappingArgumentsAreReported) {
  do_no_work(*control);
  enter();
  auto* code = compile(kScale);
  auto* x = make_buffer(128);
  auto* y = make_buffer(64);
  auto* good = link(code, {{x, 0, 128, 0}, {y, 0, 64, 0}});
  const std::int64_t row[] = {4, 4};
  programs->routine_launch(nullptr, good, row, 1, error());
  EXPECT_THAT(found(), IsEmpty());
  programs->routine_launch(nullptr, good, row, 2, error());
  EXPECT_THAT(found(), ElementsAre("26 host routine_launch"));
  link(code, {{x, 0, 128, 0}, {x, 64, 64, 0}});  // one range overlaps another
  link(code, {{x, 0, 128, 0}});                  // one binding is missing
  link(code, {{x, 64, 128, 0}, {y, 0, 64, 0}});  // a range exceeds its buffer
  link(code, {{x, 0, 128, 0}, {y, 0, 32, 0}});   // a range is smaller than its argument
  EXPECT_THAT(found(), ElementsAre("26 host routine_launch", "26 host routine_link", "26 host routine_link",
                                   "16 host routine_link", "26 host routine_link"));
  backend->buffer_destroy(y);
  EXPECT_THAT(found(), Contains("15 host buffer_destroy"));
  EXPECT_THAT(lines, Contains(HasSubstr("is destroyed while routines are linked to it")));
}

TEST_F(ValidateHost, LaunchOnAnotherStreamNeedsAnEvent) {
  do_no_work(*control);
  enter();
  auto* routine = link(compile(kScale), {{make_buffer(128), 0, 128, 0}, {make_buffer(64), 0, 64, 0}});
  auto* first = make_stream();
  auto* second = make_stream();
  const std::int64_t row[] = {0};
  programs->routine_launch(first, routine, row, 1, error());
  streams->stream_wait_event(second, record(first), error());
  programs->routine_launch(second, routine, row, 1, error());
  EXPECT_THAT(found(), IsEmpty());
  programs->routine_launch(first, routine, row, 1, error());
  EXPECT_THAT(found(), ElementsAre("20 host routine_launch"));
  streams->stream_wait(first, 10'000'000'000, error());
  streams->stream_wait(second, 10'000'000'000, error());
}

TEST_F(ValidateHost, CallFromTheLogSinkIsReported) {
  static std::function<void()> on_log;
  on_log = [&] { count_devices(); };
  host.api().log = [](auto...) { on_log(); };
  enter();
  plugin_host->log(plugin_host->host, YOKE_LOG_INFO, "a.line", 6);
  EXPECT_THAT(found(), ElementsAre("20 host device_count"));
}

TEST_F(ValidateHost, CallAfterDestroyIsRefused) {
  enter();
  backend->device_close(device, error());
  plugin->destroy(plugin);
  EXPECT_EQ(count_devices(), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(plugin->get_table(plugin, YOKE_BACKEND_TABLE), nullptr);
  plugin->destroy(plugin);
  EXPECT_THAT(found(), ElementsAre("35 host device_count", "35 host get_table", "35 host destroy"));
}

TEST_F(ValidateHost, CallThatEndsAfterDestroyIsNotTraced) {
  static std::function<void()> on_count;
  on_count = [&] { plugin->destroy(plugin); };  // as another thread might
  control->backend.device_count = [](auto, std::uint32_t* out, auto...) {
    on_count();
    *out = 1;
    return YOKE_STATUS_OK;
  };
  const TemporaryFolder folder;
  trace_file = folder / "run.yoketrace";
  enter("trace");
  backend->device_close(device, error());
  EXPECT_EQ(count_devices(), YOKE_STATUS_OK);
  session.reset();  // closes the file
  std::ostringstream text;
  replay::print(read_bytes(trace_file), text);
  EXPECT_THAT(text.str(), HasSubstr("device_close("));
  EXPECT_THAT(text.str(), testing::Not(HasSubstr("device_count(")));
}

TEST_F(ValidateHost, ViolationFailsTheCallWhenEnabled) {
  enter("validate", true);
  EXPECT_EQ(copy_in(nullptr, make_buffer(16), kData.data(), 32), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("rule 16"));
  EXPECT_EQ(backend->fill(nullptr, make_buffer(16), 12, 6, kData.data(), 4, error()),
            YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("exceed the 16-byte buffer")) << "the first of two violations";
  EXPECT_THAT(found(), ElementsAre("16 host from_host", "16 host fill", "16 host fill"));
  EXPECT_EQ(control->call_count, 0);
}

TEST_F(ValidateHost, UnknownFlagsAndMisalignedBindingsAreReported) {
  do_no_work(*control);
  enter();
  yoke_buffer_args buffer_args{sizeof(buffer_args), 4, 16, YOKE_MEMORY_DEVICE, 0};
  yoke_buffer* buffer = nullptr;
  EXPECT_EQ(backend->buffer_create(device, &buffer_args, &buffer, error()), YOKE_STATUS_UNIMPLEMENTED);
  auto* const y = make_buffer(64);
  link(compile(kScale), {{make_buffer(128), 0, 128, 1}, {y, 0, 64, 0}});
  record(make_stream(), YOKE_EVENT_TIMING);
  EXPECT_THAT(found(), ElementsAre("40 host buffer_create", "40 host routine_link"));
  link(compile(kScale), {{make_buffer(256), 2, 128, 0}, {y, 0, 64, 0}});
  EXPECT_THAT(found(), Contains("42 host routine_link"));
}

TEST_F(ValidateHost, MissingArgumentStructAndStrideAreReported) {
  control->backend.buffer_create = [](auto, auto, auto, auto error) {
    return fail(error, YOKE_STATUS_INVALID_ARGUMENT, "args is NULL");
  };
  control->backend.option_specs = [](auto, auto, auto, auto, auto out, auto) {
    *out = 0;
    return YOKE_STATUS_OK;
  };
  enter();
  yoke_buffer* buffer = nullptr;
  backend->buffer_create(device, nullptr, &buffer, error());
  yoke_option_spec row{};
  std::uint32_t count = 0;
  backend->option_specs(plugin, 1, 0, &row, &count, error());
  EXPECT_THAT(found(), ElementsAre("15 host buffer_create", "41 host option_specs"));
}

TEST_F(ValidateHost, ElapsedTimeOfEventsWithoutTimingIsReported) {
  enter();
  auto* const stream = make_stream();
  auto* const start = record(stream, YOKE_EVENT_TIMING);
  auto* const stop = record(stream);
  streams->stream_wait(stream, 10'000'000'000, error());
  std::uint64_t ns = 0;
  EXPECT_NE(streams->event_elapsed(start, stop, &ns, error()), YOKE_STATUS_OK);
  EXPECT_THAT(found(), ElementsAre("43 host event_elapsed"));
  EXPECT_THAT(lines, Contains(HasSubstr("was recorded without YOKE_EVENT_TIMING")));
}

TEST_F(ValidateHost, FailedWorkHasEnded) {
  control->fail_after = 0;
  enter();
  auto* const buffer = make_buffer(16);
  auto* const stream = make_stream();
  copy_in(stream, buffer, kData.data(), 16);
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_INTERNAL);
  backend->buffer_destroy(buffer);
  EXPECT_THAT(found(), IsEmpty());
}

// A table that the layers do not know, with a function that takes a handle.
struct PrivateTable {
  std::uint64_t struct_size;
  std::int32_t (*memory)(yoke_device*, yoke_memory_info*, yoke_error*);
};

class PassThrough : public LayersTest {
 protected:
  PassThrough() {
    control->on_table = [&](const char* id, const void* table) {
      return std::string_view(id) == kId ? &table_ : table;
    };
  }
  static constexpr const char* kId = "org.example.private/1";
  const PrivateTable table_{sizeof(PrivateTable), sdk::detail::device_memory};
};

TEST_F(PassThrough, UnknownTableWorksWithHandlesAndIsLoggedOnceOrRefusedUnderStrict) {
  enter();
  const auto* const table = static_cast<const PrivateTable*>(plugin->get_table(plugin, kId));
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(plugin->get_table(plugin, kId), table);
  yoke_memory_info info{sizeof(info), 0, 0, 0};
  make_buffer(512);
  EXPECT_EQ(table->memory(device, &info, nullptr), YOKE_STATUS_OK);
  EXPECT_GE(info.used_bytes, 512U);
  const std::string line = "layers.pass_through table=org.example.private/1 backend=fake";
  EXPECT_EQ(std::count(lines.begin(), lines.end(), line), 1);
  strict = true;
  enter();
  EXPECT_EQ(plugin->get_table(plugin, kId), nullptr);
  EXPECT_EQ(plugin->get_table(plugin, "org.example.missing/1"), nullptr);
  EXPECT_THAT(lines,
              Contains(HasSubstr("layers.pass_through table=org.example.private/1 backend=fake refused=1")));
}

TEST_F(PassThrough, TablesOfTheHostAreLoggedOnceAndRefusedUnderStrict) {
  static const std::uint64_t of_host = sizeof(of_host);
  host.api().get_table = [](void*, const char* id) -> const void* {
    return std::string_view(id) == kId ? &of_host : nullptr;
  };
  enter();
  EXPECT_EQ(plugin_host->get_table(plugin_host->host, kId), &of_host);
  EXPECT_EQ(plugin_host->get_table(plugin_host->host, kId), &of_host);
  EXPECT_EQ(plugin_host->get_table(plugin_host->host, "org.example.missing/1"), nullptr);
  const auto is_passed = [](const std::string& line) { return line.find("pass_through") != line.npos; };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_passed), 1);
  strict = true;
  enter();
  EXPECT_EQ(plugin_host->get_table(plugin_host->host, kId), nullptr);
  EXPECT_THAT(lines, Contains(HasSubstr("table=org.example.private/1 backend=fake refused=1")));
}

TEST_F(PassThrough, MissingFunctionStaysNull) {
  control->backend.fill = nullptr;
  enter();
  EXPECT_EQ(backend->fill, nullptr);
  EXPECT_NE(backend->from_host, control->backend.from_host);
}

}  // namespace
}  // namespace yoke::test
