// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/examples/half_moons.cpp: a small network learns to tell two half-moons apart, with
// example_train_loop.
#include <yoke/yoke.h>

#include <cmath>
#include <iostream>

namespace {

bool learns() {
  const auto moons = yoke::datasets::half_moons(400, 0.05, 6);
  const auto model = yoke::nn::sequential(yoke::nn::linear(16), yoke::nn::relu(), yoke::nn::linear(16),
                                          yoke::nn::relu(), yoke::nn::linear(1));
  yoke::ExampleLoop loop;
  loop.options.batch_size = 20;
  loop.options.base_seed = 6;
  loop.options.optimizer = yoke::Sgd{.weight_decay = 2e-4};
  loop.init_lr = 0.1;  // the learning rate decreases from 0.2 to 0.1
  loop.epochs = 120;
  loop.max_num_devices = 2;
  loop.per_epoch = [](yoke::Trainer& trainer, const yoke::ExampleProgress& now) {
    if (now.at_epoch % 20 == 0) {
      std::cout << "epoch " << now.at_epoch << ", step " << now.at_step << ", learning rate "
                << now.learning_rate << ", loss " << now.epoch_loss << " on " << trainer.device_names()
                << '\n';
    }
  };
  const yoke::ExampleResult result = yoke::example_train_loop(
      loop, moons.points, moons.signs, model,
      [](const yoke::Tensor& output, const yoke::Tensor& sign) { return yoke::hinge(output, sign); });

  const std::vector<double> signs = yoke::host_values(moons.signs);
  const std::vector<double> predicted = result.infer_callback(moons.points);
  int wrong = 0;
  for (std::size_t i = 0; i < signs.size(); ++i) {
    wrong += std::signbit(signs[i]) != std::signbit(predicted[i]) ? 1 : 0;
  }
  std::cout << "last epoch: loss " << result.epoch_losses.back() << ", learning rate "
            << result.learning_rates.back() << ", " << wrong << " of " << signs.size()
            << " points on the wrong side\n";
  return result.epoch_losses.back() < 0.01 && wrong == 0;
}

}  // namespace

int main() {
  try {
    return learns() ? 0 : 1;
  } catch (const yoke::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
