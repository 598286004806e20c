// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/precision_test.cpp: mixed precision: 16-bit training follows f32, parameters and gradients
// stay f32, and f16 scales the loss, skips steps that overflow, and keeps all bits in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/models.h>

#include <cmath>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

using LossOf = std::function<Tensor(const Tensor&, const Tensor&)>;

constexpr Precision kAll[] = {Precision::kF32, Precision::kBF16, Precision::kF16};

struct Problem {
  std::string name;
  Tensor x, y;
  std::function<nn::Module()> make;
  float rate = 0.05F;
};

Tensor classes(std::uint64_t count, std::uint64_t class_count) {
  std::vector<std::uint8_t> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::uint8_t>(i * i % class_count);
  }
  return tensor(values, {count});
}

Tensor symbols(std::uint64_t rows, std::uint64_t context, std::uint64_t first) {
  std::vector<std::uint8_t> values(rows * context);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint8_t>((i / context + i % context + first) % 7);
  }
  return tensor(values, {rows, context});
}

std::vector<Problem> problems() {
  using namespace nn;
  const Tensor rows = tensor(some_numbers(24 * 9, 1), {24, 9});
  const Tensor images = tensor(some_numbers(std::uint64_t{12} * 8 * 8, 2), {12, 8, 8, 1});
  return {
      {"perceptron", rows, classes(24, 3),
       [] { return sequential(linear(16), relu(), layer_norm(), linear(16), gelu(), linear(3)); }},
      {"convolution", images, classes(12, 3),
       [] {
         return sequential(conv2d(6, 3, {.padding = 1}), batch_norm(), relu(), max_pool(2),
                           residual(conv2d(6, 3, {.padding = 1})), flatten(), linear(3));
       },
       0.01F},
      {"gpt", symbols(8, 6, 0), symbols(8, 6, 1),
       [] { return models::gpt(7, {.layers = 1, .heads = 2, .width = 16, .context = 6}); }},
      {"composite", rows, classes(24, 3),
       [] {
         const CompositeOptions products = {"products", [](const std::vector<Tensor>& x) {
                                              const Tensor scores = einsum("ai,bi->ab", {x[0], x[0]});
                                              return std::vector<Tensor>{einsum("ab,bi->ai", {scores, x[0]})};
                                            }};
         return sequential(linear(8), tanh(), function([products](const Tensor& x) {
                             return x + 0.04 * composite(products, {x})[0];
                           }),
                           linear(3));
       }},
      {"lstm", symbols(8, 6, 0), symbols(8, 6, 1),
       [] { return models::char_lstm(7, {.layers = 1, .width = 12}); }, 0.2F},
  };
}

struct Result {
  std::vector<double> losses;
  std::vector<float> values;
  LossScale scale;
};

Result train(DataParallelOptions options, const Tensor& x, const Tensor& y, const LossOf& loss_of, int steps,
             const TrainerState* from = nullptr) {
  Result run;
  data_parallel(options, x, y, loss_of, [&](Trainer& trainer) {
    if (from != nullptr) {
      trainer.set_state(*from);
    }
    for (int i = 0; i < steps; ++i) {
      trainer.step();
      run.losses.push_back(trainer.loss_value());
    }
    run.values = all_values(trainer);
    run.scale = trainer.loss_scale();
  });
  return run;
}

Result solve(const Problem& problem, Precision precision, std::int64_t shards, const Optimizer& optimizer) {
  const nn::Module model = problem.make();
  DataParallelOptions options = options_for(shards, problem.rate);
  options.precision = precision;
  options.optimizer = optimizer;
  return train(
      options, problem.x, problem.y,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor logits = model(x);
        return cross_entropy(logits, models::targets_of(logits, y));
      },
      12);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]) / b[i]);
  }
  return largest;
}

class PrecisionOnShards : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, PrecisionOnShards, ::testing::Values(1, 2));

// Rounding errs by 2^-9 with bf16 and by 2^-12 with f16, relative to the value, and few errors add up in these small
// models: 12 steps change the losses by less than 2^-6 and 2^-9.
TEST_P(PrecisionOnShards, LossesFollowThoseOfF32) {
  for (const Problem& problem : problems()) {
    for (const Optimizer& optimizer :
         {Optimizer(Sgd{.momentum = 0.9}), clip_by_global_norm(Sgd{.momentum = 0.9}, 0.5),
          clip_by_global_norm(Sgd{.momentum = 0.9}, 100)}) {
      SCOPED_TRACE(problem.name);
      const Result full = solve(problem, Precision::kF32, GetParam(), optimizer);
      const double of_bf16 =
          distance(solve(problem, Precision::kBF16, GetParam(), optimizer).losses, full.losses);
      const double of_f16 =
          distance(solve(problem, Precision::kF16, GetParam(), optimizer).losses, full.losses);
      EXPECT_LT(of_bf16, 0x1p-6);
      EXPECT_LT(of_f16, 0x1p-9);
      EXPECT_GT(of_bf16, 0x1p-14) << "nothing was computed in bf16";
      EXPECT_GT(of_f16, 0x1p-18) << "nothing was computed in f16";
      EXPECT_LT(full.losses.back(), full.losses.front());
    }
  }
}

// Operands are rounded to 8 or 11 bits, but sums, gradients of parameters, and parameters are not.
TEST_P(PrecisionOnShards, ProductsAreRoundedAndGradientsAreNot) {
  constexpr std::uint64_t kCount = 2050;  // as a sum, it is no bf16 and no f16 number
  for (const Precision precision : kAll) {
    const Parameter w("w", {2, 1}, Initializer::zeros());
    DataParallelOptions options = options_for(GetParam(), 0x1p-12F);
    options.precision = precision;
    options.reduction = Reduction::kSum;
    const auto loss = [&](const Tensor& in, const Tensor& target) {
      return sum(einsum("ni,io->no", {in, w.tensor()}) * target);
    };
    const std::vector<float> ones(kCount, 0x1p-4F);  // scaled, it is 4096
    const float input = precision == Precision::kBF16 ? 1.0F : 1.0F + 0x1p-10F;
    const float change = -0x1p-12F * static_cast<float>(kCount) * 0x1p-4F * input;
    std::vector<float> data(2 * kCount, 0);
    for (std::size_t i = 0; i < kCount; ++i) {
      data[2 * i] = 1.0F + 0x1p-10F;
    }
    EXPECT_EQ(train(options, tensor(data, {kCount, 2}), tensor(ones, {kCount, 1}), loss, 1).values,
              (std::vector<float>{change, 0}))
        << precision_name(precision);
  }
}

// A loss of which the row with the largest factor overflows f16 as long as 4 * scale does: three steps are skipped.
Tensor overflowing(const Tensor& x, const Tensor& y, const Parameter& w) {
  return sum(einsum("ni,io->no", {x, w.tensor()}) * y);
}

struct Overflowing {
  Overflowing() { w.set_values(tensor(some_numbers(200, 5), {40, 5}).host_bytes()); }
  Parameter w = Parameter("w", {40, 5}, Initializer::zeros());
  Tensor x = tensor(some_numbers(4 * 40, 6), {4, 40});
  Tensor y = tensor(std::vector<float>{1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4}, {4, 5});
  LossOf loss_of() {
    return [this](const Tensor& in, const Tensor& target) { return overflowing(in, target, w); };
  }
};

void expect_skips(DataParallelOptions options) {
  options.precision = Precision::kF16;
  options.reduction = Reduction::kSum;
  options.check_replicas_every = 1;
  options.bucket_byte_count = 256;
  Overflowing problem;
  TrainerState later;
  std::vector<float> values;
  data_parallel(options, problem.x, problem.y, problem.loss_of(), [&](Trainer& trainer) {
    later = trainer.state();
    EXPECT_EQ(later.loss_scale.scale, 65536);
    for (int i = 0; i < 3; ++i) {
      trainer.step();
      const TrainerState now = trainer.state();
      EXPECT_EQ(now.loss_scale.scale, std::ldexp(1, 15 - i));
      EXPECT_EQ(now.loss_scale.skipped_steps, i + 1);
      EXPECT_EQ(now.parameters[0].bytes, later.parameters[0].bytes);
      ASSERT_EQ(now.optimizer.size(), later.optimizer.size());
      for (std::size_t s = 0; s < now.optimizer.size(); ++s) {
        EXPECT_EQ(now.optimizer[s].bytes, later.optimizer[s].bytes) << now.optimizer[s].name;
      }
    }
    EXPECT_FALSE(trainer.first_bad_step());
    for (int i = 0; i < 4; ++i) {
      trainer.step();
    }
    EXPECT_EQ(trainer.loss_scale().scale, 8192);
    EXPECT_EQ(trainer.loss_scale().clean_steps, 4);
    EXPECT_EQ(trainer.loss_scale().skipped_steps, 3);
    values = all_values(trainer);
  });
  // Skipped steps are as if they had never been, also where the optimizer counts steps.
  Overflowing again;
  later.loss_scale.scale = 8192;
  const Result without = train(options, again.x, again.y, again.loss_of(), 4, &later);
  EXPECT_EQ(values, without.values);
  EXPECT_EQ(without.scale.skipped_steps, 0);
  EXPECT_NE(values, some_numbers(200, 5));
}

TEST(LossScaling, StepThatOverflowsOnOneShardIsSkippedOnAll) {
  for (const MergeStrategy strategy :
       {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect, MergeStrategy::kRing}) {
    for (const Placement placement : {Placement::kOwner, Placement::kEverywhere, Placement::kSharded}) {
      SCOPED_TRACE(std::string(merge_strategy_name(strategy)) + ", " + placement_name(placement));
      DataParallelOptions options = options_for(3, 0.05F);
      options.merge = strategy;
      options.placement = placement;
      options.optimizer = AdamW{};
      expect_skips(options);
    }
  }
}

TEST(LossScaling, SkipsWithEveryKindOfOptimizerAndRun) {
  const auto with = [](const Optimizer& optimizer, std::int64_t shards) {
    DataParallelOptions options = options_for(shards, 0.05F);
    options.optimizer = optimizer;
    return options;
  };
  OptimizerRule counts = Optimizer(Sgd{.momentum = 0.9}).rule();  // its number ignores NaN
  counts.term = [](const Tensor& gradient) { return cast(gradient > 0.0, Type::kF64); };
  counts.number = [](const Tensor& total) { return total / 100.0; };
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{}), Optimizer(Lamb{}), clip_by_value(Adam{}, 0.5), clip_by_global_norm(AdamW{}, 0.5),
        moving_average(clip_by_global_norm(Adam{}, 0.5), 0.9), with_groups(AdamW{}, {{"w", AdamW{}, 0.5}}),
        Optimizer(counts)}) {
    SCOPED_TRACE(optimizer.name());
    expect_skips(with(optimizer, 1));
    expect_skips(with(optimizer, 2));
  }
  const Optimizer average = moving_average(clip_by_global_norm(AdamW{}, 0.5), 0.9);
  DataParallelOptions options = with(average, 2);
  options.accumulate = 2;
  expect_skips(options);
  options = with(average, 2);
  options.overlap = Overlap::kOn;
  expect_skips(options);
  options = with(average, 2);
  options.varying_rows = true;
  expect_skips(options);
  options = with(average, 2);
  options.reproducible = 4;
  expect_skips(options);
  options = with(average, 2);
  options.on_device_lost = OnDeviceLost::kRedistribute;
  expect_skips(options);
}

TEST(LossScaling, ScheduleCountsSkippedSteps) {
  Overflowing problem;
  DataParallelOptions options = options_for(1, 0);
  options.precision = Precision::kF16;
  // The rate is not 0 in step 3 only, the first that is not skipped.
  options.learning_rate = where(equal(symbol_value(step_symbol()), 3), Tensor(0.5F), Tensor(0.0F));
  EXPECT_NE(train(options, problem.x, problem.y, problem.loss_of(), 5).values, some_numbers(200, 5));
}

TEST(LossScaling, ScaleDoublesAfter2000CleanSteps) {
  for (const std::int64_t shards : {1, 2}) {
    Overflowing problem;
    DataParallelOptions options = options_for(shards, 0.05F);
    options.precision = Precision::kF16;
    data_parallel(options, problem.x, problem.y, problem.loss_of(), [&](Trainer& trainer) {
      TrainerState state = trainer.state();
      state.loss_scale = {1024, 1998, 0};
      trainer.set_state(state);
      trainer.step();
      EXPECT_EQ(trainer.loss_scale().scale, 1024);
      EXPECT_EQ(trainer.loss_scale().clean_steps, 1999);
      trainer.step();
      EXPECT_EQ(trainer.loss_scale().scale, 2048);
      EXPECT_EQ(trainer.loss_scale().clean_steps, 0);
      EXPECT_EQ(trainer.loss_scale().skipped_steps, 0);
    });
  }
}

TEST(LossScaling, HandWrittenLoopsSeeScaledGradients) {
  const std::vector<float> x = some_numbers(4 * 40, 6);
  const float slope = x[0] + 4 * x[3 * 40];  // of the first weight, which rows 0 and 3 use
  for (const std::int64_t shards : {1, 2}) {
    Overflowing problem;
    DataParallelOptions options = options_for(shards, 0.05F);
    options.precision = Precision::kF16;
    options.reduction = Reduction::kSum;
    data_parallel(options, problem.x, problem.y, problem.loss_of(), [&](Trainer& trainer) {
      TrainerState state = trainer.state();
      state.loss_scale.scale = 1024;
      trainer.set_state(state);
      std::vector<float> gradients[2];
      for (auto& gradient : gradients) {
        trainer.launch_gradients();
        trainer.grad_sync();
        gradient = trainer.read_values("gradient/w");
        trainer.update();
        trainer.advance();
        state = trainer.state();
        EXPECT_EQ(trainer.loss_scale().clean_steps, &gradient - gradients + 1);
      }
      EXPECT_EQ(gradients[0], gradients[1]);          // the loss is linear
      EXPECT_NEAR(gradients[0][0], 1024 * slope, 2);  // x of f16, with 11 bits
    });
    EXPECT_NEAR(problem.w.float_values()[0], some_numbers(200, 5)[0] - 2 * 0.05F * slope, 1e-3);
  }
}

// The optimizer does not count skipped steps, but the loss does, on any number of shards.
TEST(LossScaling, LossesThatUseTheStepAreAlikeOnAllNumbersOfShards) {
  std::vector<Result> runs;
  for (const std::int64_t shards : {1, 2}) {
    Overflowing problem;
    DataParallelOptions options = options_for(shards, 0.05F);
    options.precision = Precision::kF16;
    options.reduction = Reduction::kSum;
    options.optimizer = Adam{};
    const LossOf loss_of = [&](const Tensor& x, const Tensor& y) {
      return problem.loss_of()(x, y) * (cast(symbol_value(step_symbol()), Type::kF32) + 1.0F);
    };
    runs.push_back(train(options, problem.x, problem.y, loss_of, 7));
    EXPECT_GT(runs.back().scale.skipped_steps, 0);
    EXPECT_LT(runs.back().scale.skipped_steps, 7);
  }
  EXPECT_EQ(runs[0].scale.skipped_steps, runs[1].scale.skipped_steps);
  for (std::size_t i = 0; i < runs[0].values.size(); ++i) {
    EXPECT_NEAR(runs[0].values[i], runs[1].values[i], 1e-3);
  }
}

// A parameter of another type than f32 keeps its type.
TEST_P(PrecisionOnShards, ParametersOfOtherTypesAreTrained) {
  for (const Precision precision : {Precision::kBF16, Precision::kF16}) {
    const Parameter narrow("narrow", {9}, Initializer::constant(1), Type::kF16);
    const Parameter wide("wide", {9}, Initializer::constant(1), Type::kF64);
    const Parameter plain("plain", {9, 4}, Initializer::constant(0.5));
    DataParallelOptions options = options_for(GetParam(), 0.125F);
    options.precision = precision;
    const auto loss_of = [&](const Tensor& x, const Tensor&) {
      const Tensor of_plain = mean(matmul(x, plain.tensor()));
      return of_plain + mean(cast(narrow.tensor(), Type::kF32)) + cast(mean(wide.tensor()), Type::kF32);
    };
    data_parallel(options, tensor(std::vector<float>(24 * 9, 1), {24, 9}), classes(24, 3), loss_of,
                  [&](Trainer& trainer) {
                    trainer.step();
                    EXPECT_EQ(trainer.loss_scale().skipped_steps, 0);
                    EXPECT_NEAR(trainer.read_values(narrow.tensor())[0], 1 - 0.125 / 9, 1e-3);
                    EXPECT_NEAR(trainer.read_values(wide.tensor())[0], 1 - 0.125 / 9, 1e-6);
                    EXPECT_NEAR(trainer.read_values(plain.tensor())[0], 0.5 - 0.125 / 4, 1e-3);
                  });
  }
}

TEST(LossScaling, OtherPrecisionsHaveNone) {
  Overflowing problem;
  for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
    DataParallelOptions options = options_for(2, 0.05F);
    options.precision = precision;
    const Result run = train(options, problem.x, problem.y, problem.loss_of(), 2);
    EXPECT_EQ(run.scale.scale, 1);
    EXPECT_EQ(run.scale.clean_steps, 0);
    EXPECT_EQ(run.scale.skipped_steps, 0);
  }
}

TEST(LossScaling, WrongStatesAndValuesAreErrors) {
  Overflowing problem;
  DataParallelOptions options = options_for(1, 0.05F);
  options.precision = Precision::kF16;
  options.reduction = Reduction::kSum;
  options.optimizer = moving_average(Sgd{});
  data_parallel(options, problem.x, problem.y, problem.loss_of(), [&](Trainer& trainer) {
    const TrainerState state = trainer.state();
    for (const LossScale& wrong :
         {LossScale{0, 0, 0}, LossScale{-1, 0, 0}, LossScale{INFINITY, 0, 0}, LossScale{NAN, 0, 0},
          LossScale{std::ldexp(1, 101), 0, 0}, LossScale{std::ldexp(1, -101), 0, 0}, LossScale{1, -1, 0},
          LossScale{1, 2000, 0}, LossScale{1, 0, -1}, LossScale{1, 0, 1}}) {
      TrainerState other = state;
      other.loss_scale = wrong;
      EXPECT_THAT(error_of([&] { trainer.set_state(other); }),
                  is_error(ErrorCode::kInvalidArgument, "the loss scale "));
    }
    TrainerState other = state;
    other.precision = "bf16";
    EXPECT_THAT(error_of([&] { trainer.set_state(other); }),
                is_error(ErrorCode::kInvalidArgument, "the precision is bf16, here f16"));
    trainer.step();
    EXPECT_THAT(error_of([&] { trainer.swap_averages(); }),
                is_error(ErrorCode::kFailedPrecondition, "the only step was skipped"));
  });
  options.wire = Wire::kBF16;
  EXPECT_THAT(
      error_of([&] { data_parallel(options, problem.x, problem.y, problem.loss_of(), [](Trainer&) {}); }),
      is_error(ErrorCode::kInvalidArgument, "use precision bf16 or the wire format full"));
  options.wire = Wire::kFull;
  options.precision = static_cast<Precision>(9);
  EXPECT_THAT(
      error_of([&] { data_parallel(options, problem.x, problem.y, problem.loss_of(), [](Trainer&) {}); }),
      is_error(ErrorCode::kInvalidArgument, "precision is 9; use kF32, kBF16 or kF16"));
  for (const Precision precision : kAll) {
    EXPECT_EQ(precision_by_name(precision_name(precision)), precision);
  }
  EXPECT_THAT(error_of([] { (void)precision_by_name("f64"); }),
              is_error(ErrorCode::kInvalidArgument, "unknown precision 'f64'; use f32, bf16 or f16"));
}

}  // namespace
}  // namespace yoke::testing
