// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/context_test.cpp: tensors by name, parents and children, and the checks of link.
#include "rig.h"

namespace yoke::test {
namespace {

constexpr const char* kScale =
    "yoke.program 1\nprogram scale() {\n  arg x : f32[2, 3] in\n  arg y : f32[2, 3] out\n  y[i, j] = x[i, j] "
    "* 2.0\n}\n";

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

class ContextTest : public testing::Test {
 protected:
  Rig rig;
  Context context{rig.stream("ctx")};
};

TEST_F(ContextTest, LinkedRoutineReadsAndWritesTensorsByName) {
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  context.allocate("y", {YOKE_TYPE_F32, {2, 3}});
  const LinkedRoutine routine = context.link(compile(rig.device, kScale), "scale");

  routine.run();

  EXPECT_EQ(get(context, "y"), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(routine.name(), "scale");
  EXPECT_THAT(routine.inputs(), testing::ElementsAre("x"));
  EXPECT_THAT(routine.outputs(), testing::ElementsAre("y"));
  EXPECT_FALSE(routine.merge_node().has_value());
  EXPECT_TRUE(routine.symbols().empty());
}

TEST_F(ContextTest, LinkedRoutineHasItsContext) {
  LinkedRoutine routine;
  {
    Context child = context.child();
    child.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
    child.allocate("y", {YOKE_TYPE_F32, {2, 3}});
    child.init_from_host("other", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
    routine = child.link(compile(rig.device, kScale), "scale");
  }
  routine.run();
  EXPECT_EQ(routine.context().stream(), routine.stream());
  EXPECT_EQ(get(routine.context(), "y")[5], 12.0F);
  EXPECT_EQ(get(routine.context(), "other"), kSix);
  EXPECT_FALSE(context.has("y"));
}

TEST_F(ContextTest, ConstantsAreNotInputsAndOnlyTheHostWritesThem) {
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  context.allocate("y", {YOKE_TYPE_F32, {2, 3}});
  const auto code = compile(rig.device, kScale);
  EXPECT_THAT(context.link(code, "scale").constants(), testing::IsEmpty());
  Context child = context.child();
  child.set_constant("x");  // of the parent
  const LinkedRoutine routine = context.link(code, "scale");
  EXPECT_THAT(routine.inputs(), testing::IsEmpty());
  EXPECT_THAT(routine.constants(), testing::ElementsAre("x"));
  EXPECT_THAT(routine.outputs(), testing::ElementsAre("y"));

  const auto refused = is_error(ErrorCode::kFailedPrecondition, "tensor 'x' is a constant");
  EXPECT_THAT(error_of([&] { (void)context.link(code, "scale", {{"x", "y"}, {"y", "x"}}); }), refused);
  Context other(rig.stream());
  other.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  EXPECT_THAT(error_of([&] { (void)device_to_device("x", MergeUse::kNone, child, other); }), refused);
  EXPECT_THAT(error_of([&] { context.set_constant("z"); }), is_error(ErrorCode::kNotFound, "no tensor 'z'"));

  const std::vector<float> ones(6, 1);
  context.from_host("x", bytes(ones));
  routine.run();
  EXPECT_EQ(get(context, "y"), std::vector<float>(6, 2));
  child.init_zeros("x", {YOKE_TYPE_F32, {2, 3}});  // its own is not a constant
  EXPECT_THAT(child.link(code, "scale").inputs(), testing::ElementsAre("x"));
}

TEST_F(ContextTest, RenamedArgumentsAreBoundToTheGivenTensors) {
  context.init_from_host("in", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  context.allocate("out", {YOKE_TYPE_F32, {2, 3}});
  const LinkedRoutine routine =
      context.link(compile(rig.device, kScale), "scale", {{"x", "in"}, {"y", "out"}});

  routine.run();

  EXPECT_EQ(get(context, "out")[5], 12.0F);
  EXPECT_THAT(routine.inputs(), testing::ElementsAre("in"));
  EXPECT_THAT(error_of([&] {
                context.link(compile(rig.device, kScale), "scale", {{"z", "in"}});
              }).what(),
              testing::AllOf(testing::HasSubstr("no argument 'z'"), testing::HasSubstr("'x', 'y'")));
}

TEST_F(ContextTest, ChildOnAnotherStreamHasItsParentsTensors) {
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  const auto stream = rig.stream();
  Context child = context.child(stream, ChildAccess::kReadWrite);
  context.allocate("y", {YOKE_TYPE_F32, {2, 3}});
  const LinkedRoutine routine = child.link(compile(rig.device, kScale), "scale");
  routine.run();
  EXPECT_EQ(routine.stream(), stream);
  EXPECT_EQ(get(context, "y")[5], 12.0F) << "the parent's stream waits for the child's";
  EXPECT_THAT(
      error_of([&] { context.child(Stream::create(rig.backend->open_device(1), "far")); }),
      is_error(ErrorCode::kInvalidArgument, "a child on stream 'far'", "use a stream of the same device"));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, context.child(nullptr));
}

TEST_F(ContextTest, ChildOnAnotherStreamOnlyReadsItsParentsTensorsUnlessAskedFor) {
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  context.init_zeros("y", {YOKE_TYPE_F32, {2, 3}});
  Context reader = context.child(rig.stream()).child();
  const auto refused = is_error(ErrorCode::kFailedPrecondition, "tensor 'y' belongs to stream",
                                "create the child with ChildAccess::kReadWrite");
  const auto code = compile(rig.device, kScale);
  EXPECT_THAT(error_of([&] { (void)reader.link(code, "scale"); }), refused);
  EXPECT_THAT(error_of([&] { reader.from_host("y", bytes(kSix)); }), refused);
  Context other(rig.stream());
  other.init_from_host("y", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  EXPECT_THAT(error_of([&] { (void)device_to_device("y", MergeUse::kNone, reader, other); }), refused);
  EXPECT_EQ(get(reader, "x"), kSix);

  reader.allocate("y", {YOKE_TYPE_F32, {2, 3}});  // its own
  reader.link(code, "scale").run();
  EXPECT_EQ(get(reader, "y")[5], 12.0F);
  EXPECT_EQ(get(context, "y")[5], 0.0F);
  Context writer = context.child(rig.stream(), ChildAccess::kReadWrite);
  writer.link(code, "scale").run();
  EXPECT_EQ(get(context, "y")[5], 12.0F);
  const Context below = context.child().child(rig.stream());
  EXPECT_THAT(error_of([&] { below.from_host("y", bytes(kSix)); }), refused) << "of a grandparent";
  const Context same = context.child(context.stream(), ChildAccess::kRead);
  same.from_host("y", bytes(kSix));
  EXPECT_EQ(get(context, "y"), kSix) << "a child on the parent's stream may write";
}

TEST_F(ContextTest, ChildHasItsParentsTensorsAndItsOwn) {
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  Context child = context.child();
  child.allocate("y", {YOKE_TYPE_F32, {2, 3}});
  child.link(compile(rig.device, kScale), "scale").run();

  EXPECT_EQ(get(child, "y")[0], 2.0F);
  EXPECT_TRUE(child.has("x"));
  EXPECT_FALSE(context.has("y"));
  EXPECT_THAT(child.names(), testing::ElementsAre("x", "y"));
  child.allocate("x", {YOKE_TYPE_F32, {1}});  // shadows the parent's
  EXPECT_EQ(child.tensor("x").spec.dims, (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(context.tensor("x").spec.dims, (std::vector<std::uint64_t>{2, 3}));
}

TEST_F(ContextTest, UnknownTensorErrorListsTheTensors) {
  context.allocate("bias", {YOKE_TYPE_F32, {4}});
  context.allocate("weight", {YOKE_TYPE_F32, {4}});
  const Error error = error_of([&] { (void)context.tensor("weights"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(error.what(),
               "context on stream 'ctx': no tensor 'weights'; did you mean 'weight'? The context has 'bias', "
               "'weight'");
}

TEST_F(ContextTest, LinkNamesMissingTensorsWrongShapesAndWrongTypes) {
  const auto code = compile(rig.device, kScale);
  const auto expect_error = [&](const Context& in, ErrorCode expected, const std::string& text) {
    const Error error = error_of([&] { in.link(code, "scale"); });
    EXPECT_EQ(error.code(), expected);
    EXPECT_EQ(error.what(), "context on stream 'ctx': link of 'scale': " + text);
  };
  context.allocate("other", {YOKE_TYPE_F32, {1}});
  expect_error(context, ErrorCode::kNotFound,
               "it needs the tensors 'x', 'y', which the context lacks; allocate or adopt them first; the "
               "context has 'other'");
  context.allocate("x", {YOKE_TYPE_F32, {2, 3}});
  context.allocate("y", {YOKE_TYPE_F32, {3, 2}});
  expect_error(context, ErrorCode::kInvalidArgument,
               "argument 'y' is f32[2, 3], but tensor 'y' is f32[3, 2]");
  Context child = context.child();
  child.allocate("x", {YOKE_TYPE_I32, {2, 3}});
  expect_error(child, ErrorCode::kInvalidArgument, "argument 'x' is f32[2, 3], but tensor 'x' is i32[2, 3]");
}

TEST_F(ContextTest, CodeOfAnotherDeviceIsRefused) {
  const auto other = rig.backend->open_device(1);
  EXPECT_THAT(error_of([&] { context.link(compile(other, kScale), "scale"); }),
              is_error(ErrorCode::kInvalidArgument, "test0:1", "test0:0"));
}

TEST_F(ContextTest, InvalidTensorsAreRefused) {
  EXPECT_THAT(error_of([&] {
                context.allocate("x", {YOKE_TYPE_F32, {2, 0}});
              }).what(),
              testing::HasSubstr("f32[2, 0]"));
  for (const std::int32_t type : {-1, YOKE_TYPE_F64 - 1, YOKE_TYPE_BOOL + 1, 77}) {
    EXPECT_THAT(error_of([&] {
                  context.allocate("x", {type, {2}});
                }),
                is_error(ErrorCode::kInvalidArgument, "unknown element type"));
  }
  EXPECT_ERROR(ErrorCode::kInvalidArgument, context.allocate("", {YOKE_TYPE_F32, {2}}));
  EXPECT_ERROR(ErrorCode::kInvalidArgument,
               context.allocate("x", {YOKE_TYPE_F32, std::vector<std::uint64_t>(9, 1)}));
  EXPECT_ERROR(ErrorCode::kInvalidArgument,
               context.allocate("x", {YOKE_TYPE_F32, {1ULL << 40U, 1ULL << 40U}}));
  EXPECT_FALSE(context.has("x"));
  context.allocate("x", {YOKE_TYPE_F32, {2}});
  rig.control->memory_limit = 1;
  EXPECT_ERROR(ErrorCode::kAlreadyExists, context.allocate("x", {YOKE_TYPE_F32, {2}}))
      << "found before memory is allocated";
}

TEST(TensorSpecTest, ByteCountDoesNotWrap) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 32U;
  EXPECT_EQ((TensorSpec{YOKE_TYPE_F32, {kHuge, 3}}.byte_count()), 12 * kHuge);
  EXPECT_EQ((TensorSpec{YOKE_TYPE_F32, {kHuge, 0, kHuge}}.byte_count()), 0U);
  EXPECT_EQ((TensorSpec{77, {kHuge, kHuge}}.byte_count()), 0U);
  for (const std::uint64_t dim : {kHuge, kHuge / 8}) {  // the product would be 0, or 2^63
    EXPECT_THAT(error_of([&] {
                  (void)TensorSpec{YOKE_TYPE_F32, {dim, kHuge}}.byte_count();
                }),
                is_error(ErrorCode::kInvalidArgument, "has 2^63 or more bytes"));
  }
}

TEST_F(ContextTest, UnsuitableSharedWorkspaceIsRefused) {
  rig.control->on_describe = [](std::vector<sdk::Entry>& entries) { entries[0].workspace_byte_count = 64; };
  const auto large = std::make_shared<Buffer>(rig.device, 64);
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  context.adopt("y", {YOKE_TYPE_F32, {2, 3}}, {large, 0, 24});
  const auto code = compile(rig.device, kScale);
  const auto linked = [&](std::shared_ptr<Buffer> workspace) {
    return context.link(code, "scale", {}, std::move(workspace));
  };
  linked(std::make_shared<Buffer>(rig.device, 64)).run();
  EXPECT_EQ(get(context, "y")[5], 12.0F);
  EXPECT_THAT(error_of([&] { linked(std::make_shared<Buffer>(rig.device, 63)); }),
              is_error(ErrorCode::kOutOfRange, "the workspace has 63 bytes, but 64 are needed"));
  EXPECT_THAT(error_of([&] { linked(std::make_shared<Buffer>(rig.backend->open_device(1), 64)); }),
              is_error(ErrorCode::kInvalidArgument, "the workspace is on 'test0:1'", "is for 'test0:0'"));
  EXPECT_THAT(error_of([&] { linked(large); }),
              is_error(ErrorCode::kInvalidArgument, "argument 'y' is bound to the workspace"));
}

TEST_F(ContextTest, WrongByteCountsAreRefused) {
  context.allocate("x", {YOKE_TYPE_F32, {2, 3}});
  std::vector<std::byte> memory(20);
  EXPECT_THAT(error_of([&] { context.from_host("x", memory); }).what(),
              testing::AllOf(testing::HasSubstr("'x'"), testing::HasSubstr("24"), testing::HasSubstr("20")));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, context.to_host("x", memory));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, context.init_from_host("y", {YOKE_TYPE_F32, {2, 3}}, memory));
  EXPECT_FALSE(context.has("y"));
}

TEST_F(ContextTest, AdoptedMemoryIsShared) {
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  Context other(rig.stream());
  other.adopt("row", {YOKE_TYPE_F32, {3}}, part<float>(context.tensor("x").view, 3, 3));
  EXPECT_EQ(get(other, "row"), (std::vector<float>{4, 5, 6}));
  EXPECT_ERROR(ErrorCode::kOutOfRange, other.adopt("more", {YOKE_TYPE_F32, {7}}, context.tensor("x").view));
}

TEST_F(ContextTest, AnOldBufferIsUsedAgainIfItIsLargeEnough) {
  const auto old = std::make_shared<Buffer>(rig.device, 24);
  const std::uint64_t buffers = rig.backend->live_counts().buffers;
  EXPECT_EQ(context.allocate("smaller", {YOKE_TYPE_F32, {5}}, old).view.buffer, old);
  EXPECT_EQ(context.allocate("equal", {YOKE_TYPE_F32, {6}}, old).view.byte_count, 24U);
  EXPECT_EQ(rig.backend->live_counts().buffers, buffers);
  EXPECT_NE(context.allocate("larger", {YOKE_TYPE_F32, {7}}, old).view.buffer, old);
  EXPECT_EQ(rig.backend->live_counts().buffers, buffers + 1);
}

TEST_F(ContextTest, AnOldBufferThatTheDeviceCannotAccessIsNotUsed) {
  rig.control->has_peers = false;
  const auto old = std::make_shared<Buffer>(rig.backend->open_device(1), 24);
  const ContextTensor& tensor = context.allocate("x", {YOKE_TYPE_F32, {6}}, old);
  EXPECT_TRUE(tensor.view.buffer->device()->is_same(*rig.device));
}

TEST_F(ContextTest, TensorIsInitializedFromAnotherContext) {
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  Context other(Stream::create(rig.backend->open_device(1)));
  other.init_from_device("x", context);
  EXPECT_EQ(get(other, "x"), kSix);
}

TEST_F(ContextTest, TensorIsInitializedWithZeros) {
  context.init_from_host("dirty", {YOKE_TYPE_F32, {2, 3}}, bytes(kSix));
  context.init_zeros("x", {YOKE_TYPE_F32, {2, 3}});
  EXPECT_EQ(get(context, "x"), std::vector<float>(6, 0));
  EXPECT_ERROR(ErrorCode::kAlreadyExists, context.init_zeros("x", {YOKE_TYPE_F32, {2, 3}}));
}

TEST_F(ContextTest, FailedCopyNamesItsTensor) {
  context.allocate("weight", {YOKE_TYPE_F32, {2, 3}});
  rig.control->fail_after = 0;
  context.from_host("weight", bytes(kSix));
  EXPECT_THAT(error_of([&] { context.stream()->wait(); }).what(),
              testing::HasSubstr("from_host of 24 bytes of tensor 'weight'"));
}

TEST_F(ContextTest, EmptyHandlesAreRefused) {
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, LinkedRoutine().run());
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, Transfer().run());
  const Context moved = std::move(context);
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, (void)context.names());  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(moved.names().empty());
}

}  // namespace
}  // namespace yoke::test
