// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/overlap_test.cpp: a StepPlan that merges on its own streams while gradients are computed.
#include <yoke/runtime/parallel.h>

#include "../../support/rounds.h"
#include "rig.h"

namespace yoke::test {
namespace {

constexpr MergeStrategy kStrategies[] = {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect,
                                         MergeStrategy::kRing};
constexpr Placement kPlacements[] = {Placement::kOwner, Placement::kEverywhere, Placement::kSharded};
constexpr std::uint64_t kSizes[] = {300, 5, 700, 33};  // of the parameters p0 to p3
constexpr std::size_t kParameters = std::size(kSizes);
constexpr std::uint64_t kBucketBytes = 1024;

std::string size_text(std::uint64_t count) {
  return "f32[" + std::to_string(count) + "]";
}

// Whether the gradient of p<i> depends on p0, too.
bool reads_first(std::size_t i) {
  return i != 0 && i + 1 != kParameters;
}

// Computes the gradient of p<i>. The value of the symbol tells the hooks of the tests which part it is.
std::string gradient_text(std::size_t i) {
  const std::string first = reads_first(i) ? "first" : "p";
  return "yoke.program 1\nprogram gradient(symbol part in 0..8) {\n  arg p : " + size_text(kSizes[i]) +
         " in\n" + (reads_first(i) ? "  arg first : " + size_text(kSizes[0]) + " in\n" : "") +
         "  arg x : f32[1] in\n  arg g : " + size_text(kSizes[i]) +
         " out\n  g[k] = sin(p[k] * 3 + x[0] * f32(k) * 0.1) + " + first + "[0] * 0.3\n}\n";
}

// value -= 0.1 * (the sum of the gradients).
StepProgram descent(std::uint64_t count, std::uint32_t terms) {
  std::string arguments = "  arg value : " + size_text(count) + " inout\n";
  std::string sum;
  for (std::uint32_t k = 0; k < terms; ++k) {
    const std::string name = "gradient_" + std::to_string(k);
    arguments += "  arg " + name + " : " + size_text(count) + " in\n";
    sum += (k == 0 ? "" : " + ") + name + "[i]";
  }
  return {"yoke.program 1\nprogram descent() {\n" + arguments + "  value[i] = value[i] - 0.1 * (" + sum +
              ")\n}\n",
          "descent"};
}

class Training {
 public:
  Training(const Rig& rig, std::uint32_t shards, const StepOptions& options) : tables_(shards) {
    std::vector<StepParameter> parameters;
    for (std::size_t i = 0; i < kParameters; ++i) {
      parameters.push_back({"p" + std::to_string(i), {YOKE_TYPE_F32, {kSizes[i]}}});
    }
    for (std::uint32_t k = 0; k < shards; ++k) {
      contexts_.emplace_back(rig.stream("shard " + std::to_string(k)));
      set(contexts_[k], "x", {static_cast<float>(k + 1)});
    }
    plan_ = StepPlan(contexts_, shards, parameters, {}, options, nullptr);
    plan_.allocate();
    plan_.allocate_gradients();
    plan_.link([](const UpdateShape& shape) { return descent(shape.count, shape.terms); }, tables_);
    CodeCache codes;
    for (const Context& context : contexts_) {
      auto& parts = gradients_.emplace_back();
      for (std::size_t i = 0; i < kParameters; ++i) {
        std::map<std::string, std::string> names = {{"p", parameters[i].name},
                                                    {"g", "gradient/" + parameters[i].name}};
        if (reads_first(i)) {
          names["first"] = "p0";
        }
        parts.push_back(context.link(codes.get(rig.device, gradient_text(i)), "gradient", names));
      }
    }
    wait();
  }
  // All shards compute the gradient of one parameter.
  void compute(std::size_t parameter) const {
    const auto number = static_cast<std::int64_t>(parameter);
    for (const auto& parts : gradients_) {
      parts[parameter].run(std::span(&number, 1));
    }
  }
  // Merges each bucket as soon as its gradients are queued. Later parts read p0, so updates are queued at the end.
  void step() {
    std::size_t next = 0;
    for (std::size_t i = 0; i < kParameters; ++i) {
      compute(i);
      while (next < plan_.bucket_count() && plan_.parameters_of(next).back() <= i) {
        plan_.merge_bucket(next++);
      }
    }
    for (std::size_t b = 0; b < plan_.bucket_count(); ++b) {
      plan_.update_bucket(b, tables_);
    }
  }
  std::vector<float> values(std::uint32_t shard) const {
    std::vector<float> all;
    for (std::size_t i = 0; i < kParameters; ++i) {
      const std::vector<float> part = get(contexts_[shard], "p" + std::to_string(i));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  void wait() const {
    for (const Context& context : contexts_) {
      context.stream()->wait();
    }
    for (const auto& stream : plan_.streams()) {
      stream->wait();
    }
  }
  StepPlan& plan() { return plan_; }
  const Context& context(std::uint32_t shard) const { return contexts_[shard]; }
  std::span<const SymbolTable> tables() const { return tables_; }

 private:
  std::vector<Context> contexts_;
  std::vector<SymbolTable> tables_;
  StepPlan plan_;
  std::vector<std::vector<LinkedRoutine>> gradients_;  // per shard and parameter
};

// Delays of up to 200 us by a seed; 0: none.
std::vector<float> trained(std::uint64_t delay_seed, Streams streams, std::uint32_t shards,
                           const StepOptions& options) {
  RuntimeOptions runtime;
  runtime.injected_delay_us = delay_seed != 0 && streams == Streams::kWorker ? 200 : 0;
  runtime.injected_delay_seed = delay_seed;
  const Rig rig(streams, runtime);
  Training training(rig, shards, options);
  EXPECT_EQ(training.plan().streams().size(), options.overlap == Overlap::kOn ? shards : 0U);
  rig.control->delay_seed = delay_seed;
  rig.control->delay_us = delay_seed != 0 && streams == Streams::kNative ? 200 : 0;
  for (int step = 0; step < 3; ++step) {
    training.step();
  }
  training.wait();
  rig.control->delay_us = 0;
  const std::vector<float> owner = training.values(0);
  for (std::uint32_t k = 1; k < shards; ++k) {
    EXPECT_EQ(training.values(k), owner) << "shard " << k;
  }
  return owner;
}

class OverlapTest : public ::testing::TestWithParam<Streams> {};
INSTANTIATE_TEST_SUITE_P(Streams, OverlapTest, ::testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(OverlapTest, GivesTheSameBitsWithRandomDelays) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      for (const std::uint32_t shards : {2U, 3U, 4U, 8U}) {
        if (!kTriesAll && (shards == 2 || shards == 4)) {
          continue;
        }
        StepOptions options = {.merge = strategy, .placement = placement, .bucket_byte_count = kBucketBytes};
        options.overlap = Overlap::kOff;
        const std::vector<float> calm = trained(0, GetParam(), shards, options);
        for (std::uint64_t seed = 1; seed <= delay_seeds(2); ++seed) {
          options.overlap = seed % 4 == 0 ? Overlap::kOff : Overlap::kOn;
          ASSERT_EQ(trained(seed, GetParam(), shards, options), calm)
              << merge_strategy_name(strategy) << ", " << placement_name(placement) << ", " << shards
              << " shards, seed " << seed;
        }
      }
    }
  }
}

// Launches that are held until the test releases them: the last part of the gradients, or merges and updates.
class Held {
 public:
  Held(Streams streams, bool holds_last_part) : control_(Rig::make_control(streams)) {
    control_->on_launch = [this, holds_last_part](std::span<const std::int64_t> symbols) {
      const bool is_last_part = !symbols.empty() && symbols[0] == kParameters - 1;
      if (holds_last_part ? is_last_part : symbols.empty()) {
        EXPECT_TRUE(wait_until([&] { return !is_held_; }, 10s)) << "the launch was not released";
      }
    };
  }
  const std::shared_ptr<Control>& control() const { return control_; }
  // Queues the step until the last part. Updates the first bucket, whose parameters the last part does not read.
  static void queue(Training& training) {
    for (std::size_t i = 0; i + 1 < kParameters; ++i) {
      training.compute(i);
    }
    ASSERT_EQ(training.plan().parameters_of(0), std::vector<std::size_t>{0});
    training.plan().merge_bucket(0);
    training.plan().update_bucket(0, training.tables());
    training.compute(kParameters - 1);
  }
  void release(const Training& training) {
    is_held_ = false;
    training.wait();
  }

 private:
  std::shared_ptr<Control> control_;
  std::atomic<bool> is_held_ = true;
};

TEST_P(OverlapTest, ABucketIsMergedAndUpdatedWhileALaterPartRuns) {
  for (const MergeStrategy strategy : kStrategies) {
    Held held(GetParam(), true);
    const Rig rig(held.control());
    Training training(rig, 2,
                      {.merge = strategy, .bucket_byte_count = kBucketBytes, .overlap = Overlap::kOn});
    held.queue(training);
    const BufferView p0 = training.context(1).tensor("p0").view;
    EXPECT_NE(read<float>(*rig.stream(), part<float>(p0, 0, 64)), std::vector<float>(64, 0))
        << merge_strategy_name(strategy);
    EXPECT_FALSE(training.context(0).stream()->is_idle()) << "the last part is held";
    held.release(training);
  }
}

TEST_P(OverlapTest, ALaterPartRunsWhileABucketIsMerged) {
  for (const MergeStrategy strategy : kStrategies) {
    Held held(GetParam(), false);
    const Rig rig(held.control());
    Training training(rig, 2,
                      {.merge = strategy, .bucket_byte_count = kBucketBytes, .overlap = Overlap::kOn});
    held.queue(training);
    training.context(0).stream()->wait(5s);
    training.context(1).stream()->wait(5s);
    EXPECT_FALSE(training.plan().streams()[0]->is_idle()) << merge_strategy_name(strategy);
    held.release(training);
  }
}

TEST_P(OverlapTest, AFailedMergeReachesTheShardsWithItsStep) {
  const auto control = Rig::make_control(GetParam());
  const Rig rig(control);
  Training training(rig, 2, {.merge = MergeStrategy::kOwner, .overlap = Overlap::kOn});
  for (std::uint32_t k = 0; k < 2; ++k) {
    training.context(k).stream()->begin_step(5);
    training.plan().streams()[k]->begin_step(5);
  }
  training.compute(0);
  training.wait();
  control->fail_after = 0;
  EXPECT_THAT(error_of([&] {
                training.plan().step(training.tables());  // throws if the failure is known already
                training.values(1);
              }),
              is_error(ErrorCode::kInternal, "'shard ", ", step 5", "injected"));
  EXPECT_THAT(error_of([&] { training.plan().streams()[0]->wait(); }),
              is_error(ErrorCode::kInternal, "'shard 0/merge', step 5", "injected"));
}

TEST_P(OverlapTest, IsOffByDefaultOnCpusAndForOneShard) {
  const auto overlaps = [&](std::int32_t kind, std::uint32_t shards, Overlap overlap) {
    const auto control = Rig::make_control(GetParam());
    control->device_info.kind = kind;
    const Rig rig(control);
    std::vector<Context> contexts;
    for (std::uint32_t k = 0; k < shards; ++k) {
      contexts.emplace_back(rig.stream());
    }
    return StepPlan(contexts, shards, {{"w", {YOKE_TYPE_F32, {4}}}}, {}, {.overlap = overlap}, nullptr)
        .overlaps();
  };
  EXPECT_FALSE(overlaps(YOKE_DEVICE_CPU, 2, Overlap::kAuto));
  EXPECT_TRUE(overlaps(YOKE_DEVICE_CPU, 2, Overlap::kOn));
  EXPECT_TRUE(overlaps(YOKE_DEVICE_GPU, 2, Overlap::kAuto));
  EXPECT_FALSE(overlaps(YOKE_DEVICE_GPU, 2, Overlap::kOff));
  EXPECT_FALSE(overlaps(YOKE_DEVICE_GPU, 1, Overlap::kOn));
}

std::vector<std::int32_t>* created_priorities = nullptr;

TEST(OverlapStreams, HaveAHigherPriority) {
  std::vector<std::int32_t> priorities;
  created_priorities = &priorities;
  const auto control = Rig::make_control(Streams::kNative);
  control->stream.stream_create = [](yoke_device* device, const yoke_stream_args* args, yoke_stream** out,
                                     yoke_error* error) noexcept {
    created_priorities->push_back(args->priority);
    return sdk::detail::kStreamTable.stream_create(device, args, out, error);
  };
  const Rig rig(control);
  const Training training(rig, 2, {.overlap = Overlap::kOn});
  EXPECT_EQ(priorities, (std::vector<std::int32_t>{0, 0, 1, 1}));
}

TEST(OverlapNames, AreKnown) {
  for (const Overlap overlap : {Overlap::kAuto, Overlap::kOn, Overlap::kOff}) {
    EXPECT_EQ(overlap_by_name(overlap_name(overlap)), overlap);
  }
  EXPECT_THAT(error_of([] { overlap_by_name("maybe"); }),
              is_error(ErrorCode::kInvalidArgument, "unknown overlap 'maybe'; use auto, on or off"));
}

}  // namespace
}  // namespace yoke::test
