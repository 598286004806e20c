// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/wire_test.cpp: gradients that are sent as bf16, with error feedback.
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "training.h"

namespace yoke::test {
namespace {

constexpr MergeStrategy kSending[] = {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kRing};
constexpr float kLarge = 300;  // bf16 has only even numbers from 256 to 512
constexpr float kSmallRate = 0.0625F;
constexpr std::uint64_t kCount = 200;

float target(std::uint64_t i) {
  return 0.3F + 0.5F * static_cast<float>(i) / static_cast<float>(kCount);
}

// Shard 0's gradient is kLarge, that of the last shard w - target - kLarge, and the others' are 0. So the sum is w -
// target, and all of this is lost if the last shard's gradient is rounded.
class Cancelling {
 public:
  Cancelling(const std::vector<Context>& contexts, const StepOptions& options)
      : contexts_(contexts), tables_(contexts.size()) {
    const auto shards = static_cast<std::uint32_t>(contexts.size());
    plan_ = StepPlan(contexts_, shards, {{"w", {YOKE_TYPE_F32, {kCount}}}}, {}, options, nullptr);
    plan_.allocate();
    plan_.allocate_gradients();
    plan_.link(
        [](const UpdateShape& shape) {
          const std::string type = "f32[" + std::to_string(shape.count) + "]";
          return StepProgram{"yoke.program 1\nprogram descent() {\n  arg value : " + type +
                                 " inout\n  arg gradient_0 : " + type +
                                 " in\n  value[i] = value[i] - 0.0625 * gradient_0[i]\n}\n",
                             "descent"};
        },
        tables_);
    std::vector<float> targets;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      targets.push_back(target(i));
    }
    const std::string type = "f32[" + std::to_string(kCount) + "]";
    for (std::uint32_t k = 0; k < shards; ++k) {
      const bool is_last = k + 1 == shards;
      set(contexts_[k], "target", targets);
      set(contexts_[k], "scale", {is_last ? 1.0F : 0.0F});
      set(contexts_[k], "offset", {is_last ? -kLarge : k == 0 ? kLarge : 0.0F});
      gradients_.push_back(contexts_[k].link(
          codes_.get(contexts_[k].stream()->device(),
                     "yoke.program 1\nprogram gradient() {\n  arg w : " + type + " in\n  arg target : " +
                         type + " in\n  arg scale : f32[1] in\n  arg offset : f32[1] in\n  arg g : " + type +
                         " out\n  g[i] = scale[0] * (w[i] - target[i]) + offset[0]\n}\n"),
          "gradient", {{"g", "gradient/w"}}));
    }
  }
  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (const LinkedRoutine& gradient : gradients_) {
        gradient.run();
      }
      plan_.step(tables_);
    }
  }
  std::vector<float> weights(std::size_t shard = 0) const { return get(contexts_[shard], "w"); }
  const StepPlan& plan() const { return plan_; }

 private:
  std::vector<Context> contexts_;
  std::vector<SymbolTable> tables_;
  StepPlan plan_;
  CodeCache codes_;
  std::vector<LinkedRoutine> gradients_;
};

std::vector<Context> on_one_device(const Rig& rig, std::uint32_t shards) {
  std::vector<Context> contexts;
  for (std::uint32_t k = 0; k < shards; ++k) {
    contexts.emplace_back(rig.stream());
  }
  return contexts;
}

float as_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16U) & 1U)) & 0xffff0000U);
}

// The weights of two shards with the strategy kOwner, computed here.
std::vector<float> reference(int steps, bool keeps_errors) {
  std::vector<float> weights;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    float weight = 0;
    float residual = 0;
    for (int step = 0; step < steps; ++step) {
      const float wanted = 1.0F * (weight - target(i)) + -kLarge + residual;
      const float sent = as_bf16(wanted);
      residual = keeps_errors ? wanted - sent : 0;
      weight = weight - kSmallRate * (kLarge + sent);
    }
    weights.push_back(weight);
  }
  return weights;
}

float largest_error(const std::vector<float>& weights) {
  float largest = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    largest = std::max(largest, std::abs(weights[i] - target(i)));
  }
  return largest;
}

TEST(WireBf16, ErrorFeedbackConvergesWherePlainRoundingStalls) {
  constexpr int kSteps = 300;
  EXPECT_GE(largest_error(reference(kSteps, false)), 0.75F) << "the sum of rounded gradients is 0";
  for (const MergeStrategy strategy : kSending) {
    for (const std::uint32_t shards : {2U, 3U, 4U}) {
      const Rig rig;
      Cancelling training(on_one_device(rig, shards),
                          {.merge = strategy, .bucket_byte_count = 512, .wire = Wire::kBF16});
      training.run(kSteps);
      // What is sent is off by at most 1, an error that the next steps make up for.
      EXPECT_LT(largest_error(training.weights()), 2 * kSmallRate)
          << merge_strategy_name(strategy) << ", " << shards << " shards";
      for (std::uint32_t k = 1; k < shards; ++k) {
        EXPECT_EQ(training.weights(k), training.weights())
            << merge_strategy_name(strategy) << ", shard " << k;
      }
    }
  }
}

TEST(WireBf16, RoundsToNearestAndKeepsTheRest) {
  const Rig rig;
  Cancelling training(on_one_device(rig, 2), {.merge = MergeStrategy::kOwner, .wire = Wire::kBF16});
  training.run(20);
  EXPECT_EQ(training.weights(), reference(20, true));
}

TEST(WireBf16, BitsRepeatForEveryPlacementAndUse) {
  for (const MergeStrategy strategy : kSending) {
    std::map<Placement, std::vector<float>> found;
    for (const Placement placement : kPlacements) {
      for (const MergeUse use : {MergeUse::kStreaming, MergeUse::kCopy}) {
        for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
          RuntimeOptions options;
          options.injected_delay_us = 50;
          options.injected_delay_seed = static_cast<std::uint64_t>(found.size()) + 1;
          const Rig rig(Streams::kWorker, options);
          Cancelling training(on_one_device(rig, 3), {.merge = strategy,
                                                      .placement = placement,
                                                      .merge_use = use,
                                                      .bucket_byte_count = 512,
                                                      .overlap = overlap,
                                                      .wire = Wire::kBF16});
          training.run(10);
          const auto [first, is_new] = found.try_emplace(Placement::kAuto, training.weights(2));
          EXPECT_EQ(training.weights(2), first->second)
              << merge_strategy_name(strategy) << ", " << placement_name(placement);
        }
      }
    }
  }
}

// Bytes of the copies between devices in one step, by the tensor's name.
std::map<std::string, std::uint64_t> copied(MergeStrategy strategy, Wire wire) {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> bytes;
  RuntimeOptions options;
  options.on_work = [&](const WorkRecord& work) {
    if (work.kind == WorkRecord::Kind::kCopy && work.name == "device_to_device") {
      const std::lock_guard lock(mutex);
      bytes[std::string(work.tensor)] += work.byte_count;
    }
  };
  const auto control = Rig::make_control(Streams::kWorker);
  control->has_peers = false;
  control->device_count = 3;
  const Rig rig(control, options);
  std::vector<Context> contexts;
  for (std::uint32_t k = 0; k < 3; ++k) {
    contexts.emplace_back(Stream::create(rig.backend->open_device(k)));
  }
  {
    Cancelling training(contexts, {.merge = strategy, .placement = Placement::kOwner, .wire = wire});
    training.run(1);
    (void)training.weights(2);
    for (const Context& context : contexts) {
      context.stream()->wait();
    }
  }
  return bytes;
}

TEST(WireBf16, HalvesTheBytesOfGradients) {
  for (const MergeStrategy strategy : {MergeStrategy::kOwner, MergeStrategy::kTree}) {
    const auto full = copied(strategy, Wire::kFull);
    const auto half = copied(strategy, Wire::kBF16);
    const std::uint64_t gradients = full.at("gradients/f32");
    EXPECT_GE(gradients, 2 * kCount * sizeof(float)) << merge_strategy_name(strategy);
    EXPECT_EQ(half.at("wire/gradients/f32"), gradients / 2) << merge_strategy_name(strategy);
    EXPECT_FALSE(half.contains("gradients/f32")) << merge_strategy_name(strategy);
    EXPECT_EQ(half.at("parameters/f32"), full.at("parameters/f32")) << "parameters are sent as they are";
  }
}

TEST(WireBf16, NeedsTheMemoryThatThePlanStates) {
  for (const MergeStrategy strategy : kSending) {
    for (const MergeUse use : {MergeUse::kCopy, MergeUse::kStreaming}) {
      const Rig rig;
      const std::uint64_t before = rig.device->memory().used_bytes;
      Training training(
          rig, 3, 5000,
          {.merge = strategy, .merge_use = use, .bucket_byte_count = 4096, .wire = Wire::kBF16});
      std::uint64_t planned = 3 * 2 * sizeof(float);  // x and y
      for (std::uint32_t k = 0; k < 3; ++k) {
        const StepMemory memory = training.plan().memory(k);
        planned += memory.parameters + memory.gradients + memory.state + memory.merge_buffer + memory.wire;
      }
      EXPECT_EQ(rig.device->memory().used_bytes - before, planned) << merge_strategy_name(strategy);
    }
  }
}

TEST(WireBf16, GradientsThatAreNotFiniteLeaveNoError) {
  const Rig rig;
  std::vector<Context> members = on_one_device(rig, 2);
  for (Context& member : members) {
    set(member, "g", {1, std::numeric_limits<float>::infinity(), std::nanf(""), 3e38F});
  }
  Collectives::create(MergeStrategy::kOwner, members, MergeUse::kStreaming, nullptr, Wire::kBF16)
      ->reduce("g")
      .run();
  for (const float error : get(members[1], "residual/g")) {
    EXPECT_TRUE(std::isfinite(error)) << error;
  }
  EXPECT_EQ(get(members[0], "g")[0], 2.0F);
}

TEST(WireBf16, OtherTypesAreSentAsTheyAre) {
  const Rig rig;
  std::vector<Context> members = on_one_device(rig, 2);
  const std::vector<std::uint16_t> bits = {0x3c01, 0x4000};  // 1 + 2^-10, which bf16 does not have, and 2
  for (Context& member : members) {
    member.init_from_host("g", {YOKE_TYPE_F16, {2}}, std::as_bytes(std::span(bits)));
  }
  Collectives::create(MergeStrategy::kOwner, members, MergeUse::kStreaming, nullptr, Wire::kBF16)
      ->reduce("g")
      .run();
  EXPECT_EQ(read<std::uint16_t>(*members[0].stream(), members[0].tensor("g").view),
            (std::vector<std::uint16_t>{0x4001, 0x4400}));
  EXPECT_FALSE(members[1].has("wire/g"));
}

TEST(WireBf16, IsRefusedWhereNothingIsSentOrSumsWouldBeRounded) {
  const Rig rig;
  const std::vector<Context> contexts = on_one_device(rig, 2);
  for (const MergeStrategy strategy : {MergeStrategy::kDirect, MergeStrategy::kNative}) {
    EXPECT_ERROR(ErrorCode::kInvalidArgument, StepPlan(contexts, 2, {{"w", {YOKE_TYPE_F32, {4}}}}, {},
                                                       {.merge = strategy, .wire = Wire::kBF16}, nullptr));
  }
  EXPECT_ERROR(ErrorCode::kInvalidArgument, StepPlan(contexts, 2, {{"w", {YOKE_TYPE_F32, {4}}}}, {},
                                                     {.wire = static_cast<Wire>(7)}, nullptr));
  const StepPlan plan(contexts, 2, {{"w", {YOKE_TYPE_F32, {4}}}}, {}, {.wire = Wire::kBF16}, nullptr);
  EXPECT_NE(plan.strategy(), MergeStrategy::kDirect) << "auto picks a strategy that sends";
  EXPECT_EQ(wire_by_name("bf16"), Wire::kBF16);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, (void)wire_by_name("fp8"));
}

}  // namespace
}  // namespace yoke::test
