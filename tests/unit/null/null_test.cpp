// SPDX-License-Identifier: Apache-2.0
// tests/unit/null/null_test.cpp: the template backend implements
// every table, except that it computes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "loaded_plugin.h"

namespace yoke::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kTwoPrograms =
    "yoke.program 1\n"
    "program first(symbol row in 0..60 step 20) {\n"
    "  arg x : f32[60, 4] in\n"
    "  arg y : f32[20, 4] out\n"
    "  temp t : f32[20, 4]\n"
    "  t[b, i] = x[row + b, i] * 2.0\n"
    "  y[b, i] = t[b, i] + 1.0\n"
    "}\n"
    "program second() {\n"
    "  arg s : i32[] inout\n"
    "  s[] += 1\n"
    "}\n";

TEST(NullPluginTest, DeviceCountIsAnOptionOfThePlugin) {
  std::array<char, 256> reason{};
  std::uint32_t count = 99;
  {
    Entered none(entry_of_plugin("null"), {}, {text_option("devices", "0")});
    EXPECT_EQ(none.backend->device_count(none.plugin, &count, reason.data(), reason.size(), nullptr),
              YOKE_STATUS_OK);
    EXPECT_EQ(count, 0U);
    EXPECT_THAT(reason.data(), HasSubstr("the plugin option devices is 0"));
  }
  Entered three(entry_of_plugin("null"), {}, {text_option("devices", "3")});
  EXPECT_EQ(three.backend->device_count(three.plugin, &count, reason.data(), reason.size(), nullptr),
            YOKE_STATUS_OK);
  EXPECT_EQ(count, 3U);
  EXPECT_STREQ(reason.data(), "");
  three.close(three.open(2));
}

TEST(NullPluginTest, InvalidPluginOptionIsRejectedAtEntry) {
  TestHost host;
  for (const yoke_option& option : {text_option("devices", "many"), text_option("device", "1")}) {
    yoke_entry_args args = host.args();
    args.options = &option;
    args.option_count = 1;
    args.option_stride = sizeof option;
    yoke_plugin* plugin = nullptr;
    yoke_error error;
    EXPECT_EQ(entry_of_plugin("null")(&args, &plugin, &error), YOKE_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.text, HasSubstr("devices"));
    EXPECT_EQ(plugin, nullptr);
  }
}

class NullTest : public testing::Test {
 protected:
  ~NullTest() override { entered_.close(device_); }

  yoke_stream* stream() {
    const auto args = sized<yoke_stream_args>();
    yoke_stream* made = nullptr;
    EXPECT_EQ(entered_.streams->stream_create(device_, &args, &made, &entered_.error), YOKE_STATUS_OK);
    return made;
  }
  yoke_event* record(yoke_stream* stream, std::uint64_t flags = 0) {
    auto args = sized<yoke_event_args>();
    args.flags = flags;
    yoke_event* made = nullptr;
    EXPECT_EQ(entered_.streams->event_record(stream, &args, &made, &entered_.error), YOKE_STATUS_OK);
    return made;
  }
  std::int32_t state(yoke_stream* stream) {
    std::int32_t answer = -1;
    EXPECT_EQ(entered_.streams->stream_query(stream, &answer, nullptr), YOKE_STATUS_OK);
    return answer;
  }
  std::int32_t state(yoke_event* event) {
    std::int32_t answer = -1;
    EXPECT_EQ(entered_.streams->event_query(event, &answer, nullptr), YOKE_STATUS_OK);
    return answer;
  }

  Entered entered_{entry_of_plugin("null")};
  yoke_device* device_ = entered_.open();
};

TEST_F(NullTest, DescribesItsDeviceAndLogsThatItIsOpened) {
  auto info = sized<yoke_device_info>();
  ASSERT_EQ(entered_.backend->device_describe(entered_.plugin, 0, &info, nullptr), YOKE_STATUS_OK);
  EXPECT_STREQ(info.unique_id, "null:0");
  EXPECT_EQ(info.host_visible, 1);
  EXPECT_NE(info.type_mask & (1U << YOKE_TYPE_BF16), 0U);
  EXPECT_THAT(entered_.host.lines(), testing::Contains("1 device.open backend=null device=0"));
}

TEST_F(NullTest, BufferBeyondTheMemoryLimitIsRejected) {
  yoke_device* small = entered_.open(0, {integer_option("memory_limit", 1000)});
  yoke_buffer* buffer = nullptr;

  EXPECT_EQ(entered_.try_buffer(small, 1001, YOKE_MEMORY_DEVICE, &buffer), YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  EXPECT_THAT(entered_.error.text, AllOf(HasSubstr("1001 bytes requested"), HasSubstr("0 of 1000 in use")));
  EXPECT_EQ(entered_.try_buffer(small, 1000, YOKE_MEMORY_UNIFIED, &buffer), YOKE_STATUS_OK);

  entered_.backend->buffer_destroy(buffer);
  entered_.close(small);
}

TEST_F(NullTest, TwoProgramsBecomeTwoEntries) {
  yoke_code* code = entered_.compile(device_, kTwoPrograms);
  auto first = sized<yoke_entry_info>();
  auto second = sized<yoke_entry_info>();
  ASSERT_EQ(entered_.programs->code_describe(code, 0, &first, nullptr), YOKE_STATUS_OK);
  ASSERT_EQ(entered_.programs->code_describe(code, 1, &second, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(first.workspace_byte_count, 512U);  // 20 * 4 f32, in blocks of 256 bytes
  EXPECT_EQ(second.workspace_byte_count, 0U);
  EXPECT_STRNE(first.fingerprint, second.fingerprint);
  entered_.programs->code_destroy(code);
}

TEST_F(NullTest, InvalidProgramIsRejectedWithItsLocation) {
  const yoke_compile_args text =
      as_text("yoke.program 1\nprogram bad() {\n  arg y : f32[4] out\n  y[i] = nowhere[i]\n}\n");
  yoke_code* code = nullptr;

  EXPECT_EQ(entered_.programs->code_compile(device_, &text, &code, &entered_.error),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(entered_.error.text, AllOf(HasSubstr("line 4, column 10"), HasSubstr("nowhere")));
  EXPECT_EQ(code, nullptr);
}

TEST_F(NullTest, LaunchesAreCheckedAndLeaveMemoryUnchanged) {
  yoke_code* code = entered_.compile(device_, kTwoPrograms);
  yoke_buffer* x = entered_.buffer(device_, 960);
  yoke_buffer* y = entered_.buffer(device_, 320);
  yoke_buffer* workspace = entered_.buffer(device_, 512);
  yoke_routine* routine = entered_.link(code, 0, {x, y}, workspace);
  ASSERT_EQ(entered_.backend->fill(nullptr, y, 0, 320, "mark", 4, nullptr), YOKE_STATUS_OK);
  yoke_stream* queue = stream();
  const std::int64_t row = 40;
  const std::int64_t wrong_row = 30;

  EXPECT_EQ(entered_.programs->routine_launch(nullptr, routine, &row, 1, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.programs->routine_launch(queue, routine, &row, 1, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.programs->routine_launch(queue, routine, &wrong_row, 1, &entered_.error),
            YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(entered_.error.text, "symbol 'row' is 30; its range is 0..60 step 20");

  std::string got(4, '\0');
  EXPECT_EQ(entered_.backend->to_host(queue, y, 316, got.data(), 4, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(got, "mark");
  entered_.streams->stream_destroy(queue);
  entered_.programs->routine_destroy(routine);
  entered_.programs->code_destroy(code);
  for (yoke_buffer* buffer : {x, y, workspace}) {
    entered_.backend->buffer_destroy(buffer);
  }
}

TEST_F(NullTest, StreamsAndEventsAreAlwaysDone) {
  yoke_stream* first = stream();
  yoke_stream* second = stream();
  yoke_event* start = record(first, YOKE_EVENT_TIMING);
  EXPECT_EQ(entered_.streams->stream_wait_event(second, start, nullptr), YOKE_STATUS_OK);
  yoke_event* stop = record(second, YOKE_EVENT_TIMING);
  std::uint64_t elapsed_ns = 0;

  EXPECT_EQ(state(first), YOKE_STATE_DONE);
  EXPECT_EQ(state(stop), YOKE_STATE_DONE);
  EXPECT_EQ(entered_.streams->stream_wait(first, 0, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.streams->event_wait(stop, 0, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.streams->event_elapsed(start, stop, &elapsed_ns, nullptr), YOKE_STATUS_OK);
  EXPECT_LT(elapsed_ns, 10'000'000'000U);
  std::array<char, 12> text{};
  EXPECT_EQ(entered_.streams->stream_debug_text(first, text.data(), text.size(), nullptr), YOKE_STATUS_OK);
  EXPECT_STREQ(text.data(), "null stream");

  entered_.streams->stream_destroy(first);
  EXPECT_EQ(entered_.streams->event_wait(start, 0, nullptr), YOKE_STATUS_OK)
      << "an event may outlive its stream";
  entered_.streams->stream_destroy(second);
  entered_.streams->event_destroy(start);
  entered_.streams->event_destroy(stop);
}

TEST_F(NullTest, AbortFailsOneStreamOrAllStreamsOfTheDevice) {
  yoke_stream* aborted = stream();
  yoke_stream* other = stream();
  yoke_event* before = record(aborted);

  EXPECT_EQ(entered_.streams->stream_abort(aborted, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(state(aborted), YOKE_STATE_FAILED);
  EXPECT_EQ(entered_.streams->stream_wait(aborted, 0, nullptr), YOKE_STATUS_ABORTED);
  EXPECT_EQ(state(before), YOKE_STATE_DONE) << "its work was done before the abort";
  EXPECT_EQ(state(other), YOKE_STATE_DONE);

  EXPECT_EQ(entered_.streams->device_abort(device_, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.streams->stream_wait(other, 0, &entered_.error), YOKE_STATUS_ABORTED);
  EXPECT_EQ(entered_.error.text, "the device was aborted; close it and open it again");
  yoke_stream* late = stream();
  EXPECT_EQ(state(late), YOKE_STATE_FAILED) << "streams that are created later fail, too";
  entered_.streams->event_destroy(before);
  for (yoke_stream* each : {aborted, other, late}) {
    entered_.streams->stream_destroy(each);
  }
}

TEST_F(NullTest, HostCallbackReceivesTheStatusOfTheStream) {
  std::vector<std::int32_t> statuses;
  const auto note = [](void* user, std::int32_t status) {
    static_cast<std::vector<std::int32_t>*>(user)->push_back(status);
  };
  yoke_stream* queue = stream();
  EXPECT_EQ(entered_.streams->stream_host_callback(queue, note, &statuses, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.streams->stream_abort(queue, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.streams->stream_host_callback(queue, note, &statuses, nullptr), YOKE_STATUS_OK);
  EXPECT_THAT(statuses, testing::ElementsAre(YOKE_STATUS_OK, YOKE_STATUS_ABORTED));
  entered_.streams->stream_destroy(queue);
}

TEST_F(NullTest, TwoHandlesOfOneDeviceShareMemory) {
  yoke_device* again = entered_.open();
  std::int32_t allowed = 0;

  EXPECT_EQ(entered_.peers->peer_access(device_, again, &allowed, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(allowed, 1);
  entered_.close(again);
}

}  // namespace
}  // namespace yoke::test
