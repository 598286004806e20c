// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/step_plan_test.cpp: trains with hand-written programs and a StepPlan alone.
#include <map>

#include "training.h"

namespace yoke::test {
namespace {

void expect_training(const Rig& rig, std::uint32_t shards, const StepOptions& options) {
  Training training(rig, shards, 300, options);
  for (int step = 1; step <= 3; ++step) {
    training.compute();
    if (step == 2) {
      training.plan().merge();
      training.plan().update(training.tables());
    } else {
      training.plan().step(training.tables());
    }
    for (std::uint32_t k = 0; k < shards; ++k) {
      ASSERT_EQ(training.weights(k), std::vector<float>(300, expected(shards, step)))
          << "step " << step << ", shard " << k << ", " << merge_strategy_name(options.merge) << ", "
          << placement_name(options.placement);
    }
  }
}

class StepPlanTest : public ::testing::TestWithParam<Streams> {};
INSTANTIATE_TEST_SUITE_P(Streams, StepPlanTest, ::testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(StepPlanTest, HandWrittenProgramsTrain) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      for (const std::uint32_t shards : {1U, 2U, 4U}) {
        const Rig rig(GetParam());
        expect_training(rig, shards, {.merge = strategy, .placement = placement, .bucket_byte_count = 512});
      }
    }
  }
}

// A step leaves the parameters and states before it on all shards, whole, also if they update parts.
TEST_P(StepPlanTest, KeepsTheLastStep) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      for (const std::uint32_t shards : {1U, 3U}) {
        SCOPED_TRACE(std::to_string(shards) + " shards, " + merge_strategy_name(strategy) + ", " +
                     placement_name(placement));
        const StepOptions options{
            .merge = strategy, .placement = placement, .bucket_byte_count = 512, .keep_last_step = true};
        const Rig rig(GetParam());
        expect_training(rig, shards, options);
        Training training(rig, shards, 300, options);
        std::vector<float> momentum(300, 0);
        for (int step = 1; step <= 3; ++step) {
          const std::uint32_t before = training.plan().set();
          training.compute();
          training.plan().step(training.tables());
          ASSERT_NE(training.plan().set(), before);
          for (std::uint32_t k = 0; k < shards; ++k) {
            ASSERT_EQ(training.values(k, "w", before), std::vector<float>(300, expected(shards, step - 1)));
            ASSERT_EQ(training.values(k, "momentum/w", before), momentum) << "step " << step;
          }
          momentum = training.values(0, "momentum/w", training.plan().set());
          ASSERT_NE(momentum[0], 0);
        }
      }
    }
  }
}

TEST(StepPlanChoice, KeptStepsNeedCopiesOnlyBetweenDevices) {
  const auto control = Rig::make_control(Streams::kWorker);
  control->device_count = 2;
  const Rig rig(control);
  const auto other = rig.backend->open_device(1);
  for (const bool is_one : {true, false}) {
    std::vector<Context> contexts;
    contexts.emplace_back(rig.stream());
    contexts.emplace_back(is_one ? rig.stream() : Stream::create(other));
    const StepPlan plan(contexts, 2, {{"w", {YOKE_TYPE_F32, {1000}}}}, {},
                        {.merge = MergeStrategy::kDirect, .keep_last_step = true}, nullptr);
    EXPECT_EQ(plan.placement(), is_one ? Placement::kSharded : Placement::kEverywhere);
    EXPECT_EQ(plan.shares_parameters(), is_one);
  }
}

TEST(StepPlanRing, SendsSmallTensorsInFewPieces) {
  std::map<std::uint32_t, std::uint64_t> calls;
  for (const std::uint32_t shards : {5U, 20U}) {
    for (const Placement placement : kPlacements) {
      const Rig rig(Streams::kNative);
      Training training(rig, shards, 4096, {.merge = MergeStrategy::kRing, .placement = placement});
      training.compute();
      const std::uint64_t before = rig.control->call_count;
      training.plan().step(training.tables());
      for (std::uint32_t k = 0; k < shards; ++k) {
        ASSERT_EQ(training.weights(k), std::vector<float>(4096, expected(shards, 1)))
            << "shard " << k << " of " << shards << ", " << placement_name(placement);
      }
      calls[shards] += rig.control->call_count - before;
    }
  }
  EXPECT_LT(calls[20], 5 * calls[5]) << "linear in the number of shards";
}

TEST(StepPlanMemory, StateIsDividedAmongTheShards) {
  const Rig rig;
  constexpr std::uint64_t kBytes = 4096 * sizeof(float);
  for (const MergeStrategy strategy : kStrategies) {
    const Training owner(rig, 4, 4096, {.merge = strategy, .placement = Placement::kOwner});
    for (const Placement placement : kPlacements) {
      Training training(rig, 4, 4096, {.merge = strategy, .placement = placement});
      std::uint64_t all = 0;
      for (std::uint32_t k = 0; k < 4; ++k) {
        const std::uint64_t state = training.plan().memory(k).state;
        all += state;
        if (placement == Placement::kSharded && !training.plan().shares_parameters()) {
          EXPECT_EQ(state, kBytes / 4) << merge_strategy_name(strategy);
        }
      }
      EXPECT_EQ(all, placement == Placement::kEverywhere ? 4 * kBytes : kBytes);
    }
  }
}

void expect_planned_memory(const StepOptions& options) {
  const Rig rig;
  const std::uint64_t before = rig.device->memory().used_bytes;
  Training training(rig, 3, 5000, options);
  std::uint64_t planned = 3 * 2 * sizeof(float);  // x and y
  for (std::uint32_t k = 0; k < 3; ++k) {
    const StepMemory memory = training.plan().memory(k);
    planned += memory.parameters + memory.gradients + memory.state + memory.merge_buffer + memory.number;
  }
  EXPECT_EQ(rig.device->memory().used_bytes - before, planned)
      << merge_strategy_name(options.merge) << ", " << placement_name(options.placement);
}

TEST(StepPlanMemory, IsWhatThePlanAllocates) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      for (const MergeUse use : {MergeUse::kCopy, MergeUse::kStreaming}) {
        for (const bool keeps : {false, true}) {
          expect_planned_memory({.merge = strategy,
                                 .placement = placement,
                                 .merge_use = use,
                                 .bucket_byte_count = 4096,
                                 .keep_last_step = keeps,
                                 .has_number = keeps,
                                 .number_count = keeps && use == MergeUse::kCopy ? 3U : 1U});
        }
      }
    }
  }
}

// The gradient of each weight is the sum of 2 * (w - (k + 1)) over the shards k.
TEST(StepPlanNumber, IsOneSumOfAllMergedGradientsOnEveryShardThatUpdates) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      for (const std::uint64_t bytes : {256U, 1U << 20U}) {
        const Rig rig;
        Training training(
            rig, 3, 5000,
            {.merge = strategy, .placement = placement, .bucket_byte_count = bytes, .has_number = true});
        for (const bool in_parts : {false, true}) {
          const double gradient = 6 * static_cast<double>(training.weights(0)[0]) - 12;
          const double before = 7;
          for (const Context& context : training.contexts()) {
            context.from_host(StepPlan::kNumber, std::as_bytes(std::span(&before, 1)));
            context.stream()->wait();
          }
          training.compute();
          if (in_parts) {
            training.plan().merge();
            training.plan().update(training.tables());
          } else {
            training.plan().step(training.tables());
          }
          for (std::uint32_t k = 0; k < 3; ++k) {
            const Context& context = training.contexts()[k];
            const bool updates = k == 0 || placement != Placement::kOwner;
            EXPECT_EQ(read<double>(*context.stream(), context.tensor("step/number").view),
                      std::vector<double>{updates ? 5000 * gradient : before})
                << merge_strategy_name(strategy) << ", " << placement_name(placement) << ", shard " << k;
          }
        }
      }
    }
  }
}

TEST(StepPlanNumber, VectorIsOnAllShardsAndKeepsItsValues) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      const Rig rig;
      Training training(rig, 3, 5000,
                        {.merge = strategy, .placement = placement, .has_number = true, .number_count = 2});
      const std::vector<double> first = {0, 7};
      for (const Context& context : training.contexts()) {
        context.from_host(StepPlan::kNumber, std::as_bytes(std::span(first)));
        context.stream()->wait();
      }
      double total = 0;
      for (int step = 0; step < 2; ++step) {
        total += 5000 * (6 * static_cast<double>(training.weights(0)[0]) - 12);
        training.compute();
        training.plan().step(training.tables());
      }
      for (const Context& context : training.contexts()) {
        EXPECT_EQ(read<double>(*context.stream(), context.tensor(StepPlan::kNumber).view),
                  (std::vector<double>{total, total + 7}))
            << merge_strategy_name(strategy) << ", " << placement_name(placement);
      }
    }
  }
}

TEST(StepPlanNumber, RunningStateIsNotMeasured) {
  const Rig rig;
  const std::vector<Context> contexts = {Context(rig.stream()), Context(rig.stream())};
  const StepPlan plan(contexts, 2, {{"w", {YOKE_TYPE_F32, {128}}}, {"mean", {YOKE_TYPE_F32, {64}}, true}}, {},
                      {.merge = MergeStrategy::kOwner, .placement = Placement::kOwner, .has_number = true},
                      nullptr);
  std::vector<std::uint64_t> counts;
  plan.each_measure([&](const UpdateShape& shape) { counts.push_back(shape.count); });
  EXPECT_EQ(counts, std::vector<std::uint64_t>{128});
}

TEST(StepPlanNumber, VectorOfASingleShardNeedsNoGradients) {
  const Rig rig;
  const std::vector<Context> contexts(1, Context(rig.stream()));
  StepPlan plan(contexts, 1, {{"w", {YOKE_TYPE_F32, {64}}}}, {}, {.has_number = true, .number_count = 2},
                nullptr);
  plan.allocate();
  EXPECT_TRUE(contexts[0].has(StepPlan::kNumber));
}

TEST(StepPlanRows, ShardsWithoutRowsAddNothing) {
  for (const MergeStrategy strategy : kStrategies) {
    const Rig rig;
    Training training(rig, 4, 10, {.merge = strategy});
    training.compute();
    training.plan().clear_gradients(2);  // as if only shards 0 and 1 had rows
    training.plan().step(training.tables());
    EXPECT_EQ(training.weights(3), std::vector<float>(10, expected(2, 1))) << merge_strategy_name(strategy);
  }
}

template <class T>
void expect_all(const Context& context, const std::string& name, std::size_t count, T value,
                const std::string& where) {
  EXPECT_EQ(read<T>(*context.stream(), context.tensor(name).view), std::vector<T>(count, value))
      << name << ", " << where;
}

// Shard k's gradients are k + 1 in f32 and 10 * (k + 1) in f64; the third shard never has any.
void expect_types_apart(const StepOptions& options) {
  const Rig rig;
  std::vector<Context> contexts;
  std::vector<SymbolTable> tables(3);
  for (std::size_t k = 0; k < 3; ++k) {
    contexts.emplace_back(rig.stream());
  }
  StepPlan plan(contexts, 2,
                {{"a", {YOKE_TYPE_F32, {170}}}, {"b", {YOKE_TYPE_F64, {33}}}, {"c", {YOKE_TYPE_F32, {2}}}},
                {}, options, nullptr);
  plan.allocate();
  plan.allocate_gradients();
  plan.link(
      [](const UpdateShape& shape) {
        StepProgram program = sgd(shape.count, shape.terms);
        std::string& text = program.text;
        for (const char* line : {"  arg momentum", "  momentum["}) {
          const std::size_t at = text.find(line);
          text.erase(at, text.find('\n', at) + 1 - at);
        }
        const std::size_t at = text.find("momentum[i]");
        text.replace(at, 11, shape.terms == 1 ? "gradient_0[i]" : "(gradient_0[i] + gradient_1[i])");
        for (std::size_t f = 0;
             shape.type == YOKE_TYPE_F64 && (f = text.find("f32", f)) != std::string::npos;) {
          text.replace(f, 3, "f64");
        }
        return program;
      },
      tables);
  const std::string where =
      std::string(merge_strategy_name(options.merge)) + ", " + placement_name(options.placement);
  for (std::size_t k = 0; k < 2; ++k) {
    fill<float>(*contexts[k].stream(), contexts[k].tensor("gradient/a").view, static_cast<float>(k + 1));
    fill<double>(*contexts[k].stream(), contexts[k].tensor("gradient/b").view,
                 10.0 * static_cast<double>(k + 1));
    fill<float>(*contexts[k].stream(), contexts[k].tensor("gradient/c").view, static_cast<float>(k + 1));
  }
  plan.merge();
  expect_all<float>(contexts[0], "gradient/a", 170, 3, where);
  expect_all<double>(contexts[0], "gradient/b", 33, 30, where);
  expect_all<float>(contexts[0], "gradient/c", 2, 3, where);
  plan.update(tables);
  for (const Context& context : contexts) {
    expect_all<float>(context, "a", 170, -3 * kRate, where);
    expect_all<double>(context, "b", 33, -30.0 * kRate, where);
    expect_all<float>(context, "c", 2, -3 * kRate, where);
  }
}

TEST(StepPlanTypes, AreMergedAndUpdatedApart) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      for (const MergeUse use : {MergeUse::kCopy, MergeUse::kStreaming}) {
        expect_types_apart(
            {.merge = strategy, .placement = placement, .merge_use = use, .bucket_byte_count = 512});
      }
    }
  }
}

TEST(StepPlanMisuse, IsRefused) {
  const Rig rig;
  const std::vector<Context> contexts(1, Context(rig.stream()));
  const auto plan = [&](std::int32_t type, const std::string& state, MergeUse use = MergeUse::kStreaming) {
    return StepPlan(contexts, 1, {{"w", {type, {4}}}}, {state}, {.merge_use = use}, nullptr);
  };
  EXPECT_ERROR(ErrorCode::kInvalidArgument, plan(0, "momentum"));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, plan(YOKE_TYPE_F32, "gradients"));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, plan(YOKE_TYPE_F32, "parameters"));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, plan(YOKE_TYPE_F32, "momentum", MergeUse::kNone));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, plan(YOKE_TYPE_F32, "momentum", static_cast<MergeUse>(77)));
  EXPECT_ERROR(ErrorCode::kOutOfRange, plan(YOKE_TYPE_F32, "momentum").memory(1));
}

TEST(StepPlanMisuse, BarrierWithoutAStreamIsRefused) {
  const Rig rig;
  LinkedCollective barrier;
  EXPECT_ERROR(ErrorCode::kInvalidArgument, barrier.add_barrier({rig.stream(), nullptr}));
}

TEST(StepPlanMisuse, NumbersThatAreNoEnumeratorsAreRefused) {
  const Rig rig;
  for (const std::size_t shards : {1U, 2U}) {
    std::vector<Context> contexts;
    for (std::size_t k = 0; k < shards; ++k) {
      contexts.emplace_back(rig.stream());
    }
    const auto plan = [&](const StepOptions& options) {
      return StepPlan(contexts, 1, {{"w", {YOKE_TYPE_F32, {4}}}}, {}, options, nullptr);
    };
    EXPECT_ERROR(ErrorCode::kInvalidArgument, plan({.merge = static_cast<MergeStrategy>(77)}));
    EXPECT_ERROR(ErrorCode::kInvalidArgument, plan({.placement = static_cast<Placement>(77)}));
    EXPECT_ERROR(ErrorCode::kInvalidArgument, plan({.overlap = static_cast<Overlap>(77)}));
    EXPECT_ERROR(ErrorCode::kInvalidArgument, Collectives::create(static_cast<MergeStrategy>(77), contexts));
  }
}

TEST(StepPlanMisuse, SymbolIsAddedOnce) {
  SymbolTable table;
  table.add("n", 1);
  EXPECT_ERROR(ErrorCode::kAlreadyExists, table.add("n", 2));
  EXPECT_EQ(table.size(), 1U);
}

TEST(StepPlanMisuse, UpdateWithoutMergeIsRefused) {
  for (const MergeStrategy strategy : kStrategies) {
    const Rig rig;
    Training training(rig, 2, 10, {.merge = strategy});
    training.compute();
    EXPECT_ERROR(ErrorCode::kFailedPrecondition, training.plan().update(training.tables()));
    training.plan().merge();
    training.plan().update(training.tables());
    EXPECT_ERROR(ErrorCode::kFailedPrecondition, training.plan().update(training.tables()));
    EXPECT_EQ(training.weights(1), std::vector<float>(10, expected(2, 1))) << merge_strategy_name(strategy);
  }
}

TEST(StepRoutineMisuse, TableWithFewerSymbolsIsRefused) {
  const Rig rig;
  Context context(rig.stream());
  context.allocate("x", {YOKE_TYPE_F32, {1}});
  const auto code = compile(rig.device,
                            "yoke.program 1\nprogram set(symbol n in 0..8) {\n  arg x : f32[1] out\n"
                            "  x[i] = f32(n)\n}\n");
  SymbolTable table;
  table.add("n", 3);
  StepRoutine routine(context.link(code, "set"), table);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, routine.run(SymbolTable()));
  routine.run(table);
  EXPECT_EQ(read<float>(*context.stream(), context.tensor("x").view), std::vector<float>{3});
}

}  // namespace
}  // namespace yoke::test
