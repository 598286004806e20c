// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/precision_test.cpp: mixed precision: 16-bit training follows f32, and parameters and
// gradients stay f32.
#include "precision.h"

#include <gtest/gtest.h>
#include <yoke/models.h>

#include <cmath>

namespace yoke::testing {
namespace {

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
  for (const Precision precision : kPrecisions) {
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

TEST_P(PrecisionOnShards, F32KeepsTheRoundingOfTheModel) {
  const Parameter w("w", {2, 1}, Initializer::zeros());
  DataParallelOptions options = options_for(GetParam(), 1.0F);
  options.reduction = Reduction::kSum;
  const Tensor x =
      tensor<float>({1, 0, 0x1p-10F, 0, 1, 0, 0x1p-10F, 0}, {4, 2});  // each half adds up to 1 in bf16
  const auto loss = [&](const Tensor& in, const Tensor& target) {
    const Tensor product = einsum("ni,io->no", {cast(in, Type::kBF16), cast(w.tensor(), Type::kBF16)});
    return sum(cast(product, Type::kF32) * target);
  };
  const Tensor ones = tensor<float>({1, 1, 1, 1}, {4, 1});
  EXPECT_EQ(train(options, x, ones, loss, 1).values, (std::vector<float>{-2, 0}));
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

}  // namespace
}  // namespace yoke::testing
