// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/helpers_test.cpp: splitting of data, loops over symbols,
// hand-written training loops, and saved parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

TEST(ShardAlong, SplitsAndGatherJoins) {
  const Tensor t = tensor<float>({0, 1, 2, 3, 4, 5}, {6});
  const auto shards = shard_along(0, 3, t);
  ASSERT_EQ(shards.size(), 3U);
  EXPECT_EQ(host_values(shards[0]), (std::vector<double>{0, 1}));
  EXPECT_EQ(host_values(shards[1]), (std::vector<double>{2, 3}));
  EXPECT_EQ(host_values(shards[2]), (std::vector<double>{4, 5}));
  EXPECT_EQ(host_values(gather(0, shards)), host_values(t));
}

TEST(ShardAlong, SplitsAnyAxisIntoUnequalParts) {
  const Tensor t = tensor<std::int32_t>({0, 1, 2, 3, 4, 10, 11, 12, 13, 14}, {2, 5});
  EXPECT_EQ(split_sizes(5, 3), (std::vector<std::uint64_t>{2, 2, 1}));
  const auto shards = shard_along(1, 3, t);
  EXPECT_EQ(shards[0].dims(), (Dims{2, 2}));
  EXPECT_EQ(shards[2].dims(), (Dims{2, 1}));
  EXPECT_EQ(host_values(shards[1]), (std::vector<double>{2, 3, 12, 13}));
  EXPECT_EQ(host_values(gather(1, shards)), host_values(t));
}

TEST(ShardAlong, KeepsTheBitsOfLargeIntegers) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 53) + 1;  // a double cannot hold it
  const auto shards = shard_along(0, 2, tensor<std::int64_t>({1, kLarge}, {2}));
  std::int64_t kept = 0;
  std::memcpy(&kept, shards[1].host_bytes().data(), sizeof(kept));
  EXPECT_EQ(kept, kLarge);
}

TEST(ShardAlong, InvalidArgumentsAreErrors) {
  const Tensor t = tensor<float>({0, 1, 2, 3, 4, 5}, {6});
  EXPECT_THROW(shard_along(0, 0, t), Error);
  EXPECT_THROW(shard_along(0, 7, t), Error);
  EXPECT_THROW(shard_along(1, 2, t), Error);
  EXPECT_THROW(shard_along(0, 2, t * 2.0F), Error);
  EXPECT_THROW(gather(0, {}), Error);
  EXPECT_THROW(gather(0, {t, tensor<float>({1, 2}, {1, 2})}), Error);
}

TEST(HostGet, ReadsOneElement) {
  const Tensor t = tensor<std::int32_t>({0, 1, 2, 10, 11, 12}, {2, 3});
  EXPECT_EQ(host_get(t, {0, 0}), 0);
  EXPECT_EQ(host_get(t, {0, 2}), 2);
  EXPECT_EQ(host_get(t, {1, 1}), 11);
  EXPECT_EQ(host_get(tensor<double>({2.5}, {}), {}), 2.5);
  const Parameter w("w", {2}, Initializer::zeros());
  const std::vector<float> values = {3, 4};
  w.set_values(std::as_bytes(std::span(values)));
  EXPECT_EQ(host_get(w.tensor(), {1}), 4);
}

TEST(HostGet, InvalidIndicesAreErrors) {
  const Tensor t = tensor<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_THAT(test::error_of([&] {
                (void)host_get(t, {0, 3});
              }),
              test::is_error(ErrorCode::kOutOfRange, "index [0, 3] is out of range for shape [2, 3]"));
  EXPECT_THAT(test::error_of([&] { (void)host_get(t, {1}); }),
              test::is_error(ErrorCode::kInvalidArgument, "1 index for shape [2, 3]; give one per axis"));
  EXPECT_THAT(test::error_of([&] {
                (void)host_get(t * 2.0F, {0, 0});
              }),
              test::is_error(ErrorCode::kInvalidArgument, "the tensor has no host data"));
}

TEST(FindExn, ReturnsTheBindingOrAnError) {
  const Symbol batch{"batch", 0, 4, 1};
  std::vector<Binding> bindings = {{{"epoch", 0, 9, 1}, 1}, {batch, 2}};
  find_exn(bindings, batch).value = 3;
  EXPECT_EQ(bindings[1].value, 3);
  EXPECT_THAT(test::error_of([&] {
                (void)find_exn(bindings, Symbol{"row", 0, 4, 1});
              }),
              test::is_error(ErrorCode::kNotFound,
                             "no binding of symbol 'row' with its range; the bindings are 'epoch', "
                             "'batch'"));
}

TEST(MergePairs, FormATreeTowardsShardZero) {
  EXPECT_EQ(merge_pairs(1), Pairs{});
  EXPECT_EQ(merge_pairs(2), (Pairs{{1, 0}}));
  EXPECT_EQ(merge_pairs(3), (Pairs{{2, 1}, {1, 0}}));
  EXPECT_EQ(merge_pairs(4), (Pairs{{2, 0}, {3, 1}, {1, 0}}));
  EXPECT_EQ(merge_pairs(5), (Pairs{{3, 1}, {4, 2}, {2, 1}, {1, 0}}));
  EXPECT_EQ(merge_pairs(8), (Pairs{{4, 0}, {5, 1}, {6, 2}, {7, 3}, {2, 0}, {3, 1}, {1, 0}}));
}

std::vector<Binding> two_symbols() {
  return {{{"outer", 0, 2, 1}, 7, true}, {{"kept", 0, 9, 1}, 4, false}, {{"inner", 0, 6, 2}, 8, true}};
}

TEST(SequentialLoop, VisitsAllCombinationsAndRestoresTheValues) {
  auto bindings = two_symbols();
  std::vector<std::vector<std::int64_t>> seen;
  sequential_loop(bindings, [&] {
    seen.push_back({bindings[0].value, bindings[1].value, bindings[2].value});
  });
  EXPECT_EQ(seen, (std::vector<std::vector<std::int64_t>>{
                      {0, 4, 0}, {0, 4, 2}, {0, 4, 4}, {1, 4, 0}, {1, 4, 2}, {1, 4, 4}}));
  EXPECT_EQ(bindings[0].value, 7);
  EXPECT_EQ(bindings[2].value, 8);
}

TEST(SequentialLoop, EndsAtTheEndOfTheType) {
  constexpr std::int64_t kHigh = std::numeric_limits<std::int64_t>::max();
  std::vector<Binding> bindings = {{{"s", kHigh - 3, kHigh, 2}, 0, true}};
  std::vector<std::int64_t> seen;
  sequential_loop(bindings, [&] {
    seen.push_back(bindings[0].value);
    if (seen.size() > 2) {
      throw Error(ErrorCode::kOutOfRange, "it goes on");
    }
  });
  EXPECT_EQ(seen, (std::vector<std::int64_t>{kHigh - 3, kHigh - 1}));
}

TEST(RoundRobin, AlternatesWorkersAndSyncsAfterEveryRound) {
  auto bindings = two_symbols();
  std::vector<std::vector<Binding>> own(4, two_symbols());
  std::vector<std::string> events;
  const auto values = [](const std::vector<Binding>& all) {
    return std::to_string(all[0].value) + std::to_string(all[1].value) + std::to_string(all[2].value);
  };
  std::vector<std::function<void()>> workers;
  for (std::size_t w = 0; w < 4; ++w) {
    workers.emplace_back([&, w] { events.push_back("w" + std::to_string(w) + ":" + values(own[w])); });
  }
  round_robin(workers, own, bindings, [&](std::uint32_t n) {
    events.push_back("sync" + std::to_string(n) + ":" + values(bindings));
  });
  EXPECT_EQ(events, (std::vector<std::string>{"w0:040", "w1:042", "w2:044", "w3:140", "sync4:140", "w0:142",
                                              "w1:144", "sync2:144"}));
  EXPECT_EQ(values(bindings), values(two_symbols())) << "they are restored";
  std::vector<std::uint32_t> dry;
  round_robin_dry_run(4, bindings, [&](std::uint32_t n) { dry.push_back(n); });
  EXPECT_EQ(dry, (std::vector<std::uint32_t>{4, 2}));
}

TEST(SuggestedStreams, AreLimitedByTheArgument) {
  const auto backend = test_runtime()->backend(backend_name());
  EXPECT_EQ(get_all_suggested_streams(backend, 1).size(), 1U);
  EXPECT_GE(get_all_suggested_streams(backend).size(), 1U);
  EXPECT_LE(get_all_suggested_streams(backend, 3).size(), 3U);
}

TEST(SuggestedStreams, IncludeEveryDevice) {
  RuntimeOptions four;
  four.plugin_options["cc"] = {"devices=4"};
  const auto backend = test_runtime(four)->backend(backend_name());
  const std::uint32_t devices = backend->device_count();
  ASSERT_GE(devices, 2U);
  for (std::uint32_t most = 1; most <= devices + 1; ++most) {
    std::set<std::uint32_t> used;
    for (const auto& stream : get_all_suggested_streams(backend, most)) {
      used.insert(stream->device()->ordinal());
    }
    EXPECT_EQ(used.size(), std::min(most, devices)) << most;
  }
}

TEST(ForwardAndForget, ReturnsValuesAndFreesItsMemory) {
  const auto backend = test_runtime()->backend(backend_name());
  const auto stream = Stream::create(backend->open_device(0));
  const Tensor a = tensor<float>({1, 2, 3, 4}, {2, 2}, "a");
  EXPECT_EQ(forward_and_forget(stream, einsum("i k; k j => i j", a, a)),
            (std::vector<double>{7, 10, 15, 22}));
  EXPECT_EQ(backend->live_counts().buffers, 0U);
  EXPECT_EQ(backend->live_counts().routines, 0U);
  EXPECT_THROW(forward_and_forget(stream, placeholder("x", Type::kF32, {2}) * 2.0F), Error);
}

TEST(ForwardAndForget, NamesTheSymbolsThatNeedValues) {
  const auto stream = Stream::create(test_runtime()->backend(backend_name())->open_device(0));
  const Tensor batch = cast(symbol_value({"batch", 0, 4, 1}), Type::kF32);
  const Tensor value = uniform({2}) * batch;
  const std::array<std::int64_t, 2> values = {7, 2};
  EXPECT_EQ(forward_and_forget(stream, value, values).size(), 2U);
  EXPECT_THAT(
      test::error_of([&] { forward_and_forget(stream, value, std::span(values).first(1)); }),
      test::is_error(ErrorCode::kInvalidArgument,
                     "the program has 2 symbols ('" + seed_symbol().name +
                         "', 'batch'), but 1 value was given; pass one value per symbol, in this order, as "
                         "symbol_values"));
}

TEST(HandWrittenLoop, FitsALineWithoutDataParallel) {
  const auto runtime = test_runtime();
  Context context(Stream::create(runtime->backend(backend_name())->open_device(0)));
  const auto& device = context.stream()->device();
  const Symbol batch{"batch", 0, 4, 1};
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}, "x");
  const Parameter w("w", {}, Initializer::zeros());
  const float start = 0.5F;
  w.set_values(std::as_bytes(std::span(&start, 1)));
  const Tensor now = x.at(batch);
  const GradUpdate update = grad_update(mse(now * w.tensor(), now * 2.0F));
  const Lowered sgd = sgd_update(update, 0.02F);
  EXPECT_TRUE(is_param(w.tensor()));
  EXPECT_FALSE(is_param(x));
  ASSERT_EQ(get_params(update.loss).size(), 1U);
  EXPECT_EQ(needs_prior_context(update.lowered), std::vector<std::string>{"w"});
  EXPECT_EQ(needs_prior_context(sgd), (std::vector<std::string>{"w", "gradient_0"}));
  allocate_missing(context, update.lowered);
  EXPECT_EQ(all_host_to_device(context, update.lowered), 2U);
  const auto gradient = context.link(compile(device, program::print(update.lowered.program)), "gradient",
                                     context_names(update.lowered));
  const auto step =
      context.link(compile(device, program::print(sgd.program)), "sgd_update", context_names(sgd));
  for (int epoch = 0; epoch < 30; ++epoch) {
    std::vector<Binding> loop = {{batch, 0, true}};
    sync_run(context, gradient, update.lowered, loop, [&] { step.run(); });
  }
  EXPECT_NEAR(w.float_values()[0], 2.0F, 1e-3);
}

TEST(HandWrittenLoop, SkipsScalarsThatTheContextLacks) {
  const Context context(Stream::create(test_runtime()->backend(backend_name())->open_device(0)));
  const Lowered lowered = lower("double", {{"value", scalar("factor", 2.0).tensor() * 2.0F}});
  EXPECT_EQ(all_host_to_device(context, lowered), 0U);
}

TEST(HandWrittenLoop, KnowsWhatItsRoutinesReadAndWrite) {
  const auto runtime = test_runtime();
  Context context(Stream::create(runtime->backend(backend_name())->open_device(0)));
  const Parameter w("w", {2}, Initializer::zeros());
  const GradUpdate update = grad_update(sum(tensor<float>({1, 2}, {2}, "x") * w.tensor()));
  const Lowered sgd = sgd_update(update, 0.1F);
  allocate_missing(context, update.lowered);
  const auto link = [&](const Lowered& lowered) {
    const auto code = compile(context.stream()->device(), program::print(lowered.program));
    return context.link(code, lowered.program.name, context_names(lowered));
  };
  const LinkedRoutine gradient = link(update.lowered);
  EXPECT_EQ(gradient.inputs(), std::vector<std::string>{"w"});  // read only
  EXPECT_EQ(gradient.constants(), std::vector<std::string>{"x"});
  EXPECT_EQ(gradient.outputs(), (std::vector<std::string>{"loss", "gradient_0"}));
  const LinkedRoutine step = link(sgd);
  EXPECT_THAT(step.inputs(), ::testing::UnorderedElementsAre("w", "gradient_0"));  // w is also written
  EXPECT_EQ(step.outputs(), std::vector<std::string>{"w"});
  EXPECT_TRUE(step.context().has("x"));
}

// Momentum 0.9, weight decay 0.1 and Nesterov, in the formulas of the document.
TEST(HandWrittenLoop, UpdatesWithMomentum) {
  const auto runtime = test_runtime();
  Context context(Stream::create(runtime->backend(backend_name())->open_device(0)));
  for (const bool nesterov : {false, true}) {
    Context child = context.child();
    const Parameter w("w", {}, Initializer::zeros());
    const float start = 0.5F;
    w.set_values(std::as_bytes(std::span(&start, 1)));
    const GradUpdate update = grad_update(w.tensor() * w.tensor());
    const Lowered sgd =
        sgd_update(update, 0.1F, {.momentum = 0.9, .weight_decay = 0.1, .nesterov = nesterov});
    allocate_missing(child, update.lowered);
    child.init_zeros("momentum_0", {YOKE_TYPE_F32, {}});
    const auto link = [&](const Lowered& lowered) {
      return child.link(compile(child.stream()->device(), program::print(lowered.program)),
                        lowered.program.name, context_names(lowered));
    };
    const LinkedRoutine gradient = link(update.lowered);
    const LinkedRoutine step = link(sgd);
    all_host_to_device(child, update.lowered);
    double value = 0.5;
    double momentum = 0;
    for (int i = 0; i < 3; ++i) {
      gradient.run();
      step.run();
      double delta = 2 * value + 0.1 * value;
      momentum = 0.9 * momentum + delta;
      delta = nesterov ? delta + 0.9 * momentum : momentum;
      value -= 0.1 * delta;
    }
    EXPECT_EQ(all_device_to_host(child, update.lowered), 1U);
    EXPECT_NEAR(w.float_values()[0], value, 1e-6) << nesterov;
  }
}

TEST(HandWrittenLoop, GivesEachSymbolTheValueOfItsOwnBinding) {
  const auto runtime = test_runtime();
  Context context(Stream::create(runtime->backend(backend_name())->open_device(0)));
  const Symbol first{"first", 0, 2, 1};
  const Symbol second{"second", 0, 3, 1};
  const Tensor x = tensor<float>({1, 2, 3, 10, 20, 30}, {2, 3}, "x");
  const Lowered lowered = lower("element", {{"value", dynamic_slice(x, {first, second}, {1, 1})}});
  allocate_missing(context, lowered);
  const auto routine = context.link(compile(context.stream()->device(), program::print(lowered.program)),
                                    "element", context_names(lowered));
  for (const bool in_order : {true, false}) {
    std::vector<Binding> loop = {{first, 0, true}, {second, 0, true}};
    if (!in_order) {
      std::swap(loop[0], loop[1]);
    }
    std::vector<float> seen;
    sync_run(context, routine, lowered, loop, [&] {
      float value = 0;
      context.to_host("value", std::as_writable_bytes(std::span(&value, 1)));
      context.stream()->wait();
      seen.push_back(value);
    });
    EXPECT_EQ(seen, in_order ? (std::vector<float>{1, 2, 3, 10, 20, 30})
                             : (std::vector<float>{1, 10, 2, 20, 3, 30}));
  }
}

TEST(SavedParameters, AreRestoredAndCheckedByName) {
  const auto path =
      std::filesystem::temp_directory_path() / ("yoke_params_" + std::to_string(::getpid()) + ".npz");
  const auto make_model = [](std::uint64_t hidden) {
    return nn::sequential(nn::linear(hidden), nn::relu(), nn::linear(1));
  };
  const Tensor inputs = tensor(some_numbers(12, 1), {4, 3});
  const Tensor targets = tensor(some_numbers(4, 2), {4, 1});
  const auto model = make_model(5);
  const auto loss_with = [](const nn::Module& m) {
    return [m](const Tensor& x, const Tensor& y) { return mse(m(x), y); };
  };
  std::vector<float> saved;
  data_parallel(options_for(2, 0.1F), inputs, targets, loss_with(model), [&](Trainer& trainer) {
    trainer.step();
    trainer.save_params(path);
    saved = all_values(trainer);
  });
  DataParallelOptions other_seed = options_for(2, 0.1F);
  other_seed.base_seed = 99;
  data_parallel(other_seed, inputs, targets, loss_with(make_model(5)), [&](Trainer& trainer) {
    EXPECT_NE(all_values(trainer), saved);
    trainer.restore_params(path);
    EXPECT_EQ(all_values(trainer), saved);
    trainer.step();  // training can continue
  });
  data_parallel(other_seed, inputs, targets, loss_with(make_model(6)), [&](Trainer& trainer) {
    const std::vector<float> before = all_values(trainer);
    const Error error = test::error_of([&] { trainer.restore_params(path); });
    EXPECT_NE(std::string(error.what()).find("'0.weight' is f32[5, 3], the model has f32[6, 3]"),
              std::string::npos)
        << error.what();
    EXPECT_EQ(all_values(trainer), before);
  });
  std::filesystem::remove(path);
}

// Without a Trainer, and also into parameters that have no values yet.
TEST(SavedParameters, AreRestoredIntoTheModel) {
  const std::vector<float> values = {1, 2, 3};
  const auto path = std::filesystem::temp_directory_path() /
                    ("yoke_restored_" + std::to_string(::getpid()) + ".safetensors");
  const std::vector<Parameter> saved = {Parameter("a", {3}, Initializer::zeros()),
                                        Parameter("b", {}, Initializer::zeros())};
  saved[0].set_values(std::as_bytes(std::span(values)));
  saved[1].set_values(std::as_bytes(std::span(values).first(1)));
  save_params(path, saved);
  const std::vector<Parameter> restored = {Parameter("b", {}, Initializer::zeros()),
                                           Parameter("a", {3}, Initializer::zeros())};
  restored[0].set_values(std::as_bytes(std::span(values).last(1)));  // replaced
  restore_params(path, restored);
  EXPECT_EQ(host_values(restored[0].tensor()), std::vector<double>{1});
  EXPECT_EQ(host_values(restored[1].tensor()), (std::vector<double>{1, 2, 3}));

  const std::vector<Parameter> wider = {Parameter("a", {3}, Initializer::zeros(), Type::kF64)};
  EXPECT_THAT(test::error_of([&] { restore_params(path, wider); }),
              test::is_error(ErrorCode::kInvalidArgument, "'a' is f32[3], the model has f64[3]"));
  const std::vector<Parameter> other = {restored[0], Parameter("c", {3}, Initializer::zeros())};
  restored[0].set_values(std::as_bytes(std::span(values).last(1)));
  EXPECT_THAT(test::error_of([&] { restore_params(path, other); }),
              test::is_error(ErrorCode::kInvalidArgument, "'c' is missing; nothing was changed"));
  EXPECT_EQ(host_values(restored[0].tensor()), std::vector<double>{3});
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace yoke::testing
