// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/model_programs.cpp: records what training compiles on a backend that runs nothing.
#include "model_programs.h"

#include <yoke/models.h>
#include <yoke/yoke.h>

#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "fake_backend.h"

namespace yoke::codegen::test {
namespace {

constexpr std::uint64_t kClasses = 10;
constexpr std::uint64_t kSymbols = 65;

struct Run {
  const char* name;
  std::function<nn::Module()> make;
  Dims input;  // of one row; empty: the context of a text model
  std::int64_t batch;
  Optimizer optimizer;
  std::int64_t shards = 1;
  Precision precision = Precision::kF32;
};

std::vector<Run> runs() {
  const auto text_model = [](const char* name) {
    return [name] { return models::text_model(name, kSymbols).module; };
  };
  const auto mlp = [] { return nn::sequential(nn::linear(64), nn::relu(), nn::linear(kClasses)); };
  return {
      {"lenet", [] { return models::lenet(kClasses); }, {28, 28, 1}, 32, Adam{}},
      {"char-bigram", text_model("char-bigram"), {8}, 32, RmsProp{.momentum = 0.9, .centered = true}},
      {"char-mlp", text_model("char-mlp"), {3}, 32, Adagrad{}, 2},
      {"char-lstm", text_model("char-lstm"), {32}, 32, Lion{}},
      {"gpt", text_model("gpt"), {64}, 8, clip_by_global_norm(AdamW{}, 1.0)},
      {"mlp", mlp, {784}, 100, moving_average(Lamb{})},
      // Last, because equal kernels are compiled once.
      {"resnet18", [] { return models::resnet18(kClasses); }, {32, 32, 3}, 16, Sgd{0.9, 1e-4, true}},
  };
}

struct Compiled : std::exception {};

// The texts that are compiled before memory is allocated.
std::vector<std::string> texts_of(const Run& run) {
  std::vector<std::string> texts;
  std::mutex mutex;
  auto control = std::make_shared<yoke::test::Control>();
  control->name = "recorder";
  control->device_info.kind = YOKE_DEVICE_GPU;
  control->on_compile = [&](std::string_view text) {
    const std::lock_guard lock(mutex);
    texts.emplace_back(text);
  };
  RuntimeOptions silent;
  silent.search_environment = false;
  silent.log_level = LogLevel::kOff;
  DataParallelOptions options;
  options.runtime = std::make_shared<Runtime>(silent);
  yoke::test::register_backend(*options.runtime, 0, control);
  options.backend_name = control->name;
  options.shards = run.shards;
  options.batch_size = run.batch;
  options.precision = run.precision;
  options.optimizer = run.optimizer;
  options.merge = MergeStrategy::kOwner;  // kAuto measures the links
  options.placement = Placement::kOwner;
  options.learning_rate = 0.1F;
  options.check_memory = [](auto) { throw Compiled(); };

  const bool is_text = run.input.size() == 1 && run.input[0] != 784;
  const auto rows = static_cast<std::uint64_t>(run.batch);
  Dims dims = {rows};
  dims.insert(dims.end(), run.input.begin(), run.input.end());
  const std::uint64_t count = element_count(dims);
  const Tensor x =
      is_text ? tensor(std::vector<std::uint8_t>(count), dims) : tensor(std::vector<float>(count), dims);
  const Tensor y = is_text ? x : tensor(std::vector<std::uint8_t>(rows), {rows});
  const nn::Module model = run.make();
  try {
    data_parallel(
        options, x, y,
        [&](const Tensor& rows_in, const Tensor& targets) {
          const Tensor logits = model(rows_in);
          return cross_entropy(logits, models::targets_of(logits, targets));
        },
        [](Trainer&) {});
  } catch (const Compiled&) {
    return texts;
  }
  throw std::runtime_error(std::string(run.name) + ": the memory was not checked");
}

}  // namespace

std::vector<std::string> gpt_programs(bool is_f16) {
  const auto make = [] { return models::text_model("gpt", kSymbols).module; };
  return texts_of({"gpt", make, {64}, 8, AdamW{}, 1, is_f16 ? Precision::kF16 : Precision::kBF16});
}

std::vector<std::pair<std::string, std::string>> model_programs(bool all) {
  std::vector<std::pair<std::string, std::string>> programs;
  for (const Run& run : runs()) {
    if (run.name == kLargestModel && !all) {
      continue;
    }
    for (std::string& text : texts_of(run)) {
      programs.emplace_back(run.name, std::move(text));
    }
  }
  return programs;
}

}  // namespace yoke::codegen::test
