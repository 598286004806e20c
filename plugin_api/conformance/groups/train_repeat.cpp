// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/train_repeat.cpp: the same training run several times, and on another backend.
#include <yoke/datasets.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "groups.h"
#include "program/run/launch.h"
#include "training.h"

namespace yoke::conformance {
namespace {

constexpr int kSteps = 12;

// Losses and, after the last step, parameters.
struct Result {
  std::vector<float> losses;
  std::vector<float> parameters;
};

// A network of three layers on 4 shards, wide enough for several tiles.
Result train_once(const DataParallelOptions& options) {
  const auto data = datasets::half_moons(192, 0.1, 3);
  const auto model = nn::sequential(nn::linear(70), nn::relu(), nn::linear(33), nn::relu(), nn::linear(2));
  Result result;
  data_parallel(
      options, data.points, data.labels,
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        for (int step = 0; step < kSteps; ++step) {
          trainer.step();
          if (step % 3 != 0) {  // reading the loss waits for the step
            continue;
          }
          result.losses.push_back(trainer.owner_loss_value());
        }
        for (const Parameter& parameter : trainer.owner_params()) {
          const std::vector<float> values = trainer.read_values(parameter.name());
          result.parameters.insert(result.parameters.end(), values.begin(), values.end());
        }
      });
  return result;
}

// The first place where the bits differ.
std::string difference(const char* what, const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) {
      return text(what, " ", i, " is ", a[i], " in the first training and ", b[i], " in another one; ");
    }
  }
  return {};
}

// Whether the entries of products are deterministic, as far as the plugin runs them itself.
bool is_deterministic(Kit& kit) {
  constexpr std::string_view kProduct =
      "yoke.program 1\nprogram p() {\n  arg x : f32[33, 70] in\n  arg w : f32[70, 9] in\n  arg y : f32[33, "
      "9] out\n  y[i, j] "
      "= sum[k] x[i, k] * w[k, j]\n}\n";
  if (!kit.plugin().has_table<yoke_program_api>()) {
    return true;
  }
  try {
    require_supported(kit.device(), kProduct, 1);
  } catch (const Unsupported&) {
    return true;
  }
  return describe_entry(kit.plugin(), compile(kit.device(), kProduct)).deterministic != 0;
}

void repeated(Kit& kit) {
  if (!is_deterministic(kit)) {
    unsupported("the plugin's products are not deterministic");
  }
  TrainingRuntime runtime(kit);
  DataParallelOptions options = runtime.options(4, 0.1F);
  options.merge = MergeStrategy::kOwner;  // kAuto measures links, and may choose differently each time
  const Result first = train_once(options);
  check(first.losses.front() != first.losses.back(), "the loss stays ", first.losses.front(),
        " during a training");
  const int times = 2 * kit.effort();
  for (int i = 0; i < times; ++i) {
    kit.progress(text("training ", i + 1, " of ", times));
    const Result again = train_once(options);
    const std::string differs = difference("loss", first.losses, again.losses) +
                                difference("parameter", first.parameters, again.parameters);
    check(differs.empty(), "the same training run on 4 shards gives different bits: ", differs);
  }
  runtime.check_fallbacks();
}

void like_cc(Kit& kit) {
  TrainingRuntime runtime(kit);
  if (kit.plugin().name() == "cc") {
    unsupported("the plugin is cc");
  }
  const Result got = train_once(runtime.options(4, 0.1F));
  DataParallelOptions options = runtime.options(4, 0.1F);
  options.backend_name = "cc";
  options.device_options = {};
  try {
    runtime.runtime()->backend("cc");
  } catch (const Error& error) {
    unsupported(text("cc is not available: ", error.what()));
  }
  const Result expected = train_once(options);
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    check(std::fabs(got.losses[i] - expected.losses[i]) <= 1e-4F, "loss ", i, " is ", got.losses[i], ", and ",
          expected.losses[i], " on cc");
  }
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    check(std::fabs(got.parameters[i] - expected.parameters[i]) <= 1e-4F, "parameter ", i, " is ",
          got.parameters[i], ", and ", expected.parameters[i], " on cc");
  }
}

}  // namespace

std::vector<Test> train_repeat_tests() {
  return {{"repeated",
           "a repeated training run on 4 shards gives the same losses and parameters, bit for bit",
           {26, 27},
           repeated,
           2},
          {"like-cc",
           "a training run on 4 shards gives the losses and parameters of the same run on cc",
           {27},
           like_cc,
           2}};
}

}  // namespace yoke::conformance
