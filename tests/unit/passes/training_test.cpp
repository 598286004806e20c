// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/training_test.cpp: memory, order and time of the optimized gradients of usual networks.
#include <yoke/program/access.h>
#include <yoke/program/memory.h>
#include <yoke/yoke.h>

#include <chrono>

#include "pass_text.h"

namespace yoke::passes {
namespace {

using yoke::Tensor;

// The gradient of a perceptron with `depth` layers of `width`, one output per parameter.
Lowered mlp_gradient(std::size_t depth, std::uint64_t width, std::uint64_t batch) {
  Tensor h = placeholder("x", Type::kF32, {batch, width});
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < depth; ++i) {
    weights.push_back(placeholder("w" + std::to_string(i), Type::kF32, {width, width}));
    h = relu(matmul(h, weights.back()));
  }
  const std::vector<Tensor> wanted = gradients(mean(h * h), weights);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < depth; ++i) {
    outputs.push_back({"dw" + std::to_string(i), wanted[i]});
  }
  return lower("gradient", outputs);
}

TEST(Training, MlpGradientNeedsTheActivationsAndThreeLargestTensors) {
  constexpr std::size_t kDepth = 12;
  constexpr std::uint64_t kWidth = 1024;
  constexpr std::uint64_t kBatch = 512;
  const program::Program before = mlp_gradient(kDepth, kWidth, kBatch).program;
  const Optimized after = optimize(before);
  const std::uint64_t activation = kBatch * kWidth * sizeof(float);
  std::uint64_t largest = 0;
  for (const program::Tensor& tensor : after.program.tensors) {
    largest = std::max(largest, tensor.role == program::Role::kTemp ? tensor.byte_count() : 0);
  }
  const auto peak = [](const program::Program& program) {
    return program::plan_memory(program::lifetimes(program)).byte_count;
  };
  std::cout << "peak of temporaries: " << (peak(before) >> 20) << " MiB as lowered, "
            << (peak(after.program) >> 20) << " MiB optimized; one activation: " << (activation >> 20)
            << " MiB\n";
  EXPECT_LE(peak(after.program), kDepth * activation + 3 * largest) << program::print(after.program);
  EXPECT_LE(largest, activation) << "no weight or gradient is copied";
}

TEST(Training, GradientsBecomeFinalOneByOne) {
  constexpr std::size_t kDepth = 6;
  const Lowered lowered = mlp_gradient(kDepth, 64, 32);
  const Optimized after = optimize(lowered.program);
  ASSERT_EQ(after.final_after.size(), lowered.arguments.size());
  std::vector<std::uint32_t> places;  // from the last layer to the first
  for (std::size_t i = lowered.arguments.size(); i-- > 0;) {
    if (lowered.arguments[i].role == program::Role::kOut) {
      places.push_back(after.final_after[i]);
    } else {
      EXPECT_EQ(after.final_after[i], 0U);
    }
  }
  ASSERT_EQ(places.size(), kDepth);
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end())) << program::print(after.program);
  // After the forward pass, each layer needs a product for its weight and one for its input.
  EXPECT_LE(places.front(), after.program.statements.size() - 2 * (kDepth - 1));
  for (std::size_t i = 1; i < kDepth; ++i) {
    EXPECT_LE(places[i] - places[i - 1], 3U) << program::print(after.program);
  }
}

// The gradients of the loss by the inputs that have one.
Lowered gradient_of(const Tensor& loss, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> wanted = gradients(loss, inputs);
  std::vector<Output> outputs = {{"loss", loss}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    outputs.push_back({"d" + inputs[i].name(), wanted[i]});
  }
  return lower("gradient", outputs);
}

Tensor input(const std::string& name, const Dims& dims) {
  return placeholder(name, Type::kF32, dims);
}

// The temporaries with at least `element_count` elements that are kept for the backward pass: computed before
// the loss, and read after it.
std::size_t kept_for_backward(const Lowered& lowered, std::uint64_t element_count) {
  const Optimized after = optimize(lowered.program);
  const auto arguments = after.program.arguments();
  const std::uint32_t loss = after.program.find_tensor("loss").value();
  const auto number = std::find(arguments.begin(), arguments.end(), loss) - arguments.begin();
  const std::uint64_t end = after.final_after[static_cast<std::size_t>(number)];
  const std::vector<program::Lifetime> lives = program::lifetimes(after.program);
  std::size_t kept = 0;
  for (std::size_t t = 0; t < lives.size(); ++t) {
    const bool large = after.program.tensors[t].element_count() >= element_count;
    kept += large && lives[t].byte_count != 0 && lives[t].first < end && lives[t].last >= end ? 1U : 0U;
  }
  return kept;
}

TEST(Training, SoftmaxKeepsOneTensor) {
  const Tensor x = input("x", {512, 64});
  const Tensor w = input("w", {64, 512});
  const Tensor loss = mean(softmax(matmul(x, w)) * input("c", {512, 512}));
  EXPECT_LE(kept_for_backward(gradient_of(loss, {x, w}), 512 * 512), 1U);
}

TEST(Training, GeluKeepsOneTensor) {
  const Tensor x = input("x", {512, 64});
  const Tensor w = input("w", {64, 512});
  const Tensor loss = mean(gelu(matmul(x, w)) * input("c", {512, 512}));
  EXPECT_LE(kept_for_backward(gradient_of(loss, {x, w}), 512 * 512), 1U);
}

Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scores = einsum("b n d; b m d => b n m", q, k) * 0.125;
  return einsum("b n m; b m d => b n d", softmax(scores), v);
}

TEST(Training, AttentionKeepsTwoTensorsOfScores) {
  const Tensor x = input("x", {4, 256, 64});
  std::vector<Tensor> weights;
  for (const char* name : {"wq", "wk", "wv"}) {
    weights.push_back(input(name, {64, 64}));
  }
  const Tensor y = plain_attention(matmul(x, weights[0]), matmul(x, weights[1]), matmul(x, weights[2]));
  EXPECT_LE(kept_for_backward(gradient_of(mean(square(y)), weights), 4 * 256 * 256), 2U);
}

Tensor plain_layer_norm(const Tensor& x, const Tensor& scale) {
  const Tensor centered = x - mean(x, {-1}, true);
  return centered * rsqrt(mean(square(centered), {-1}, true) + 1e-5) * scale;
}

TEST(Training, GradientOfATwelveLayerTransformerIsOptimizedQuickly) {
  constexpr std::uint64_t kWidth = 256;
  std::vector<Tensor> weights;
  const auto weight = [&](const Dims& dims) {
    weights.push_back(input("w" + std::to_string(weights.size()), dims));
    return weights.back();
  };
  Tensor x = take(weight({1000, kWidth}), placeholder("ids", Type::kI32, {4, 128}));
  for (int layer = 0; layer < 12; ++layer) {
    const Tensor h = plain_layer_norm(x, weight({kWidth}));
    Tensor heads[3];
    for (Tensor& part : heads) {
      part = permute(reshape(matmul(h, weight({kWidth, kWidth})) + weight({kWidth}), {4, 128, 4, 64}),
                     {0, 2, 1, 3});
      part = reshape(part, {16, 128, 64});
    }
    const Tensor mixed = reshape(
        permute(reshape(plain_attention(heads[0], heads[1], heads[2]), {4, 4, 128, 64}), {0, 2, 1, 3}),
        {4, 128, kWidth});
    x = x + matmul(mixed, weight({kWidth, kWidth})) + weight({kWidth});
    const Tensor inner = gelu(matmul(plain_layer_norm(x, weight({kWidth})), weight({kWidth, 4 * kWidth})) +
                              weight({4 * kWidth}));
    x = x + matmul(inner, weight({4 * kWidth, kWidth})) + weight({kWidth});
  }
  const Tensor loss =
      cross_entropy(matmul(x, weight({kWidth, 1000})), placeholder("next", Type::kI32, {4, 128}));
  const Lowered lowered = gradient_of(loss, weights);

  const auto begin = std::chrono::steady_clock::now();
  const Optimized after = optimize(lowered.program);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  std::cout << lowered.program.statements.size() << " -> " << after.program.statements.size()
            << " statements in " << after.report.sweeps << " sweeps, " << after.report.visits << " visits, "
            << after.report.recomputed << " recomputed, " << after.report.grouped << " in "
            << after.report.regions << " regions, which save " << (after.report.saved_bytes >> 20) << " MiB, "
            << spent.count() << " s\n";
#if defined(NDEBUG)               // not with sanitizers
  EXPECT_LT(spent.count(), 2.0);  // 0.5 s on an idle machine
#endif
  EXPECT_LT(after.report.sweeps, 8U);
  EXPECT_EQ(program::print(optimize(after.program).program), program::print(after.program));
}

TEST(Training, LstmGradientHasFewStatementsInItsLoops) {
  const nn::Module lstm = nn::named("lstm", nn::lstm(16));
  const Tensor loss = mean(square(lstm(input("x", {4, 10, 8}))));
  std::vector<Tensor> weights;
  for (const Parameter& parameter : nn::parameters(lstm)) {
    weights.push_back(parameter.tensor());
  }
  const auto counts = [](const program::Program& program) {
    std::vector<std::size_t> sizes;
    for (const program::Block& block : program.blocks()) {
      if (block.repeat >= 0) {
        sizes.push_back(block.last - block.first);
      }
    }
    return sizes;
  };
  const Lowered lowered = gradient_of(loss, weights);
  EXPECT_EQ(counts(lowered.program), (std::vector<std::size_t>{16, 27}));
  const program::Program after = optimize(lowered.program).program;
  // A product, the gates and the tanh of the cell, which the gradient reads, and the two carries. Backward, a
  // product, the gradients of the gates and of the cell, and the two carries.
  EXPECT_EQ(counts(after), (std::vector<std::size_t>{8, 9})) << program::print(after);
  // The block that runs backward stores the gradients of the gates in the order of the forward rounds, so
  // that the gradients of the weights are plain products.
  for (const program::Statement& statement : after.statements) {
    program::visit_target_and_reads(statement, [&](const program::Access& access) {
      program::visit_affines(access, [&](const program::Affine& affine) {
        for (const program::Affine::Term& term : affine.terms) {
          EXPECT_TRUE(term.is_symbol || term.coefficient > 0) << program::print(after, statement);
        }
      });
    });
  }
}

}  // namespace
}  // namespace yoke::passes
