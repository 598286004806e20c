// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_data.cpp: reads MNIST-like files or generates half-moons.
#include <yoke/datasets.h>

#include "text.h"
#include "train.h"

namespace yoke::cli {
namespace {

TrainData half_moons(TrainOptions& options) {
  constexpr std::uint64_t kTrainCount = 2000;
  constexpr std::uint64_t kTestCount = 1000;
  constexpr double kNoise = 0.1;
  if (options.model.empty()) {
    options.model = "mlp:16-16";
  }
  options.batch = options.batch == 0 ? 20 : options.batch;
  options.epochs = options.epochs == 0 ? 30 : options.epochs;
  const datasets::Points train = datasets::half_moons(kTrainCount, kNoise, options.seed);
  // A seed far from the ones that users type, so that test points differ from training points.
  const datasets::Points test =
      datasets::half_moons(kTestCount, kNoise, options.seed ^ (std::int64_t{1} << 40U));
  return {.name = "half-moons",
          .sentence = "no --data: training on generated half-moons (" + grouped(kTrainCount) +
                      " training points, " + grouped(kTestCount) + " test points)",
          .train_inputs = train.points,
          .train_labels = train.labels,
          .test_inputs = test.points,
          .test_labels = test.labels,
          .class_count = 2};
}

TrainData image_files(TrainOptions& options) {
  if (options.model.empty()) {
    options.model = "mlp:500";
  }
  options.batch = options.batch == 0 ? 100 : options.batch;
  options.epochs = options.epochs == 0 ? 5 : options.epochs;
  const datasets::Images images =
      datasets::read_mnist(options.data, static_cast<std::uint64_t>(options.class_count));
  return {.name = options.data.string(),
          .sentence = options.data.string() + ": " + grouped(images.train_images.dims()[0]) +
                      " training and " + grouped(images.test_images.dims()[0]) + " test images of " +
                      std::to_string(images.row_count) + " x " + std::to_string(images.column_count) +
                      " pixels, " + std::to_string(images.class_count) + " classes",
          .train_inputs = images.train_images,
          .train_labels = images.train_labels,
          .test_inputs = images.test_images,
          .test_labels = images.test_labels,
          .class_count = images.class_count};
}

}  // namespace

TrainData load_train_data(TrainOptions& options) {
  TrainData data = options.data.empty() ? half_moons(options) : image_files(options);
  options.hidden = parse_model(options.model);
  const std::uint64_t rows = data.train_labels.element_count();
  if (!options.batch_is_given) {
    options.batch = std::min(options.batch, static_cast<std::int64_t>(rows));
  }
  if (static_cast<std::uint64_t>(options.batch) > rows) {
    throw Error(ErrorCode::kInvalidArgument, "--batch " + std::to_string(options.batch) + " exceeds the " +
                                                 std::to_string(rows) +
                                                 " training examples; use a smaller batch");
  }
  return data;
}

}  // namespace yoke::cli
