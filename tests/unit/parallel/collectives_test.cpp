// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/collectives_test.cpp: groups, ranges and tensors that collectives refuse, and what they leave out.
#include "training.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;

using Link = LinkedCollective (Collectives::*)(std::string_view, Collectives::Range);
constexpr Link kLinks[] = {&Collectives::reduce,     &Collectives::reduce_scatter, &Collectives::all_reduce,
                           &Collectives::all_gather, &Collectives::gather,         &Collectives::broadcast};

TEST(CollectiveArguments, GroupsRangesAndTensorsThatDoNotFitAreRefused) {
  const Rig rig;
  std::vector<Context> contexts;
  for (std::uint32_t k = 0; k < 3; ++k) {
    contexts.emplace_back(rig.stream());
    contexts[k].allocate("g", {YOKE_TYPE_F32, {4}});
    contexts[k].allocate("type", {k == 2 ? YOKE_TYPE_I32 : YOKE_TYPE_F32, {4}});
    contexts[k].allocate("shape", {YOKE_TYPE_F32, {k == 1 ? 5U : 4U}});
  }
  for (const MergeStrategy strategy : kStrategies) {
    EXPECT_THAT(error_of([&] { Collectives::create(strategy, {}); }),
                is_error(kInvalid, "the group has no members"));
    const auto group = Collectives::create(strategy, contexts);
    for (const Link link : kLinks) {
      EXPECT_ERROR(ErrorCode::kOutOfRange, ((*group).*link)("g", Slice{0, 5}));
      EXPECT_ERROR(ErrorCode::kOutOfRange, ((*group).*link)("g", Slice{3, 2}));
      EXPECT_NO_THROW(((*group).*link)("g", Slice{4, 4}).run());
      EXPECT_THAT(error_of([&] { ((*group).*link)("type", {}); }),
                  is_error(kInvalid, "'type': shard 2 differs from shard 0"));
      EXPECT_THAT(error_of([&] { ((*group).*link)("shape", {}); }),
                  is_error(kInvalid, "'shape': shard 1 differs from shard 0"));
    }
  }
  EXPECT_EQ(rig.control->call_count, 0U);
}

TEST(CollectiveArguments, SlicesHaveElementsOf1To256Bytes) {
  EXPECT_ERROR(kInvalid, (void)slices(10, 0, 2));
  EXPECT_ERROR(kInvalid, (void)slices(10, 257, 2));
  EXPECT_EQ(slices(10, 256, 2)[0].end, 5U);
  EXPECT_EQ(slices(600, 1, 2)[0].end, 256U);
  EXPECT_EQ(slices(600, 1, 2)[1].end, 600U);
}

TEST(CollectiveArguments, GroupOfOneLinksNothing) {
  for (const Wire wire : {Wire::kFull, Wire::kBF16}) {
    for (const MergeStrategy strategy : kStrategies) {
      if (wire == Wire::kBF16 && strategy == MergeStrategy::kDirect) {
        continue;
      }
      const Rig rig;
      const std::vector<Context> contexts = {Context(rig.stream())};
      Context owner = contexts[0];
      owner.allocate("g", {YOKE_TYPE_F32, {1000}});
      const std::uint64_t before = rig.device->memory().used_bytes;
      const auto group = Collectives::create(strategy, contexts, MergeUse::kCopy, nullptr, wire);
      for (const Link link : kLinks) {
        ((*group).*link)("g", {}).run();
      }
      EXPECT_EQ(rig.control->link_count, 0U) << merge_strategy_name(strategy);
      EXPECT_EQ(rig.control->call_count, 0U) << merge_strategy_name(strategy);
      EXPECT_EQ(rig.device->memory().used_bytes, before) << merge_strategy_name(strategy);
    }
  }
}

}  // namespace
}  // namespace yoke::test
