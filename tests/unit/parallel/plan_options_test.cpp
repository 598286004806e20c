// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/plan_options_test.cpp: options that a StepPlan refuses, and the names of options.
#include "training.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;

TEST(StepPlanOptions, OptionsThatCannotBeMetAreRefused) {
  for (const std::uint32_t count : {1U, 2U}) {
    const Rig rig;
    std::vector<Context> shards;
    for (std::uint32_t k = 0; k < count; ++k) {
      shards.emplace_back(rig.stream());
    }
    const std::vector<StepParameter> w = {{"w", {YOKE_TYPE_F32, {4}}}};
    const auto refuses = [&](const StepOptions& options, const char* text) {
      EXPECT_THAT(error_of([&] { StepPlan(shards, 1, w, {}, options, nullptr); }), is_error(kInvalid, text));
    };
    refuses({.merge = static_cast<MergeStrategy>(77)}, "step plan: merge is 77");
    refuses({.placement = static_cast<Placement>(77)}, "step plan: placement is 77");
    refuses({.overlap = static_cast<Overlap>(77)}, "step plan: overlap is 77");
    refuses({.wire = static_cast<Wire>(77)}, "step plan: wire is 77");
    refuses({.merge_use = static_cast<MergeUse>(77)}, "step plan: merge_use is 77");
    refuses({.merge_use = MergeUse::kNone}, "merge_use is kNone; use kCopy or kStreaming");
    refuses({.placement = Placement::kSharded, .whole_parameters = true},
            "the placement sharded cuts parameters");
    refuses({.number_count = 0}, "number_count is 0");
    refuses({.has_number = true, .number_count = 0}, "number_count is 0");
    refuses({.number_count = 2}, "number_count is set, but has_number is not");
    const auto refuses_states = [&](const char* state, const char* text) {
      EXPECT_THAT(error_of([&] {
                    StepPlan(shards, 1, w, {"momentum", state}, {}, nullptr);
                  }),
                  is_error(kInvalid, text));
    };
    refuses_states("", "a state has an empty name");
    refuses_states("parameters", "a state is named 'parameters', which is reserved");
    refuses_states("gradients", "a state is named 'gradients', which is reserved");
    for (const std::int32_t type : {YOKE_TYPE_F64 - 1, YOKE_TYPE_BOOL + 1}) {
      EXPECT_THAT(error_of([&] {
                    StepPlan(shards, 1, {w[0], {"x", {type, {4}}}}, {}, {}, nullptr);
                  }),
                  is_error(kInvalid, "parameter 'x' has the unknown element type"));
    }
    EXPECT_THAT(error_of([&] { StepPlan(shards, 1, {}, {}, {}, nullptr); }),
                is_error(kInvalid, "the list of parameters is empty"));
    for (const std::uint32_t merging : {0U, count + 1}) {
      EXPECT_THAT(error_of([&] { StepPlan(shards, merging, w, {}, {}, nullptr); }),
                  is_error(kInvalid, "shards compute gradients; use at least one"));
    }
  }
}

TEST(StepPlanOptions, NamesOfOptionsAreKnown) {
  for (const Placement placement :
       {Placement::kAuto, Placement::kOwner, Placement::kEverywhere, Placement::kSharded}) {
    EXPECT_EQ(placement_by_name(placement_name(placement)), placement);
  }
  for (const MergeStrategy strategy :
       {MergeStrategy::kAuto, MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect,
        MergeStrategy::kRing, MergeStrategy::kNative}) {
    EXPECT_EQ(merge_strategy_by_name(merge_strategy_name(strategy)), strategy);
  }
  for (const Wire wire : {Wire::kFull, Wire::kBF16}) {
    EXPECT_EQ(wire_by_name(wire_name(wire)), wire);
  }
  EXPECT_STREQ(placement_name(static_cast<Placement>(77)), "unknown");
  EXPECT_STREQ(overlap_name(static_cast<Overlap>(77)), "unknown");
  EXPECT_STREQ(wire_name(static_cast<Wire>(77)), "unknown");
  EXPECT_STREQ(merge_strategy_name(static_cast<MergeStrategy>(77)), "unknown");
  EXPECT_THAT(error_of([] { placement_by_name("ownr"); }),
              is_error(kInvalid, "'ownr'", "did you mean", "owner"));
  EXPECT_THAT(error_of([] { merge_strategy_by_name("rin"); }),
              is_error(kInvalid, "'rin'", "did you mean", "ring"));
  EXPECT_THAT(error_of([] { wire_by_name("bf15"); }), is_error(kInvalid, "'bf15'", "did you mean", "bf16"));
}

}  // namespace
}  // namespace yoke::test
