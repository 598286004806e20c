// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/plan_needs_test.cpp: what a StepPlan states before it does it: its placement, the memory of each
// shard, the programs that it links, and where states are.
#include <algorithm>
#include <set>

#include "training.h"

namespace yoke::test {
namespace {

const std::vector<StepParameter> kMixed = {{"w", {YOKE_TYPE_F32, {5000}}},
                                           {"mean", {YOKE_TYPE_F32, {70}}, true},
                                           {"d", {YOKE_TYPE_F64, {300}}},
                                           {"v", {YOKE_TYPE_F32, {40}}},
                                           {"late", {YOKE_TYPE_F32, {90}}, false, 1}};

std::string where(const StepOptions& options) {
  return std::string(merge_strategy_name(options.merge)) + ", " + placement_name(options.placement) + ", " +
         wire_name(options.wire) + (options.keep_last_step ? ", keeps the last step" : "");
}

// Subtracts the sum of the gradients. With `keeps`, it writes the new values to other tensors, with the states.
StepProgram descent(const UpdateShape& shape, bool keeps, const std::vector<std::string>& states) {
  const std::string n = (shape.type == YOKE_TYPE_F64 ? "f64[" : "f32[") + std::to_string(shape.count) + "]";
  std::string text =
      "yoke.program 1\nprogram descent() {\n  arg value : " + n + (keeps ? " in\n" : " inout\n");
  std::string body = keeps ? "  next_value[i] = value[i]" : "  value[i] = value[i]";
  for (std::uint32_t k = 0; k < shape.terms; ++k) {
    text += "  arg gradient_" + std::to_string(k) + " : " + n + " in\n";
    body += " - gradient_" + std::to_string(k) + "[i]";
  }
  text += keeps ? "  arg next_value : " + n + " out\n" : "";
  for (const std::string& state : states) {
    text += "  arg " + state + " : " + n +
            (keeps ? " in\n  arg next_" + state + " : " + n + " out\n" : " inout\n");
    body += keeps ? "\n  next_" + state + "[i] = " + state + "[i] + 1"
                  : "\n  " + state + "[i] = " + state + "[i] + 1";
  }
  return {text + body + "\n}\n", "descent"};
}

// Sums up each piece of 256 bytes, and then all pieces of the arenas `w` and `d`.
StepNumber sum_of_gradients(const std::vector<Arena>& arenas) {
  StepNumber number;
  number.measure = [](const UpdateShape& shape) {
    const bool is_f64 = shape.type == YOKE_TYPE_F64;
    const std::string piece = is_f64 ? "32" : "64";
    std::string arguments;
    std::string sum;
    for (std::uint32_t k = 0; k < shape.terms; ++k) {
      const std::string name = "gradient_" + std::to_string(k);
      arguments +=
          "  arg " + name + (is_f64 ? " : f64[" : " : f32[") + std::to_string(shape.count) + "] in\n";
      sum += (k == 0 ? "" : " + ") + name + "[" + piece + "*i + j]";
    }
    return StepProgram{"yoke.program 1\nprogram measure() {\n" + arguments + "  arg pieces : f64[" +
                           std::to_string(shape.count / (is_f64 ? 32 : 64)) +
                           "] out\n  pieces[i] = sum[j:" + piece + "] f64(" + sum + ")\n}\n",
                       "measure"};
  };
  number.combine = [arenas] {
    std::string arguments;
    std::string sum;
    for (std::size_t a = 0; a < arenas.size(); ++a) {
      if (!arenas[a].is_running_state) {
        const std::string count = std::to_string(arenas[a].spec().byte_count() / YOKE_BUFFER_ALIGNMENT);
        const std::string name = "pieces_" + std::to_string(a);
        arguments +=
            "  arg " + name + " : f64[" + count + "] in\n  temp sum_" + std::to_string(a) + " : f64[]\n";
        sum += "  sum_" + std::to_string(a) + "[] = sum[i:" + count + "] " + name + "[i]\n";
      }
    }
    return StepProgram{"yoke.program 1\nprogram combine() {\n" + arguments + "  arg number : f64[] out\n" +
                           sum + "  number[] = sum_0[] + sum_2[]\n}\n",
                       "combine"};
  };
  return number;
}

// Shards on a device each, so that their memory can be told apart.
struct Shards {
  explicit Shards(std::uint32_t count, bool has_peers = true) {
    const auto control = Rig::make_control(Streams::kWorker);
    control->device_count = count;
    control->has_peers = has_peers;
    rig.emplace(control);
    for (std::uint32_t k = 0; k < count; ++k) {
      contexts.emplace_back(Stream::create(k == 0 ? rig->device : rig->backend->open_device(k)));
    }
  }
  std::uint64_t used(std::uint32_t k) const { return contexts[k].stream()->device()->memory().used_bytes; }
  void wait() const {
    for (const Context& context : contexts) {
      context.stream()->wait();
    }
  }
  std::optional<Rig> rig;
  std::vector<Context> contexts;
};

void link(StepPlan& plan, std::size_t shards, const StepOptions& options,
          const std::vector<std::string>& states = {"momentum"}) {
  const std::vector<SymbolTable> tables(shards);
  plan.allocate();
  plan.allocate_gradients();
  plan.link([&](const UpdateShape& shape) { return descent(shape, options.keep_last_step, states); }, tables,
            options.has_number ? sum_of_gradients(plan.arenas()) : StepNumber());
}

// All strategies and placements that work for shards whose memory is shared or not.
std::vector<StepOptions> all_options(bool has_peers) {
  std::vector<StepOptions> all;
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      for (const Wire wire : {Wire::kFull, Wire::kBF16}) {
        if (strategy != MergeStrategy::kDirect || (has_peers && wire == Wire::kFull)) {
          all.push_back({.merge = strategy, .placement = placement, .bucket_byte_count = 4096, .wire = wire});
        }
      }
    }
  }
  return all;
}

void expect_memory_of_each_shard(std::uint32_t merging, bool has_peers, const StepOptions& options) {
  const Shards shards(4, has_peers);
  StepPlan plan(shards.contexts, merging, kMixed, {"momentum"}, options, nullptr);
  link(plan, 4, options);
  for (std::uint32_t k = 0; k < 4; ++k) {
    const StepMemory memory = plan.memory(k);
    EXPECT_EQ(shards.used(k), memory.parameters + memory.gradients + memory.state + memory.merge_buffer +
                                  memory.wire + memory.number)
        << "shard " << k << ", " << merging << " of 4 merge, " << where(options);
    EXPECT_EQ(memory.gradients != 0, k < merging);
  }
  shards.wait();
}

TEST(StepPlanNeeds, MemoryIsThatOfEachShardAlsoWhereFewMerge) {
  for (const bool has_peers : {true, false}) {
    for (StepOptions options : all_options(has_peers)) {
      for (const std::uint32_t merging : {1U, 3U, 4U}) {
        for (const MergeUse use : {MergeUse::kCopy, MergeUse::kStreaming}) {
          options.merge_use = use;
          options.has_number = use == MergeUse::kCopy;
          options.keep_last_step = merging == 3 && use == MergeUse::kStreaming;
          expect_memory_of_each_shard(merging, has_peers, options);
        }
      }
    }
  }
}

// A ring of 5 sends 31 KiB at once, but 32 KiB in two pieces. The merge buffer is made for the larger piece at once.
TEST(StepPlanNeeds, MergeBufferIsAsLargeAsTheLargestPieceThatIsSent) {
  const Shards shards(5);
  const StepOptions options{
      .merge = MergeStrategy::kRing, .placement = Placement::kOwner, .merge_use = MergeUse::kCopy};
  StepPlan plan(shards.contexts, 5,
                {{"large", {YOKE_TYPE_F32, {8192}}}, {"small", {YOKE_TYPE_F64, {31 * 128}}}}, {}, options,
                nullptr);
  link(plan, 5, options, {});
  for (std::uint32_t k = 0; k < 5; ++k) {
    const StepMemory memory = plan.memory(k);
    EXPECT_EQ(memory.merge_buffer, 31U << 10U);
    EXPECT_EQ(shards.used(k), memory.parameters + memory.gradients + memory.merge_buffer) << "shard " << k;
  }
  shards.wait();
}

// Pieces of a part that begins at a multiple of 256 bytes of them are written in place.
TEST(StepPlanNeeds, NumberNeedsOnePieceOf8BytesFor256OfGradients) {
  const Shards shards(2);
  const StepPlan plan(shards.contexts, 2, {{"w", {YOKE_TYPE_F32, {5000}}}}, {},
                      {.merge = MergeStrategy::kOwner, .placement = Placement::kOwner, .has_number = true},
                      nullptr);
  EXPECT_EQ(plan.memory(0).number, (1 + 79) * sizeof(double));
  EXPECT_EQ(plan.memory(1).number, sizeof(double));
  const StepPlan halves(shards.contexts, 2, {{"w", {YOKE_TYPE_F32, {5000}}}}, {},
                        {.merge = MergeStrategy::kRing, .placement = Placement::kSharded, .has_number = true},
                        nullptr);
  EXPECT_EQ(halves.memory(0).number, (1 + 79) * sizeof(double));
  EXPECT_EQ(halves.memory(1).number, (1 + 40) * sizeof(double));
}

// The texts that the device compiles during `work`.
template <class Work>
std::set<std::string> compiled(const Rig& rig, const Work& work) {
  std::set<std::string> texts;
  rig.control->on_compile = [&](std::string_view text) { texts.emplace(text); };
  work();
  rig.control->on_compile = {};
  return texts;
}

void expect_stated_programs(std::uint32_t shards, std::uint32_t merging, const StepOptions& options) {
  const Rig rig;
  std::vector<Context> contexts;
  for (std::uint32_t k = 0; k < shards; ++k) {
    contexts.emplace_back(rig.stream());
  }
  StepPlan plan(contexts, merging, kMixed, {}, options, nullptr);
  std::uint64_t routines = 0;
  const auto stated = compiled(rig, [&] {
    CodeCache codes;
    const auto add = [&](const StepProgram& program) {
      (void)codes.get(rig.device, program.text)->entry(program.entry);
      routines += 1;
    };
    plan.each_merge([&](std::uint32_t shard, const StepProgram& program) {
      EXPECT_LT(shard, shards);
      add(program);
    });
    plan.each_update([&](const UpdateShape& shape) { add(descent(shape, false, {})); });
    const StepNumber number = sum_of_gradients(plan.arenas());
    plan.each_measure([&](const UpdateShape& shape) { add(number.measure(shape)); });
    if (options.has_number) {
      add(number.combine());
    }
  });
  const std::uint64_t before = rig.control->link_count;
  const auto needed = compiled(rig, [&] { link(plan, shards, options, {}); });
  EXPECT_EQ(stated, needed) << merging << " of " << shards << " merge, " << where(options);
  if (options.merge !=
      MergeStrategy::kRing) {  // which also links each member's largest piece, for its memory
    EXPECT_EQ(routines, rig.control->link_count - before)
        << merging << " of " << shards << " merge, " << where(options);
  }
}

TEST(StepPlanNeeds, ProgramsAreThoseThatLinkCompiles) {
  for (StepOptions options : all_options(true)) {
    for (const bool has_number : {false, true}) {
      options.has_number = has_number;
      expect_stated_programs(3, 3, options);
      expect_stated_programs(3, 1, options);
    }
    expect_stated_programs(5, 5, options);
    expect_stated_programs(18, 18, options);
  }
}

// The pieces of a state: their shards, and that they are all of its bytes once per shard that has it whole.
void expect_pieces(std::uint32_t merging, const StepOptions& options) {
  const Shards shards(3);
  StepPlan plan(shards.contexts, merging, kMixed, {"momentum", "rate"}, options, nullptr);
  plan.allocate();
  for (const StepParameter& parameter : {kMixed[0], kMixed[2], kMixed[3]}) {
    std::set<std::uint32_t> owners;
    std::uint64_t end = 0;
    for (const StatePiece& piece : plan.state_pieces(parameter.name, "rate")) {
      if (end == parameter.spec.byte_count()) {  // the next shard's
        end = 0;
      }
      EXPECT_EQ(piece.offset, end) << parameter.name << ", " << where(options);
      end = piece.offset + piece.view.byte_count;
      owners.insert(piece.shard);
      EXPECT_EQ(read<std::uint8_t>(*shards.contexts[piece.shard].stream(), piece.view),
                std::vector<std::uint8_t>(piece.view.byte_count, 0));
    }
    EXPECT_EQ(end, parameter.spec.byte_count()) << parameter.name << ", " << where(options);
    const bool is_large = parameter.name == "w";
    const std::set<std::uint32_t> all =
        merging == 3 ? std::set<std::uint32_t>{0, 1, 2} : std::set<std::uint32_t>{0, 1};
    if (options.placement == Placement::kEverywhere ||
        (options.placement == Placement::kSharded && is_large)) {
      EXPECT_EQ(owners, plan.shares_parameters() ? std::set<std::uint32_t>{0} : all) << where(options);
    } else if (options.placement == Placement::kOwner) {
      EXPECT_EQ(owners, std::set<std::uint32_t>{0}) << where(options);
    }
  }
  EXPECT_ERROR(ErrorCode::kNotFound, (void)plan.state_pieces("w", "other"));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)plan.state_pieces("other", "rate"));
}

TEST(StepPlanNeeds, StatesAreInPiecesThatCoverThemOnce) {
  for (const StepOptions& options : all_options(true)) {
    expect_pieces(3, options);
    expect_pieces(2, options);
  }
}

TEST(StepPlanNeeds, PlacementDependsOnTheGivenStrategy) {
  const Shards shards(2);
  const auto placement = [&](StepOptions options) {
    return StepPlan(shards.contexts, 2, {{"w", {YOKE_TYPE_F32, {64}}}}, {}, options, nullptr).placement();
  };
  EXPECT_EQ(placement({.merge = MergeStrategy::kOwner}), Placement::kOwner);
  EXPECT_EQ(placement({.merge = MergeStrategy::kTree}), Placement::kOwner);
  EXPECT_EQ(placement({.merge = MergeStrategy::kDirect}), Placement::kSharded);
  EXPECT_EQ(placement({.merge = MergeStrategy::kRing}), Placement::kSharded);
  EXPECT_EQ(placement({.merge = MergeStrategy::kRing, .whole_parameters = true}), Placement::kOwner);
  EXPECT_EQ(placement({.merge = MergeStrategy::kRing, .keep_last_step = true}), Placement::kEverywhere);
  for (const MergeStrategy strategy : {MergeStrategy::kAuto, MergeStrategy::kTree, MergeStrategy::kRing}) {
    for (const bool keeps : {false, true}) {
      EXPECT_EQ(placement({.merge = strategy,
                           .placement = Placement::kEverywhere,
                           .keep_last_step = keeps,
                           .whole_parameters = true}),
                Placement::kEverywhere);
      EXPECT_EQ(placement({.merge = strategy, .placement = Placement::kOwner, .keep_last_step = keeps}),
                Placement::kOwner);
    }
  }
}

// Its backend needs no collectives.
TEST(StepPlanNeeds, GroupOfOneProcessWithOneShardNeedsNoBackendForIt) {
  const Shards shards(1);
  const StepOptions options{.processes = {0, 1, std::vector<std::byte>(YOKE_GROUP_ID_BYTES)}};
  StepPlan plan(shards.contexts, 1, kMixed, {"momentum"}, options, nullptr);
  link(plan, 1, options);
  EXPECT_EQ(plan.strategy(), MergeStrategy::kOwner);
  shards.wait();
}

TEST(StepPlanNeeds, SharedParametersArePublishedWithoutACopy) {
  const Rig rig;
  Training training(rig, 3, 300, {.merge = MergeStrategy::kDirect, .placement = Placement::kSharded});
  for (const Context& context : training.contexts()) {
    context.stream()->wait();
  }
  ASSERT_TRUE(training.plan().shares_parameters());
  const std::uint64_t before = rig.control->call_count;
  training.plan().publish();
  for (const Context& context : training.contexts()) {
    context.stream()->wait();
  }
  EXPECT_EQ(rig.control->call_count, before);
}

TEST(StepPlanNeeds, NextValuesAreArgumentsOnlyOfUpdatesThatKeepTheLastStep) {
  const Shards shards(2);
  StepPlan plan(shards.contexts, 2, {{"w", {YOKE_TYPE_F32, {64}}}}, {}, {.merge = MergeStrategy::kOwner},
                nullptr);
  EXPECT_THAT(error_of([&] { link(plan, 2, {.keep_last_step = true}, {}); }),
              is_error(ErrorCode::kNotFound, "'next_value'"));
}

TEST(StepPlanNeeds, ScalarNumberIsNoArgumentOfItsMeasures) {
  const Shards shards(2);
  StepPlan plan(shards.contexts, 2, {{"w", {YOKE_TYPE_F32, {64}}}}, {},
                {.merge = MergeStrategy::kOwner, .has_number = true}, nullptr);
  plan.allocate();
  plan.allocate_gradients();
  StepNumber number = sum_of_gradients(plan.arenas());
  number.measure = [](const UpdateShape&) {
    return StepProgram{
        "yoke.program 1\nprogram measure() {\n  arg number : f64[] in\n  arg pieces : f64[1] out\n"
        "  pieces[i] = number[]\n}\n",
        "measure"};
  };
  const std::vector<SymbolTable> tables(2);
  EXPECT_THAT(error_of([&] {
                plan.link([](const UpdateShape& shape) { return descent(shape, false, {}); }, tables, number);
              }),
              is_error(ErrorCode::kNotFound, "'number'"));
}

}  // namespace
}  // namespace yoke::test
