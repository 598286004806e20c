// SPDX-License-Identifier: Apache-2.0
// tests/unit/null/null_test.cpp: the template backend computes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "loaded_plugin.h"

namespace yoke::test {
namespace {

constexpr std::string_view kProgram =
    "yoke.program 1\n"
    "program rows(symbol row in 0..60 step 20) {\n"
    "  arg x : f32[60, 4] in\n"
    "  arg y : f32[20, 4] out\n"
    "  temp t : f32[20, 4]\n"
    "  t[b, i] = x[row + b, i] * 2.0\n"
    "  y[b, i] = t[b, i] + 1.0\n"
    "}\n";

class NullTest : public testing::Test {
 protected:
  ~NullTest() override { entered_.close(device_); }

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

TEST_F(NullTest, LaunchesAreCheckedAndLeaveMemoryUnchanged) {
  yoke_code* code = entered_.compile(device_, kProgram);
  yoke_buffer* x = entered_.buffer(device_, 960);
  yoke_buffer* y = entered_.buffer(device_, 320);
  yoke_buffer* workspace = entered_.buffer(device_, 512);
  yoke_routine* routine = entered_.link(code, 0, {x, y}, workspace);
  ASSERT_EQ(entered_.backend->fill(nullptr, y, 0, 320, "mark", 4, nullptr), YOKE_STATUS_OK);
  const auto args = sized<yoke_stream_args>();
  yoke_stream* queue = nullptr;
  ASSERT_EQ(entered_.streams->stream_create(device_, &args, &queue, nullptr), YOKE_STATUS_OK);
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

}  // namespace
}  // namespace yoke::test
