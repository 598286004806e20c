// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/routine_test.cpp: bindings are checked when a routine is linked, with the argument's name
// in every sentence.
#include "lab.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

class RoutineTest : public LabTest {
 protected:
  static BufferView view(std::shared_ptr<Buffer> buffer, std::uint64_t offset, std::uint64_t byte_count) {
    return {std::move(buffer), offset, byte_count};
  }
  std::shared_ptr<Buffer> buffer(std::uint64_t byte_count) {
    return std::make_shared<Buffer>(device(), byte_count);
  }
  // The sentence for linking `second` (a in, b inout, 32 bytes each), and that nothing got as far as the
  // plugin.
  std::string refusal(std::vector<BufferView> bindings, ErrorCode code) {
    const auto compiled = compile(device(), kTwoPrograms);
    const auto error = error_of([&] { (void)Routine::link(compiled, 1, std::move(bindings)); });
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(lab_.links, 0);
    return error.what();
  }
};

TEST_F(RoutineTest, ARoutineKeepsItsCodeAndItsBuffersAlive) {
  auto code = compile(device(), kTwoPrograms);
  auto memory = buffer(64);
  auto routine = Routine::link(code, 1, {view(memory, 0, 32), view(memory, 32, 32)});
  code.reset();
  memory.reset();

  EXPECT_EQ(routine->entry().name, "second");
  EXPECT_EQ(routine->bindings()[1].offset, 32U);
  EXPECT_EQ(backend()->live_counts().routines, 1U);
  EXPECT_EQ(backend()->live_counts().buffers, 1U);

  routine.reset();
  const auto counts = backend()->live_counts();
  EXPECT_EQ(counts.routines + counts.buffers + counts.codes, 0U);
}

TEST_F(RoutineTest, TheWorkspaceIsTheRuntimesAndIsAccountedOnTheDevice) {
  lab_.workspace_byte_count = 4096;
  const auto code = compile(device(), kTwoPrograms);
  const auto memory = buffer(64);
  const auto before = device()->memory().used_bytes;
  auto routine = Routine::link(code, 1, {view(memory, 0, 32), view(memory, 32, 32)});
  EXPECT_EQ(device()->memory().used_bytes, before + 4096);
  routine.reset();
  EXPECT_EQ(device()->memory().used_bytes, before);
}

TEST_F(RoutineTest, AWrongNumberOfBindingsIsRefused) {
  EXPECT_EQ(refusal({view(buffer(32), 0, 32)}, ErrorCode::kInvalidArgument),
            "lab:0: link of 'second': it has 2 arguments and got 1 bindings: bind each argument once");
}

TEST_F(RoutineTest, ABindingWithoutABufferIsRefused) {
  EXPECT_THAT(refusal({view(buffer(32), 0, 32), {}}, ErrorCode::kInvalidArgument),
              HasSubstr("argument 'b' has no buffer"));
}

TEST_F(RoutineTest, ABindingThatIsTooSmallIsRefused) {
  EXPECT_THAT(refusal({view(buffer(32), 0, 28), view(buffer(32), 0, 32)}, ErrorCode::kOutOfRange),
              HasSubstr("argument 'a' needs 32 bytes and is bound to 28"));
}

TEST_F(RoutineTest, ABindingBeyondItsBufferIsRefusedAlsoWhereSumsWouldOverflow) {
  EXPECT_THAT(refusal({view(buffer(32), 16, 32), view(buffer(32), 0, 32)}, ErrorCode::kOutOfRange),
              HasSubstr("argument 'a' is bound to bytes 16 to 48 of a buffer of 32"));
  EXPECT_THAT(
      refusal({view(buffer(32), ~std::uint64_t{0} - 3, 32), view(buffer(32), 0, 32)}, ErrorCode::kOutOfRange),
      HasSubstr("argument 'a' is bound to bytes"));
}

TEST_F(RoutineTest, AnOffsetBetweenElementsIsRefused) {
  EXPECT_THAT(refusal({view(buffer(64), 2, 32), view(buffer(32), 0, 32)}, ErrorCode::kInvalidArgument),
              HasSubstr("argument 'a' begins at byte 2, which is no multiple of its 4-byte elements"));
}

TEST_F(RoutineTest, AWrittenArgumentThatSharesBytesWithAnotherIsRefused) {
  const auto memory = buffer(64);
  EXPECT_THAT(refusal({view(memory, 0, 32), view(memory, 28, 32)}, ErrorCode::kInvalidArgument),
              HasSubstr("argument 'b' is written and shares bytes with argument 'a'"));
}

TEST_F(RoutineTest, MemoryThatTheDeviceCannotReachIsRefused) {
  lab_.peers = false;
  const auto far = std::make_shared<Buffer>(backend()->open_device(1), 32);
  EXPECT_THAT(refusal({view(far, 0, 32), view(buffer(32), 0, 32)}, ErrorCode::kInvalidArgument),
              HasSubstr("argument 'a' is bound to memory of lab:1, which lab:0 cannot use in place"));
}

TEST_F(RoutineTest, MemoryOfAPeerIsTaken) {
  const auto far = std::make_shared<Buffer>(backend()->open_device(1), 32);
  const auto code = compile(device(), kTwoPrograms);
  EXPECT_TRUE(device()->can_access(*far->device()));
  EXPECT_NE(Routine::link(code, 1, {view(far, 0, 32), view(buffer(32), 0, 32)}), nullptr);
}

TEST_F(RoutineTest, AnEntryThatIsNotThereIsRefused) {
  const auto code = compile(device(), kTwoPrograms);
  const auto error = error_of([&] { (void)Routine::link(code, 2, {}); });
  EXPECT_STREQ(error.what(), "lab:0: link: there is no entry 2: the code has 2");
}

}  // namespace
}  // namespace yoke::test
