// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/convolution_test.cpp: convolutions and pooling, written with windows, train on a
// backend as on the reference executor.
#include <gtest/gtest.h>

#include <cmath>

#include "common.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 8;

// All windows of the two last axes: [..., h, w] becomes [..., oh, ow, size, size].
Tensor patches(const Tensor& x, std::uint64_t size, std::uint64_t stride, std::uint64_t dilation = 1) {
  const int last = static_cast<int>(x.rank()) - 1;
  return windows(windows(x, last - 1, size, stride, dilation), last, size, stride, dilation);
}

std::vector<float> trained_on(const std::string& backend) {
  DataParallelOptions options = options_for(2, 0.05F);
  if (backend == "test0" && std::string(backend_name()) != backend) {
    test::register_backend(*options.runtime, 0);
  }
  options.backend_name = backend;
  const Parameter first("first", {4, 2, 3, 3}, Initializer::kaiming_uniform());
  const Parameter second("second", {3, 4, 2, 2}, Initializer::kaiming_uniform());
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    labels[i] = static_cast<std::int32_t>(i % 3);
  }
  std::vector<float> values;
  data_parallel(
      options, tensor(some_numbers(kRows * 2 * 81, 3), {kRows, 2, 9, 9}), tensor(labels, {kRows}),
      [&](const Tensor& x, const Tensor& y) {
        const Tensor padded = pad(x, {{0, 0}, {0, 0}, {1, 1}, {1, 1}});
        const Tensor strided = einsum("bchwkl,dckl->bdhw", patches(padded, 3, 2), first.tensor());
        const Tensor pooled = max(patches(tanh(strided), 3, 2), {-1, -2});
        const Tensor dilated =
            einsum("bchwkl,dckl->bdhw", patches(flip(strided, {3}), 2, 1, 2), second.tensor());
        return cross_entropy(mean(dilated, {2, 3}), y) + mean(square(pooled));
      },
      [&](Trainer& trainer) {
        for (int i = 0; i < 4; ++i) {
          trainer.step();
        }
        values = all_values(trainer);
      });
  return values;
}

TEST(Convolution, TrainsAsOnTheReferenceExecutor) {
  const std::vector<float> expected = trained_on("test0");
  const std::vector<float> got = trained_on(backend_name());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    // 4 steps with sums of at most 200 f32 terms.
    EXPECT_NEAR(got[i], expected[i], 4 * 200 * 6e-8 * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

}  // namespace
}  // namespace yoke::testing
