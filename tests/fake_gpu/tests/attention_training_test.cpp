// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/attention_training_test.cpp: a transformer trains with the attention of the fake of cuDNN as it
// does with kernels.
#include <yoke/models.h>
#include <yoke/yoke.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "on_fakes.h"
#include "test_paths.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kSymbols = 8;
constexpr std::uint64_t kContext = 8;
constexpr std::uint64_t kRows = 4;
constexpr int kSteps = 16;

struct Outcome {
  std::vector<double> losses;
  std::string log;

  std::size_t plans() const {
    std::size_t count = 0;
    for (std::size_t at = log.find("attentions.plan"); at != std::string::npos;
         at = log.find("attentions.plan", at + 1)) {
      ++count;
    }
    return count;
  }
};

struct Training {
  Precision precision = Precision::kBF16;
  std::int64_t shards = 1;
  Overlap overlap = Overlap::kAuto;
};

// Texts in which each symbol follows from the one before it.
enum class By { kStatements, kLibrary, kFusedKernels };

Outcome train(const Training& run, By by) {
  Outcome outcome;
  std::mutex mutex;
  RuntimeOptions runtime;
  runtime.plugin_dirs = {test::plugin_folder()};
  runtime.search_environment = false;
  runtime.log_level = LogLevel::kDebug;
  runtime.log_sink = [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    outcome.log.append(line).append("\n");
  };
  DataParallelOptions settings;
  settings.backend_name = "cuda";
  settings.shards = run.shards;
  settings.optimizer = Adam{};
  settings.learning_rate = 0.01F;
  settings.batch_size = kRows;
  settings.precision = run.precision;
  settings.overlap = run.overlap;
  settings.bucket_byte_count = 4096;
  settings.device_options = {{"vendor_attention", by == By::kLibrary},
                             {"fused_attention", by == By::kFusedKernels}};
  settings.runtime = std::make_shared<Runtime>(runtime);
  std::vector<std::uint8_t> inputs;
  std::vector<std::uint8_t> targets;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    std::uint64_t symbol = row % kSymbols;
    for (std::uint64_t i = 0; i < kContext; ++i) {
      inputs.push_back(static_cast<std::uint8_t>(symbol));
      symbol = (symbol * 5 + 3) % kSymbols;
      targets.push_back(static_cast<std::uint8_t>(symbol));
    }
  }
  const nn::Module model = models::text_model("gpt:layers=1,heads=2,width=16,context=8", kSymbols).module;
  data_parallel(
      settings, tensor(inputs, {kRows, kContext}), tensor(targets, {kRows, kContext}),
      [&](const Tensor& x, const Tensor& y) {
        const Tensor logits = model(x);
        return cross_entropy(logits, models::targets_of(logits, y));
      },
      [&](Trainer& trainer) {
        for (int step = 0; step < kSteps; ++step) {
          trainer.step();
          outcome.losses.push_back(trainer.loss_value());
        }
      });
  return outcome;
}

class FakeAttentionTraining : public OnFakes {};

TEST_F(FakeAttentionTraining, TransformerTrainsAsWithKernels) {
  for (const Training& run : {Training{}, Training{.precision = Precision::kF16},
                              Training{.shards = 2, .overlap = Overlap::kOff}}) {
    const Outcome kernels = train(run, By::kStatements);
    const Outcome library = train(run, By::kLibrary);
    EXPECT_EQ(kernels.log.find("attentions."), std::string::npos);
    // Each device plans the attention and its gradient.
    EXPECT_EQ(library.plans(), 2U * static_cast<std::size_t>(run.shards)) << library.log;
    EXPECT_EQ(library.log.find("skipped"), std::string::npos) << library.log;
    EXPECT_LT(library.losses.back(), library.losses.front() / 2) << "the model learns";
    EXPECT_NE(library.losses, kernels.losses) << "kernels round the scores";
    ASSERT_EQ(library.losses.size(), kernels.losses.size());
    for (std::size_t i = 0; i < kernels.losses.size(); ++i) {
      // Steps of Adam are as large for small gradients, so roundings of 2^-8 grow with the steps.
      EXPECT_NEAR(library.losses[i], kernels.losses[i], 0.02 * kernels.losses[i] + 0.002) << "step " << i;
    }
    EXPECT_EQ(train(run, By::kLibrary).losses, library.losses) << "a second run has other bits";
  }
}

TEST_F(FakeAttentionTraining, TransformerTrainsWithFusedKernels) {
  for (const Training& run : {Training{}, Training{.precision = Precision::kF16}}) {
    const Outcome usual = train(run, By::kStatements);
    const Outcome fused = train(run, By::kFusedKernels);
    EXPECT_LT(fused.losses.back(), fused.losses.front() / 2) << "the model learns";
    EXPECT_NE(fused.losses, usual.losses) << "statements round the scores";
    ASSERT_EQ(fused.losses.size(), usual.losses.size());
    for (std::size_t i = 0; i < usual.losses.size(); ++i) {
      EXPECT_NEAR(fused.losses[i], usual.losses[i], 0.02 * usual.losses[i] + 0.002) << "step " << i;
    }
    EXPECT_EQ(train(run, By::kFusedKernels).losses, fused.losses) << "a second run has other bits";
  }
}

// Evaluations and gradients in several parts, which are merged while others are computed, do not have attention in one
// program or not in 16 bits.
TEST_F(FakeAttentionTraining, GradientsInPartsAreLeftToKernels) {
  const Training parts = {.shards = 2};
  const Outcome kernels = train(parts, By::kStatements);
  const Outcome library = train(parts, By::kLibrary);
  EXPECT_EQ(library.plans(), 0U) << library.log;
  EXPECT_EQ(library.losses, kernels.losses);
  const Training f32 = {.precision = Precision::kF32};
  EXPECT_EQ(train(f32, By::kLibrary).losses, train(f32, By::kStatements).losses);
}

}  // namespace
}  // namespace yoke::testing
