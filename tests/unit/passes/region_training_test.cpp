// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/region_training_test.cpp: the regions of common layers, losses and updates.
#include <yoke/yoke.h>

#include "pass_text.h"

namespace yoke::passes {
namespace {

using yoke::Tensor;

Tensor input(const std::string& name, const Dims& dims) {
  return placeholder(name, Type::kF32, dims);
}

// The regions of a program in order: "2 [n]" for a region of two statements that names the loop n, and "."
// for each statement outside regions.
std::string regions_of(const program::Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.statements.size();) {
    const std::int32_t hint = program.statements[i].hint;
    std::size_t end = i + 1;
    while (hint >= 0 && end < program.statements.size() && program.statements[end].hint == hint) {
      ++end;
    }
    text += text.empty() ? "" : " ";
    if (hint < 0) {
      text += ".";
    } else {
      std::string loops;
      for (const std::string& loop : program.hints[static_cast<std::size_t>(hint)].loops) {
        loops += (loops.empty() ? "" : ", ") + loop;
      }
      text += std::to_string(end - i) + " [" + loops + "]";
    }
    i = end;
  }
  return text;
}

program::Program optimized_program(const std::vector<Output>& outputs) {
  return optimize(lower("p", outputs).program).program;
}

// Computes the gradients of sum(y * g) without the sum itself.
program::Program backward(const Tensor& y, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> wanted = gradients(sum(y * input("g", y.dims())), inputs);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    outputs.push_back({"d" + inputs[i].name(), wanted[i]});
  }
  return optimized_program(outputs);
}

void expect_regions(const program::Program& program, const std::string& regions) {
  EXPECT_EQ(regions_of(program), regions) << program::print(program);
}

TEST(TrainingRegions, SoftmaxIsOneRegion) {
  const Tensor x = input("x", {4096, 1024});
  expect_regions(optimized_program({{"y", softmax(x)}}), "4 [i]");
  expect_regions(optimized_program({{"y", log_softmax(x)}}), "4 [i]");
  expect_regions(backward(softmax(x), {x}), "6 [i]");
}

TEST(TrainingRegions, LayerNormAndItsGradientExceptColumnSumsAreOneRegionEach) {
  const Tensor x = input("x", {4096, 1024});
  const Tensor gamma = input("gamma", {1024});
  const Tensor beta = input("beta", {1024});
  const Tensor centered = x - mean(x, {-1}, true);
  const Tensor y = centered * rsqrt(mean(square(centered), {-1}, true) + 1e-5) * gamma + beta;
  expect_regions(optimized_program({{"y", y}}), "5 [i]");
  expect_regions(backward(y, {x}), "10 [i]");
  expect_regions(backward(y, {x, gamma, beta}), ". 10 [i] .");
}

TEST(TrainingRegions, CrossEntropyAndItsGradientAreOneRegion) {
  const Tensor x = input("x", {4096, 1024});
  const Tensor loss = cross_entropy(x, placeholder("labels", Type::kI32, {4096}));
  expect_regions(optimized_program({{"loss", loss}, {"dx", gradients(loss, {x})[0]}}), "4 [i] . .");
}

TEST(TrainingRegions, ProductBiasAndActivationAreOneRegion) {
  const Tensor x = input("x", {100, 784});
  const Tensor w = input("w", {784, 500});
  const Tensor b = input("b", {500});
  expect_regions(optimized_program({{"y", relu(matmul(x, w) + b)}}), "2 [i]");
  expect_regions(optimized_program({{"y", gelu(matmul(x, w) + b)}}), "2 [i]");
}

TEST(TrainingRegions, AttentionScoresAndTheirSoftmaxAreOneRegion) {
  const Tensor q = input("q", {8, 256, 64});
  const Tensor k = input("k", {8, 256, 64});
  const Tensor v = input("v", {8, 256, 64});
  const Tensor scores = einsum("b n d; b m d => b n m", q, k) * 0.125;
  expect_regions(optimized_program({{"y", einsum("b n m; b m d => b n d", softmax(scores), v)}}),
                 "6 [i, j] .");
}

TEST(TrainingRegions, UpdateIsOneRegionPerParameter) {
  std::vector<Output> outputs;
  for (const char* name : {"a", "b"}) {
    const Tensor value = input(name, {500, 100});
    const Tensor gradient = input(std::string("d") + name, {500, 100});
    const Tensor momentum = input(std::string("m") + name, {500, 100});
    for (const Update& update : sgd_one(value, gradient, momentum, scalar("rate", 0.1), {.momentum = 0.9})) {
      outputs.push_back({update.leaf.name() + "_next", update.value});
    }
  }
  expect_regions(optimized_program(outputs), "2 [i, j] 2 [i, j]");
}

TEST(TrainingRegions, AdamWIsOneRegion) {
  const Tensor value = input("w", {500, 100});
  const Tensor gradient = input("g", {500, 100});
  const Tensor m = 0.9 * input("m", {500, 100}) + 0.1 * gradient;
  const Tensor v = 0.999 * input("v", {500, 100}) + 0.001 * square(gradient);
  const Tensor rate = scalar("rate", 0.1);
  const Tensor next = value - rate * (m / (sqrt(v) + 1e-8) + 0.01 * value);
  expect_regions(optimized_program({{"m_next", m}, {"v_next", v}, {"w_next", next}}), "3 [i, j]");
}

}  // namespace
}  // namespace yoke::passes
