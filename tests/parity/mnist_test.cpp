// SPDX-License-Identifier: Apache-2.0
// tests/parity/mnist_test.cpp: MNIST, MLP 784-500-10, SGD 0.1, batch 100, 5 epochs, on 1, 2 and 4 shards of
// cc.
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

constexpr std::int64_t kMeetEvery = 20;  // steps

struct Result {
  std::vector<double> first_epoch;  // loss of every step
  double accuracy = 0;              // on the test images, after the last epoch
};

Result train(const datasets::Images& data, std::int64_t shards, int epochs,
             const std::function<void(Trainer&, std::int64_t next_step)>& at_meeting) {
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
        at_meeting(trainer, 0);
        trainer.run_epoch([&](std::int64_t step) {
          result.first_epoch.push_back(trainer.loss_value());
          if ((step + 1) % kMeetEvery == 0) {
            at_meeting(trainer, step + 1);
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

// A loss is a mean of 100 f32 terms behind sums of 784 and 500 terms: 1384 * 2^-24 relative for one step.
// What earlier steps rounded stays in the parameters; over `steps` updates it adds up like a random walk.
double tolerance(double loss, std::int64_t steps) {
  return 1384 * 5.96e-8 * (1 + loss) * std::sqrt(1.0 + static_cast<double>(steps));
}

// Returns the largest difference of a loss in the first epoch.
double largest_difference(const Result& one, const Result& many) {
  double worst = 0;
  for (std::size_t i = 0; i < std::min(one.first_epoch.size(), many.first_epoch.size()); ++i) {
    worst = std::max(worst, std::abs(many.first_epoch[i] - one.first_epoch[i]));
  }
  return worst;
}

// Names the first step that differs by more than rounding since the runs have met.
void expect_equal_losses(const Result& one, const Result& many, const std::string& what) {
  ASSERT_EQ(many.first_epoch.size(), one.first_epoch.size()) << what;
  for (std::size_t i = 0; i < one.first_epoch.size(); ++i) {
    const double limit = tolerance(one.first_epoch[i], static_cast<std::int64_t>(i) % kMeetEvery);
    ASSERT_LE(std::abs(many.first_epoch[i] - one.first_epoch[i]), limit)  // a NaN fails, too
        << what << ", step " << i << ": the loss is " << many.first_epoch[i] << ", with 1 shard "
        << one.first_epoch[i];
  }
}

// Of the last hundred steps of the first epoch.
double late_loss(const Result& run) {
  return std::accumulate(run.first_epoch.end() - 100, run.first_epoch.end(), 0.0) / 100;
}

TEST(Mnist, ReachesItsAccuracyOnAnyNumberOfShardsWithEqualLosses) {
  YOKE_NEEDS_REAL_DATA("mnist/train-images-idx3-ubyte.gz");
  const auto data = datasets::read_mnist(real_data() / "mnist");
  // The parameters of the run on one shard at every kMeetEvery-th step of its first epoch, for others to go
  // on from.
  const test::TemporaryFolder folder;
  const auto before_step = [&](std::int64_t step) { return folder / (std::to_string(step) + ".npz"); };
  const Result one =
      train(data, 1, 5, [&](Trainer& trainer, std::int64_t step) { trainer.save_params(before_step(step)); });
  std::cout << "shards 1: test accuracy " << one.accuracy << '\n';
  EXPECT_GE(one.accuracy, 0.975);
  ASSERT_EQ(one.first_epoch.size(), 600U);
  for (const std::int64_t shards : {2, 4}) {
    const std::string what = std::to_string(shards) + " shards";
    // With the parameters of the run on one shard every 20 steps, nothing but rounding may differ. (A
    // learning rate that is off by 1 in 1000 fails at step 3.)
    const Result together = train(data, shards, 1, [&](Trainer& trainer, std::int64_t step) {
      trainer.restore_params(before_step(step));
    });
    expect_equal_losses(one, together, what);

    // Left alone, a relu whose input is within rounding of 0 in one run and not in the other takes the other
    // branch sooner or later (after 130 to 400 of 600 steps, by kind of CPU): a jump in one gradient, which
    // no rounding bounds and which grows. Single losses then differ by up to 0.002, but not what the runs
    // come to.
    const Result alone = train(data, shards, 5, [](Trainer&, std::int64_t) {});
    EXPECT_NEAR(late_loss(alone), late_loss(one), 0.02 * late_loss(one)) << what;
    std::cout << "shards " << shards << ": test accuracy " << alone.accuracy
              << ", largest difference of a loss in the first epoch " << largest_difference(one, together)
              << " when parameters meet every " << kMeetEvery << " steps, " << largest_difference(one, alone)
              << " left alone\n";
    EXPECT_GE(alone.accuracy, 0.975);
  }
}

}  // namespace
}  // namespace yoke::testing
