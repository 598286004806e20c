// SPDX-License-Identifier: Apache-2.0
// tests/parity/mnist_test.cpp: MNIST, MLP 784-500-10, SGD 0.1, batch 100, 5 epochs, on 1, 2 and 4 shards of
// cc.
#include <gtest/gtest.h>
#include <yoke/datasets.h>
#include <yoke/yoke.h>

#include <cmath>
#include <iostream>

#include "real_data.h"

namespace yoke::testing {
namespace {

struct Result {
  std::vector<double> first_epoch;  // loss of every step
  double accuracy = 0;
};

Result train(const datasets::Images& data, std::int64_t shards) {
  DataParallelOptions options;
  options.shards = shards;
  options.learning_rate = 0.1F;
  options.batch_size = 100;
  options.runtime = test_runtime();
  const auto model = nn::sequential(nn::linear(500), nn::relu(), nn::linear(10));
  Result result;
  data_parallel(
      options, data.train_images, data.train_labels,
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        trainer.run_epoch([&](std::int64_t) {
          result.first_epoch.push_back(trainer.loss_value());
          return true;
        });
        for (int epoch = 1; epoch < 5; ++epoch) {
          trainer.run_epoch();
        }
        result.accuracy = trainer
                              .evaluation(data.test_images, data.test_labels,
                                          [&](const Tensor& x, const Tensor& y) {
                                            return std::vector<Tensor>{accuracy(model(x), y)};
                                          })
                              .run()
                              .at(0);
      });
  return result;
}

TEST(Mnist, ReachesItsAccuracyOnAnyNumberOfShardsWithEqualLosses) {
  YOKE_NEEDS_REAL_DATA("mnist/train-images-idx3-ubyte.gz");
  const auto data = datasets::read_mnist(real_data() / "mnist");
  const Result one = train(data, 1);
  std::cout << "shards 1: test accuracy " << one.accuracy << '\n';
  EXPECT_GE(one.accuracy, 0.975);
  ASSERT_EQ(one.first_epoch.size(), 600U);
  for (const std::int64_t shards : {2, 4}) {
    const Result many = train(data, shards);
    double worst = 0;
    for (std::size_t i = 0; i < one.first_epoch.size(); ++i) {
      const double difference = std::abs(many.first_epoch[i] - one.first_epoch[i]);
      worst = std::max(worst, difference);
      // A loss is a mean of 100 f32 terms behind sums of 784 and 500 terms: 1384 * 2^-24 relative for one
      // step. Rounding differences of earlier steps stay in the parameters and come back through at most 600
      // updates; they add up like a random walk: sqrt(600).
      ASSERT_LE(difference,
                1384 * 5.96e-8 * (1 + one.first_epoch[i]) * std::sqrt(1.0 + static_cast<double>(i)))
          << shards << " shards, step " << i;
    }
    std::cout << "shards " << shards << ": test accuracy " << many.accuracy
              << ", largest difference of a loss in the first epoch " << worst << '\n';
    EXPECT_GE(many.accuracy, 0.975);
  }
}

}  // namespace
}  // namespace yoke::testing
