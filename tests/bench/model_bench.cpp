// SPDX-License-Identifier: Apache-2.0
// tests/bench/model_bench.cpp: training steps of known models on synthetic data. models.py compares it with PyTorch.
//
// Writes the initial parameters to FILE and prints the losses of the first steps as JSON. Then, for each number of
// steps that it reads from standard input, it runs that many steps and prints the seconds per step.
#include <yoke/yoke.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using yoke::Dims;
using yoke::Tensor;

constexpr int kFirstSteps = 5;
constexpr std::uint64_t kSymbols = 65;

struct Work {
  yoke::nn::Module model;
  Tensor inputs;
  Tensor targets;
  yoke::Optimizer optimizer;
  float learning_rate;
};

std::uint64_t count_of(const Dims& dims) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : dims) {
    count *= extent;
  }
  return count;
}

// Numbers that look random. models.py makes the same.
std::uint64_t number(std::uint64_t n) {
  return (n * n * 7 + n * 3) % 10'007;
}

Tensor pixels(const Dims& dims) {
  std::vector<float> values(count_of(dims));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(number(i)) / 5'000.0F - 1;
  }
  return yoke::tensor(values, dims);
}

Tensor numbers(const Dims& dims, std::uint64_t below, std::uint64_t first) {
  std::vector<std::int32_t> values(count_of(dims));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(number(first + i) % below);
  }
  return yoke::tensor(values, dims);
}

Work make_work(const std::string& name, std::uint64_t batch) {
  if (name == "lenet" || name == "resnet18") {
    const bool is_lenet = name == "lenet";
    return {is_lenet ? yoke::models::lenet(10) : yoke::models::resnet18(10),
            pixels(is_lenet ? Dims{batch, 28, 28, 1} : Dims{batch, 32, 32, 3}), numbers({batch}, 10, 0),
            yoke::Sgd{}, 0.01F};
  }
  const yoke::models::TextModel text = yoke::models::text_model(name, kSymbols);
  const bool is_mlp = name.starts_with("char-mlp");
  const Dims targets = is_mlp ? Dims{batch} : Dims{batch, text.context};
  return {text.module, numbers({batch, text.context}, kSymbols, 0), numbers(targets, kSymbols, 1),
          is_mlp ? yoke::Optimizer(yoke::Sgd{}) : yoke::Optimizer(yoke::AdamW{}), is_mlp ? 0.1F : 0.001F};
}

// Options as NAME=VALUE words; every one is required.
std::map<std::string, std::string> options_of(int count, char** words) {
  std::map<std::string, std::string> options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const std::size_t equals = word.find('=');
    options[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
  }
  for (const char* name : {"model", "batch", "shards", "threads", "save"}) {
    if (options[name].empty()) {
      throw std::runtime_error("usage: model_bench model=NAME batch=N shards=N threads=N save=FILE.npz");
    }
  }
  return options;
}

int run(int count, char** words) {
  const auto given = options_of(count, words);
  const Work work = make_work(given.at("model"), std::stoull(given.at("batch")));
  yoke::RuntimeOptions runtime;
  runtime.plugin_dirs = {YOKE_BENCH_PLUGIN_DIR};
  runtime.search_environment = false;
  yoke::DataParallelOptions options;
  options.runtime = std::make_shared<yoke::Runtime>(runtime);
  options.shards = std::stoll(given.at("shards"));
  options.device_options = {{"threads", std::stoll(given.at("threads"))}};
  options.optimizer = work.optimizer;
  options.learning_rate = work.learning_rate;
  yoke::data_parallel(
      options, work.inputs, work.targets,
      [&](const Tensor& rows, const Tensor& targets) {
        return yoke::cross_entropy(work.model(rows), targets);
      },
      [&](yoke::Trainer& trainer) {
        trainer.save_params(given.at("save"));
        std::cout << "[";
        for (int i = 0; i < kFirstSteps; ++i) {
          trainer.step();
          std::cout << (i == 0 ? "" : ", ") << trainer.loss_value();
        }
        std::cout << "]" << std::endl;
        int steps = 0;
        while (std::cin >> steps) {
          const auto start = std::chrono::steady_clock::now();
          for (int i = 0; i < steps; ++i) {
            trainer.step();
          }
          const double loss = trainer.loss_value();  // waits for the last step
          const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
          if (!std::isfinite(loss)) {
            throw std::runtime_error("the loss is not finite");
          }
          std::cout << seconds.count() / steps << std::endl;
        }
      });
  return 0;
}

}  // namespace

int main(int count, char** words) try {
  std::cout.precision(9);
  return run(count, words);
} catch (const std::exception& error) {
  std::cerr << "model_bench: " << error.what() << '\n';
  return 1;
}
