// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/train_oracles.h: known results of small training runs, the same for
// every backend and number of shards: one weight, y = 2x.
#pragma once

#include <yoke/yoke.h>

#include <cstdint>
#include <string>
#include <vector>

namespace yoke::testing {

// w = 0.5, x = 1 2 3 4, learning rate 0.05, plain SGD, one step.
struct OneStep {
  bool mean_loss;  // the loss is the mean of squares; otherwise their sum
  Reduction reduction;
  std::int64_t shards;
  double weight;      // after the step
  double owner_loss;  // before it
};

inline constexpr OneStep kOneSteps[] = {
    {false, Reduction::kSum, 1, 5.0, 67.5},     {false, Reduction::kSum, 2, 5.0, 11.25},
    {false, Reduction::kSum, 4, 5.0, 2.25},     {false, Reduction::kMean, 1, 5.0, 67.5},
    {false, Reduction::kMean, 2, 2.75, 11.25},  {false, Reduction::kMean, 4, 1.625, 2.25},
    {true, Reduction::kMean, 1, 1.625, 16.875}, {true, Reduction::kMean, 2, 1.625, 5.625},
    {true, Reduction::kMean, 4, 1.625, 2.25},   {true, Reduction::kSum, 1, 1.625, 16.875},
    {true, Reduction::kSum, 2, 2.75, 5.625},    {true, Reduction::kSum, 4, 5.0, 2.25}};

inline const std::vector<float> kLineX = {1, 2, 3, 4};
inline const std::vector<float> kLineY = {2, 4, 6, 8};

inline Parameter weight_of(float start) {
  Parameter w("w", {}, Initializer::zeros());
  w.set_values(std::as_bytes(std::span(&start, 1)));
  return w;
}

inline Tensor loss_of_line(const Parameter& w, const Tensor& x, const Tensor& y, bool mean_loss) {
  const Tensor error = x * w.tensor() - y;
  return mean_loss ? mean(error * error) : sum(error * error);
}

// The sum or mean over two shards of [2, 5] and [4, 1]. The loss of shard 0 is
// sum(output), that of shard 1 is factor * sum(output).
struct AllReduceOracle {
  Reduction reduction;
  float factor;
  std::vector<float> output0, output1_scaled, gradient;
};
inline const AllReduceOracle kAllReduces[] = {{Reduction::kSum, 1, {6, 6}, {6, 6}, {2, 2}},
                                              {Reduction::kMean, 1, {3, 3}, {3, 3}, {1, 1}},
                                              {Reduction::kSum, 4, {6, 6}, {24, 24}, {5, 5}}};

}  // namespace yoke::testing
