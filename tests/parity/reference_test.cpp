// SPDX-License-Identifier: Apache-2.0
// tests/parity/reference_test.cpp: training with known results: a character bigram, and an MLP on names.
#include <gtest/gtest.h>
#include <yoke/yoke.h>

#include <cmath>
#include <fstream>
#include <iostream>

#include "real_data.h"

namespace yoke::testing {
namespace {

DataParallelOptions options_for(std::int64_t shards, std::int64_t batch) {
  DataParallelOptions options;
  options.shards = shards;
  options.batch_size = batch;
  options.runtime = test_runtime();
  return options;
}

// Each row has `context` characters and the character after them, as numbers: a is 1, and 0 marks the
// start and the end of a name.
struct Names {
  std::vector<std::uint8_t> contexts;
  std::vector<std::uint8_t> next;
  std::uint64_t count() const { return next.size(); }
};

Names read_names(std::size_t context, std::size_t begin = 0, std::size_t end = SIZE_MAX) {
  std::ifstream file(real_data() / "text" / "names.txt");
  Names names;
  std::string name;
  for (std::size_t line = 0; std::getline(file, name); ++line) {
    if (line < begin || line >= end) {
      continue;
    }
    std::vector<std::uint8_t> window(context, 0);
    for (std::size_t i = 0; i <= name.size(); ++i) {
      const auto letter = static_cast<std::uint8_t>(i < name.size() ? name[i] - 'a' + 1 : 0);
      names.contexts.insert(names.contexts.end(), window.begin(), window.end());
      names.next.push_back(letter);
      window.erase(window.begin());
      window.push_back(letter);
    }
  }
  return names;
}

TEST(Bigram, ReachesTheEntropyOfTheCounts) {
  YOKE_NEEDS_REAL_DATA("text/names.txt");
  const Names names = read_names(1);
  ASSERT_EQ(names.count(), 228146U);
  // The entropy of the counts is the lowest possible loss of a bigram model.
  std::vector<double> counts(27 * 27, 0.0), rows(27, 0.0);
  for (std::size_t i = 0; i < names.count(); ++i) {
    ++counts[names.contexts[i] * 27U + names.next[i]];
    ++rows[names.contexts[i]];
  }
  double best = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    best -= counts[i] > 0 ? counts[i] * std::log(counts[i] / rows[i / 27]) : 0;
  }
  best /= static_cast<double>(names.count());
  DataParallelOptions options = options_for(2, 10000);
  options.learning_rate = 20.0F;
  const auto table = nn::embedding(27, 27);
  double loss = 0;
  data_parallel(
      options, tensor(names.contexts, {names.count()}), tensor(names.next, {names.count()}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(table(x), y); },
      [&](Trainer& trainer) {
        for (int epoch = 0; epoch < 20; ++epoch) {
          trainer.run_epoch();
          loss = trainer.mean_loss();
        }
      });
  std::cout << "bigram: loss " << loss << ", entropy of the counts " << best << '\n';
  EXPECT_GT(loss, best - 1e-4);
  EXPECT_LT(loss, best + 0.01);
}

TEST(NamesMlp, ReachesTheKnownLosses) {
  YOKE_NEEDS_REAL_DATA("text/names.txt");
  // Shuffles the rows by a fixed stride, and takes 80 % for training and 10 % for evaluation.
  const Names all = read_names(3);
  const std::uint64_t count = all.count();
  std::vector<std::uint8_t> x_train, y_train, x_dev, y_dev;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t row = i * 100003 % count;
    const bool is_dev = i >= 204000;
    auto& x = is_dev ? x_dev : x_train;
    auto& y = is_dev ? y_dev : y_train;
    if (!is_dev && i >= 182000) {
      continue;
    }
    x.insert(x.end(), all.contexts.begin() + static_cast<std::ptrdiff_t>(row * 3),
             all.contexts.begin() + static_cast<std::ptrdiff_t>(row * 3 + 3));
    y.push_back(all.next[row]);
  }
  ASSERT_EQ(y_train.size(), 182000U);
  DataParallelOptions options = options_for(2, 1000);
  options.learning_rate = 0.2F;
  const auto model =
      nn::sequential(nn::embedding(27, 10), nn::flatten(), nn::linear(200), nn::tanh(), nn::linear(27));
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); };
  double train_loss = 0, dev_loss = 0;
  const Tensor x_dev_tensor = tensor(x_dev, {y_dev.size(), 3});
  const Tensor y_dev_tensor = tensor(y_dev, {y_dev.size()});
  data_parallel(options, tensor(x_train, {y_train.size(), 3}), tensor(y_train, {y_train.size()}), loss_of,
                [&](Trainer& trainer) {
                  for (int epoch = 0; epoch < 15; ++epoch) {
                    trainer.run_epoch();
                    train_loss = trainer.mean_loss();
                  }
                  dev_loss = trainer
                                 .evaluation(x_dev_tensor, y_dev_tensor,
                                             [&](const Tensor& x, const Tensor& y) {
                                               return std::vector<Tensor>{loss_of(x, y)};
                                             })
                                 .run()
                                 .at(0);
                });
  std::cout << "names MLP: train " << train_loss << ", dev " << dev_loss << '\n';
  EXPECT_LT(train_loss, 2.49);
  EXPECT_LT(dev_loss, 2.49);
}

}  // namespace
}  // namespace yoke::testing
