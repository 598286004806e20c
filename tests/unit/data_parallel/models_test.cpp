// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/models_test.cpp: the known models learn, on one shard as on two.
#include <gtest/gtest.h>
#include <yoke/models.h>

#include <algorithm>
#include <cmath>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

std::uint64_t weight_count(const nn::Module& model) {
  std::uint64_t count = 0;
  for (const Parameter& parameter : nn::parameters(model)) {
    count += element_count(parameter.dims());
  }
  return count;
}

TEST(Models, HaveTheNumberOfWeightsOfTheOriginals) {
  const auto lenet = models::lenet(10);
  (void)lenet(placeholder("x", Type::kF32, {1, 28, 28, 1}));
  EXPECT_EQ(weight_count(lenet), 61'706U);
  const auto resnet = models::resnet18(10);
  (void)resnet(placeholder("x", Type::kF32, {2, 32, 32, 3}));
  EXPECT_EQ(weight_count(resnet), 11'173'962U);
  const auto gpt = models::text_model("gpt", 65);
  (void)gpt.module(placeholder("x", Type::kU8, {1, gpt.context}));
  EXPECT_EQ(weight_count(gpt.module), 804'096U);
  const auto mlp = models::text_model("char-mlp", 27);
  EXPECT_EQ(mlp.module(placeholder("x", Type::kU8, {5, mlp.context})).dims(), (Dims{5, 27}));
  EXPECT_EQ(weight_count(mlp.module), 11'897U);
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> values;
};

Trained train(std::int64_t shards, const Tensor& x, const Tensor& y, int steps, float rate,
              const std::function<Tensor(const Tensor&, const Tensor&)>& loss_of) {
  Trained trained;
  DataParallelOptions options = options_for(shards, rate);
  options.optimizer = Sgd{.momentum = 0.9};
  data_parallel(options, x, y, loss_of, [&](Trainer& trainer) {
    for (int i = 0; i < steps; ++i) {
      trainer.step();
      trained.losses.push_back(trainer.loss_value());
    }
    trained.values = all_values(trainer);
  });
  return trained;
}

// Images whose class is the quadrant with a bright square.
std::pair<Tensor, Tensor> images(std::uint64_t count, std::uint64_t size) {
  std::vector<float> pixels = some_numbers(count * size * size, 4);
  std::vector<std::uint8_t> labels(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    labels[i] = static_cast<std::uint8_t>(i * 7 % 4);
    for (std::uint64_t k = 0; k < size * size / 4; ++k) {
      const std::uint64_t row = k / (size / 2) + (labels[i] / 2) * (size / 2);
      const std::uint64_t column = k % (size / 2) + (labels[i] % 2) * (size / 2);
      pixels[i * size * size + row * size + column] += 1;
    }
  }
  return {tensor(pixels, {count, size, size, 1}), tensor(labels, {count})};
}

// `tolerance` bounds the difference between one and two shards, relative to the values.
template <class Make>
void expect_learns(const Make& make, const Tensor& x, const Tensor& y, int steps, float rate,
                   double least_fall, double tolerance) {
  const auto run = [&](std::int64_t shards) {
    const nn::Module model = make();
    return train(shards, x, y, steps, rate, [&](const Tensor& a, const Tensor& b) {
      const Tensor logits = model(a);
      return cross_entropy(logits, models::targets_of(logits, b));
    });
  };
  const Trained one = run(1);
  EXPECT_LT(one.losses.back(), one.losses.front() - least_fall);
  if (tolerance == 0) {
    return;
  }
  const Trained two = run(2);
  ASSERT_EQ(one.values.size(), two.values.size());
  double difference = 0;
  for (std::size_t i = 0; i < one.values.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(one.values[i]) - two.values[i]));
  }
  EXPECT_LT(difference, tolerance);
}

TEST(Models, LenetLearns) {
  const auto [x, y] = images(16, 16);
  expect_learns([] { return models::lenet(4); }, x, y, 40, 0.05F, 0.3, 1e-3);
}

TEST(Models, Resnet18Learns) {
  if (!kTriesAll) {
    GTEST_SKIP() << "too slow in debug builds; LenetLearns checks convolutions there";
  }
  const auto [x, y] = images(8, 8);
  // Each shard normalizes with the statistics of its own rows, so two shards are another model than one.
  expect_learns([] { return models::resnet18(4); }, x, y, 6, 0.01F, 0.3, 0);
}

// A text of repeated words, in windows.
std::pair<Tensor, Tensor> text(std::uint64_t count, std::uint64_t context) {
  const std::string words = "the cat sat on the mat and the dog sat on the log. ";
  std::vector<std::uint8_t> inputs, targets;
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::uint64_t k = 0; k < context; ++k) {
      const auto symbol = [&](std::uint64_t at) {
        const char c = words[at % words.size()];
        return static_cast<std::uint8_t>(c == ' ' ? 0 : c == '.' ? 1 : c - 'a' + 2);
      };
      inputs.push_back(symbol(i * 5 + k));
      targets.push_back(symbol(i * 5 + k + 1));
    }
  }
  return {tensor(inputs, {count, context}), tensor(targets, {count, context})};
}

struct TextCase {
  const char* name;
  float rate;
  double least_fall;
};
class TextModels : public ::testing::TestWithParam<TextCase> {};

TEST_P(TextModels, Learn) {
  const TextCase& given = GetParam();
  const auto [x, y] = text(12, models::text_model(given.name, 28).context);
  expect_learns([&] { return models::text_model(given.name, 28).module; }, x, y, 12, given.rate,
                given.least_fall, 1e-4);
}
INSTANTIATE_TEST_SUITE_P(All, TextModels,
                         ::testing::Values(TextCase{"char-bigram:context=8", 1.0F, 0.1},
                                           TextCase{"char-mlp:hidden=20", 0.05F, 0.3},
                                           TextCase{"char-lstm:width=16,context=8", 0.5F, 0.1},
                                           TextCase{"gpt:layers=2,heads=2,width=16,context=8", 0.5F, 0.3}),
                         [](const auto& one) {
                           std::string name = one.param.name;
                           name = name.substr(0, name.find(':'));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Models, UnknownNamesAndOptionsAreErrors) {
  EXPECT_TRUE(models::is_text_model("gpt:layers=1"));
  EXPECT_FALSE(models::is_text_model("gpt2"));
  for (const char* wrong :
       {"gpt:", "gpt:layers", "gpt:layers=0", "gpt:layers=1,", "gpt:depth=3", "gpt:width=x"}) {
    const Error error = test::error_of([&] { (void)models::text_model(wrong, 5); });
    EXPECT_NE(std::string(error.what()).find("use gpt:context=64,heads=4,layers=4,width=128"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW((void)models::text_model("elman", 5), Error);
}

}  // namespace
}  // namespace yoke::testing
