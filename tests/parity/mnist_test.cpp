// SPDX-License-Identifier: Apache-2.0
// tests/parity/mnist_test.cpp: an MLP (784-500-10) on MNIST: SGD 0.1, batches of 100, 5 epochs, on 1, 2
// and 4 shards of cc.
#include <gtest/gtest.h>
#include <yoke/datasets.h>
#include <yoke/yoke.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <numeric>

#include "real_data.h"
#include "test_files.h"

namespace yoke::testing {
namespace {

constexpr std::int64_t kSyncEvery = 20;  // steps

struct Result {
  std::vector<double> first_epoch;  // the loss of every step
  double accuracy = 0;              // on the test images, after the last epoch
};

// Calls `at_sync` before the first step and after every kSyncEvery steps of the first epoch.
Result train(const datasets::Images& data, std::int64_t shards, int epochs,
             const std::function<void(Trainer&, std::int64_t next_step)>& at_sync) {
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
        at_sync(trainer, 0);
        trainer.run_epoch([&](std::int64_t step) {
          result.first_epoch.push_back(trainer.loss_value());
          if ((step + 1) % kSyncEvery == 0) {
            at_sync(trainer, step + 1);
          }
          return true;
        });
        for (int epoch = 1; epoch < epochs; ++epoch) {
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

// A loss is a mean of 100 f32 terms, computed from sums of 784 and 500 terms, which gives a relative
// error of 1384 * 2^-24 for one step. The rounding errors of earlier updates remain in the parameters and
// add up like a random walk over `steps` steps.
double tolerance(double loss, std::int64_t steps) {
  return 1384 * 5.96e-8 * (1 + loss) * std::sqrt(1.0 + static_cast<double>(steps));
}

// The largest difference between the losses of a step in the first epoch.
double largest_difference(const Result& one, const Result& many) {
  double worst = 0;
  for (std::size_t i = 0; i < std::min(one.first_epoch.size(), many.first_epoch.size()); ++i) {
    worst = std::max(worst, std::abs(many.first_epoch[i] - one.first_epoch[i]));
  }
  return worst;
}

// Compares the losses of every step. The tolerance grows with the number of steps since the last sync.
void expect_equal_losses(const Result& one, const Result& many, const std::string& what) {
  ASSERT_EQ(many.first_epoch.size(), one.first_epoch.size()) << what;
  for (std::size_t i = 0; i < one.first_epoch.size(); ++i) {
    const double limit = tolerance(one.first_epoch[i], static_cast<std::int64_t>(i) % kSyncEvery);
    ASSERT_LE(std::abs(many.first_epoch[i] - one.first_epoch[i]), limit)  // also fails for NaN
        << what << ", step " << i << ": the loss is " << many.first_epoch[i] << ", but " << one.first_epoch[i]
        << " with 1 shard";
  }
}

// The mean loss of the last hundred steps of the first epoch.
double late_loss(const Result& run) {
  return std::accumulate(run.first_epoch.end() - 100, run.first_epoch.end(), 0.0) / 100;
}

TEST(Mnist, ShardsReachTheSameLossesAndTheExpectedAccuracy) {
  YOKE_NEEDS_REAL_DATA("mnist/train-images-idx3-ubyte.gz");
  const auto data = datasets::read_mnist(real_data() / "mnist");
  // Saves the parameters of the run on one shard at every sync, so that other runs can start from them.
  const test::TemporaryFolder folder;
  const auto before_step = [&](std::int64_t step) { return folder / (std::to_string(step) + ".npz"); };
  const Result one =
      train(data, 1, 5, [&](Trainer& trainer, std::int64_t step) { trainer.save_params(before_step(step)); });
  std::cout << "shards 1: test accuracy " << one.accuracy << '\n';
  EXPECT_GE(one.accuracy, 0.975);
  ASSERT_EQ(one.first_epoch.size(), 600U);
  for (const std::int64_t shards : {2, 4}) {
    const std::string what = std::to_string(shards) + " shards";
    // If the parameters are set to those of the run on one shard at every sync, the losses differ only by
    // rounding. (A learning rate that is wrong by 0.1 % fails at step 3.)
    const Result together = train(data, shards, 1, [&](Trainer& trainer, std::int64_t step) {
      trainer.restore_params(before_step(step));
    });
    expect_equal_losses(one, together, what);

    // Without syncs, the input of some relu eventually rounds to different sides of 0 in the
    // two runs, after 130 to 400 of 600 steps depending on the CPU. That changes one
    // gradient by more than rounding, and the difference grows. Losses of single steps
    // then differ by up to 0.002, but the late loss and the accuracy do not.
    const Result alone = train(data, shards, 5, [](Trainer&, std::int64_t) {});
    EXPECT_NEAR(late_loss(alone), late_loss(one), 0.02 * late_loss(one)) << what;
    std::cout << "shards " << shards << ": test accuracy " << alone.accuracy
              << ", largest difference of a loss in the first epoch " << largest_difference(one, together)
              << " with a sync every " << kSyncEvery << " steps, " << largest_difference(one, alone)
              << " without\n";
    EXPECT_GE(alone.accuracy, 0.975);
  }
}

}  // namespace
}  // namespace yoke::testing
