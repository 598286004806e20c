// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/train.cpp: training runs through libyoke on the
// plugin's devices, compared with known results.
#include <yoke/datasets.h>
#include <yoke/program/text.h>

#include <cmath>

#include "groups.h"
#include "train_oracles.h"
#include "training.h"

namespace yoke::conformance {
namespace {

using testing::kLineX;
using testing::kLineY;
using testing::loss_of_line;
using testing::weight_of;

constexpr MergeStrategy kStrategies[] = {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect,
                                         MergeStrategy::kRing, MergeStrategy::kNative};

void check_near(double got, double expected, double tolerance, const std::string& what) {
  check(std::fabs(got - expected) <= tolerance, what, " is ", got, ", expected ", expected, " +- ",
        tolerance);
}

// Runs a training. Returns false if the strategy is `direct` or `native`, and the devices have no shared memory
// or no collectives.
bool may_use(MergeStrategy strategy, const std::function<void()>& run) {
  try {
    run();
    return true;
  } catch (const Error& error) {
    if ((strategy == MergeStrategy::kDirect || strategy == MergeStrategy::kNative) &&
        error.code() == ErrorCode::kFailedPrecondition) {
      return false;
    }
    fail(text("the training with merge strategy ", merge_strategy_name(strategy), " failed: ", error.what()));
  }
}

void one_step(Kit& kit) {
  TrainingRuntime runtime(kit);
  for (const testing::OneStep& row : testing::kOneSteps) {
    for (const MergeStrategy strategy : kStrategies) {
      const std::string what = text(row.mean_loss ? "mean" : "sum", " of squares, reduction ",
                                    row.reduction == Reduction::kSum ? "sum" : "mean", ", ", row.shards,
                                    " shards, ", merge_strategy_name(strategy), ": ");
      const Parameter w = weight_of(0.5F);
      DataParallelOptions options = runtime.options(row.shards, 0.05F);
      options.reduction = row.reduction;
      options.merge = strategy;
      may_use(strategy, [&] {
        data_parallel(
            options, tensor(kLineX, {4}), tensor(kLineY, {4}),
            [&](const Tensor& x, const Tensor& y) { return loss_of_line(w, x, y, row.mean_loss); },
            [&](Trainer& trainer) {
              trainer.step();
              check_near(static_cast<double>(trainer.owner_loss_value()), row.owner_loss, 1e-4,
                         what + "the owner's loss");
              check_near(static_cast<double>(trainer.read_values("w").at(0)), row.weight, 1e-5,
                         what + "the weight");
            });
      });
    }
  }
  runtime.check_fallbacks();
}

void two_steps(Kit& kit) {
  TrainingRuntime runtime(kit);
  const Parameter w = weight_of(0.5F);
  data_parallel(
      runtime.options(2, 0.02F), tensor(kLineX, {4}), tensor(kLineY, {4}),
      [&](const Tensor& x, const Tensor& y) { return loss_of_line(w, x, y, false); },
      [&](Trainer& trainer) {
        trainer.step();
        check_near(static_cast<double>(trainer.read_values("w").at(0)), 1.4, 1e-5,
                   "the weight after one step");
        check_near(static_cast<double>(trainer.owner_loss_value()), 11.25, 1e-4, "the owner's loss");
        trainer.set_batch(tensor<float>({5, 6, 7, 8}, {4}), tensor<float>({10, 12, 14, 16}, {4}));
        trainer.step();
        check_near(static_cast<double>(trainer.read_values("w").at(0)), 3.488, 1e-5,
                   "the weight after another batch");
        check_near(static_cast<double>(trainer.owner_loss_value()), 21.96, 1e-4,
                   "the owner's loss of another batch");
      });
  runtime.check_fallbacks();
}

void merge(Kit& kit) {
  TrainingRuntime runtime(kit);
  const auto device = runtime.device();
  for (const MergeStrategy strategy : kStrategies) {
    may_use(strategy, [&] {
      std::vector<Context> contexts = {Context(yoke::Stream::create(device)),
                                       Context(yoke::Stream::create(device))};
      const std::vector<float> values[] = {{1, 2}, {3, 4}};
      for (std::size_t k = 0; k < 2; ++k) {
        contexts[k].init_from_host("g", {YOKE_TYPE_F32, {2}}, std::as_bytes(std::span(values[k])));
      }
      Collectives::create(strategy, contexts)->reduce("g").run();
      std::vector<float> sum(2);
      contexts[0].to_host("g", std::as_writable_bytes(std::span(sum)));
      contexts[0].stream()->wait();
      check(sum == std::vector<float>{4, 6}, "merging [1 2] and [3 4] with ", merge_strategy_name(strategy),
            " returned [", sum[0], " ", sum[1], "], expected [4 6]");
    });
  }
}

void check_values(const Context& context, const char* name, const std::vector<float>& expected,
                  const std::string& what) {
  std::vector<float> got(expected.size());
  context.to_host(name, std::as_writable_bytes(std::span(got)));
  context.stream()->wait();
  check(got == expected, what, ": ", name, " is [", got[0], " ", got[1], "], expected [", expected[0], " ",
        expected[1], "]");
}

void all_reduce(Kit& kit) {
  TrainingRuntime runtime(kit);
  const auto device = runtime.device();
  for (const testing::AllReduceOracle& row : testing::kAllReduces) {
    const std::string what = text("all-reduce, ", row.reduction == Reduction::kSum ? "sum" : "mean",
                                  ", shard 1's loss times ", row.factor);
    std::vector<Context> contexts = {Context(yoke::Stream::create(device)),
                                     Context(yoke::Stream::create(device))};
    const std::vector<float> inputs[] = {{2, 5}, {4, 1}};
    for (std::size_t k = 0; k < 2; ++k) {
      contexts[k].init_from_host("input", {YOKE_TYPE_F32, {2}}, std::as_bytes(std::span(inputs[k])));
    }
    const AllReduce forward_pass(contexts, "input", "output", row.reduction);
    const std::vector<CollectiveTensor> reduced = forward_pass.run();
    for (std::size_t k = 0; k < 2; ++k) {
      reduced[k].resolve(*contexts[k].stream());
      const Tensor output = placeholder("output", Type::kF32, {2});
      const Tensor scaled = output * (k == 1 ? row.factor : 1.0F);
      const std::vector<Tensor> slope = gradients(sum(scaled), {output});
      const Lowered lowered = lower("shard_loss", {{"scaled", scaled}, {"output_gradient", slope[0]}});
      allocate_missing(contexts[k], lowered);
      contexts[k].link(yoke::compile(device, program::print(lowered.program)), "shard_loss").run();
    }
    const AllReduce backward_pass(contexts, "output_gradient", "input_gradient", row.reduction);
    backward_pass.run();
    for (std::size_t k = 0; k < 2; ++k) {
      check_values(contexts[k], "scaled", k == 0 ? row.output0 : row.output1_scaled, what);
      check_values(contexts[k], "input_gradient", row.gradient, what);
    }
  }
}

// MLP 2-16-16-1, hinge loss, batch 20, 400 points, weight decay 2e-4, 120 epochs.
void half_moons(Kit& kit) {
  TrainingRuntime runtime(kit);
  const auto moons = datasets::half_moons(400, 0.05, 6);
  for (const std::int64_t shards : {1, 2}) {
    ExampleLoop loop;
    loop.options = runtime.options(shards, 0.1F);
    loop.options.learning_rate = {};  // decreases from 0.2 to 0.1
    loop.options.batch_size = 20;
    loop.options.base_seed = 6;
    loop.options.optimizer = Sgd{.weight_decay = 2e-4};
    loop.init_lr = 0.1;
    loop.epochs = 120;
    loop.per_epoch = [&](Trainer&, const ExampleProgress& now) {
      kit.progress(text(shards, " shards, epoch ", now.at_epoch, " of 120, loss ", now.epoch_loss));
    };
    const nn::Module model =
        nn::sequential(nn::linear(16), nn::relu(), nn::linear(16), nn::relu(), nn::linear(1));
    const ExampleResult result =
        example_train_loop(loop, moons.points, moons.signs, model,
                           [](const Tensor& output, const Tensor& signs) { return hinge(output, signs); });
    check(result.epoch_losses.back() < result.epoch_losses.front(), "half-moons on ", shards,
          " shards: the loss did not decrease");
    check(result.epoch_losses.back() < 0.01, "half-moons on ", shards,
          " shards: the loss of the last epoch is ", result.epoch_losses.back(), ", expected less than 0.01");
  }
  runtime.check_fallbacks();
}

}  // namespace

std::vector<Test> train_tests() {
  return {
      {"one-step",
       "one step of SGD has the known weight and loss for sums and means, 1, 2 and 4 shards, and every merge "
       "strategy",
       {17, 27},
       one_step,
       2},
      {"two-steps", "two steps with different batches have the known weights and losses", {27}, two_steps},
      {"merge", "every merge strategy computes the sum of two shards' gradients", {17}, merge},
      {"all-reduce", "sums and means over two shards have the known values and gradients", {17}, all_reduce},
      {"half-moons",
       "a small network learns two half-moons: the loss of the last epoch is below 0.01",
       {27},
       half_moons,
       3},
  };
}

}  // namespace yoke::conformance
