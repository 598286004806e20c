// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/training.h: trains with hand-written programs and a StepPlan, with results that are
// exact and therefore the same for every strategy and placement.
#pragma once

#include <yoke/runtime/parallel.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rig.h"

namespace yoke::test {

inline constexpr MergeStrategy kStrategies[] = {MergeStrategy::kOwner, MergeStrategy::kTree,
                                                MergeStrategy::kDirect, MergeStrategy::kRing};
inline constexpr Placement kPlacements[] = {Placement::kOwner, Placement::kEverywhere, Placement::kSharded};
inline constexpr float kMomentum = 0.5F;
inline constexpr float kRate = 0.0625F;  // exact, like all numbers of these tests

// The gradient of sum((w * x - y)^2) for `rows` rows.
inline std::string gradient_text(std::uint64_t rows, const std::string& weight) {
  const std::string n = std::to_string(rows);
  return "yoke.program 1\nprogram gradient() {\n  arg w : f32[" + weight + "] in\n  arg x : f32[" + n +
         "] in\n  arg y : f32[" + n + "] in\n  arg g : f32[" + weight + "] out\n  g[k] = sum[i:" + n +
         "] 2 * (w[k] * x[i] - y[i]) * x[i]\n}\n";
}

// SGD with momentum for `count` weights and the sum of `terms` gradients. With `keeps`, it writes the new values to
// other tensors.
inline StepProgram sgd(std::uint64_t count, std::uint32_t terms, bool keeps = false) {
  const std::string n = "f32[" + std::to_string(count) + "]";
  std::string arguments;
  std::string sum;
  for (std::uint32_t k = 0; k < terms; ++k) {
    const std::string name = "gradient_" + std::to_string(k);
    arguments += "  arg " + name + " : " + n + " in\n";
    sum += (k == 0 ? "" : " + ") + name + "[i]";
  }
  if (keeps) {
    return {"yoke.program 1\nprogram sgd() {\n  arg value : " + n + " in\n  arg momentum : " + n +
                " in\n  arg next_value : " + n + " out\n  arg next_momentum : " + n + " out\n" + arguments +
                "  next_momentum[i] = momentum[i] * " + std::to_string(kMomentum) + " + (" + sum +
                ")\n  next_value[i] = value[i] - " + std::to_string(kRate) + " * next_momentum[i]\n}\n",
            "sgd"};
  }
  return {"yoke.program 1\nprogram sgd() {\n  arg value : " + n + " inout\n  arg momentum : " + n +
              " inout\n" + arguments + "  momentum[i] = momentum[i] * " + std::to_string(kMomentum) + " + (" +
              sum + ")\n  value[i] = value[i] - " + std::to_string(kRate) + " * momentum[i]\n}\n",
          "sgd"};
}

// The sum of all elements of the f32 gradients or, for a vector, what all steps so far sum up to.
inline StepNumber total_of_gradients(std::uint64_t weights, std::uint32_t number_count) {
  StepNumber number;
  number.measure = [](const UpdateShape& shape) {
    std::string arguments;
    std::string sum;
    for (std::uint32_t k = 0; k < shape.terms; ++k) {
      const std::string name = "gradient_" + std::to_string(k);
      arguments += "  arg " + name + " : f32[" + std::to_string(shape.count) + "] in\n";
      sum += (k == 0 ? "" : " + ") + name + "[64*i + j]";
    }
    return StepProgram{"yoke.program 1\nprogram measure() {\n" + arguments + "  arg pieces : f64[" +
                           std::to_string(shape.count / 64) + "] out\n  pieces[i] = sum[j:64] f64(" + sum +
                           ")\n}\n",
                       "measure"};
  };
  const std::string count = std::to_string((weights + 63) / 64);
  if (number_count > 1) {
    number.combine = [count, number_count] {
      return StepProgram{"yoke.program 1\nprogram combine() {\n  arg pieces_0 : f64[" + count +
                             "] in\n  arg number : f64[" + std::to_string(number_count) +
                             "] inout\n  temp total : f64[]\n  total[] = sum[i:" + count +
                             "] pieces_0[i]\n  number[i] = number[i] + total[]\n}\n",
                         "combine"};
    };
    return number;
  }
  number.combine = [count] {
    return StepProgram{"yoke.program 1\nprogram combine() {\n  arg pieces_0 : f64[" + count +
                           "] in\n  arg number : f64[] out\n  number[] = sum[i:" + count +
                           "] pieces_0[i]\n}\n",
                       "combine"};
  };
  return number;
}

// `shards` shards with one row each: x = 1, y = the shard's number + 1. All weights are equal.
class Training {
 public:
  Training(const Rig& rig, std::uint32_t shards, std::uint32_t weights, const StepOptions& options)
      : tables_(shards) {
    for (std::uint32_t k = 0; k < shards; ++k) {
      contexts_.emplace_back(rig.stream());
    }
    plan_ = StepPlan(contexts_, shards, {{"w", {YOKE_TYPE_F32, {weights}}}}, {"momentum"}, options, nullptr);
    plan_.allocate();
    plan_.allocate_gradients();
    plan_.link(
        [&](const UpdateShape& shape) { return sgd(shape.count, shape.terms, options.keep_last_step); },
        tables_, options.has_number ? total_of_gradients(weights, options.number_count) : StepNumber());
    CodeCache codes;
    for (std::uint32_t k = 0; k < shards; ++k) {
      const float x = 1;
      const auto y = static_cast<float>(k + 1);
      contexts_[k].init_from_host("x", {YOKE_TYPE_F32, {1}}, std::as_bytes(std::span(&x, 1)));
      contexts_[k].init_from_host("y", {YOKE_TYPE_F32, {1}}, std::as_bytes(std::span(&y, 1)));
      contexts_[k].stream()->wait();
      const auto code = codes.get(rig.device, gradient_text(1, std::to_string(weights)));
      for (std::uint32_t set = 0; set < (options.keep_last_step ? 2 : 1); ++set) {
        gradients_[set].push_back(
            contexts_[k].link(code, "gradient", {{"g", "gradient/w"}, {"w", StepPlan::name_in(set, "w")}}));
      }
    }
  }
  void compute() const {
    for (const LinkedRoutine& gradient : gradients_[plan_.set()]) {
      gradient.run();
    }
  }
  std::vector<float> weights(std::uint32_t shard) const { return values(shard, "w", plan_.set()); }
  // With keep_last_step, `set` may be the one before the latest step.
  std::vector<float> values(std::uint32_t shard, std::string_view name, std::uint32_t set) const {
    return read<float>(*contexts_[shard].stream(),
                       contexts_[shard].tensor(StepPlan::name_in(set, name)).view);
  }
  StepPlan& plan() { return plan_; }
  std::span<const SymbolTable> tables() const { return tables_; }
  std::span<const Context> contexts() const { return contexts_; }

 private:
  std::vector<Context> contexts_;
  std::vector<SymbolTable> tables_;
  StepPlan plan_;
  std::array<std::vector<LinkedRoutine>, 2> gradients_;  // per set
};

// The weight after some steps, computed here.
inline float expected(std::uint32_t shards, int steps) {
  float weight = 0;
  float momentum = 0;
  for (int step = 0; step < steps; ++step) {
    float gradient = 0;
    for (std::uint32_t k = 0; k < shards; ++k) {
      gradient += 2 * (weight - static_cast<float>(k + 1));
    }
    momentum = momentum * kMomentum + gradient;
    weight -= kRate * momentum;
  }
  return weight;
}

}  // namespace yoke::test
