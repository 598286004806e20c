// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/loops_test.cpp: parallel_update and the example training loop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

const Symbol kBatch{"batch", 0, 5, 1};

// y = 2x on 5 batches of one row, with one weight; the loss of a batch is a square.
struct Workers {
  explicit Workers(std::size_t count, const Tensor& rate = 0.01F, const Tensor& scale = 1.0F,
                   const Symbol& batch = kBatch) {
    const float start = 0.5F;
    w.set_values(std::as_bytes(std::span(&start, 1)));
    const Tensor x = tensor<float>({1, 2, 3, 4, 5}, {5}, "x");
    const Tensor error = x[batch] * w.tensor() - x[batch] * 2.0F;
    update = grad_update(error * error * scale);
    sgd = sgd_update(update, rate);
    const auto device = runtime->backend(backend_name())->open_device(0);
    const auto gradient_code = compile(device, program::print(update.lowered.program));
    for (std::size_t k = 0; k < count; ++k) {
      Context context(Stream::create(device));
      allocate_missing(context, update.lowered);
      all_host_to_device(context, update.lowered);
      run.grad_updates.push_back(context.link(gradient_code, "gradient", context_names(update.lowered)));
      run.contexts.push_back(context);
    }
    run.sgd_update =
        run.contexts[0].link(compile(device, program::print(sgd.program)), "sgd_update", context_names(sgd));
    run.bindings->push_back({batch, 0, true});
  }
  float value(std::size_t worker, const char* name = "w") {
    float result = 0;
    run.contexts[worker].to_host(name, std::as_writable_bytes(std::span(&result, 1)));
    run.contexts[worker].stream()->wait();
    return result;
  }

  std::shared_ptr<Runtime> runtime = test_runtime();
  Parameter w{"w", {}, Initializer::zeros()};
  GradUpdate update;
  Lowered sgd;
  ParallelUpdate run;
};

TEST(ParallelUpdate, MergesUpdatesAndPublishesInRounds) {
  for (const bool copy : {false, true}) {
    Workers workers(2);
    std::vector<std::uint32_t> synced;
    std::vector<float> losses;
    workers.run.copy_to_merge = copy;
    workers.run.post_sync = [&](std::uint32_t count) {
      synced.push_back(count);
      losses.push_back(workers.value(0, "loss"));
      EXPECT_EQ(workers.value(1), workers.value(0));
    };
    const std::function<void()> epoch = parallel_update(workers.run, workers.update);
    // Rounds of batches (0, 1), (2, 3) and (4): one update each, with the sum of the gradients.
    double w = 0.5;
    std::vector<float> expected_losses;
    for (int i = 0; i < 2; ++i) {
      epoch();
      for (const double squares : {1.0 + 4.0, 9.0 + 16.0, 25.0}) {
        expected_losses.push_back(static_cast<float>((w - 2) * (w - 2) * squares));
        w -= 0.01 * 2 * (w - 2) * squares;
      }
    }
    EXPECT_EQ(synced, (std::vector<std::uint32_t>{2, 2, 1, 2, 2, 1}));
    EXPECT_NEAR(workers.value(0), w, 1e-5);
    EXPECT_EQ(workers.value(1), workers.value(0));
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], expected_losses[i], 1e-4 * expected_losses[i]) << i;
    }
  }
}

// The rate depends on a symbol that post_sync advances, as the step of OCANNL's example loop does; so does the loss.
TEST(ParallelUpdate, UsesTheValuesOfBindingsThatTheCallerSets) {
  const Symbol done{"done", 0, 100, 1};
  const Tensor count = cast(symbol_value(done), Type::kF32);
  Workers workers(2, 0.001F * (1.0F + count), 1.0F + count);
  std::vector<Binding>& bindings = *workers.run.bindings;
  bindings.push_back({done, 0, false});
  workers.run.post_sync = [&](std::uint32_t synced) { find_exn(bindings, done).value += synced; };
  const std::function<void()> epoch = parallel_update(workers.run, workers.update);
  double w = 0.5;
  const auto round = [&w](double squares, double value) {  // with the symbol's value
    w -= 0.001 * (1 + value) * 2 * (w - 2) * squares * (1 + value);
  };
  epoch();
  round(1 + 4, 0);
  round(9 + 16, 2);
  round(25, 4);
  EXPECT_EQ(find_exn(bindings, done).value, 5);
  EXPECT_NEAR(workers.value(0), w, 1e-5);
  find_exn(bindings, done).value = 1;  // between two passes
  epoch();
  round(1 + 4, 1);
  round(9 + 16, 3);
  round(25, 5);
  EXPECT_NEAR(workers.value(0), w, 1e-5);
}

TEST(ParallelUpdate, TrainsWithAnyNumberOfWorkers) {
  for (const std::size_t count : {1U, 3U, 4U, 8U}) {
    Workers workers(count, 0.005F);
    const std::function<void()> epoch = parallel_update(workers.run, workers.update);
    for (int i = 0; i < 40; ++i) {
      epoch();
    }
    EXPECT_NEAR(workers.value(0), 2.0F, 1e-3);
    EXPECT_EQ(workers.value(count - 1), workers.value(0));
  }
}

TEST(ParallelUpdate, MergesOnlyWhatRoundsNeed) {
  Workers workers(8);                                                   // only 5 of them get a batch
  workers.run.contexts[7] = Context(workers.run.contexts[7].stream());  // it lacks the gradient's tensors
  EXPECT_THAT(error_of([&] { (void)parallel_update(workers.run, workers.update); }),
              is_error(ErrorCode::kInvalidArgument, "has no tensor 'w'"));
  // It needs the parameters, which it receives, but no gradient.
  workers.run.contexts[7].allocate("w", {});
  workers.run.contexts[7].allocate("x", {YOKE_TYPE_F32, {5}});
  const std::function<void()> epoch = parallel_update(workers.run, workers.update);
  epoch();
  EXPECT_EQ(workers.value(7), workers.value(0));

  Workers alone(4);
  alone.run.bindings->at(0).iterate = false;  // every round has one worker
  const std::uint64_t compiled = compile_count(*alone.runtime);
  (void)parallel_update(alone.run, alone.update);
  EXPECT_EQ(compile_count(*alone.runtime), compiled);
  Workers pairs(4);
  const std::uint64_t compiled_before = compile_count(*pairs.runtime);
  (void)parallel_update(pairs.run, pairs.update);
  EXPECT_GT(compile_count(*pairs.runtime), compiled_before);
}

TEST(ParallelUpdate, InvalidArgumentsAreErrors) {
  Workers workers(2);
  const auto refused = [&](const ParallelUpdate& run) {
    return error_of([&] { (void)parallel_update(run, workers.update); });
  };
  ParallelUpdate none = workers.run;
  none.grad_updates.clear();
  none.contexts.clear();
  EXPECT_THAT(refused(none), is_error(ErrorCode::kInvalidArgument, "expected at least one worker"));
  ParallelUpdate fewer = workers.run;
  fewer.contexts.pop_back();
  EXPECT_THAT(refused(fewer), is_error(ErrorCode::kInvalidArgument, "2 routines and 1 context"));
  ParallelUpdate unbound = workers.run;
  unbound.bindings = std::make_shared<std::vector<Binding>>();
  EXPECT_THAT(refused(unbound),
              is_error(ErrorCode::kInvalidArgument, "'batch' of routine 'gradient' has no binding",
                       "all routines must have the same bindings"));
  for (const Symbol& other : {Symbol{"batch", 1, 5, 1}, Symbol{"batch", 0, 4, 1}, Symbol{"batch", 0, 5, 2}}) {
    ParallelUpdate other_range = workers.run;
    other_range.bindings = std::make_shared<std::vector<Binding>>(1, Binding{other});
    EXPECT_THAT(refused(other_range),
                is_error(ErrorCode::kInvalidArgument, "has a binding with another range"));
  }
  ParallelUpdate null = workers.run;
  null.bindings = nullptr;
  EXPECT_THAT(refused(null), is_error(ErrorCode::kInvalidArgument, "the list of bindings is null"));
  ParallelUpdate other_symbols = workers.run;
  other_symbols.grad_updates[1] = workers.run.sgd_update;
  EXPECT_THAT(refused(other_symbols), is_error(ErrorCode::kInvalidArgument,
                                               "differ in their symbols; all routines must have the same"));
  for (const Symbol& other : {Symbol{"other", 0, 5, 1}, Symbol{"batch", 1, 5, 1}, Symbol{"batch", 0, 4, 1},
                              Symbol{"batch", 0, 5, 2}}) {
    other_symbols.grad_updates[1] = Workers(1, 0.01F, 1.0F, other).run.grad_updates[0];
    EXPECT_THAT(refused(other_symbols), is_error(ErrorCode::kInvalidArgument, "differ in their symbols"));
  }
}

TEST(ParallelUpdate, BindingsThatAreAddedOrRemovedLaterAreErrors) {
  for (const std::size_t count : {0U, 1U << 16U}) {
    Workers workers(2);
    const std::function<void()> epoch = parallel_update(workers.run, workers.update);
    *workers.run.bindings = std::vector<Binding>(count, workers.run.bindings->at(0));
    EXPECT_THAT(error_of(epoch),
                is_error(ErrorCode::kInvalidArgument, "every worker must have the symbols of `bindings`"));
  }
}

// ---- the example loop ----

const Tensor kX = tensor<float>({1, 2, 3, 4}, {4, 1});
const auto kMse = [](const Tensor& output, const Tensor& expected) { return mse(output, expected); };
const Tensor kY = tensor<float>({2, 4, 6, 8}, {4, 1});

ExampleLoop example(std::int64_t shards) {
  ExampleLoop loop;
  loop.options = options_for(shards, 0.0F);
  loop.options.learning_rate = Tensor();
  loop.options.batch_size = 2;
  loop.init_lr = 0.02;
  loop.epochs = 3;
  return loop;
}

TEST(ExampleLoop, CallsBackAfterEveryBatchAndEpoch) {
  ExampleLoop loop = example(2);
  loop.init_lr = 0.05;
  int batches = 0;
  double sum_of_epoch = 0;
  std::vector<double> per_epoch;
  loop.per_batch = [&](Trainer&, const ExampleProgress& now) {
    EXPECT_EQ(now.at_step, batches++);
    EXPECT_EQ(now.at_batch, now.at_step % 2);
    EXPECT_EQ(now.at_epoch, now.at_step / 2);
    sum_of_epoch += now.batch_loss;
    EXPECT_EQ(now.epoch_loss, sum_of_epoch);
  };
  loop.per_epoch = [&](Trainer& trainer, const ExampleProgress& now) {
    EXPECT_EQ(now.at_step, trainer.step_count() - 1);
    EXPECT_EQ(now.at_epoch, static_cast<std::int64_t>(per_epoch.size()));
    EXPECT_EQ(now.epoch_loss, sum_of_epoch);
    sum_of_epoch = 0;
    per_epoch.push_back(now.epoch_loss);
  };
  const nn::Module model = nn::linear(1);
  const ExampleResult result = example_train_loop(loop, kX, kY, model, kMse);
  EXPECT_EQ(batches, 6);
  EXPECT_EQ(result.epoch_losses, per_epoch);
  EXPECT_LT(per_epoch[2], per_epoch[0]);
}

TEST(ExampleLoop, ReportsRatesAndLosses) {
  ExampleLoop loop = example(2);
  std::vector<double> rates;
  loop.per_batch = [&](Trainer&, const ExampleProgress& now) { rates.push_back(now.learning_rate); };
  const nn::Module model = nn::linear(1);
  const ExampleResult result = example_train_loop(loop, kX, kY, model, kMse);
  EXPECT_TRUE(result.inputs.is(kX));
  EXPECT_TRUE(result.outputs.is(kY));
  ASSERT_EQ(rates.size(), 6U);
  for (std::size_t step = 0; step < 6; ++step) {  // 6 steps
    EXPECT_NEAR(rates[step], 0.02 * (12 - static_cast<double>(step)) / 6, 1e-8);
  }
  EXPECT_EQ(result.learning_rates, (std::vector<double>{rates[1], rates[3], rates[5]}));
  ASSERT_EQ(result.batch_losses.size(), 6U);
  EXPECT_EQ(result.epoch_losses[2], result.batch_losses[4] + result.batch_losses[5]);
}

TEST(ExampleLoop, TakesAScheduleOfBatchAndStep) {
  ExampleLoop loop = example(1);
  std::vector<double> rates;
  loop.lr_schedule = [](const Tensor& batch_n, const Tensor& step_n) {
    return batch_n * 0.5F + step_n * 0.001F;
  };
  loop.per_batch = [&](Trainer&, const ExampleProgress& now) { rates.push_back(now.learning_rate); };
  const nn::Module model = nn::linear(1);
  (void)example_train_loop(loop, kX, kY, model, kMse);
  const std::vector<double> expected = {0, 0.501, 0.002, 0.503, 0.004, 0.505};
  EXPECT_THAT(rates, ::testing::Pointwise(::testing::DoubleNear(1e-6), expected));
}

TEST(ExampleLoop, LimitsItsShards) {
  ExampleLoop loop = example(1);
  loop.options.shards.reset();
  loop.max_num_devices = 1;
  std::uint32_t shards = 0;
  loop.per_epoch = [&](Trainer& trainer, const ExampleProgress&) { shards = trainer.shards(); };
  const nn::Module model = nn::linear(1);
  (void)example_train_loop(loop, kX, kY, model, kMse);
  EXPECT_EQ(shards, 1U);
  loop.max_num_devices = 0;
  EXPECT_ERROR(ErrorCode::kInvalidArgument, (void)example_train_loop(loop, kX, kY, model, kMse));
}

TEST(ExampleLoop, PredictsOnNewValues) {
  ExampleLoop loop = example(2);
  std::vector<float> live;
  const nn::Module model = nn::sequential(nn::linear(1), nn::dropout(0.5));
  const Tensor rows = tensor<float>({1, 10, 100}, {3, 1});
  const ExampleResult result = example_train_loop(loop, kX, kY, model, kMse);
  EXPECT_EQ(result.model_result.dims(), (Dims{1, 1}));
  const std::vector<Parameter> parameters = nn::parameters(model);
  const float weight = parameters[0].float_values()[0];
  const float bias = parameters[1].float_values()[0];
  const std::vector<double> predicted = result.infer_callback(rows);  // without dropout
  EXPECT_THAT(predicted, ::testing::Pointwise(::testing::DoubleNear(1e-4),
                                              {weight + bias, 10 * weight + bias, 100 * weight + bias}));
  const float zero = 0;
  parameters[0].set_values(std::as_bytes(std::span(&zero, 1)));
  const std::uint64_t compiled = compile_count(*loop.options.runtime);
  EXPECT_EQ(result.infer_callback(rows)[2], static_cast<double>(bias));
  EXPECT_EQ(compile_count(*loop.options.runtime), compiled) << "it was compiled for three rows";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(result.infer_callback(tensor<float>({4}, {1, 1}))[0], static_cast<double>(bias));
    EXPECT_EQ(compile_count(*loop.options.runtime), compiled + 1);
  }
}

TEST(ExampleLoop, SumsLossesThatAreNotScalars) {
  ExampleLoop loop = example(2);
  const auto squares = [](const Tensor& output, const Tensor& expectation) {
    return (output - expectation) * (output - expectation);
  };
  const auto train = [&](const std::function<Tensor(const Tensor&, const Tensor&)>& loss_fn) {
    const nn::Module model = nn::linear(1);
    return example_train_loop(loop, kX, kY, model, loss_fn).batch_losses;
  };
  // One element per row: the sum divided by the rows is the mean.
  EXPECT_THAT(train(squares), ::testing::Pointwise(::testing::DoubleNear(1e-5), train(kMse)));
}

TEST(ExampleLoop, GoesOnFromPriorContexts) {
  const nn::Module model = nn::sequential(nn::linear(1));
  const auto losses = [&](ExampleLoop& loop, float weight) {
    for (const Parameter& parameter : nn::parameters(model)) {
      const float value = parameter.name() == "0.weight" ? weight : 0;
      parameter.set_values(std::as_bytes(std::span(&value, 1)));
    }
    return example_train_loop(loop, kX, kY, model, kMse).batch_losses;
  };
  ExampleLoop loop = example(2);
  (void)example_train_loop(loop, kX, kY, model, kMse);  // creates the parameters
  const std::vector<double> expected = losses(loop, 0.25F);
  const float trained = nn::parameters(model)[0].float_values()[0];

  // The weight is in the contexts, and the bias on the host.
  const auto device = loop.options.runtime->backend(backend_name())->open_device(0);
  const float live = 0.25F;
  for (int k = 0; k < 2; ++k) {
    Context& context = loop.options.prior_contexts.emplace_back(Stream::create(device));
    context.init_from_host("0.weight", {YOKE_TYPE_F32, {1, 1}}, std::as_bytes(std::span(&live, 1)));
  }
  loop.options.shards.reset();
  loop.max_num_devices = 1;                 // does not count
  loop.options.backend_name = "not there";  // not used
  loop.per_epoch = [&](Trainer& trainer, const ExampleProgress&) {
    EXPECT_EQ(trainer.shards(), 2U);
    EXPECT_EQ(trainer.device_names(), backend_name() + std::string(" x2"));
    EXPECT_EQ(trainer.shard_list()[1].stream->device(), device);
  };
  EXPECT_EQ(losses(loop, 7), expected);
  for (const Context& context : loop.options.prior_contexts) {  // they have the trained values
    float now = 0;
    context.to_host("0.weight", std::as_writable_bytes(std::span(&now, 1)));
    context.stream()->wait();
    EXPECT_EQ(now, trained);
  }
  loop.options.shards = 2;  // as many
  EXPECT_EQ(example_train_loop(loop, kX, kY, model, kMse).infer_callback(kX).size(), 4U);

  loop.per_epoch = {};
  loop.options.shards = 3;
  EXPECT_THAT(error_of([&] { (void)example_train_loop(loop, kX, kY, model, kMse); }),
              is_error(ErrorCode::kInvalidArgument, "prior_contexts has 2 contexts, but shards is 3"));
  loop.options.shards.reset();
  loop.options.prior_contexts.resize(4097, loop.options.prior_contexts[0]);
  EXPECT_THAT(error_of([&] { (void)example_train_loop(loop, kX, kY, model, kMse); }),
              is_error(ErrorCode::kInvalidArgument,
                       "prior_contexts has 4097 contexts; give one per shard, at most 4096"));
  loop.options.prior_contexts = {Context(Stream::create(device))};
  loop.options.prior_contexts[0].init_zeros("0.weight", {YOKE_TYPE_F32, {2, 2}});
  EXPECT_THAT(error_of([&] { (void)example_train_loop(loop, kX, kY, model, kMse); }),
              is_error(ErrorCode::kInvalidArgument, "'0.weight' of a prior context has another type"));
}

TEST(ExampleLoop, ContinuesFromTheParametersOfTheModel) {
  ExampleLoop loop = example(2);
  loop.options.learning_rate = 0.01F;
  const auto losses = [&](std::initializer_list<std::int64_t> runs) {
    const nn::Module model = nn::linear(1);
    std::vector<double> all;
    for (const std::int64_t epochs : runs) {
      loop.epochs = epochs;
      const ExampleResult result = example_train_loop(loop, kX, kY, model, kMse);
      all.insert(all.end(), result.batch_losses.begin(), result.batch_losses.end());
    }
    return all;
  };
  EXPECT_EQ(losses({2, 1}), losses({3}));
}

}  // namespace
}  // namespace yoke::testing
