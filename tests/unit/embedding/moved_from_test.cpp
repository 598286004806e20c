// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/moved_from_test.cpp: objects that are moved from throw an Error, or are empty as their headers
// say. Those of Runtime, Context, FeedStream, AllReduce, Tensor and Predictor are tested with their other arguments.
#include <yoke/runtime/gradient_sum.h>
#include <yoke/yoke.h>

#include <utility>

#include "training.h"

// NOLINTBEGIN(bugprone-use-after-move): that is the test
namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kEmpty = ErrorCode::kFailedPrecondition;
constexpr ErrorCode kRange = ErrorCode::kOutOfRange;

constexpr std::string_view kAddOne = R"(yoke.program 1
program add_one(symbol row in 0..4) {
  arg x : f32[4] inout
  x[i] = x[i] + 1.0
}
)";
const TensorSpec kSpec{YOKE_TYPE_F32, {4}};
const std::vector<StepParameter> kParameters = {{"w", kSpec}};

StepProgram descent(const UpdateShape& shape) {
  const std::string type = "f32[" + std::to_string(shape.count) + "]";
  return {"yoke.program 1\nprogram descent() {\n  arg value : " + type +
              " inout\n  arg gradient_0 : " + type + " in\n  value[i] = value[i] - gradient_0[i]\n}\n",
          "descent"};
}

TEST(MovedFrom, StepPlans) {
  const Rig rig;
  const std::vector<SymbolTable> tables(2);
  for (const Placement placement : {Placement::kOwner, Placement::kEverywhere, Placement::kSharded}) {
    for (const bool is_linked : {false, true}) {
      SCOPED_TRACE(placement_name(placement) + std::string(is_linked ? ", linked" : ", planned"));
      const std::vector<Context> shards = {Context(rig.stream()), Context(rig.stream())};
      const StepOptions options = {
          .merge = MergeStrategy::kOwner, .placement = placement, .overlap = Overlap::kOn};
      StepPlan plan(shards, 2, kParameters, {"momentum"}, options, nullptr);
      if (is_linked) {
        plan.allocate();
        plan.allocate_gradients();
        plan.link(descent, tables);
      }
      StepPlan taken = std::move(plan);
      const std::vector<std::pair<const char*, std::function<void()>>> calls = {
          {"allocate", [&] { plan.allocate(); }},
          {"allocate_gradients", [&] { plan.allocate_gradients(); }},
          {"link", [&] { plan.link(descent, {}); }},
          {"step", [&] { plan.step({}); }},
          {"merge_bucket", [&] { plan.merge_bucket(0); }},
          {"update_bucket", [&] { plan.update_bucket(0, {}); }},
          {"merge", [&] { plan.merge(); }},
          {"update", [&] { plan.update({}); }},
          {"clear_gradients", [&] { plan.clear_gradients(0); }},
          {"publish", [&] { plan.publish(); }},
          {"state_pieces", [&] { (void)plan.state_pieces("w", "momentum"); }}};
      for (const auto& [name, call] : calls) {
        EXPECT_THAT(error_of(call), is_error(kEmpty, "step plan: ", name, ": it is empty"));
      }
      EXPECT_ERROR(kRange, (void)plan.memory(0));
      EXPECT_NO_THROW((void)plan.strategy());
      EXPECT_NO_THROW((void)plan.placement());
      EXPECT_FALSE(plan.shares_parameters());
      EXPECT_TRUE(plan.overlaps());  // what was chosen stays
      EXPECT_FALSE(plan.keeps_last_step());
      EXPECT_EQ(plan.set(), 0U);
      EXPECT_EQ(plan.bucket_count(), 0U);
      EXPECT_TRUE(plan.arenas().empty());
      EXPECT_TRUE(plan.streams().empty());
      EXPECT_TRUE(plan.merge_reason().empty());
      plan.each_update([](auto...) { FAIL(); });
      plan.each_measure([](auto...) { FAIL(); });
      plan.each_merge([](auto...) { FAIL(); });
      if (is_linked) {
        taken.clear_gradients(0);
        taken.step(tables);
        shards[0].stream()->wait();
      }
      plan = std::move(taken);
      EXPECT_EQ(plan.bucket_count(), 1U);
    }
  }
}

TEST(MovedFrom, GradientSums) {
  const Rig rig;
  const std::vector<Context> shards = {Context(rig.stream())};
  StepPlan plan(shards, 1, kParameters, {}, {}, nullptr);
  plan.allocate();
  plan.allocate_gradients();
  CodeCache codes;
  GradientSum sum(shards[0], plan.arenas(), kParameters, 2, SumOrder::kSequence, codes, true);
  sum.link_buckets(plan, codes);
  const GradientSum taken = std::move(sum);
  Context micro = shards[0].child();
  EXPECT_ERROR(kEmpty, sum.adopt_gradients(micro, 0));
  EXPECT_ERROR(kEmpty, sum.adopt_gradients(micro, 1, true));
  EXPECT_ERROR(kEmpty, sum.link_buckets(plan, codes));
  EXPECT_ERROR(kEmpty, sum.add_piece(0));
  EXPECT_ERROR(kEmpty, sum.add_bucket(1, 0));
  for (const std::uint32_t number : {0U, 1U}) {
    EXPECT_ERROR(kEmpty, sum.clear(number));
    EXPECT_ERROR(kEmpty, sum.add(number));
  }
  taken.clear(0);
  taken.clear(1);
  taken.add(1);
  taken.add_bucket(1, 0);
  taken.add_piece(0);
  shards[0].stream()->wait();
}

TEST(MovedFrom, SymbolTablesAndRoutines) {
  const Rig rig;
  Context context(rig.stream());
  set(context, "x", {1, 2, 3, 4});
  SymbolTable table;
  table.add("row", 3);
  LinkedRoutine linked = context.link(compile(rig.device, kAddOne), "add_one");
  StepRoutine step(linked, table);

  SymbolTable values = std::move(table);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_ERROR(kInvalid, (void)table.slot("row", "add_one"));
  EXPECT_ERROR(kInvalid, StepRoutine(linked, table));
  EXPECT_ERROR(kInvalid, step.run(table));
  table.set("row", 1);
  EXPECT_EQ(table.size(), 0U);
  table.add("row", 2);
  EXPECT_EQ(table.value(table.slot("row", "add_one")), 2);
  table.take_values(values);
  EXPECT_EQ(table.value(0), 3);

  StepRoutine taken = std::move(step);
  EXPECT_ERROR(kEmpty, step.run(values));
  EXPECT_ERROR(kEmpty, (void)step.routine().name());
  taken.run(values);

  const LinkedRoutine other = std::move(linked);
  const std::vector<std::function<void()>> calls = {
      [&] { linked.run(); },           [&] { (void)linked.symbols(); },     [&] { (void)linked.name(); },
      [&] { (void)linked.inputs(); },  [&] { (void)linked.constants(); },   [&] { (void)linked.outputs(); },
      [&] { (void)linked.context(); }, [&] { (void)linked.merge_node(); },  [&] { (void)linked.stream(); },
      [&] { (void)linked.routine(); }, [&] { StepRoutine(linked, values); }};
  for (const auto& call : calls) {
    EXPECT_ERROR(kEmpty, call());
  }
  const std::int64_t row = 0;
  other.run({&row, 1});
  EXPECT_EQ(get(context, "x"), (std::vector<float>{3, 4, 5, 6}));
}

TEST(MovedFrom, TransfersEventsAndCollectives) {
  const Rig rig;
  std::vector<Context> contexts = {Context(rig.stream()), Context(rig.stream())};
  set(contexts[0], "x", {1, 2, 3, 4});
  set(contexts[1], "x", {5, 6, 7, 8});
  Transfer transfer = device_to_device("x", MergeUse::kNone, contexts[0], contexts[1]);
  const Transfer taken = std::move(transfer);
  EXPECT_FALSE(transfer);
  EXPECT_ERROR(kEmpty, transfer.run());
  EXPECT_EQ(transfer.use(), MergeUse::kNone);
  EXPECT_ERROR(kInvalid,
               (void)contexts[0].link_merge(compile(rig.device, kAddOne), "add_one", "x", transfer));
  taken.run();
  EXPECT_EQ(get(contexts[0], "x"), (std::vector<float>{5, 6, 7, 8}));

  rig.control->is_blocked = true;
  const std::vector<float> values = {1, 2, 3, 4};
  contexts[0].from_host("x", bytes(values));
  Event event = contexts[0].stream()->record();
  const Event kept = std::move(event);
  EXPECT_TRUE(event.is_done());  // as a default-constructed one
  event.wait();
  event.wait(0ns);
  contexts[1].stream()->wait_for(event);
  rig.control->is_blocked = false;
  kept.wait();

  const auto group = Collectives::create(MergeStrategy::kOwner, contexts);
  LinkedCollective all = group->all_reduce("x");
  LinkedCollective sum = std::move(all);
  EXPECT_TRUE(all.is_empty());
  all.add_barrier({});
  all.run();
  sum.add(all);
  all.add(sum);
  all.run();
  EXPECT_EQ(get(contexts[1], "x"), (std::vector<float>{6, 8, 10, 12}));

  CollectiveTensor tensor(contexts[0], "x");
  const CollectiveTensor result = std::move(tensor);
  EXPECT_TRUE(tensor.is_done());
  tensor.filled().wait();
  EXPECT_EQ(tensor.assume_resolved().view.buffer, nullptr);
  const BufferView& nothing = tensor.resolve(*contexts[1].stream()).view;
  EXPECT_ERROR(kInvalid, contexts[1].stream()->copy(contexts[1].tensor("x").view, nothing));
  EXPECT_EQ(result.resolve(*contexts[1].stream()).spec, kSpec);
}

TEST(MovedFrom, CachesOfCode) {
  const Rig rig;
  CodeCache codes;
  EXPECT_NE(codes.get(rig.device, std::string(kAddOne)), nullptr);
  CodeCache taken = std::move(codes);
  EXPECT_NE(codes.get(rig.device, std::string(kAddOne)), nullptr);
  EXPECT_GE(codes.compile_seconds(), 0);
  codes.forget(*rig.device);
  taken.forget(*rig.device);
}

TEST(MovedFrom, Tensors) {
  Tensor tensor = placeholder("x", Type::kF32, {2});
  const Tensor kept = std::move(tensor);
  EXPECT_FALSE(tensor);
  EXPECT_FALSE(tensor.is(kept));
  EXPECT_EQ(tensor.node(), nullptr);
  EXPECT_ERROR(kEmpty, (void)tensor.type());
  EXPECT_ERROR(kEmpty, (void)tensor.dims());
  EXPECT_ERROR(kEmpty, (void)tensor.rank());
  EXPECT_ERROR(kEmpty, (void)tensor.element_count());
  EXPECT_ERROR(kEmpty, (void)tensor.byte_count());
  EXPECT_ERROR(kEmpty, (void)tensor.name());
  EXPECT_ERROR(kEmpty, (void)tensor.source());
  EXPECT_ERROR(kEmpty, (void)tensor.is_leaf());
  EXPECT_ERROR(kEmpty, (void)tensor.host_bytes());
  EXPECT_ERROR(kEmpty, (void)tensor.named("y"));
  EXPECT_ERROR(kInvalid, (void)tensor.at({"row", 0, 2, 1}));
  EXPECT_EQ(kept.name(), "x");

  PerAxis stride = {2, 3};
  const PerAxis other = std::move(stride);
  EXPECT_TRUE(stride.numbers().empty());
  ConvPadding padding = {2, 3};
  const ConvPadding taken = std::move(padding);
  EXPECT_FALSE(padding.is_same());
  EXPECT_TRUE(padding.numbers().numbers().empty());
  EXPECT_EQ(other.numbers(), taken.numbers().numbers());
  const Tensor image = placeholder("image", Type::kF32, {1, 4, 4, 2});
  EXPECT_ERROR(kInvalid, (void)conv(image, image, {.stride = stride}));
  EXPECT_ERROR(kInvalid, (void)conv(image, image, {.padding = padding}));
}

TEST(MovedFrom, BatchesAndFeeds) {
  Batch batch(kInputs, kTargets);
  const Batch kept = std::move(batch);
  EXPECT_ERROR(ErrorCode::kNotFound, (void)batch["inputs"]);
  EXPECT_TRUE(batch.fields().empty());
  EXPECT_EQ(batch.row_count(), 0U);
  EXPECT_TRUE(std::move(batch).fields().empty());
  EXPECT_EQ(kept.row_count(), 3U);

  const auto unused = [](Trainer&) { FAIL() << "training started"; };
  const Training run;
  Feed feed({YOKE_TYPE_F32, {3, 2}}, {YOKE_TYPE_F32, {3, 1}}, [&](std::int64_t) { return kept; });
  const Feed taken = std::move(feed);
  EXPECT_ERROR(kInvalid, data_parallel(run.options, feed, run.loss_of, unused));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, batch, run.loss_of, unused));
  LossOf loss_of = run.loss_of;
  const LossOf other = std::move(loss_of);
  EXPECT_FALSE(loss_of);
  EXPECT_ERROR(kInvalid, data_parallel(run.options, kept, loss_of, unused));
}

TEST(MovedFrom, Evaluations) {
  const Training run;
  run([&](Trainer& trainer) {
    Evaluation evaluation = trainer.evaluation(
        kInputs, kTargets, [](const Tensor& x, const Tensor&) { return std::vector{mean(x)}; });
    Evaluation taken = std::move(evaluation);
    EXPECT_ERROR(kEmpty, (void)evaluation.run());
    EXPECT_EQ(taken.run(), std::vector<double>{3.5});
  });
}

TEST(MovedFrom, Parameters) {
  Parameter parameter("w", {2}, Initializer::zeros());
  const Parameter kept = std::move(parameter);
  EXPECT_FALSE(parameter);
  EXPECT_FALSE(parameter.is(kept));
  const std::vector<std::byte> bytes(8);
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"is_state", [&] { (void)parameter.is_state(); }},
      {"name", [&] { (void)parameter.name(); }},
      {"rename", [&] { parameter.rename("v"); }},
      {"type", [&] { (void)parameter.type(); }},
      {"has_dims", [&] { (void)parameter.has_dims(); }},
      {"dims", [&] { (void)parameter.dims(); }},
      {"set_dims", [&] { parameter.set_dims({2}, "user"); }},
      {"byte_count", [&] { (void)parameter.byte_count(); }},
      {"initializer", [&] { (void)parameter.initializer(); }},
      {"set_initializer", [&] { parameter.set_initializer(Initializer::zeros()); }},
      {"order", [&] { (void)parameter.order(); }},
      {"move_last", [&] { parameter.move_last(); }},
      {"tensor", [&] { (void)parameter.tensor(); }},
      {"init_tensor", [&] { (void)parameter.init_tensor(0); }},
      {"has_values", [&] { (void)parameter.has_values(); }},
      {"values", [&] { (void)parameter.values(); }},
      {"float_values", [&] { (void)parameter.float_values(); }},
      {"set_values", [&] { parameter.set_values(bytes); }},
      {"clear_values", [&] { parameter.clear_values(); }}};
  for (const auto& [name, call] : calls) {
    EXPECT_THAT(error_of(call), is_error(kEmpty)) << name;
  }
  kept.set_values(bytes);
}

TEST(MovedFrom, ScalarsAndOptimizers) {
  Scalar rate = scalar("rate", 0.5);
  const Scalar kept = std::move(rate);
  EXPECT_ERROR(kEmpty, (void)rate.value());
  EXPECT_ERROR(kEmpty, rate.set(1));
  EXPECT_FALSE(rate.tensor());
  EXPECT_EQ(kept.value(), 0.5);

  ReduceOnPlateau plateau(kept);
  ReduceOnPlateau reduces = std::move(plateau);
  const std::string state = reduces.state();
  EXPECT_ERROR(kEmpty, (void)plateau.observe(1));
  EXPECT_EQ(plateau.observation_count(), 0);
  EXPECT_ERROR(kEmpty, (void)plateau.state());
  EXPECT_ERROR(kEmpty, plateau.set_state(state));

  const Tensor value = placeholder("w", Type::kF32, {2});
  for (const char* name : {"sgd", "adam"}) {
    Optimizer optimizer = optimizer_by_name(name);
    const Optimizer taken = std::move(optimizer);
    EXPECT_ERROR(kEmpty, (void)optimizer.update(value, value, {}, 0.1F)) << name;
    EXPECT_ERROR(kEmpty, (void)optimizer.update({value, value, {}, 0.1F})) << name;
    EXPECT_TRUE(optimizer.name().empty());
    EXPECT_TRUE(optimizer.states().empty());
    EXPECT_FALSE(optimizer.rule().update);
    EXPECT_EQ(optimizer.group_of("w"), 0U);
    EXPECT_ERROR(kEmpty, (void)clip_by_value(optimizer, 1));
    EXPECT_ERROR(kEmpty, (void)clip_by_global_norm(optimizer, 1));
    EXPECT_ERROR(kEmpty, (void)moving_average(optimizer));
    EXPECT_ERROR(kEmpty, (void)with_groups(optimizer, {{"*", optimizer}}));
    EXPECT_ERROR(kEmpty, (void)with_groups(taken, {{"*", optimizer}}));
    Training run;
    run.options.optimizer = optimizer;
    EXPECT_ERROR(kEmpty, run([](Trainer&) { FAIL() << "training started"; }));
    run.options.optimizer = taken;
    run([](Trainer& trainer) { trainer.step(); });
  }
}

TEST(MovedFrom, Modules) {
  nn::Module module = nn::linear(2);
  const nn::Module kept = std::move(module);
  EXPECT_FALSE(module);
  EXPECT_EQ(module.layer(), nullptr);
  EXPECT_ERROR(kEmpty, (void)module(kInputs));
  EXPECT_TRUE(nn::parameters_and_states(module).empty());
  EXPECT_ERROR(kInvalid, (void)nn::sequential(module, kept));
  EXPECT_ERROR(kInvalid, (void)nn::named("name", module));
  EXPECT_EQ(kept(kInputs).dims(), (Dims{3, 2}));

  nn::Handle<nn::Embedding> handle = nn::embedding(2, 2);
  const nn::Handle<nn::Embedding> other = std::move(handle);
  EXPECT_FALSE(handle);
  EXPECT_EQ(handle.layer(), nullptr);
  EXPECT_ERROR(kEmpty, (void)handle(kInputs));
  EXPECT_ERROR(kEmpty, (void)handle->logits(kInputs));
  EXPECT_FALSE(nn::Module(handle));
  EXPECT_EQ(other->logits(kInputs).dims(), (Dims{3, 2}));
}

}  // namespace
}  // namespace yoke::test
// NOLINTEND(bugprone-use-after-move)
