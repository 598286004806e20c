// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/runtime_arguments_test.cpp: every function of the runtime's public headers with null,
// empty and moved-from arguments. public_functions.py checks that no function is missing.
#include <yoke/runtime/closest.h>
#include <yoke/runtime/cost_model.h>
#include <yoke/runtime/dlpack.h>
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

constexpr std::string_view kDouble = R"(yoke.program 1
program twice() {
  arg x : f32[4] in
  arg y : f32[4] out
  y[i] = x[i] * 2.0
}
)";
const TensorSpec kSpec{YOKE_TYPE_F32, {4}};

RuntimeOptions with(const std::function<void(RuntimeOptions&)>& change) {
  RuntimeOptions options = Rig::with_defaults({});
  change(options);
  return options;
}

TEST(RuntimeArguments, OptionsOfTheRuntime) {
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.wait_timeout = {}; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.free_host_memory = [](void*) {}; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.plugin_options[""] = {"a=1"}; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.plugin_options["cc"] = {""}; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.layers.names = "nothing"; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.allow_list = "/none"; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.plugin_dirs = {""}; })));
}

TEST(RuntimeArguments, FunctionsOfTheRuntime) {
  Runtime runtime(with([](auto&) {}));
  EXPECT_ERROR(ErrorCode::kNotFound, runtime.backend(""));
  EXPECT_ERROR(ErrorCode::kNotFound, runtime.backend({}));
  EXPECT_ERROR(kInvalid, runtime.register_backend("", entry_of(0)));
  EXPECT_ERROR(kInvalid, runtime.register_backend("test0", nullptr));
  runtime.log(LogLevel::kError, {});
  EXPECT_ERROR(kEmpty, (void)open_plugin_file({}));
}

TEST(RuntimeArguments, AMovedFromRuntimeIsAnError) {
  Runtime runtime(with([](auto&) {}));
  const Runtime taken(std::move(runtime));
  // NOLINTBEGIN(bugprone-use-after-move): that is the test
  EXPECT_ERROR(kEmpty, (void)runtime.options());
  EXPECT_ERROR(kEmpty, (void)runtime.list_backends());
  EXPECT_ERROR(kEmpty, (void)runtime.backend("cc"));
  EXPECT_ERROR(kEmpty, runtime.register_backend("test0", entry_of(0)));
  EXPECT_ERROR(kEmpty, (void)runtime.fallbacks());
  EXPECT_ERROR(kEmpty, (void)runtime.validation());
  EXPECT_ERROR(kEmpty, runtime.log(LogLevel::kError, "x"));
  EXPECT_ERROR(kEmpty, (void)runtime.logs(LogLevel::kError));
  EXPECT_ERROR(kEmpty, (void)compile_count(runtime));
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_TRUE(taken.fallbacks().empty());
}

// A misspelled name is found by the first program, even if the program needs no fallback.
TEST(RuntimeArguments, AnUnknownFallbackBackendIsAnError) {
  for (const char* name : {"nope", "no such name"}) {
    Rig rig(Streams::kWorker, with([&](auto& options) { options.fallback_backend = name; }));
    EXPECT_THAT(error_of([&] { compile(rig.device, kDouble); }),
                is_error(ErrorCode::kNotFound, "RuntimeOptions::fallback_backend: no backend '", name));
  }
  Rig none(Streams::kWorker, with([](auto& options) { options.fallback_backend = ""; }));
  EXPECT_NE(compile(none.device, kDouble), nullptr);
}

TEST(RuntimeArguments, BackendsAndDevices) {
  Rig rig;
  EXPECT_ERROR(kInvalid, (void)rig.backend->extension<yoke_peer_api>(nullptr));
  EXPECT_EQ(rig.backend->extension<yoke_peer_api>(""), nullptr);
  const std::vector<std::string> empty_text = {""};
  EXPECT_ERROR(kInvalid, (void)rig.backend->parse_options(empty_text));
  EXPECT_TRUE(rig.backend->parse_options({}).empty());
  const std::vector<Option> nameless = {{"", std::int64_t{1}}};
  EXPECT_ERROR(kInvalid, (void)rig.backend->open_device(0, nameless));
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)rig.backend->open_device(99));
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)rig.backend->device_info(99));
  const auto second = rig.backend->open_device(1);
  EXPECT_FALSE(second->is_same(*rig.device));
  EXPECT_TRUE(second->can_access(*rig.device));
}

// A lost device accepts no work.
TEST(RuntimeArguments, ALostDevice) {
  Rig rig;
  const auto stream = rig.stream();
  const BufferView view = rig.buffer(16);
  rig.device->set_lost();
  EXPECT_TRUE(rig.device->is_lost());
  const std::uint32_t zero = 0;
  EXPECT_ERROR(ErrorCode::kDeviceLost, stream->fill(view, &zero, 4); stream->wait());
  EXPECT_ERROR(ErrorCode::kDeviceLost, stream->record().wait());
}

TEST(RuntimeArguments, Buffers) {
  Rig rig;
  EXPECT_ERROR(kInvalid, Buffer(nullptr, 4));
  EXPECT_ERROR(kInvalid, Buffer::import(nullptr, {}));
  EXPECT_ERROR(ErrorCode::kUnimplemented, Buffer::import(rig.device, {}));
  const auto empty = std::make_shared<Buffer>(rig.device, 0);
  rig.stream()->copy({empty, 0, 0}, {rig.buffer(4).buffer, 4, 0});

  auto control = std::make_shared<Control>();
  control->provides.memory = true;
  Rig importing(control);
  EXPECT_ERROR(kInvalid, Buffer::import(importing.device, {.byte_count = 4}));
}

TEST(RuntimeArguments, Programs) {
  Rig rig;
  EXPECT_ERROR(kInvalid, compile(nullptr, kDouble));
  EXPECT_ERROR(kInvalid, compile(rig.device, ""));
  EXPECT_ERROR(kInvalid, compile(rig.device, {}));
  const auto code = compile(rig.device, kDouble);
  EXPECT_ERROR(ErrorCode::kNotFound, (void)code->entry(""));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)code->entry_number({}));
  EXPECT_ERROR(kInvalid, Routine::link(nullptr, 0, {}));
  EXPECT_ERROR(kInvalid, Routine::link(code, 0, {}));
  EXPECT_ERROR(kInvalid, Routine::link(code, 0, {BufferView(), BufferView()}));
  EXPECT_ERROR(ErrorCode::kOutOfRange, Routine::link(code, 1, {}));

  EXPECT_TRUE(passes::optimize({}).program.statements.empty());
  EXPECT_TRUE(passes::run(passes::Pass::kFuse, {}).statements.empty());
}

TEST(RuntimeArguments, Streams) {
  Rig rig;
  EXPECT_ERROR(kInvalid, Stream::create(nullptr));
  const auto stream = rig.stream();
  const BufferView view = rig.buffer(16);
  EXPECT_ERROR(kInvalid, stream->from_host({}, nullptr));
  EXPECT_ERROR(kInvalid, stream->from_host(view, nullptr));
  EXPECT_ERROR(kInvalid, stream->to_host(nullptr, {}));
  EXPECT_ERROR(kInvalid, stream->to_host(nullptr, view));
  EXPECT_ERROR(kInvalid, stream->copy({}, {}));
  EXPECT_ERROR(kInvalid, stream->copy(view, {}));
  EXPECT_ERROR(kInvalid, stream->fill({}, nullptr, 0));
  EXPECT_ERROR(kInvalid, stream->fill(view, nullptr, 4));
  const std::uint32_t zero = 0;
  EXPECT_ERROR(kInvalid, stream->fill(view, &zero, 0));
  const auto twice = compile(rig.device, kDouble);
  EXPECT_ERROR(kInvalid, Routine::link(twice, 0, {view, rig.buffer(16)}, view.buffer));
  const auto routine = Routine::link(twice, 0, {view, rig.buffer(16)}, rig.buffer(16).buffer);
  const std::vector<std::int64_t> surplus = {1};
  EXPECT_ERROR(kInvalid, stream->launch(*routine, surplus));
  EXPECT_ERROR(kInvalid, stream->join({}));
  EXPECT_ERROR(kInvalid, stream->host_callback({}));
  stream->begin_step(-1);
  stream->wait_for(Event());
  EXPECT_TRUE(Event().is_done());
  Event().wait();
  stream->wait(std::chrono::nanoseconds(-1));
  EXPECT_TRUE(stream->is_idle());
  sync_device(*rig.device);
  EXPECT_EQ(debug_info(*stream).stream, stream->name());
  EXPECT_EQ(debug_info(*stream).stream_id, stream->id());
  EXPECT_EQ(debug_info(Runtime()).size(), 0U);
  EXPECT_FALSE(debug_table({}).empty());
  EXPECT_EQ(debug_json({}), "[]");
}

TEST(RuntimeArguments, Contexts) {
  Rig rig;
  EXPECT_ERROR(kInvalid, Context(nullptr));
  Context context(rig.stream());
  EXPECT_ERROR(kInvalid, context.allocate("", kSpec));
  EXPECT_ERROR(kInvalid, context.init_zeros("", kSpec));
  EXPECT_ERROR(kInvalid, context.allocate("x", {YOKE_TYPE_F32, {0}}));
  EXPECT_ERROR(kInvalid, context.allocate("x", {0, {4}}));
  EXPECT_ERROR(kInvalid, context.adopt("x", kSpec, {}));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)context.tensor(""));
  EXPECT_ERROR(ErrorCode::kNotFound, context.from_host("", {}));
  EXPECT_ERROR(ErrorCode::kNotFound, context.to_host("", {}));
  EXPECT_ERROR(kInvalid, context.init_from_host("x", kSpec, {}));
  EXPECT_FALSE(context.has("x"));
  context.allocate("x", kSpec);
  EXPECT_ERROR(kInvalid, context.from_host("x", {}));
  EXPECT_ERROR(kInvalid, context.to_host("x", {}));
  EXPECT_ERROR(ErrorCode::kNotFound, context.init_from_device("", context));
  EXPECT_ERROR(kInvalid, (void)context.child(nullptr, ChildAccess::kReadWrite));
  EXPECT_ERROR(kInvalid, context.link(nullptr, "twice"));
  EXPECT_ERROR(ErrorCode::kNotFound, context.link(compile(rig.device, kDouble), ""));
  EXPECT_ERROR(ErrorCode::kNotFound, context.link(compile(rig.device, kDouble), "twice"));
  EXPECT_ERROR(kInvalid, context.link_merge(compile(rig.device, kDouble), "twice", "x", Transfer()));
  EXPECT_FALSE(device_to_device("", MergeUse::kNone, context, context));
  EXPECT_ERROR(ErrorCode::kNotFound, device_to_device("", MergeUse::kCopy, context, context));
}

TEST(RuntimeArguments, TensorsOfDlpack) {
  auto control = std::make_shared<Control>();
  control->provides.memory = true;
  Rig rig(control);
  Context context(rig.stream());
  EXPECT_ERROR(kInvalid, (void)to_dlpack({}));
  EXPECT_ERROR(kInvalid, (void)to_dlpack_unversioned({}));
  EXPECT_ERROR(kInvalid, (void)to_dlpack({{99, {4}}, rig.buffer(16)}));
  EXPECT_ERROR(kInvalid, (void)to_dlpack({kSpec, rig.buffer(15)}));
  EXPECT_ERROR(kInvalid, (void)to_dlpack({kSpec, {rig.buffer(16).buffer, 4, 16}}));
  EXPECT_ERROR(kInvalid, from_dlpack(context, "x", static_cast<dlpack::DLManagedTensor*>(nullptr)));
  EXPECT_ERROR(kInvalid, from_dlpack(context, "x", static_cast<dlpack::DLManagedTensorVersioned*>(nullptr)));
  dlpack::DLManagedTensor empty = {};
  EXPECT_ERROR(ErrorCode::kUnimplemented, from_dlpack(context, "x", &empty));
  dlpack::DLManagedTensorVersioned versioned = {};
  EXPECT_ERROR(ErrorCode::kUnimplemented, from_dlpack(context, "x", &versioned));
}

TEST(RuntimeArguments, AMovedFromContextIsAnError) {
  Rig rig;
  Context context(rig.stream());
  context.allocate("x", kSpec);
  const auto code = compile(rig.device, kDouble);
  Context taken(std::move(context));
  // NOLINTBEGIN(bugprone-use-after-move): that is the test
  EXPECT_ERROR(kEmpty, (void)context.child());
  EXPECT_ERROR(kEmpty, (void)context.stream());
  EXPECT_ERROR(kEmpty, (void)context.has("x"));
  EXPECT_ERROR(kEmpty, (void)context.tensor("x"));
  EXPECT_ERROR(kEmpty, (void)context.names());
  EXPECT_ERROR(kEmpty, context.allocate("y", kSpec));
  EXPECT_ERROR(kEmpty, context.set_constant("x"));
  EXPECT_ERROR(kEmpty, context.adopt("y", kSpec, taken.tensor("x").view));
  EXPECT_ERROR(kEmpty, context.from_host("x", {}));
  EXPECT_ERROR(kEmpty, context.to_host("x", {}));
  EXPECT_ERROR(kEmpty, context.init_from_host("y", kSpec, {}));
  EXPECT_ERROR(kEmpty, context.init_from_device("x", taken));
  EXPECT_ERROR(kEmpty, taken.init_from_device("x", context));
  dlpack::DLManagedTensor foreign = {};
  foreign.dl_tensor.dtype = {dlpack::kDLFloat, 32, 1};
  foreign.dl_tensor.data = &foreign;
  EXPECT_ERROR(kEmpty, from_dlpack(context, "y", &foreign));
  EXPECT_ERROR(kEmpty, context.link(code, "twice"));
  EXPECT_ERROR(kEmpty, context.link_merge(code, "twice", "x", Transfer()));
  EXPECT_ERROR(kEmpty, device_to_device("x", MergeUse::kNone, context, taken));
  EXPECT_ERROR(kEmpty, device_to_device("x", MergeUse::kNone, taken, context));
  const std::vector<Context> both = {taken, context};
  EXPECT_ERROR(kEmpty, (void)memory_is_shared(both));
  EXPECT_ERROR(kEmpty, (void)resolve_strategy(MergeStrategy::kAuto, both));
  EXPECT_ERROR(kEmpty, (void)Collectives::create(MergeStrategy::kOwner, both)->reduce("x"));
  EXPECT_ERROR(kEmpty, (void)Collectives::create(MergeStrategy::kOwner, both)->broadcast("x"));
  EXPECT_ERROR(kEmpty, StepPlan(both, 2, {{"x", kSpec}}, {}, {}, nullptr).allocate());
  // NOLINTEND(bugprone-use-after-move)
}

TEST(RuntimeArguments, EmptyRoutinesAndTransfers) {
  const LinkedRoutine routine;
  EXPECT_ERROR(kEmpty, routine.run());
  EXPECT_ERROR(kEmpty, (void)routine.symbols());
  EXPECT_ERROR(kEmpty, (void)routine.name());
  EXPECT_ERROR(kEmpty, (void)routine.inputs());
  EXPECT_ERROR(kEmpty, (void)routine.constants());
  EXPECT_ERROR(kEmpty, (void)routine.outputs());
  EXPECT_ERROR(kEmpty, (void)routine.context());
  EXPECT_ERROR(kEmpty, (void)routine.merge_node());
  EXPECT_ERROR(kEmpty, (void)routine.stream());
  EXPECT_ERROR(kEmpty, (void)routine.routine());
  EXPECT_ERROR(kEmpty, Transfer().run());
  EXPECT_EQ(Transfer().use(), MergeUse::kNone);
}

TEST(RuntimeArguments, StepPlans) {
  Rig rig;
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
  EXPECT_EQ(nothing.bucket_count(), 0U);
  EXPECT_TRUE(nothing.merge_reason().empty());
  EXPECT_FALSE(nothing.keeps_last_step());
  EXPECT_EQ(StepPlan::name_in(0, ""), "");
  EXPECT_FALSE(nothing.overlaps());
  EXPECT_TRUE(nothing.streams().empty());
  EXPECT_ERROR(kInvalid, cut_at_buckets(nothing, {}));
  EXPECT_ERROR(kInvalid, (void)overlap_by_name(""));
  EXPECT_STREQ(overlap_name(static_cast<Overlap>(99)), "unknown");
  EXPECT_EQ((Arena{YOKE_TYPE_F64, 0, {}, {}}.element_byte_count()), 8U);
  EXPECT_TRUE(passes::used_until({}).empty());
  EXPECT_EQ(passes::cut({}, {}).parts.size(), 1U);
  EXPECT_TRUE(passes::without_memory({}, {}).statements.empty());
  Stream::finish({});
  const std::shared_ptr<Stream> none;
  Stream::finish({&none, 1});

  const std::vector<Context> contexts = {Context(rig.stream())};
  EXPECT_ERROR(kInvalid, StepPlan({}, 1, {{"w", kSpec}}, {}, {}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 0, {{"w", kSpec}}, {}, {}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 2, {{"w", kSpec}}, {}, {}, nullptr));
  EXPECT_ERROR(kInvalid, StepPlan(contexts, 1, {}, {}, {}, nullptr));
  StepPlan plan(contexts, 1, {{"w", kSpec}}, {"momentum"}, {}, nullptr);
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

  SymbolTable table;
  table.set("missing", 1);
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
  EXPECT_ERROR(kInvalid, make(plan.arenas(), 3));
  EXPECT_ERROR(kInvalid, make({}, 2));
  const GradientSum sum = make(plan.arenas(), 2);
  sum.adopt_gradients(micro, 1);
  EXPECT_ERROR(ErrorCode::kAlreadyExists, sum.adopt_gradients(micro, 1));
  EXPECT_ERROR(ErrorCode::kOutOfRange, sum.add(2));
  EXPECT_ERROR(kEmpty, sum.add_piece(0));
  EXPECT_ERROR(kEmpty, sum.add_bucket(0, 0));
  GradientSum in_a_tree = sum;
  EXPECT_ERROR(kEmpty, in_a_tree.link_buckets(plan, codes));
  GradientSum::each_sum({}, 1, [](auto&) { FAIL(); });
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
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)group->reduce("x", Slice{0, 1000}));
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)group->reduce("x", Slice{1, 0}));
  EXPECT_TRUE(group->reduce("x").is_empty());
  LinkedCollective barrier = group->barrier();
  barrier.add_barrier({});
  EXPECT_TRUE(barrier.is_empty());
  EXPECT_ERROR(kInvalid, barrier.add_barrier({contexts[0].stream(), nullptr}));
  EXPECT_ERROR(kInvalid, (void)placement_by_name(""));
  CodeCache codes;
  EXPECT_ERROR(kInvalid, (void)codes.get(nullptr, ""));
  EXPECT_EQ(codes.compile_seconds(), 0);
  EXPECT_EQ(Slice().count(), 0U);
  LinkedCollective nothing;
  nothing.run();
  nothing.add(LinkedCollective());
  EXPECT_TRUE(nothing.is_empty());
  nothing.add(Transfer());
  EXPECT_ERROR(kEmpty, nothing.run());
  EXPECT_STREQ(placement_name(static_cast<Placement>(99)), "unknown");
  AllReduce reduce(contexts, "x", "y", Reduction::kSum);
  const AllReduce taken(std::move(reduce));
  EXPECT_ERROR(kEmpty, (void)reduce.run());  // NOLINT(bugprone-use-after-move): that is the test
  EXPECT_ERROR(ErrorCode::kNotFound, (void)CollectiveTensor(contexts[0], ""));
  const CollectiveTensor result = taken.run().at(0);
  EXPECT_EQ(result.resolve(*contexts[0].stream()).spec, kSpec);
  EXPECT_EQ(result.assume_resolved().spec, kSpec);
  result.filled().wait();
  EXPECT_TRUE(result.is_done());
}

TEST(RuntimeArguments, Layers) {
  LayerOptions options{.use_environment = false};
  EXPECT_EQ(layers::open_session(options, {}), nullptr);
  options.names = "nothing";
  EXPECT_ERROR(kInvalid, layers::open_session(options, {}));
  options.names = "validate";
  const auto session = layers::open_session(options, {});
  ASSERT_NE(session, nullptr);
  const yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
  yoke_plugin* plugin = nullptr;
  EXPECT_EQ(layers::enter(session, nullptr, &args, &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(layers::enter(nullptr, nullptr, &args, &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(layers::enter(session, entry_of(0), nullptr, &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(layers::enter(session, entry_of(0), &args, nullptr, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(layers::validation(*session).violations, 0U);
  EXPECT_FALSE(layers::summary(*session).empty());
}

TEST(RuntimeArguments, NamesThatAreClose) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(closest("", {}), "");
  EXPECT_EQ(closest("x", {}), "");
  EXPECT_EQ(did_you_mean("", {}), "");
  EXPECT_EQ(did_you_mean("tarin", {"train"}), "; did you mean 'train'?");
  EXPECT_EQ(did_you_mean("train", {"train"}), "");
}

TEST(RuntimeArguments, UnknownCodesHaveAName) {
  EXPECT_STREQ(code_name(static_cast<ErrorCode>(-1)), "UNKNOWN");
  EXPECT_STREQ(code_name(static_cast<ErrorCode>(99)), "UNKNOWN");
  EXPECT_EQ(TensorSpec{}.byte_count(), 4U);
  EXPECT_EQ((TensorSpec{99, {4}}).byte_count(), 0U);
}

}  // namespace
}  // namespace yoke::test
