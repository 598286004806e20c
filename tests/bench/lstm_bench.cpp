// SPDX-License-Identifier: Apache-2.0
// tests/bench/lstm_bench.cpp: training steps of an LSTM on cc. peers.py times PyTorch beside it.
#include <benchmark/benchmark.h>
#include <yoke/yoke.h>

#include <cmath>
#include <vector>

namespace yoke {
namespace {

constexpr std::size_t kBatch = 32;
constexpr std::size_t kRounds = 64;
constexpr std::size_t kWidth = 128;
constexpr std::size_t kClasses = 64;

using Values = std::vector<float>;

Values inputs() {
  Values values(kBatch * kRounds * kWidth);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 0.7F);
  }
  return values;
}

std::vector<std::int32_t> labels() {
  std::vector<std::int32_t> values(kBatch * kRounds);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(i * 7 % kClasses);
  }
  return values;
}

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

// result += weights * x, for weights [result.size(), x.size()].
void add_product(const Values& weights, const float* x, std::size_t count, std::vector<double>& result) {
  for (std::size_t o = 0; o < result.size(); ++o) {
    for (std::size_t i = 0; i < count; ++i) {
      result[o] += static_cast<double>(weights[o * count + i]) * static_cast<double>(x[i]);
    }
  }
}

// The loss, in plain loops. `parameters` are those of the LSTM, then the weight and bias of the linear layer.
double expected_loss(const std::vector<Values>& parameters, const Values& x,
                     const std::vector<std::int32_t>& y) {
  double total = 0;
  for (std::size_t n = 0; n < kBatch; ++n) {
    Values h(kWidth);
    std::vector<double> c(kWidth);
    for (std::size_t t = 0; t < kRounds; ++t) {
      const std::size_t row = n * kRounds + t;
      std::vector<double> gates(parameters[2].begin(), parameters[2].end());
      add_product(parameters[0], &x[row * kWidth], kWidth, gates);
      add_product(parameters[1], h.data(), kWidth, gates);
      for (std::size_t j = 0; j < kWidth; ++j) {
        c[j] = sigmoid_of(gates[kWidth + j]) * c[j] + sigmoid_of(gates[j]) * std::tanh(gates[2 * kWidth + j]);
        h[j] = static_cast<float>(sigmoid_of(gates[3 * kWidth + j]) * std::tanh(c[j]));
      }
      std::vector<double> logits(parameters[4].begin(), parameters[4].end());
      add_product(parameters[3], h.data(), kWidth, logits);
      double sum = 0;
      for (const double logit : logits) {
        sum += std::exp(logit);
      }
      total += std::log(sum) - logits[static_cast<std::size_t>(y[row])];
    }
  }
  return total / (kBatch * kRounds);
}

// One step: forward, backward and SGD. The loss is over all rounds.
void lstm_step(benchmark::State& state) {
  DataParallelOptions options;
  options.shards = state.range(0);
  options.learning_rate = 0.01F;
  options.backend_name = "cc";
  options.device_options = {{"threads", state.range(1)}};
  RuntimeOptions runtime;
  runtime.plugin_dirs = {YOKE_BENCH_PLUGIN_DIR};
  runtime.search_environment = false;
  options.runtime = std::make_shared<Runtime>(runtime);
  const nn::Module lstm = nn::named("lstm", nn::lstm(kWidth));
  const nn::Module head = nn::named("head", nn::linear(kClasses));
  const Values x = inputs();
  const std::vector<std::int32_t> y = labels();
  data_parallel(
      options, tensor(x, {kBatch, kRounds, kWidth}), tensor(y, {kBatch, kRounds}),
      [&](const Tensor& rows, const Tensor& targets) { return cross_entropy(head(lstm(rows)), targets); },
      [&](Trainer& trainer) {
        std::vector<Values> parameters;
        for (const Parameter& parameter : trainer.owner_params()) {
          parameters.push_back(trainer.read_values(parameter.name()));
        }
        trainer.step();
        const double first = trainer.loss_value();
        // Mean of 2048 losses, each a sum of 64 exponentials of f32 sums.
        if (std::abs(first - expected_loss(parameters, x, y)) > 1e-4) {
          state.SkipWithError("wrong loss");
          return;
        }
        for (auto _ : state) {
          trainer.step();
          benchmark::DoNotOptimize(trainer.loss_value());
        }
        if (trainer.loss_value() >= first) {
          state.SkipWithError("the loss does not fall");
        }
      });
}
BENCHMARK(lstm_step)
    ->ArgNames({"shards", "threads"})
    ->Args({1, 1})
    ->Args({1, 2})
    ->Args({2, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace yoke
