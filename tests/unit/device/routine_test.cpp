// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/routine_test.cpp: linking checks every binding, and its errors name the argument.
#include <yoke/runtime/collective.h>

#include "device_test.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

class RoutineTest : public DeviceTest {
 protected:
  std::shared_ptr<Buffer> memory(std::uint64_t byte_count) { return rig().buffer(byte_count).buffer; }
  // Returns the error from linking `second` (a in, b inout, 32 bytes each),
  // and checks that no call reaches the plugin.
  Error refusal(std::vector<BufferView> bindings) {
    const auto compiled = compile(device(), kTwoPrograms);
    const auto error = error_of([&] { (void)Routine::link(compiled, 1, std::move(bindings)); });
    EXPECT_EQ(control_->link_count, 0U);
    return error;
  }
};

TEST_F(RoutineTest, RoutineKeepsItsCodeAndBuffersAlive) {
  auto code = compile(device(), kTwoPrograms);
  auto both = memory(64);
  auto routine = Routine::link(code, 1, {{both, 0, 32}, {both, 32, 32}});
  code.reset();
  both.reset();

  EXPECT_EQ(routine->entry().name, "second");
  EXPECT_EQ(routine->bindings()[1].offset, 32U);
  EXPECT_EQ(backend()->live_counts().routines, 1U);
  EXPECT_EQ(backend()->live_counts().buffers, 1U);

  routine.reset();
  const auto counts = backend()->live_counts();
  EXPECT_EQ(counts.routines + counts.buffers + counts.codes, 0U);
}

TEST_F(RoutineTest, RuntimeAllocatesTheWorkspaceOnTheDevice) {
  control_->on_describe = [](std::vector<sdk::Entry>& entries) { entries[1].workspace_byte_count = 4096; };
  const auto code = compile(device(), kTwoPrograms);
  const auto both = memory(64);
  const auto before = device()->memory().used_bytes;
  auto routine = Routine::link(code, 1, {{both, 0, 32}, {both, 32, 32}});
  EXPECT_EQ(device()->memory().used_bytes, before + 4096);
  routine.reset();
  EXPECT_EQ(device()->memory().used_bytes, before);
}

TEST_F(RoutineTest, InvalidBindingsAreRefused) {
  const auto both = memory(64);
  const BufferView good = {memory(32), 0, 32};
  const struct {
    std::vector<BufferView> bindings;
    ErrorCode code;
    const char* text;
  } kCases[] = {
      {{good},
       ErrorCode::kInvalidArgument,
       "test0:0: link of 'second': 2 bindings are required, 1 was given"},
      {{good, {}}, ErrorCode::kInvalidArgument, "argument 'b' has no buffer"},
      {{{memory(32), 0, 28}, good}, ErrorCode::kOutOfRange, "argument 'a' needs 32 bytes but is bound to 28"},
      {{{memory(32), 16, 32}, good},
       ErrorCode::kOutOfRange,
       "argument 'a': range [16, 48) exceeds the 32-byte buffer"},
      {{{memory(32), ~std::uint64_t{0} - 3, 32}, good},
       ErrorCode::kOutOfRange,
       "argument 'a': 32 bytes from offset 18446744073709551612 exceed the 32-byte buffer"},
      {{{both, 2, 32}, good},
       ErrorCode::kInvalidArgument,
       "argument 'a' is bound at offset 2, but needs an alignment of 4 bytes"},
      {{{both, 0, 32}, {both, 28, 32}},
       ErrorCode::kInvalidArgument,
       "argument 'b' is written and overlaps argument 'a'"},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.text);
    const Error error = refusal(one.bindings);
    EXPECT_EQ(error.code(), one.code);
    EXPECT_THAT(error.what(), HasSubstr(one.text));
  }
}

TEST_F(RoutineTest, AlignmentThatTheBackendStatesIsHonored) {
  control_->on_describe = [](std::vector<sdk::Entry>& entries) { entries[1].arguments[1].alignment = 256; };
  const auto code = compile(device(), kTwoPrograms);
  EXPECT_EQ(code->entry("second").arguments[1].alignment, 256U);
  const auto both = memory(512);
  EXPECT_NE(Routine::link(code, 1, {{both, 4, 32}, {both, 256, 32}}), nullptr);
  EXPECT_THAT(error_of([&] {
                (void)Routine::link(code, 1, {{both, 0, 32}, {both, 64, 32}});
              }),
              is_error(ErrorCode::kInvalidArgument,
                       "argument 'b' is bound at offset 64, but needs an alignment of 256 bytes"));
}

TEST_F(RoutineTest, ContextsAndSlicesAreAlignedForEveryBackend) {
  control_->on_describe = [](std::vector<sdk::Entry>& entries) {
    for (auto& argument : entries[0].arguments) {
      argument.alignment = YOKE_BUFFER_ALIGNMENT;
    }
  };
  const std::vector<float> values(1000, 1);
  std::vector<Context> shards;
  for (int k = 0; k < 3; ++k) {
    shards.emplace_back(rig().stream());
    shards.back().init_from_host("g", {YOKE_TYPE_F32, {values.size()}}, bytes(values));
  }
  Collectives::create(MergeStrategy::kDirect, shards)
      ->reduce("g")
      .run();  // shards merge slices of one buffer
  EXPECT_EQ(read<float>(*shards[0].stream(), shards[0].tensor("g").view), std::vector<float>(1000, 3));
}

TEST_F(RoutineTest, MemoryOfAnUnreachableDeviceIsRefused) {
  control_->has_peers = false;
  const auto far = std::make_shared<Buffer>(backend()->open_device(1), 32);
  const Error error = refusal({{far, 0, 32}, {memory(32), 0, 32}});
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(),
              HasSubstr("argument 'a' is bound to memory of test0:1, which test0:0 cannot access"));
}

TEST_F(RoutineTest, MemoryOfAPeerDeviceIsAccepted) {
  const auto far = std::make_shared<Buffer>(backend()->open_device(1), 32);
  const auto code = compile(device(), kTwoPrograms);
  EXPECT_TRUE(device()->can_access(*far->device()));
  EXPECT_NE(Routine::link(code, 1, {{far, 0, 32}, {memory(32), 0, 32}}), nullptr);
}

TEST_F(RoutineTest, UnknownEntryIsRefused) {
  const auto code = compile(device(), kTwoPrograms);
  const auto error = error_of([&] { (void)Routine::link(code, 2, {}); });
  EXPECT_STREQ(error.what(), "test0:0: link: entry 2 is out of range [0, 2)");
}

}  // namespace
}  // namespace yoke::test
