// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_program_test.cpp: what the SDK checks before a plugin links or launches, and what a
// launch costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <vector>

#include "fake_backend.h"
#include "loaded_plugin.h"

namespace yoke::test {

extern std::atomic<std::uint64_t> allocation_count;  // count_allocations.cpp

namespace {

using testing::HasSubstr;

// One program: x and w in, y out, of 4 f32 each; a workspace of 64 bytes; two symbols.
class SdkProgramTest : public testing::Test {
 protected:
  SdkProgramTest() {
    current_script = &script_;
    sdk::Entry entry;
    entry.name = "fake";
    entry.arguments = {{"x", YOKE_F32, YOKE_ACCESS_IN, {2, 2}, 16, 4},
                       {"w", YOKE_F32, YOKE_ACCESS_IN, {4}, 16, 4},
                       {"y", YOKE_F32, YOKE_ACCESS_OUT, {4}, 16, 4}};
    entry.symbols = {{"row", -100, 100, 50}, {"step", 0, std::numeric_limits<std::int64_t>::max(), 1}};
    entry.workspace_byte_count = 64;
    entry.fingerprint = "f";
    script_.entries = {entry};
  }

  void SetUp() override {
    entered_ = std::make_unique<Entered>(fake_entry);
    device_ = entered_->open();
    memory_ = entered_->buffer(device_, 256);
    const yoke_program_text text = as_text("any");
    ASSERT_EQ(entered_->programs->code_compile(device_, &text, &code_, &entered_->error), YOKE_OK)
        << entered_->error.text;
  }
  void TearDown() override {
    entered_->programs->code_destroy(code_);
    entered_->backend->buffer_destroy(memory_);
    entered_->close(device_);
  }

  // x at 0, w at 16, y at 32, workspace at 64 unless said otherwise.
  std::int32_t link(std::vector<yoke_binding> bindings, std::uint64_t workspace_offset = 64) {
    return entered_->programs->routine_link(code_, 0, bindings.data(),
                                            static_cast<std::uint32_t>(bindings.size()), memory_,
                                            workspace_offset, &routine_, &entered_->error);
  }
  void link_well() {
    ASSERT_EQ(link({{memory_, 0}, {memory_, 16}, {memory_, 32}}), YOKE_OK) << entered_->error.text;
  }
  std::int32_t launch(const std::vector<std::int64_t>& values) {
    return entered_->programs->routine_launch(nullptr, routine_, values.data(),
                                              static_cast<std::uint32_t>(values.size()), &entered_->error);
  }
  void unlink() {
    entered_->programs->routine_destroy(routine_);
    routine_ = nullptr;
  }

  Script script_;
  std::unique_ptr<Entered> entered_;
  yoke_device* device_ = nullptr;
  yoke_buffer* memory_ = nullptr;
  yoke_code* code_ = nullptr;
  yoke_routine* routine_ = nullptr;
};

TEST_F(SdkProgramTest, CodeIsDescribed) {
  yoke_entry_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(entered_->programs->code_describe(code_, 0, &info, nullptr), YOKE_OK);
  EXPECT_STREQ(info.name, "fake");
  EXPECT_EQ(info.argument_count, 3U);
  EXPECT_EQ(info.symbol_count, 2U);
  EXPECT_EQ(info.workspace_byte_count, 64U);
  EXPECT_EQ(info.deterministic, 1);

  yoke_argument_info argument{};
  argument.struct_size = sizeof argument;
  ASSERT_EQ(entered_->programs->code_argument(code_, 0, 0, &argument, nullptr), YOKE_OK);
  EXPECT_STREQ(argument.name, "x");
  EXPECT_EQ(argument.rank, 2U);
  EXPECT_EQ(argument.dims[1], 2U);
  EXPECT_EQ(argument.access, YOKE_ACCESS_IN);

  EXPECT_EQ(entered_->programs->code_describe(code_, 1, &info, &entered_->error), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(entered_->programs->code_argument(code_, 0, 3, &argument, &entered_->error), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(entered_->error.text, "program 'fake' has no argument 3, only 3");
}

TEST_F(SdkProgramTest, OtherFormatsAreNotRead) {
  yoke_program_text text = as_text("any");
  yoke_code* code = nullptr;
  text.format = "spir-v";
  EXPECT_EQ(entered_->programs->code_compile(device_, &text, &code, &entered_->error), YOKE_UNIMPLEMENTED);
  EXPECT_EQ(entered_->error.text, "the format 'spir-v' 1 is not read here; read is 'yoke.program' 1");

  text = as_text("any");
  text.version = 2;
  EXPECT_EQ(entered_->programs->code_compile(device_, &text, &code, nullptr), YOKE_UNIMPLEMENTED);
  EXPECT_EQ(code, nullptr);

  yoke_format format{};
  format.struct_size = sizeof format;
  std::uint32_t count = 0;
  ASSERT_EQ(entered_->programs->formats(entered_->plugin, 1, &format, &count, nullptr), YOKE_OK);
  EXPECT_EQ(count, 1U);
  EXPECT_STREQ(format.format, YOKE_PROGRAM_FORMAT);
}

TEST_F(SdkProgramTest, VerdictsComeInRowsAndLongReasonsAreCut) {
  std::array<yoke_verdict, 2> verdicts{};
  verdicts[0].struct_size = verdicts[1].struct_size = sizeof(yoke_verdict);
  const yoke_program_text text = as_text("any");
  std::uint32_t count = 0;

  ASSERT_EQ(entered_->programs->can_compile(device_, &text, 2, verdicts.data(), &count, nullptr), YOKE_OK);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(verdicts[1].statement, 1U);
  EXPECT_EQ(verdicts[1].verdict, YOKE_VERDICT_UNSUPPORTED);
  EXPECT_EQ(std::string(verdicts[1].reason).size(), YOKE_REASON_CAPACITY - 1U);
}

TEST_F(SdkProgramTest, BindingsAreCheckedBeforeThePluginSeesThem) {
  EXPECT_EQ(link({{memory_, 0}, {memory_, 16}}), YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(entered_->error.text, "program 'fake' has 3 arguments, got 2 bindings");
  EXPECT_EQ(link({{memory_, 0}, {memory_, 244}, {memory_, 32}}), YOKE_OUT_OF_RANGE);
  EXPECT_THAT(entered_->error.text, HasSubstr("argument 'w' of program 'fake'"));
  EXPECT_EQ(link({{memory_, 0}, {memory_, 18}, {memory_, 36}}), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("no multiple of 4"));
  EXPECT_EQ(link({{nullptr, 0}, {memory_, 16}, {memory_, 32}}), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("argument 'x' of program 'fake' has no buffer"));
  EXPECT_EQ(link({{memory_, 0}, {memory_, 16}, {memory_, 32}}, 100), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("workspace"));
  EXPECT_EQ(entered_->live_counts().routines, 0U);
}

TEST_F(SdkProgramTest, OverlapIsRefusedWhereSomethingIsWritten) {
  EXPECT_EQ(link({{memory_, 0}, {memory_, 0}, {memory_, 12}}), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("overlap"));
  EXPECT_EQ(link({{memory_, 0}, {memory_, 16}, {memory_, 112}}), YOKE_INVALID_ARGUMENT)
      << "y lies in the workspace";

  EXPECT_EQ(link({{memory_, 0}, {memory_, 8}, {memory_, 32}}), YOKE_OK)
      << "two arguments that are only read may overlap";
  unlink();
}

TEST_F(SdkProgramTest, MemoryOfADeviceWithoutPeerAccessIsRefused) {
  yoke_device* other = entered_->open(1);
  yoke_buffer* far = entered_->buffer(other, 64);
  std::int32_t allowed = 1;

  EXPECT_EQ(link({{far, 0}, {memory_, 16}, {memory_, 32}}), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("is memory of device 1, which device 0 cannot use in place"));
  EXPECT_EQ(entered_->peers->peer_access(device_, other, &allowed, nullptr), YOKE_OK);
  EXPECT_EQ(allowed, 0);
  EXPECT_EQ(entered_->peers->peer_access(device_, device_, &allowed, nullptr), YOKE_OK);
  EXPECT_EQ(allowed, 1);

  entered_->backend->buffer_destroy(far);
  entered_->close(other);
}

TEST_F(SdkProgramTest, SymbolsInRangeAndOnStepAreLaunched) {
  link_well();

  EXPECT_EQ(launch({-100, 0}), YOKE_OK);
  EXPECT_EQ(launch({50, std::numeric_limits<std::int64_t>::max() - 1}), YOKE_OK);

  EXPECT_THAT(script_.launches,
              testing::ElementsAre(testing::ElementsAre(-100, 0),
                                   testing::ElementsAre(50, std::numeric_limits<std::int64_t>::max() - 1)));
  unlink();
}

TEST_F(SdkProgramTest, SymbolsOutOfRangeOrOffStepAreRefused) {
  link_well();

  EXPECT_EQ(launch({100, 0}), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(entered_->error.text, "symbol 'row' is 100; declared are -100..100 step 50");
  EXPECT_EQ(launch({-150, 0}), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(launch({-99, 0}), YOKE_OUT_OF_RANGE) << "between two steps";
  EXPECT_EQ(launch({0, -1}), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(launch({0}), YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(launch({0, 0, 0}), YOKE_INVALID_ARGUMENT);

  EXPECT_TRUE(script_.launches.empty());
  unlink();
}

TEST_F(SdkProgramTest, RoutineOutlivesItsCode) {
  link_well();
  entered_->programs->code_destroy(code_);
  code_ = nullptr;
  EXPECT_EQ(entered_->live_counts().codes, 0U);
  EXPECT_EQ(script_.codes_alive, 1);

  EXPECT_EQ(launch({0, 0}), YOKE_OK);

  unlink();
  EXPECT_EQ(script_.codes_alive, 0);
}

TEST_F(SdkProgramTest, DeviceNamesEachKindOfChildThatKeepsItOpen) {
  link_well();

  EXPECT_EQ(entered_->backend->device_close(device_, &entered_->error), YOKE_FAILED_PRECONDITION);
  EXPECT_EQ(entered_->error.text,
            "device 0 stays open: 1 buffer, 1 code, 1 routine alive; destroy them first");
  unlink();
}

TEST_F(SdkProgramTest, LaunchAllocatesNothingAndAddsLessThanAHundredNanoseconds) {
  link_well();
  script_.keep_launches = false;
  const std::array<std::int64_t, 2> values = {50, 7};
  constexpr int kLaunches = 10000;
  double best_ns = std::numeric_limits<double>::max();
  std::int32_t codes = 0;

  const std::uint64_t before = allocation_count.load();
  for (int batch = 0; batch < 20; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) {
      codes |= entered_->programs->routine_launch(nullptr, routine_, values.data(), 2, nullptr);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, took.count() / kLaunches);
  }

  EXPECT_EQ(allocation_count.load(), before);
  EXPECT_EQ(codes, YOKE_OK);
  RecordProperty("launch_ns", std::to_string(best_ns));
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(best_ns, 100.0);
#endif
  unlink();
}

}  // namespace
}  // namespace yoke::test
