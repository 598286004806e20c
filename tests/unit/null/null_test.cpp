// SPDX-License-Identifier: Apache-2.0
// tests/unit/null/null_test.cpp: the template answers every call of every tier; nobody asks it to compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "loaded_plugin.h"

namespace yoke::test {
namespace {

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

class NullTest : public testing::Test {
 protected:
  void SetUp() override {
    const yoke_plugin_entry_fn entry = entry_of_plugin("null");
    ASSERT_NE(entry, nullptr);
    entered_ = std::make_unique<Entered>(entry);
    device_ = entered_->open();
  }
  void TearDown() override {
    entered_->close(device_);
    entered_.reset();  // checks that nothing is alive
  }

  yoke_code* compile(std::string_view bytes) {
    const yoke_program_text text = as_text(bytes);
    yoke_code* code = nullptr;
    EXPECT_EQ(entered_->programs->code_compile(device_, &text, &code, &entered_->error), YOKE_OK)
        << entered_->error.text;
    return code;
  }
  yoke_stream* stream() {
    yoke_stream* made = nullptr;
    EXPECT_EQ(entered_->streams->stream_create(device_, 0, &made, &entered_->error), YOKE_OK);
    return made;
  }
  yoke_event* record(yoke_stream* stream) {
    yoke_event* made = nullptr;
    EXPECT_EQ(entered_->streams->event_record(stream, &made, &entered_->error), YOKE_OK);
    return made;
  }

  std::unique_ptr<Entered> entered_;
  yoke_device* device_ = nullptr;
};

TEST_F(NullTest, HasOneDeviceAndEveryTier) {
  std::uint32_t count = 0;
  EXPECT_EQ(entered_->backend->device_count(entered_->plugin, &count, nullptr), YOKE_OK);
  EXPECT_EQ(count, 1U);
  EXPECT_NE(entered_->streams, nullptr);
  EXPECT_NE(entered_->programs, nullptr);
  EXPECT_NE(entered_->peers, nullptr);

  yoke_device_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(entered_->backend->device_describe(entered_->plugin, 0, &info, nullptr), YOKE_OK);
  EXPECT_STREQ(info.unique_id, "null:0");
  EXPECT_EQ(info.host_visible, 1);
  EXPECT_GE(info.compute_unit_count, 1U);
  EXPECT_GE(info.suggested_stream_count, 1U);
  EXPECT_NE(info.type_mask & (1U << YOKE_BF16), 0U);
}

TEST_F(NullTest, LogsThroughTheHostWhenADeviceIsOpened) {
  EXPECT_THAT(entered_->host.lines(), testing::Contains("1 device.open backend=null device=0"));
}

TEST_F(NullTest, MemoryLimitIsAnOptionThatHolds) {
  yoke_device* small = entered_->open(0, {integer_option("memory_limit", 1000)});
  yoke_buffer* buffer = nullptr;

  EXPECT_EQ(entered_->backend->buffer_create(small, 1001, YOKE_MEMORY_DEVICE, &buffer, &entered_->error),
            YOKE_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(entered_->error.text, "device 0 has no room for 1001 bytes: 0 of 1000 are in use");
  EXPECT_EQ(entered_->backend->buffer_create(small, 1000, YOKE_MEMORY_UNIFIED, &buffer, nullptr), YOKE_OK);

  entered_->backend->buffer_destroy(buffer);
  entered_->close(small);
}

TEST_F(NullTest, TextOfTwoProgramsBecomesCodeWithTwoEntries) {
  yoke_code* code = compile(kTwoPrograms);
  std::uint32_t count = 0;
  EXPECT_EQ(entered_->programs->code_entry_count(code, &count, nullptr), YOKE_OK);
  EXPECT_EQ(count, 2U);

  yoke_entry_info first{};
  yoke_entry_info second{};
  first.struct_size = second.struct_size = sizeof first;
  ASSERT_EQ(entered_->programs->code_describe(code, 0, &first, nullptr), YOKE_OK);
  ASSERT_EQ(entered_->programs->code_describe(code, 1, &second, nullptr), YOKE_OK);
  EXPECT_STREQ(first.name, "first");
  EXPECT_EQ(first.argument_count, 2U);
  EXPECT_EQ(first.symbol_count, 1U);
  EXPECT_EQ(first.workspace_byte_count, 320U);  // 20 * 4 f32
  EXPECT_STREQ(second.name, "second");
  EXPECT_EQ(second.workspace_byte_count, 0U);
  EXPECT_STRNE(first.fingerprint, second.fingerprint);

  yoke_argument_info argument{};
  argument.struct_size = sizeof argument;
  ASSERT_EQ(entered_->programs->code_argument(code, 0, 1, &argument, nullptr), YOKE_OK);
  EXPECT_STREQ(argument.name, "y");
  EXPECT_EQ(argument.type, YOKE_F32);
  EXPECT_EQ(argument.access, YOKE_ACCESS_OUT);
  EXPECT_EQ(argument.rank, 2U);
  EXPECT_EQ(argument.dims[0], 20U);
  EXPECT_EQ(argument.byte_count, 320U);
  ASSERT_EQ(entered_->programs->code_argument(code, 1, 0, &argument, nullptr), YOKE_OK);
  EXPECT_EQ(argument.type, YOKE_I32);
  EXPECT_EQ(argument.access, YOKE_ACCESS_INOUT);
  EXPECT_EQ(argument.rank, 0U);
  entered_->programs->code_destroy(code);
}

TEST_F(NullTest, EveryStatementGetsAVerdict) {
  const yoke_program_text text = as_text(kTwoPrograms);
  std::array<yoke_verdict, 4> verdicts{};
  for (yoke_verdict& verdict : verdicts) {
    verdict.struct_size = sizeof verdict;
  }
  std::uint32_t count = 0;

  ASSERT_EQ(entered_->programs->can_compile(device_, &text, 4, verdicts.data(), &count, &entered_->error),
            YOKE_OK);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(verdicts[1].program, 0U);
  EXPECT_EQ(verdicts[1].statement, 1U);
  EXPECT_EQ(verdicts[2].program, 1U);
  EXPECT_EQ(verdicts[2].verdict, YOKE_VERDICT_NATIVE);
}

TEST_F(NullTest, InvalidProgramIsRefusedWithItsPlace) {
  const yoke_program_text text =
      as_text("yoke.program 1\nprogram bad() {\n  arg y : f32[4] out\n  y[i] = nowhere[i]\n}\n");
  yoke_code* code = nullptr;
  std::uint32_t count = 0;

  EXPECT_EQ(entered_->programs->code_compile(device_, &text, &code, &entered_->error), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("line 4, column 10"));
  EXPECT_THAT(entered_->error.text, HasSubstr("nowhere"));
  EXPECT_EQ(entered_->programs->can_compile(device_, &text, 0, nullptr, &count, nullptr),
            YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(code, nullptr);
}

TEST_F(NullTest, LaunchesAreCheckedAndChangeNoMemory) {
  yoke_code* code = compile(kTwoPrograms);
  yoke_buffer* x = entered_->buffer(device_, 960);
  yoke_buffer* y = entered_->buffer(device_, 320);
  yoke_buffer* workspace = entered_->buffer(device_, 320);
  const std::array<yoke_binding, 2> bindings = {{{x, 0}, {y, 0}}};
  yoke_routine* routine = nullptr;
  ASSERT_EQ(entered_->backend->fill(nullptr, y, 0, 320, "mark", 4, nullptr), YOKE_OK);
  ASSERT_EQ(
      entered_->programs->routine_link(code, 0, bindings.data(), 2, workspace, 0, &routine, &entered_->error),
      YOKE_OK)
      << entered_->error.text;
  yoke_stream* queue = stream();
  const std::int64_t row = 40;
  const std::int64_t wrong_row = 30;

  EXPECT_EQ(entered_->programs->routine_launch(nullptr, routine, &row, 1, nullptr), YOKE_OK);
  EXPECT_EQ(entered_->programs->routine_launch(queue, routine, &row, 1, nullptr), YOKE_OK);
  EXPECT_EQ(entered_->programs->routine_launch(queue, routine, &wrong_row, 1, &entered_->error),
            YOKE_OUT_OF_RANGE);
  EXPECT_EQ(entered_->error.text, "symbol 'row' is 30; declared are 0..60 step 20");

  std::string got(4, '\0');
  EXPECT_EQ(entered_->backend->to_host(queue, y, 316, got.data(), 4, nullptr), YOKE_OK);
  EXPECT_EQ(got, "mark");
  entered_->streams->stream_destroy(queue);
  entered_->programs->routine_destroy(routine);
  entered_->programs->code_destroy(code);
  for (yoke_buffer* buffer : {x, y, workspace}) {
    entered_->backend->buffer_destroy(buffer);
  }
}

TEST_F(NullTest, StreamsAndEventsAreDoneWhenTheyAreAsked) {
  yoke_stream* first = stream();
  yoke_stream* second = stream();
  yoke_event* start = record(first);
  EXPECT_EQ(entered_->streams->stream_wait_event(second, start, nullptr), YOKE_OK);
  yoke_event* stop = record(second);
  EXPECT_EQ(entered_->live_counts().streams, 2U);
  EXPECT_EQ(entered_->live_counts().events, 2U);
  std::int32_t done = 0;
  std::uint64_t elapsed_ns = 0;

  EXPECT_EQ(entered_->streams->stream_query(first, &done, nullptr), YOKE_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(entered_->streams->event_query(stop, &done, nullptr), YOKE_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(entered_->streams->stream_wait(first, 0, nullptr), YOKE_OK);
  EXPECT_EQ(entered_->streams->event_wait(stop, 0, nullptr), YOKE_OK);
  EXPECT_EQ(entered_->streams->event_elapsed(start, stop, &elapsed_ns, nullptr), YOKE_OK);
  EXPECT_LT(elapsed_ns, 10'000'000'000U);
  std::array<char, 12> text{};
  EXPECT_EQ(entered_->streams->stream_debug_text(first, text.data(), text.size(), nullptr), YOKE_OK);
  EXPECT_STREQ(text.data(), "null stream");

  entered_->streams->stream_destroy(first);
  EXPECT_EQ(entered_->streams->event_wait(start, 0, nullptr), YOKE_OK) << "an event may outlive its stream";
  entered_->streams->stream_destroy(second);
  entered_->streams->event_destroy(start);
  entered_->streams->event_destroy(stop);
}

TEST_F(NullTest, AbortEndsEveryWaitOfTheDevice) {
  yoke_stream* queue = stream();
  yoke_event* event = record(queue);

  EXPECT_EQ(entered_->streams->device_abort(device_, nullptr), YOKE_OK);

  EXPECT_EQ(entered_->streams->stream_wait(queue, 0, &entered_->error), YOKE_ABORTED);
  EXPECT_EQ(entered_->error.text, "the null device was aborted; close it and open it again");
  EXPECT_EQ(entered_->streams->event_wait(event, 0, nullptr), YOKE_ABORTED);
  entered_->streams->event_destroy(event);
  entered_->streams->stream_destroy(queue);
}

TEST_F(NullTest, TwoHandlesOfOneDeviceShareMemory) {
  yoke_device* again = entered_->open();
  std::int32_t allowed = 0;

  EXPECT_EQ(entered_->peers->peer_access(device_, again, &allowed, nullptr), YOKE_OK);
  EXPECT_EQ(allowed, 1);
  entered_->close(again);
}

}  // namespace
}  // namespace yoke::test
