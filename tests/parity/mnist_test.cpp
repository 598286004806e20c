// SPDX-License-Identifier: Apache-2.0
// tests/parity/mnist_test.cpp: MNIST, MLP 784-500-10, SGD 0.1, batch 100, 5 epochs, on 1, 2 and 4 shards of
// cc.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <yoke/datasets.h>
#include <yoke/yoke.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>

#include "real_data.h"

namespace yoke::testing {
namespace {

constexpr std::int64_t kMeetEvery = 20;  // steps

// The parameters of one run at every kMeetEvery-th step of its first epoch, for others to go on from.
class Meetings {
 public:
  Meetings() {
    std::string name = std::filesystem::temp_directory_path() / "yoke_mnist_XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~Meetings() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Meetings(const Meetings&) = delete;
  Meetings& operator=(const Meetings&) = delete;

  std::filesystem::path before_step(std::int64_t step) const {
    return folder_ / ("before_step_" + std::to_string(step) + ".npz");
  }

 private:
  std::filesystem::path folder_;
};

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

// Returns the largest difference. `slack(step)` is how many steps' rounding a loss may hold, and how often
// over.
double expect_equal_losses(const Result& one, const Result& many, const std::string& what,
                           const std::function<double(double loss, std::int64_t step)>& allowed) {
  double worst = 0;
  EXPECT_EQ(many.first_epoch.size(), one.first_epoch.size());
  for (std::size_t i = 0; i < std::min(one.first_epoch.size(), many.first_epoch.size()); ++i) {
    const double difference = std::abs(many.first_epoch[i] - one.first_epoch[i]);
    worst = std::max(worst, difference);
    const double limit = allowed(one.first_epoch[i], static_cast<std::int64_t>(i));
    if (!(difference <= limit)) {  // a NaN fails, too
      ADD_FAILURE() << what << ", step " << i << ": the loss is " << many.first_epoch[i] << ", with 1 shard "
                    << one.first_epoch[i] << "; they may differ by " << limit;
      break;
    }
  }
  return worst;
}

TEST(Mnist, ReachesItsAccuracyOnAnyNumberOfShardsWithEqualLosses) {
  YOKE_NEEDS_REAL_DATA("mnist/train-images-idx3-ubyte.gz");
  const auto data = datasets::read_mnist(real_data() / "mnist");
  const Meetings meetings;
  const Result one = train(data, 1, 5, [&](Trainer& trainer, std::int64_t step) {
    trainer.save_params(meetings.before_step(step));
  });
  std::cout << "shards 1: test accuracy " << one.accuracy << '\n';
  EXPECT_GE(one.accuracy, 0.975);
  ASSERT_EQ(one.first_epoch.size(), 600U);
  for (const std::int64_t shards : {2, 4}) {
    const std::string what = std::to_string(shards) + " shards";
    // Step by step: with the parameters of the run on one shard every 20 steps, nothing but rounding may
    // differ.
    const Result together = train(data, shards, 1, [&](Trainer& trainer, std::int64_t step) {
      trainer.restore_params(meetings.before_step(step));
    });
    const double worst_together = expect_equal_losses(
        one, together, what + " that meet every 20 steps",
        [](double loss, std::int64_t step) { return tolerance(loss, step % kMeetEvery); });

    // And left alone. Here a relu whose input is within rounding of 0 in one run and not in the other takes
    // the other branch sooner or later (after 130 to 400 of 600 steps, by kind of CPU). That is a jump in one
    // gradient, not a rounding, and it grows from then on: eight times the random walk.
    const Result alone = train(data, shards, 5, [](Trainer&, std::int64_t) {});
    const double worst_alone =
        expect_equal_losses(one, alone, what + " left alone",
                            [](double loss, std::int64_t step) { return 8 * tolerance(loss, step); });
    std::cout << "shards " << shards << ": test accuracy " << alone.accuracy
              << ", largest difference of a loss in the first epoch " << worst_together
              << " when parameters meet every " << kMeetEvery << " steps, " << worst_alone << " left alone\n";
    EXPECT_GE(alone.accuracy, 0.975);
  }
}

}  // namespace
}  // namespace yoke::testing
