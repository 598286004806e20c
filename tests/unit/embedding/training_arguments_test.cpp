// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/training_arguments_test.cpp: functions for training with null, empty and moved-from arguments.
#include <yoke/all_reduce.h>
#include <yoke/yoke.h>

#include <stdexcept>
#include <utility>

#include "training.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kEmpty = ErrorCode::kFailedPrecondition;

TEST(TrainingArguments, DataParallel) {
  const auto unused = [](Trainer&) { FAIL() << "training started"; };
  const Training run;
  EXPECT_THAT(error_of([&] { data_parallel(run.options, kInputs, kTargets, {}, unused); }),
              is_error(kInvalid, "loss_of is an empty function"));
  EXPECT_THAT(error_of([&] { data_parallel(run.options, kInputs, kTargets, run.loss_of, {}); }),
              is_error(kInvalid, "body is an empty function"));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, kNone, kTargets, run.loss_of, unused));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, kInputs, kNone, run.loss_of, unused));
  const auto nothing = [](const Tensor&, const Tensor&) { return Tensor(); };
  EXPECT_ERROR(kInvalid, data_parallel(run.options, kInputs, kTargets, nothing, unused));
  EXPECT_ERROR(kInvalid, data_parallel({}, kInputs, kTargets, run.loss_of, unused));
  const Batch batch(kInputs, kTargets);
  EXPECT_ERROR(kInvalid, data_parallel({}, batch, run.loss_of, unused));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, batch, {}, unused));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, batch, run.loss_of, {}));
  const Feed feed = shuffled(batch, 2, 0);
  EXPECT_ERROR(kInvalid, data_parallel({}, feed, run.loss_of, unused));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, feed, {}, unused));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, feed, run.loss_of, {}));
  Training nameless;
  nameless.options.bindings = {Symbol()};
  EXPECT_THAT(error_of([&] { nameless(unused); }), is_error(kInvalid, "a binding has no name"));
  nameless.options.bindings = {};
  nameless.options.backend_name = "";
  EXPECT_ERROR(kInvalid, nameless(unused));
}

TEST(TrainingArguments, Batches) {
  const Batch none;
  EXPECT_EQ(none.row_count(), 0U);
  EXPECT_TRUE(none.fields().empty());
  EXPECT_ERROR(ErrorCode::kNotFound, (void)none["x"]);
  EXPECT_EQ(Batch(kNone, kNone).row_count(), 0U);
  EXPECT_EQ(Batch(std::vector<Field>()).row_count(), 0U);
  EXPECT_EQ(Batch(std::vector<Field>(1)).row_count(), 0U);
  EXPECT_FALSE(BatchFunction<Loss>(nullptr));
  EXPECT_FALSE(Predictor::Model(nullptr));
  EXPECT_FALSE(Loss(kNone).loss);
  EXPECT_TRUE(Loss(kNone, {}).metrics.empty());
  const auto unused = [](Trainer&) { FAIL() << "training started"; };
  const Training run;
  EXPECT_ERROR(kInvalid, data_parallel(run.options, none, run.loss_of, unused));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, Batch(std::vector<Field>(1)), run.loss_of, unused));
  EXPECT_ERROR(kInvalid, data_parallel(run.options, Feed(), run.loss_of, unused));
  const auto no_batch = [](std::int64_t) { return Batch(); };
  EXPECT_ERROR(kInvalid, data_parallel(run.options, Feed({}, no_batch), run.loss_of, unused));
  const Feed without_fields(std::vector<Feed::FieldSpec>(), {});
  EXPECT_ERROR(kInvalid, data_parallel(run.options, without_fields, run.loss_of, unused));
  const TensorSpec inputs = {YOKE_TYPE_F32, {3, 2}};
  EXPECT_ERROR(kInvalid, data_parallel(run.options, Feed(inputs, inputs, {}), run.loss_of, unused));
  const auto empty_metric = [](const Batch&) { return Loss(1.0F, std::vector<Field>(1)); };
  EXPECT_ERROR(kInvalid, data_parallel(run.options, Batch(kInputs, kTargets), empty_metric, unused));
  EXPECT_ERROR(kInvalid, (void)shuffled(none, 1, 0));
  run([&](Trainer& trainer) {
    EXPECT_ERROR(ErrorCode::kNotFound, (void)trainer.metric_value(""));
    EXPECT_ERROR(kInvalid, trainer.set_batch(none));
    const auto no_metric = [](const Batch&) { return std::vector<Tensor>(); };
    EXPECT_ERROR(kInvalid, (void)trainer.evaluation(none, no_metric));
    EXPECT_ERROR(kInvalid, (void)trainer.evaluation(Batch(kInputs, kTargets), {}));
    EXPECT_ERROR(kInvalid, (void)trainer.predict([](const Batch&) { return kNone; }, none));
  });
}

TEST(TrainingArguments, MemoryNeedOfNothing) {
  EXPECT_EQ(MemoryNeed().total(), 0U);
}

TEST(TrainingArguments, FunctionsOfATrainer) {
  const Training run;
  run([](Trainer& trainer) {
    EXPECT_ERROR(kEmpty, (void)trainer.loss_value());
    EXPECT_ERROR(kEmpty, (void)trainer.owner_loss_value());
    EXPECT_ERROR(kEmpty, (void)trainer.mean_loss());
    EXPECT_ERROR(kEmpty, (void)trainer.mean_loss(Reduction::kSum));
    EXPECT_FALSE(trainer.first_bad_step());
    EXPECT_EQ(trainer.loss_scale().scale, 1);
    EXPECT_ERROR(kEmpty, trainer.grad_sync());
    EXPECT_ERROR(kEmpty, trainer.update());
    EXPECT_ERROR(kInvalid, trainer.set_batch(kNone, kTargets));
    EXPECT_THROW(trainer.set_row_weights({}), Error);
    EXPECT_ERROR(kInvalid, trainer.set_learning_rate(-1));
    EXPECT_ERROR(kInvalid, trainer.set_batch(kInputs, kNone));
    EXPECT_ERROR(kInvalid, (void)trainer.read_values(kNone));
    EXPECT_ERROR(ErrorCode::kNotFound, (void)trainer.read_values(""));
    EXPECT_ERROR(ErrorCode::kFailedPrecondition, (void)trainer.read_values(Parameter()));
    EXPECT_THROW((void)trainer.merged_gradient(Parameter()), Error);
    EXPECT_THROW((void)trainer.replica(0, Parameter()), Error);
    EXPECT_THROW(trainer.save_params(""), Error);
    EXPECT_THROW(trainer.restore_params(""), Error);
    EXPECT_ERROR(kInvalid, trainer.restore_params(std::vector<NamedArray>(), ""));
    EXPECT_ERROR(kInvalid, trainer.set_state({}));
    EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.swap_averages());
    EXPECT_FALSE(trainer.state().parameters.empty());
    const auto loss = [](const Tensor& x, const Tensor&) { return std::vector<Tensor>{mean(x)}; };
    EXPECT_ERROR(kInvalid, (void)trainer.evaluation(kNone, kTargets, loss));
    EXPECT_ERROR(kInvalid, (void)trainer.evaluation(kInputs, kNone, loss));
    EXPECT_ERROR(kInvalid, (void)trainer.evaluation(kInputs, kTargets, loss, 0));
    EXPECT_ERROR(kInvalid, (void)trainer.evaluation(kInputs, kTargets, {}));
    const auto nothing = [](const auto&, const auto&) { return std::vector<Tensor>(1); };
    EXPECT_THAT(error_of([&] { (void)trainer.evaluation(kInputs, kTargets, nothing); }),
                is_error(kInvalid, "metric 0 is an empty Tensor"));
    const auto no_metric = [](const auto&, const auto&) { return std::vector<Tensor>(); };
    EXPECT_TRUE(trainer.evaluation(kInputs, kTargets, no_metric).run().empty());
    EXPECT_ERROR(kEmpty, (void)Evaluation().run());
    const auto same = [](const Tensor& x) { return x; };
    EXPECT_ERROR(kInvalid, (void)trainer.predict({}, kInputs));
    EXPECT_ERROR(kInvalid, (void)trainer.predict(same, kNone));
    EXPECT_ERROR(kInvalid, (void)trainer.predict(same, kInputs, 0));
    EXPECT_THAT(error_of([&] { (void)trainer.predict([](const Tensor&) { return kNone; }, kInputs); }),
                is_error(kInvalid, "for 3 rows, the model returned an empty Tensor"));

    EXPECT_TRUE(trainer.run_epoch());  // after all these errors
    trainer.wait();
    EXPECT_EQ(trainer.step_count(), trainer.steps_per_epoch());
  });
}

TEST(TrainingArguments, Predictor) {
  const Training run;
  const PredictorOptions options{.backend_name = run.options.backend_name, .runtime = run.options.runtime};
  EXPECT_THAT(error_of([&] { Predictor(Predictor::Model(), options); }),
              is_error(kInvalid, "the model is empty"));
  EXPECT_ERROR(kInvalid, Predictor(nn::Module(), options));
  EXPECT_ERROR(kInvalid, Predictor(nn::Handle<nn::Embedding>(), options));
  EXPECT_ERROR(kInvalid, Predictor(std::vector<NamedArray>(), nn::Module(), options));
  EXPECT_ERROR(kInvalid, Predictor(std::function<Tensor(const Tensor&)>(), options));
  EXPECT_ERROR(kInvalid, Predictor(std::function<Tensor(const Batch&)>(), options));
  EXPECT_ERROR(ErrorCode::kNotFound, Predictor("", nn::relu(), options));
  EXPECT_THROW(Predictor(nn::relu(), {.backend_name = "", .runtime = run.options.runtime}), Error);
  EXPECT_THROW(
      Predictor(nn::relu(), {.backend_name = options.backend_name, .device = 9, .runtime = options.runtime}),
      Error);
  Predictor predictor(std::vector<NamedArray>(), nn::relu(), options);
  EXPECT_ERROR(kInvalid, (void)predictor.predict(kNone));
  EXPECT_ERROR(kInvalid, (void)predictor.predict(kInputs, 0));
  EXPECT_EQ(predictor.predict(kInputs).dims(), kInputs.dims());
  Predictor moved(std::move(predictor));
  EXPECT_ERROR(kEmpty, (void)predictor.predict(kInputs));
  EXPECT_ERROR(kEmpty, (void)predictor.device_name());
  EXPECT_EQ(moved.predict(kInputs).dims(), kInputs.dims());
  Predictor nothing([](const Tensor&) { return kNone; }, options);
  EXPECT_THAT(error_of([&] { (void)nothing.predict(kInputs); }),
              is_error(kInvalid, "returned an empty Tensor"));
}

TEST(TrainingArguments, HostDataAndLoops) {
  EXPECT_ERROR(kInvalid, (void)split_sizes(4, 0));
  EXPECT_EQ(split_sizes(0, 2).size(), 2U);
  EXPECT_ERROR(kInvalid, (void)shard_along(0, 1, kNone));
  EXPECT_ERROR(kInvalid, (void)shard_along(0, 0, kInputs));
  EXPECT_ERROR(kInvalid, (void)gather(0, {}));
  EXPECT_ERROR(kInvalid, (void)gather(0, {kNone}));
  EXPECT_ERROR(kInvalid, (void)gather(0, {kInputs, kNone}));
  EXPECT_ERROR(kInvalid, (void)host_values(kNone));
  std::vector<Binding> bindings = {{{"row", 0, 4, 1}}};
  EXPECT_ERROR(kInvalid, sequential_loop(bindings, {}));
  std::vector<Binding> no_loop;
  int calls = 0;
  sequential_loop(no_loop, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
  const std::vector<std::function<void()>> workers = {[] {}};
  const std::vector<std::function<void()>> empty_worker(1);
  std::vector<std::vector<Binding>> own = {bindings};
  EXPECT_ERROR(kInvalid, round_robin({}, {}, bindings, [](std::uint32_t) {}));
  EXPECT_ERROR(kInvalid, round_robin(empty_worker, own, bindings, [](std::uint32_t) {}));
  EXPECT_ERROR(kInvalid, round_robin(workers, own, bindings, {}));
  EXPECT_ERROR(kInvalid, round_robin(workers, own, no_loop, [](std::uint32_t) {}));
  std::vector<std::vector<Binding>> none_of_its_own(1);
  EXPECT_ERROR(kInvalid, round_robin(workers, none_of_its_own, bindings, [](std::uint32_t) {}));
  const std::vector<std::function<void()>> two_workers = {[] {}, [] {}};
  EXPECT_ERROR(kInvalid, round_robin(two_workers, own, bindings, [](std::uint32_t) {}));
  EXPECT_ERROR(kInvalid, round_robin_dry_run(0, bindings, [](std::uint32_t) {}));
  EXPECT_ERROR(kInvalid, round_robin_dry_run(1, bindings, {}));
  round_robin_dry_run(2, no_loop, [&](std::uint32_t count) { EXPECT_EQ(count, 1U); });
}

TEST(TrainingArguments, BuildingBlocksOfHandWrittenLoops) {
  Rig rig;
  Context context(rig.stream());
  const Lowered lowered = forward(kInputs + 1.0F);
  LoweredArgument empty_leaf;
  empty_leaf.kind = LoweredArgument::Kind::kParameter;
  EXPECT_ERROR(kInvalid, (void)context_name(empty_leaf));
  empty_leaf.kind = LoweredArgument::Kind::kScalar;
  EXPECT_ERROR(kInvalid, (void)context_name(empty_leaf));
  EXPECT_TRUE(context_names({}).empty());
  EXPECT_ERROR(kInvalid, (void)get_all_suggested_streams(nullptr));
  EXPECT_TRUE(get_all_suggested_streams(rig.backend, 0).empty());
  EXPECT_EQ(all_host_to_device(context, {}), 0U);
  EXPECT_EQ(all_device_to_host(context, {}), 0U);
  EXPECT_TRUE(needs_prior_context({}).empty());
  EXPECT_ERROR(kEmpty, sync_run(context, LinkedRoutine(), lowered));
  std::vector<Binding> loop;
  EXPECT_ERROR(kInvalid, sync_run(context, LinkedRoutine(), lowered, loop, {}));
  EXPECT_ERROR(kEmpty, sync_run(context, LinkedRoutine(), lowered, loop, [] {}));
  Lowered changed = lowered;
  set_materialized(changed, {});
  EXPECT_ERROR(ErrorCode::kNotFound, set_materialized(changed, std::vector<std::string>{"none"}));
  set_materialized(changed, std::vector<std::string>{""});  // the argument without a name, which has memory
  set_virtual(changed, {});
  EXPECT_ERROR(kInvalid, set_virtual(changed, std::vector<std::string>{""}));
  changed.program.tensors.clear();
  EXPECT_ERROR(kInvalid, allocate_missing(context, changed));
  EXPECT_FALSE(is_param(kNone));
  EXPECT_TRUE(get_params(kNone).empty());
  EXPECT_ERROR(kInvalid, (void)forward(kNone));
  EXPECT_ERROR(kInvalid, (void)grad_update(kNone));
  EXPECT_ERROR(kInvalid, (void)grad_update(kInputs));
  GradUpdate with_empty;
  with_empty.params = {Parameter()};
  EXPECT_ERROR(kEmpty, (void)sgd_update(with_empty, 0.1F));
  EXPECT_ERROR(kInvalid, (void)sgd_update(grad_update(mse(nn::linear(1)(kInputs), kTargets)), kNone));
  EXPECT_ERROR(kInvalid, (void)forward_and_forget(nullptr, kInputs));
  EXPECT_ERROR(kInvalid, (void)forward_and_forget(rig.stream(), kNone));
  EXPECT_ERROR(kInvalid, (void)forward_and_forget(rig.stream(), placeholder("", Type::kF32, {})));
}

TEST(TrainingArguments, FilesOfParameters) {
  const std::vector<Parameter> empty_parameter(1);
  EXPECT_ERROR(kEmpty, save_params("unused.npz", empty_parameter));
  const std::vector<Parameter> without_values = {Parameter("w", {2}, Initializer::zeros())};
  EXPECT_ERROR(kEmpty, save_params("unused.npz", without_values));
  EXPECT_ERROR(ErrorCode::kNotFound, restore_params("unused.npz", empty_parameter));
  const std::vector<NamedArray> no_array;
  EXPECT_ERROR(kInvalid, restore_params(no_array, without_values, ""));
  EXPECT_ERROR(kEmpty, restore_params(no_array, empty_parameter, "source"));
  EXPECT_NO_THROW(restore_params(no_array, {}, "source"));
  EXPECT_THROW(save_params("", {}), Error);
  EXPECT_THROW(save_params("", nn::linear(1)), Error);
  EXPECT_THROW(restore_params("", {}), Error);
  EXPECT_ERROR(kEmpty, save_params("unused.npz", nn::Module()));
  EXPECT_ERROR(kEmpty, restore_params("unused.npz", nn::Module()));
}

TEST(TrainingArguments, AMovedFromContextIsAnError) {
  Rig rig;
  Context context(rig.stream());
  const Lowered lowered = forward(kInputs + 1.0F);
  std::vector<Binding> loop;
  Context taken = std::move(context);
  // NOLINTBEGIN(bugprone-use-after-move): that is the test
  EXPECT_ERROR(kEmpty, (void)all_host_to_device(context, lowered));
  EXPECT_ERROR(kEmpty, (void)all_device_to_host(context, lowered));
  EXPECT_ERROR(kEmpty, allocate_missing(context, lowered));
  EXPECT_ERROR(kEmpty, sync_run(context, LinkedRoutine(), lowered));
  EXPECT_ERROR(kEmpty, sync_run(context, LinkedRoutine(), lowered, loop, [] {}));
  EXPECT_ERROR(kEmpty, (void)from_host(context, lowered.arguments.at(0)));
  EXPECT_ERROR(kEmpty, (void)to_host(context, lowered.arguments.at(0)));
  EXPECT_ERROR(kEmpty, (void)link_batch(context, compile_batch(rig.device, {lowered})));
  EXPECT_ERROR(kEmpty, (void)forward_and_ctx(context, kInputs + 1.0F));
  const std::vector<Context> members = {context};
  EXPECT_ERROR(kEmpty, DistributedGroup({}, {context}));
  const std::vector<Lowered> programs = {lowered};
  EXPECT_ERROR(kEmpty, DistributedProgram(members, programs));
  // NOLINTEND(bugprone-use-after-move)
}

TEST(TrainingArguments, BatchesAndUpdates) {
  Rig rig;
  const Context context(rig.stream());
  const Lowered lowered = forward(kInputs + 1.0F);
  EXPECT_ERROR(kInvalid, (void)host_get(kNone, {}));
  EXPECT_ERROR(kInvalid, (void)host_get(kInputs, {}));
  std::vector<Binding> none;
  EXPECT_ERROR(ErrorCode::kNotFound, (void)find_exn(none, Symbol()));
  EXPECT_FALSE(from_host(context, {}));
  EXPECT_FALSE(to_host(context, {}));
  EXPECT_ERROR(kInvalid, init_params(nullptr, {}, 0));
  EXPECT_ERROR(kEmpty, init_params(rig.stream(), std::vector<Parameter>(1), 0));
  EXPECT_ERROR(kInvalid, (void)every_non_literal_on_host(kNone));
  EXPECT_TRUE(every_non_literal_on_host(kInputs).empty());
  EXPECT_ERROR(kInvalid, (void)compile_batch(nullptr, {lowered}));
  EXPECT_EQ(compile_batch(nullptr, {}).code, nullptr);
  EXPECT_TRUE(link_batch(context, {}).routines.empty());
  EXPECT_ERROR(kInvalid, (void)link_batch(context, {{lowered}, {true}, nullptr}));
  EXPECT_ERROR(kInvalid, (void)link_batch(context, {{lowered}, {}, nullptr}));
  EXPECT_ERROR(kInvalid, (void)forward_and_ctx(context, kNone));
  EXPECT_ERROR(kInvalid, (void)forward_and_ctx(context, placeholder("p", Type::kF32, {})));
  EXPECT_ERROR(kInvalid, (void)parallel_update({}, {}));
  EXPECT_ERROR(kInvalid, (void)parallel_update({{context}, {LinkedRoutine()}, {}, {}}, {}));
  const auto no_bindings = std::make_shared<std::vector<Binding>>();
  EXPECT_ERROR(kEmpty, (void)parallel_update({{context}, {LinkedRoutine()}, {}, no_bindings}, {}));
  RuntimeOptions options;
  enable_all_debugs(options);
  disable_all_debugs(options);
  EXPECT_ERROR(kInvalid, (void)suggested_stream_count({}, static_cast<StreamUse>(9)));
  EXPECT_EQ(suggested_stream_count({}, StreamUse::kMostParallelStreams), 1U);
  Training run;
  run([](Trainer& trainer) { EXPECT_NEAR(trainer.learning_rate_value(), 0.01, 1e-8); });
}

TEST(TrainingArguments, DistributedGroups) {
  Rig rig;
  EXPECT_ERROR(kEmpty, (void)DistributedParamId::of(Parameter()));
  EXPECT_ERROR(kInvalid, (void)DistributedParamId::from_text(""));
  EXPECT_EQ(DistributedParamId().text(), "0000000000000000");
  EXPECT_EQ(DistributedParamId().value(), 0U);
  EXPECT_EQ(DistributedParamId(0).value(), 0U);
  EXPECT_EQ(std::string(reduction_name(static_cast<Reduction>(9))), "unknown");
  EXPECT_ERROR(kInvalid, (void)reduction_by_name(""));
  EXPECT_ERROR(kInvalid, DistributedGroup({}, {}));
  DistributedGroup group({}, {Context(rig.stream())});
  EXPECT_EQ(group.size(), 1U);
  group.register_sync_parameters({});
  EXPECT_ERROR(kEmpty, group.register_sync_parameters(std::vector<Parameter>(1)));
  EXPECT_FALSE(group.is_registered({}));
  EXPECT_ERROR(kEmpty, (void)group.distributed_params(Parameter()));
  EXPECT_ERROR(ErrorCode::kNotFound, group.submit_gradient_sync(0, {}));
  EXPECT_ERROR(ErrorCode::kOutOfRange, group.submit_gradient_sync(1, {}));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)group.gradient(0, {}));
  group.sync_collective();
  EXPECT_TRUE(distributed_names({}, {}).empty());
  EXPECT_ERROR(kInvalid, (void)all_reduce(kNone, Reduction::kSum));
  EXPECT_ERROR(kInvalid, DistributedProgram({}, {}));
  const std::vector<Context> members = {Context(rig.stream())};
  const std::vector<Lowered> nothing(1);
  DistributedProgram(members, nothing).run();
}

TEST(TrainingArguments, ExampleLoop) {
  const Training run;
  ExampleLoop loop{.options = run.options};
  const nn::Module model = nn::linear(1);
  const auto loss = [](const Tensor& output, const Tensor& expected) { return mse(output, expected); };
  EXPECT_ERROR(kInvalid, (void)example_train_loop(loop, kInputs, kTargets, model, {}));
  EXPECT_ERROR(kInvalid, (void)example_train_loop(loop, kInputs, kTargets, {}, loss));
  EXPECT_ERROR(kInvalid, (void)example_train_loop(loop, kNone, kTargets, model, loss));
  EXPECT_ERROR(kInvalid, (void)example_train_loop(loop, kInputs, kNone, model, loss));
  loop.epochs = 0;
  EXPECT_TRUE(example_train_loop(loop, kInputs, kTargets, model, loss).epoch_losses.empty());
}

TEST(TrainingArguments, NamesOfPrecisions) {
  EXPECT_STREQ(precision_name(static_cast<Precision>(99)), "unknown");
  EXPECT_ERROR(kInvalid, (void)precision_by_name(""));
}

TEST(TrainingArguments, NamesOfOnDeviceLost) {
  EXPECT_STREQ(on_device_lost_name(static_cast<OnDeviceLost>(99)), "unknown");
  EXPECT_ERROR(kInvalid, (void)on_device_lost_by_name(""));
}

}  // namespace
}  // namespace yoke::test
