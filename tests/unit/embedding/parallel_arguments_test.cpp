// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/parallel_arguments_test.cpp: functions of the runtime for several devices (collectives, step
// plans, sums of gradients, costs) with null, empty and moved-from arguments.
#include <yoke/runtime/cost_model.h>
#include <yoke/runtime/feed.h>
#include <yoke/runtime/gradient_parts.h>
#include <yoke/runtime/gradient_sum.h>
#include <yoke/runtime/passes.h>

#include <utility>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kEmpty = ErrorCode::kFailedPrecondition;

const TensorSpec kSpec{YOKE_TYPE_F32, {4}};

TEST(RuntimeArguments, EmptyStepPlans) {
  StepPlan nothing;
  EXPECT_ERROR(kEmpty, nothing.allocate());
  EXPECT_ERROR(kEmpty, nothing.publish());
  EXPECT_ERROR(kEmpty, (void)nothing.state_pieces("", ""));
  EXPECT_TRUE(nothing.arenas().empty());
  EXPECT_EQ(nothing.placement(), Placement::kOwner);
  EXPECT_FALSE(nothing.shares_parameters());
  nothing.each_update([](auto...) { FAIL(); });
  nothing.each_measure([](auto...) { FAIL(); });
  nothing.each_merge([](auto...) { FAIL(); });
  EXPECT_ERROR(kInvalid, nothing.each_update({}));
  EXPECT_ERROR(kInvalid, nothing.each_measure({}));
  EXPECT_ERROR(kInvalid, nothing.each_merge({}));
  EXPECT_EQ(nothing.bucket_count(), 0U);
  EXPECT_TRUE(nothing.merge_reason().empty());
  EXPECT_FALSE(nothing.keeps_last_step());
  EXPECT_EQ(StepPlan::name_in(0, ""), "");
  EXPECT_FALSE(nothing.overlaps());
  EXPECT_TRUE(nothing.streams().empty());
  EXPECT_ERROR(kInvalid, cut_at_buckets(nothing, {}));
  EXPECT_ERROR(kInvalid, (void)overlap_by_name(""));
  EXPECT_STREQ(overlap_name(static_cast<Overlap>(99)), "unknown");
  const Arena arena = {YOKE_TYPE_F64, 4, {}, {}};
  EXPECT_EQ(arena.element_byte_count(), 8U);
  EXPECT_EQ(arena.name(""), "/f64");
  EXPECT_EQ(arena.spec().byte_count(), 32U);
  EXPECT_TRUE(passes::used_until({}).empty());
  EXPECT_EQ(passes::cut({}, {}).parts.size(), 1U);
  EXPECT_TRUE(passes::without_memory({}, {}).statements.empty());
  const std::vector<std::string> nameless(1);
  EXPECT_ERROR(ErrorCode::kNotFound, (void)passes::without_memory({}, nameless));
  Stream::finish({});
  const std::vector<std::shared_ptr<Stream>> null_stream(1);
  Stream::finish(null_stream);
}

TEST(RuntimeArguments, StepPlans) {
  Rig rig;
  const std::vector<Context> contexts = {Context(rig.stream())};
  EXPECT_ERROR(kInvalid, StepPlan({}, 1, {{"w", kSpec}}, {}, {}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 0, {{"w", kSpec}}, {}, {}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 2, {{"w", kSpec}}, {}, {}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 1, {}, {}, {}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 1, {{"w", kSpec}}, {""}, {}, nullptr));
  StepPlan plan(contexts, 1, {{"w", kSpec}}, {"momentum"}, {}, nullptr);
  EXPECT_EQ(plan.set(), 0U);
  EXPECT_ERROR(kInvalid, plan.each_update({}));
  EXPECT_ERROR(kInvalid, plan.each_measure({}));
  EXPECT_ERROR(kInvalid, plan.each_merge({}));
  EXPECT_EQ(plan.memory(0).parameters, plan.memory(0).state);
  EXPECT_EQ(plan.range_of(0).first, 0U);
  EXPECT_ERROR(kEmpty, plan.allocate_gradients());
  EXPECT_ERROR(kEmpty, plan.publish());
  plan.allocate();
  plan.publish();
  EXPECT_ERROR(ErrorCode::kNotFound, (void)plan.state_pieces("", "momentum"));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)plan.state_pieces("w", ""));
  EXPECT_ERROR(kEmpty, plan.clear_gradients(0));
  EXPECT_ERROR(kEmpty, plan.link({}, {}));
  plan.allocate_gradients();
  plan.clear_gradients(0);
  plan.clear_gradients(99);
  const std::vector<SymbolTable> tables(1);
  EXPECT_ERROR(kInvalid, plan.link({}, tables));
  EXPECT_ERROR(kInvalid, plan.link([](auto...) { return StepProgram(); }, {}));
  EXPECT_ERROR(kInvalid,
               plan.link([](auto...) { return StepProgram(); }, tables, {{}, [] { return StepProgram(); }}));
  const std::vector<Context> others = {Context(rig.stream())};
  StepPlan measuring(others, 1, {{"w", kSpec}}, {}, {.has_number = true}, nullptr);
  EXPECT_GT(measuring.memory(0).number, 0U);
  measuring.allocate();
  measuring.allocate_gradients();
  EXPECT_ERROR(kInvalid, measuring.link([](auto...) { return StepProgram(); }, tables));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 1, {{"w", kSpec}}, {},
                                  {.placement = Placement::kSharded, .whole_parameters = true}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 1, {{"w", kSpec}}, {}, {.number_count = 0}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 1, {{"w", kSpec}}, {}, {.number_count = 2}, nullptr));
  EXPECT_ERROR(kInvalid, plan.link([](auto...) { return StepProgram(); }, tables));
  EXPECT_ERROR(kEmpty, plan.merge());
  EXPECT_ERROR(kEmpty, plan.merge_bucket(0));
  EXPECT_ERROR(kEmpty, plan.update_bucket(0, tables));
  EXPECT_ERROR(kEmpty, plan.step(tables));
  EXPECT_ERROR(kEmpty, plan.update(tables));
  EXPECT_TRUE(contexts[0].has("w"));
  EXPECT_TRUE(contexts[0].has("gradient/w"));
  EXPECT_TRUE(contexts[0].has("momentum/w"));
}

TEST(RuntimeArguments, SymbolTables) {
  SymbolTable table;
  table.set("missing", 1);
  table.set("", 1);
  EXPECT_ERROR(kInvalid, (void)table.slot("", ""));
  table.add("", 1);
  SymbolTable copy = table;
  copy.take_values(table);
  EXPECT_ERROR(kInvalid, (void)table.slot("missing", "program"));
  StepRoutine routine;
  EXPECT_ERROR(kEmpty, routine.run(table));
}

TEST(RuntimeArguments, FeedStreams) {
  Rig rig;
  const Context context(rig.stream());
  EXPECT_ERROR(kInvalid, FeedStream(context, 0, 16));
  FeedStream feed(context, 2, 16);
  EXPECT_EQ(feed.stage(1, 0).size(), 16U);
  EXPECT_ERROR(ErrorCode::kOutOfRange, feed.stage(2, 0));
  EXPECT_ERROR(kInvalid, feed.send(0, 0, {}));
  EXPECT_ERROR(ErrorCode::kOutOfRange, feed.send(2, 0, rig.buffer(16)));
  EXPECT_ERROR(ErrorCode::kOutOfRange, feed.send(0, 1, rig.buffer(16)));
  EXPECT_ERROR(ErrorCode::kOutOfRange, feed.send(0, 17, rig.buffer(0)));
  FeedStream taken(std::move(feed));
  // NOLINTBEGIN(bugprone-use-after-move): that is the test
  EXPECT_ERROR(kEmpty, feed.stage(0, 0));
  EXPECT_ERROR(kEmpty, feed.send(0, 0, rig.buffer(16)));
  EXPECT_ERROR(kEmpty, (void)feed.stream());
  // NOLINTEND(bugprone-use-after-move)
}

TEST(RuntimeArguments, GradientSums) {
  EXPECT_ERROR(kInvalid, (void)GradientSum::extra_levels(0, SumOrder::kSequence));
  EXPECT_ERROR(kInvalid, (void)GradientSum::extra_levels(6, SumOrder::kTree));
  EXPECT_EQ(GradientSum::extra_levels(1, SumOrder::kTree), 0U);
  EXPECT_EQ(GradientSum::extra_levels(8, SumOrder::kTree), 3U);
  EXPECT_EQ(GradientSum::extra_levels(8, SumOrder::kSequence), 1U);
  Rig rig;
  const std::vector<Context> contexts = {Context(rig.stream())};
  Context micro = contexts[0].child();
  const GradientSum nothing;
  EXPECT_ERROR(ErrorCode::kOutOfRange, nothing.add(0));
  EXPECT_ERROR(ErrorCode::kOutOfRange, nothing.clear(0));
  EXPECT_ERROR(ErrorCode::kOutOfRange, nothing.adopt_gradients(micro, 0));

  const std::vector<StepParameter> parameters = {{"w", kSpec}};
  StepPlan plan(contexts, 1, parameters, {}, {}, nullptr);
  plan.allocate();
  CodeCache codes;
  const auto make = [&](std::span<const Arena> arenas, std::uint32_t count) {
    return GradientSum(contexts[0], arenas, parameters, count, SumOrder::kTree, codes);
  };
  EXPECT_ERROR(ErrorCode::kNotFound, make(plan.arenas(), 2));
  plan.allocate_gradients();
  EXPECT_ERROR(kInvalid, GradientSum(contexts[0], {}, parameters, 2, SumOrder::kTree, codes));
  EXPECT_NO_THROW(GradientSum(contexts[0], plan.arenas(), {}, 2, SumOrder::kTree, codes));
  EXPECT_ERROR(kInvalid, make(plan.arenas(), 3));
  const GradientSum sum = make(plan.arenas(), 2);
  sum.adopt_gradients(micro, 1);
  EXPECT_ERROR(ErrorCode::kAlreadyExists, sum.adopt_gradients(micro, 1));
  EXPECT_ERROR(ErrorCode::kOutOfRange, sum.add(2));
  EXPECT_ERROR(kEmpty, sum.add_piece(0));
  EXPECT_ERROR(kEmpty, sum.add_bucket(0, 0));
  GradientSum in_a_tree = sum;
  EXPECT_ERROR(kEmpty, in_a_tree.link_buckets(plan, codes));
  EXPECT_ERROR(kEmpty, in_a_tree.link_buckets(StepPlan(), codes));
  GradientSum in_sequence(contexts[0], plan.arenas(), parameters, 2, SumOrder::kSequence, codes);
  in_sequence.link_buckets(StepPlan(), codes);
  EXPECT_ERROR(kEmpty, in_sequence.add_bucket(1, 0));
  GradientSum::each_sum({}, 1, [](auto&) { FAIL(); });
  EXPECT_ERROR(kInvalid, GradientSum::each_sum(plan.arenas(), 1, {}));
  const Context taken = std::move(micro);
  // NOLINTBEGIN(bugprone-use-after-move): that is the test
  EXPECT_ERROR(kEmpty, sum.adopt_gradients(micro, 1));
  EXPECT_ERROR(kEmpty, GradientSum(micro, plan.arenas(), parameters, 2, SumOrder::kTree, codes));
  // NOLINTEND(bugprone-use-after-move)
  codes.forget(*contexts[0].stream()->device());
}

TEST(RuntimeArguments, CostModels) {
  EXPECT_ERROR(kInvalid, (void)costs_of({}));
  const GroupCosts empty;
  EXPECT_TRUE(empty.is_one_node());
  EXPECT_EQ(merge_seconds(empty, {}, MergeStrategy::kOwner, Placement::kOwner), 0);
  EXPECT_EQ(choose_merge(empty, {}).seconds, 0);
  GroupCosts one;
  one.nodes = {0};
  EXPECT_TRUE(one.is_near(0, 0));
  EXPECT_GE(LinkClocks(one).transfer(0, 0, 0, 0), 0);
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)LinkClocks(one).transfer(0, 0, 1, 0));
  LinkClocks clocks(one);
  const LinkClocks taken = std::move(clocks);
  EXPECT_ERROR(ErrorCode::kOutOfRange,
               (void)clocks.transfer(0, 0, 0, 0));  // NOLINT(bugprone-use-after-move): that is the test
  EXPECT_GE(step_seconds({}, {}), 0);
  EXPECT_ERROR(kInvalid, (void)wire_by_name(""));
  EXPECT_STREQ(wire_name(static_cast<Wire>(99)), "unknown");
}

TEST(RuntimeArguments, Collectives) {
  Rig rig;
  EXPECT_ERROR(kInvalid, (void)merge_strategy_by_name(""));
  EXPECT_STREQ(merge_strategy_name(static_cast<MergeStrategy>(99)), "unknown");
  EXPECT_STREQ(merge_strategy_name(static_cast<MergeStrategy>(-1)), "unknown");
  EXPECT_TRUE(merge_pairs(0).empty());
  EXPECT_ERROR(kInvalid, parallel_merge(2, {}));
  EXPECT_ERROR(kInvalid, (void)slices(10, 0, 2));
  EXPECT_ERROR(kInvalid, (void)slices(10, 257, 2));
  EXPECT_TRUE(slices(10, 4, 0).empty());
  EXPECT_EQ(slices(0, 4, 2).back().end, 0U);
  EXPECT_TRUE(memory_is_shared({}));
  EXPECT_EQ(resolve_strategy(MergeStrategy::kOwner, {}), MergeStrategy::kOwner);
  EXPECT_ERROR(kInvalid, (void)Collectives::create(MergeStrategy::kOwner, {}));
  EXPECT_ERROR(kInvalid, AllReduce({}, "x", "y", Reduction::kSum));

  std::vector<Context> contexts = {Context(rig.stream())};
  const auto group = Collectives::create(MergeStrategy::kOwner, contexts);
  EXPECT_EQ(group->strategy(), MergeStrategy::kOwner);
  EXPECT_EQ(group->members().size(), 1U);
  for (const std::string name : {"", "y"}) {
    EXPECT_ERROR(ErrorCode::kNotFound, (void)group->reduce(name));
    EXPECT_ERROR(ErrorCode::kNotFound, (void)group->reduce_scatter(name));
    EXPECT_ERROR(ErrorCode::kNotFound, (void)group->all_reduce(name));
    EXPECT_ERROR(ErrorCode::kNotFound, (void)group->all_gather(name));
    EXPECT_ERROR(ErrorCode::kNotFound, (void)group->gather(name));
    EXPECT_ERROR(ErrorCode::kNotFound, (void)group->broadcast(name));
  }
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, (void)create_group_id(*contexts[0].stream()->device()));
  EXPECT_EQ(group->size(), 1U);
  contexts[0].allocate("x", kSpec);
  EXPECT_ERROR(kInvalid, AllReduce(contexts, "x", "", Reduction::kSum));
  EXPECT_ERROR(ErrorCode::kNotFound, AllReduce(contexts, "", "y", Reduction::kSum));
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)group->reduce("x", Slice{0, 1000}));
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)group->reduce("x", Slice{1, 0}));
  EXPECT_TRUE(group->reduce("x").is_empty());
  LinkedCollective barrier = group->barrier();
  barrier.add_barrier({});
  EXPECT_TRUE(barrier.is_empty());
  EXPECT_ERROR(kInvalid, barrier.add_barrier({contexts[0].stream(), nullptr}));
  EXPECT_ERROR(kInvalid, (void)placement_by_name(""));
  EXPECT_STREQ(placement_name(static_cast<Placement>(99)), "unknown");
  CodeCache codes;
  EXPECT_ERROR(kInvalid, (void)codes.get(nullptr, ""));
  EXPECT_EQ(codes.compile_seconds(), 0);
  EXPECT_EQ(Slice().count(), 0U);
}

TEST(RuntimeArguments, ResultsOfCollectives) {
  Rig rig;
  std::vector<Context> contexts = {Context(rig.stream())};
  contexts[0].allocate("x", kSpec);
  LinkedCollective nothing;
  nothing.run();
  nothing.add(LinkedCollective());
  EXPECT_TRUE(nothing.is_empty());
  EXPECT_ERROR(kInvalid, nothing.add(std::shared_ptr<Stream>()));
  EXPECT_ERROR(kInvalid, nothing.add(std::shared_ptr<const detail::CollectiveCall>()));
  EXPECT_TRUE(nothing.is_empty());
  nothing.add(Transfer());
  EXPECT_ERROR(kEmpty, nothing.run());
  LinkedCollective with_routine;
  with_routine.add(LinkedRoutine());
  EXPECT_ERROR(kEmpty, with_routine.run());
  AllReduce reduce(contexts, "x", "y", Reduction::kSum);
  const AllReduce taken(std::move(reduce));
  EXPECT_ERROR(kEmpty, (void)reduce.run());  // NOLINT(bugprone-use-after-move): that is the test
  EXPECT_ERROR(ErrorCode::kNotFound, (void)CollectiveTensor(contexts[0], ""));
  EXPECT_TRUE(CollectiveTensor(ContextTensor(), Event()).is_done());
  const CollectiveTensor result = taken.run().at(0);
  EXPECT_EQ(result.resolve(*contexts[0].stream()).spec, kSpec);
  EXPECT_EQ(result.assume_resolved().spec, kSpec);
  result.filled().wait();
  EXPECT_TRUE(result.is_done());
}

}  // namespace
}  // namespace yoke::test
