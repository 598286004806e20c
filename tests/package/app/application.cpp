// SPDX-License-Identifier: Apache-2.0
// tests/package/app/application.cpp: trains a classifier of half-moons.
#include <yoke/yoke.h>

#include <iostream>

int main() {
  const auto data = yoke::datasets::half_moons(200, 0.1, 0);
  const auto model = yoke::nn::sequential(yoke::nn::linear(16), yoke::nn::relu(), yoke::nn::linear(2));
  yoke::DataParallelOptions options{
      .backend_name = "cc", .shards = 2, .learning_rate = 0.1F, .batch_size = 20};
  yoke::data_parallel(
      options, data.points, data.labels,
      [&](const auto& x, const auto& y) { return yoke::cross_entropy(model(x), y); },
      [](yoke::Trainer& trainer) {
        while (trainer.step_count() < 500) trainer.step();
        std::cout << "loss " << trainer.loss_value() << '\n';
      });
}
