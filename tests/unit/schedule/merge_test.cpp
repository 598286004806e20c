// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/merge_test.cpp: transfers between shards, and the rules of the merge buffer.
#include "rig.h"

namespace yoke::test {
namespace {

constexpr const char* kAdd =
    "yoke.program 1\nprogram add() {\n  arg own : f32[2] inout\n  arg incoming : f32[2] in\n  own[i] = "
    "own[i] + incoming[i]\n}\n";

struct Case {
  Streams streams;
  bool has_peers;
};

void PrintTo(const Case& which, std::ostream* out) {
  PrintTo(which.streams, out);
  *out << (which.has_peers ? "Peers" : "NoPeers");
}

class MergeTest : public testing::TestWithParam<Case> {
 protected:
  MergeTest() : rig(make_control(), delays()) {
    const auto far = rig.backend->open_device(1);
    owner.emplace(rig.stream("owner"));
    source.emplace(Stream::create(far, "source"));
    set(*owner, "g", {1, 2});
    set(*source, "g", {3, 4});
  }
  static std::shared_ptr<Control> make_control() {
    auto control = Rig::make_control(GetParam().streams);
    control->has_peers = GetParam().has_peers;
    return control;
  }
  static RuntimeOptions delays() {
    RuntimeOptions options;
    options.injected_delay_us = 200;
    return options;
  }
  LinkedRoutine adder(const Context& context, const Transfer& transfer, const std::string& own) const {
    return context.link_merge(compile(rig.device, kAdd), "add", "incoming", transfer, {{"own", own}});
  }

  Rig rig;
  std::optional<Context> owner;
  std::optional<Context> source;
};
INSTANTIATE_TEST_SUITE_P(Streams, MergeTest,
                         testing::Values(Case{Streams::kWorker, true}, Case{Streams::kWorker, false},
                                         Case{Streams::kNative, true}, Case{Streams::kNative, false}),
                         testing::PrintToStringParamName());

TEST_P(MergeTest, CopiedSourceIsAddedToTheOwner) {
  const Transfer transfer = device_to_device("g", MergeUse::kCopy, *owner, *source);
  const LinkedRoutine add = adder(*owner, transfer, "g");
  EXPECT_EQ(transfer.use(), MergeUse::kCopy);
  EXPECT_EQ(add.merge_node(), "g");
  EXPECT_THAT(add.inputs(), testing::ElementsAre("g"));

  transfer.run();
  add.run();

  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{4, 6}));
  EXPECT_EQ(get(*source, "g"), (std::vector<float>{3, 4}));
}

TEST_P(MergeTest, SourceIsOverwrittenOnlyAfterTheMerge) {
  const Transfer transfer = device_to_device("g", MergeUse::kStreaming, *owner, *source);
  const LinkedRoutine add = adder(*owner, transfer, "g");
  EXPECT_EQ(transfer.use(), GetParam().has_peers ? MergeUse::kStreaming : MergeUse::kCopy);
  const std::vector<float> next = {100, 100};
  rig.control->delay_us = 2000;

  transfer.run();
  add.run();
  source->from_host("g", bytes(next));

  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{4, 6}));
  EXPECT_EQ(get(*source, "g"), next);
}

TEST_P(MergeTest, TransferCopiesTheValuesAtTheTimeOfItsRun) {
  set(*owner, "out", {9, 9});
  set(*source, "out", {0, 0});
  const Transfer transfer = device_to_device("out", MergeUse::kNone, *owner, *source);
  const std::vector<float> later = {5, 6};
  source->from_host("out", bytes(later));
  EXPECT_EQ(get(*owner, "out"), (std::vector<float>{9, 9})) << "nothing is copied until the run";

  transfer.run();

  EXPECT_EQ(get(*owner, "out"), later);
}

TEST_P(MergeTest, MergeWithoutATransferIsRefused) {
  const Transfer transfer = device_to_device("g", MergeUse::kCopy, *owner, *source);
  const LinkedRoutine add = adder(*owner, transfer, "g");
  owner->stream()->wait();

  EXPECT_THAT(error_of([&] { add.run(); }),
              is_error(ErrorCode::kFailedPrecondition, "'add'", "'g'", "holds nothing"));
  owner->stream()->wait();
  EXPECT_EQ(rig.control->launch_count.load(), 0U);
  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{1, 2}));
}

TEST_P(MergeTest, MergeAfterTheTransferOfAnotherNodeIsRefused) {
  set(*source, "h", {7, 7});
  const Transfer transfer = device_to_device("g", MergeUse::kCopy, *owner, *source);
  const Transfer other = device_to_device("h", MergeUse::kCopy, *owner, *source);
  const LinkedRoutine add = adder(*owner, transfer, "g");
  transfer.run();
  other.run();

  EXPECT_THAT(error_of([&] { add.run(); }),
              is_error(ErrorCode::kFailedPrecondition, "merges 'g'", "holds 'h'"));
  transfer.run();
  add.run();
  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{4, 6}));
}

TEST_P(MergeTest, LinkWithTheTransferOfAnotherNodeIsRefused) {
  const Transfer transfer = device_to_device("g", MergeUse::kCopy, *owner, *source);
  EXPECT_THAT(error_of([&] {
                owner->link_merge(compile(rig.device, kAdd), "add", "incoming", transfer,
                                  {{"own", "g"}, {"incoming", "h"}});
              }),
              is_error(ErrorCode::kFailedPrecondition, "merges 'h'", "copies 'g'"));
  EXPECT_NO_THROW(owner->link_merge(compile(rig.device, kAdd), "add", "incoming", transfer,
                                    {{"own", "g"}, {"incoming", "g"}}));
}

TEST_P(MergeTest, InvalidMergeLinksAreRefused) {
  set(*source, "wide", {1, 2, 3});
  const auto code = compile(rig.device, kAdd);
  const Transfer transfer = device_to_device("g", MergeUse::kCopy, *owner, *source);
  const Transfer wide = device_to_device("wide", MergeUse::kCopy, *owner, *source);
  const std::map<std::string, std::string> rename = {{"own", "g"}};

  EXPECT_THAT(
      error_of([&] { owner->link_merge(code, "add", "incoming", wide, rename); }).what(),
      testing::AllOf(testing::HasSubstr("'incoming' is f32[2]"), testing::HasSubstr("'wide' is f32[3]")));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, owner->link_merge(code, "add", "missing", transfer, rename));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, owner->link_merge(code, "add", "own", transfer, rename));
  for (const Transfer& other : {Transfer(), device_to_device("g", MergeUse::kNone, *owner, *source)}) {
    EXPECT_THAT(error_of([&] { owner->link_merge(code, "add", "incoming", other, rename); }),
                is_error(ErrorCode::kInvalidArgument, "is empty or a plain copy"));
  }
  Context elsewhere(rig.stream("elsewhere"));
  elsewhere.allocate("g", {YOKE_TYPE_F32, {2}});
  EXPECT_ERROR(ErrorCode::kFailedPrecondition,
               elsewhere.link_merge(code, "add", "incoming", transfer, rename));
}

TEST_P(MergeTest, TransfersOfMissingOrMismatchedTensorsAreRefused) {
  set(*owner, "wide", {1, 2, 3});
  set(*source, "wide", {1, 2});
  set(*source, "only", {1});
  EXPECT_THAT(error_of([&] { device_to_device("none", MergeUse::kCopy, *owner, *source); }).what(),
              testing::AllOf(testing::HasSubstr("'none'"), testing::HasSubstr("'source'"),
                             testing::HasSubstr("'g'")));
  EXPECT_FALSE(device_to_device("only", MergeUse::kNone, *owner, *source));
  EXPECT_THAT(error_of([&] { device_to_device("wide", MergeUse::kNone, *owner, *source); }).what(),
              testing::AllOf(testing::HasSubstr("f32[2]"), testing::HasSubstr("f32[3]")));
}

TEST_P(MergeTest, TransfersOfOneNodeFromTwoSourcesAreDistinguished) {
  Context third(rig.stream("third"));
  set(third, "g", {10, 20});
  const Transfer one = device_to_device("g", MergeUse::kStreaming, *owner, *source);
  const Transfer two = device_to_device("g", MergeUse::kStreaming, *owner, third);
  const LinkedRoutine add_one = adder(*owner, one, "g");
  const LinkedRoutine add_two = adder(*owner, two, "g");

  one.run();
  add_one.run();
  two.run();
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, add_one.run());
  add_two.run();

  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{14, 26}));
}

TEST_P(MergeTest, SlicesOfOneBufferAreDistinguished) {
  const BufferView memory = rig.buffer(16);
  Context a(rig.stream("a"));
  Context b(rig.stream("b"));
  a.adopt("g", {YOKE_TYPE_F32, {2}}, part<float>(memory, 0, 2));
  b.adopt("g", {YOKE_TYPE_F32, {2}}, part<float>(memory, 2, 2));
  const std::vector<float> of_both[] = {{10, 20}, {30, 40}};
  a.from_host("g", bytes(of_both[0]));
  b.from_host("g", bytes(of_both[1]));
  a.stream()->wait();
  b.stream()->wait();
  const Transfer of_a = device_to_device("g", MergeUse::kStreaming, *owner, a);
  const Transfer of_b = device_to_device("g", MergeUse::kStreaming, *owner, b);
  const LinkedRoutine add_a = adder(*owner, of_a, "g");
  const LinkedRoutine add_b = adder(*owner, of_b, "g");

  of_a.run();
  EXPECT_THAT(error_of([&] { add_b.run(); }),
              is_error(ErrorCode::kFailedPrecondition, "holds a 'g' from another source"));
  add_a.run();
  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{11, 22}));
  device_to_device("g", MergeUse::kNone, b, a).run();
  EXPECT_EQ(get(b, "g"), (std::vector<float>{10, 20}));
}

TEST_P(MergeTest, PlainCopyDoesNotOverwriteTheMergeBuffer) {
  set(*owner, "out", {9, 9});
  set(*source, "out", {5, 6});
  const Transfer transfer = device_to_device("g", MergeUse::kCopy, *owner, *source);
  const LinkedRoutine add = adder(*owner, transfer, "g");
  transfer.run();
  device_to_device("out", MergeUse::kNone, *owner, *source).run();
  add.run();
  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{4, 6}));
  EXPECT_EQ(get(*owner, "out"), (std::vector<float>{5, 6}));
}

TEST_P(MergeTest, EveryStreamHasItsOwnMergeBuffer) {
  // Two shards on one device merge from each other.
  Context a(rig.stream("a"));
  Context b(rig.stream("b"));
  set(a, "g", {1, 2});
  set(b, "g", {10, 20});
  a.allocate("sum", {YOKE_TYPE_F32, {2}});
  b.allocate("sum", {YOKE_TYPE_F32, {2}});
  const Transfer to_a = device_to_device("g", MergeUse::kCopy, a, b);
  const Transfer to_b = device_to_device("g", MergeUse::kCopy, b, a);
  const LinkedRoutine add_a = adder(a, to_a, "g");
  const LinkedRoutine add_b = adder(b, to_b, "g");

  to_a.run();
  to_b.run();
  add_a.run();
  add_b.run();

  EXPECT_EQ(get(a, "g"), (std::vector<float>{11, 22}));
  EXPECT_EQ(get(b, "g"), (std::vector<float>{11, 22}));
}

TEST_P(MergeTest, MergeBufferGrowsAndEarlierLinksKeepTheirs) {
  set(*owner, "big", std::vector<float>(100, 1));
  set(*source, "big", std::vector<float>(100, 2));
  const Transfer small = device_to_device("g", MergeUse::kCopy, *owner, *source);
  const LinkedRoutine add_small = adder(*owner, small, "g");
  const Transfer big = device_to_device("big", MergeUse::kCopy, *owner, *source);
  const LinkedRoutine add_big =
      owner->link_merge(compile(rig.device,
                                "yoke.program 1\nprogram add() {\n  arg own : f32[100] inout\n  arg in : "
                                "f32[100] in\n  own[i] = own[i] + in[i]\n}\n"),
                        "add", "in", big, {{"own", "big"}});
  const std::uint64_t buffers = rig.backend->live_counts().buffers;
  (void)device_to_device("g", MergeUse::kCopy, *owner, *source);
  EXPECT_EQ(rig.backend->live_counts().buffers, buffers) << "a buffer that is large enough is used again";

  for (int round = 0; round < 3; ++round) {
    small.run();
    add_small.run();
    big.run();
    add_big.run();
  }

  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{10, 14}));
  EXPECT_EQ(get(*owner, "big"), std::vector<float>(100, 7));
}

TEST_P(MergeTest, MergeBetweenBackendsFallsBackToACopy) {
  register_backend(rig.runtime, 1, Rig::make_control(Streams::kWorker));
  Context far(Stream::create(rig.runtime.backend("test1")->open_device(0), "far"));
  set(far, "g", {3, 4});
  const Transfer transfer = device_to_device("g", MergeUse::kStreaming, *owner, far);
  const LinkedRoutine add = adder(*owner, transfer, "g");

  transfer.run();
  add.run();

  EXPECT_EQ(transfer.use(), MergeUse::kCopy);
  EXPECT_EQ(get(*owner, "g"), (std::vector<float>{4, 6}));
}

}  // namespace
}  // namespace yoke::test
