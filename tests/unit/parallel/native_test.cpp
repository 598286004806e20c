// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/native_test.cpp: the strategy `native` on the mutant, a backend with collectives that add up in
// the order of ranks, as `owner` does: the results, and what happens when a member fails.
#include <yoke/runtime/cost_model.h>
#include <yoke/yoke.h>

#include <cmath>
#include <numeric>

#include "../../support/rounds.h"
#include "native_rig.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

// Runs each collective of `count` elements with both strategies, and compares what the collective states.
class NativeResults : public Native {
 protected:
  void expect_bits_of_owner(std::int32_t type, std::uint32_t size, std::uint64_t count) {
    const std::uint64_t element = program::byte_size(static_cast<program::Type>(type));
    const std::uint64_t begin = YOKE_BUFFER_ALIGNMENT / element;
    const std::uint64_t total = begin + count + 9;
    for (const Case& one : kCases) {
      if (one.sums && type == YOKE_TYPE_BOOL) {
        continue;
      }
      const std::vector<Context> mine = members(size, type, total);
      const std::vector<Context> theirs = members(size, type, total);
      one.link(*Collectives::create(MergeStrategy::kNative, mine), {begin, begin + count}).run();
      one.link(*Collectives::create(MergeStrategy::kOwner, theirs), {begin, begin + count}).run();
      for (std::uint32_t k = 0; k < size; ++k) {
        const std::vector<std::byte> got = contents(mine[k]);
        const std::vector<std::byte> expected = contents(theirs[k]);
        const auto expect_same = [&](std::uint64_t from, std::uint64_t to) {
          const auto first = static_cast<std::ptrdiff_t>(from * element);
          const auto last = static_cast<std::ptrdiff_t>(to * element);
          EXPECT_TRUE(std::equal(got.begin() + first, got.begin() + last, expected.begin() + first))
              << one.name << " of " << count << " " << type_name(type) << ", member " << k << " of " << size
              << ", elements " << from << " to " << to;
        };
        expect_same(0, begin);
        expect_same(begin + count, total);
        const std::vector<Slice> parts = slices(count, element, size);
        for (std::uint32_t part = 0; part < size; ++part) {
          if (one.is_defined(k, part)) {
            expect_same(begin + parts[part].begin, begin + parts[part].end);
          }
        }
      }
    }
  }
};

TEST_F(NativeResults, HaveTheBitsOfOwnerForEveryType) {
  for (std::int32_t type = YOKE_TYPE_F64; type <= YOKE_TYPE_BOOL; ++type) {
    expect_bits_of_owner(type, 3, 3000);
  }
}

TEST_F(NativeResults, HaveTheBitsOfOwnerForEverySizeOfGroupAndPart) {
  for (std::uint32_t size = 1; size <= 5; ++size) {
    // Parts of the same size, of different sizes, and one only.
    for (const std::uint64_t count :
         {std::uint64_t{64} * size, std::uint64_t{64} * (size + 1) + 3, std::uint64_t{63}}) {
      expect_bits_of_owner(YOKE_TYPE_F32, size, count);
    }
  }
}

TEST_F(Native, SaysInTheLogInWhichOrderSumsAre) {
  const std::vector<Context> contexts = members(2);
  const auto group = Collectives::create(MergeStrategy::kNative, contexts);
  EXPECT_THAT(log.all(),
              ::testing::Contains(HasSubstr("merge.native backend=mutant members=2 sum_order=ranks")));
}

TEST_F(Native, RefusesMembersThatTheBackendCannotServe) {
  const std::vector<Context> contexts = members(2, YOKE_TYPE_BOOL);
  const auto create = [](std::span<const Context> group) {
    return error_of([&] { Collectives::create(MergeStrategy::kNative, group); });
  };
  const std::vector<Context> twice = {contexts[0], contexts[0]};
  EXPECT_THAT(create(twice), is_error(ErrorCode::kFailedPrecondition, "merge strategy native",
                                      "shards 0 and 1 use the same stream"));
  auto control = std::make_shared<Control>();
  control->provides.streams = true;
  register_backend(runtime, 0, control);
  const Context other(Stream::create(runtime.backend(control->name)->open_device(0)));
  EXPECT_THAT(create({{other}}), is_error(ErrorCode::kFailedPrecondition, "'test0'", "yoke.collectives/1"));
  EXPECT_THAT(create({{contexts[0], other}}),
              is_error(ErrorCode::kFailedPrecondition, "different backends, 'mutant' and 'test0'"));
  const auto group = Collectives::create(MergeStrategy::kNative, contexts);
  EXPECT_THAT(error_of([&] { group->all_reduce("g"); }),
              is_error(ErrorCode::kFailedPrecondition, "'mutant:0' does not add up elements of type bool"));
  const std::vector<Context> even =
      members(2, YOKE_TYPE_BOOL, 2 * YOKE_BUFFER_ALIGNMENT);  // parts of the same size
  const auto pair = Collectives::create(MergeStrategy::kNative, even);
  EXPECT_THAT(error_of([&] { pair->reduce_scatter("g"); }),
              is_error(ErrorCode::kFailedPrecondition, "'mutant:0' does not add up elements of type bool"));
  EXPECT_NO_THROW(pair->all_gather("g"));
  EXPECT_NO_THROW(pair->broadcast("g"));
  StepOptions options;
  options.merge = MergeStrategy::kNative;
  EXPECT_EQ(StepPlan(even, 2, {{"w", {YOKE_TYPE_F32, {4}}}}, {}, options, nullptr).placement(),
            Placement::kSharded);
  EXPECT_THAT(error_of([&] {
                StepPlan(contexts, 2, {{"w", {YOKE_TYPE_BOOL, {4}}}}, {}, options, nullptr);
              }),
              is_error(ErrorCode::kFailedPrecondition, "elements of type bool"));
}

TEST_F(Native, IsChosenOnlyWithADevicePerMemberAndAFixedOrderOfSums) {
  const std::vector<Context> all = members(3);
  constexpr std::int32_t kSummed[] = {YOKE_TYPE_F32};
  constexpr std::int32_t kNotSummed[] = {YOKE_TYPE_F32, YOKE_TYPE_BOOL};
  EXPECT_TRUE(costs_of(std::span(all).first(2), kSummed).has_native);
  EXPECT_FALSE(costs_of(std::span(all).first(2), kNotSummed).has_native);
  EXPECT_FALSE(costs_of(all, kSummed).has_native) << "two members are on one device";
  const auto control = Rig::make_control(Streams::kNative);
  control->provides.collectives = true;  // in any order
  register_backend(runtime, 0, control);
  std::vector<Context> unordered;
  for (std::uint32_t k = 0; k < 2; ++k) {
    unordered.emplace_back(Stream::create(runtime.backend(control->name)->open_device(k)));
  }
  EXPECT_FALSE(costs_of(unordered, kSummed).has_native);
}

TEST_F(Native, GroupOfARenewedStreamIsCreatedAgain) {
  const std::vector<Context> contexts = members(2);
  const auto group = Collectives::create(MergeStrategy::kNative, contexts);
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  contexts[1].stream()->renew();
  EXPECT_THAT(error_of([&] { sum.run(); }),
              is_error(ErrorCode::kFailedPrecondition, "member 1 of 2", "create the Collectives"));
  Collectives::create(MergeStrategy::kNative, contexts)->all_reduce("g").run();
  EXPECT_EQ(contents(contexts[0]), contents(contexts[1]));
}

TEST_F(Native, LimitIsOnTheMembersOfThisProcess) {
  const auto control = Rig::make_control(Streams::kNative);
  control->provides.collectives = true;
  control->collectives_features = YOKE_COLLECTIVES_PROCESSES;
  control->member_limit = 2;
  register_backend(runtime, 0, control);
  const auto device = runtime.backend(control->name)->open_device(0);
  std::vector<Context> contexts;
  for (int k = 0; k < 3; ++k) {
    contexts.emplace_back(Stream::create(device));
  }
  EXPECT_THAT(error_of([&] { Collectives::create(MergeStrategy::kNative, contexts); }),
              is_error(ErrorCode::kFailedPrecondition, "'test0:0' has at most 2 members, not 3"));
  const auto group =
      Collectives::create(MergeStrategy::kNative, std::span(contexts).first(2), MergeUse::kStreaming, nullptr,
                          Wire::kFull, {0, 3, create_group_id(*device)});
  EXPECT_EQ(group->size(), 3U);
}

// The order of streams that wait for each other, here for work of another backend, is kept by worker threads.
TEST_F(Native, MembersThatWaitForAnotherBackendTakePart) {
  const auto control = register_backend(runtime, 0, Rig::make_control(Streams::kNative));
  const auto device = runtime.backend(control->name)->open_device(0);
  const auto elsewhere = Stream::create(device);
  std::vector<Context> contexts = members(3);
  std::vector<Context> expected = members(3);
  const auto group = Collectives::create(MergeStrategy::kNative, contexts);
  const LinkedCollective sum = group->all_reduce("g");
  control->is_blocked = true;
  const BufferView buffer = buffer_of<float>(device, 1);
  fill(*elsewhere, buffer, 1.0F);
  contexts[1].stream()->wait_for(elsewhere->record());
  sum.run();
  sum.run();
  EXPECT_FALSE(contexts[0].stream()->is_idle());
  control->is_blocked = false;
  const auto owner = Collectives::create(MergeStrategy::kOwner, expected);
  owner->all_reduce("g").run();
  owner->all_reduce("g").run();
  for (std::uint32_t k = 0; k < 3; ++k) {
    EXPECT_EQ(contents(contexts[k]), contents(expected[k])) << "member " << k;
  }
}

// Queues a copy that fails on member 1, then a collective of all, and checks what the others report.
class FailingMember : public Native, public ::testing::WithParamInterface<bool> {
 protected:
  void fail(const std::function<void()>& queue) {
    if (GetParam()) {  // by worker threads
      const auto control = register_backend(runtime, 0, Rig::make_control(Streams::kNative));
      const auto device = runtime.backend(control->name)->open_device(0);
      const auto elsewhere = Stream::create(device);
      const BufferView buffer = buffer_of<float>(device, 1);
      control->is_blocked = true;
      test::fill(*elsewhere, buffer, 1.0F);
      contexts[1].stream()->wait_for(elsewhere->record());
      queue();
      control->is_blocked = false;
    } else {
      queue();
    }
  }
  void expect_failed(ErrorCode code, const std::string& what) {
    for (const std::uint32_t k : {0U, 2U}) {
      const Error error = error_of([&] { contexts[k].stream()->wait(); });
      EXPECT_EQ(error.code(), ErrorCode::kAborted) << error.what();
      EXPECT_THAT(error.what(),
                  ::testing::AllOf(HasSubstr("member 1 of 3"), HasSubstr("mutant:1"), HasSubstr(what)));
    }
    EXPECT_THAT(error_of([&] { contexts[1].stream()->wait(); }), is_error(code, what));
    EXPECT_THAT(error_of([&] { sum.run(); }), is_error(code, "member 1 of 3", "mutant:1", what));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  }

  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::vector<Context> contexts = members(3);
  std::unique_ptr<Collectives> group = Collectives::create(MergeStrategy::kNative, contexts);
  LinkedCollective sum = group->all_reduce("g");
};
INSTANTIATE_TEST_SUITE_P(QueuedBy, FailingMember, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Workers" : "TheCaller"; });

TEST_P(FailingMember, AbortsAllAndIsNamed) {
  arm(1, YOKE_FAULT_COPY);
  const std::vector<std::byte> bytes = some_bytes(YOKE_TYPE_F32, 1000, 9);
  fail([&] {
    contexts[1].from_host("g", bytes);
    sum.run();
  });
  expect_failed(ErrorCode::kUnavailable, "because a fault was armed");
  // Other groups on the same devices work.
  std::vector<Context> others = members(3);
  Collectives::create(MergeStrategy::kNative, others)->all_reduce("g").run();
  for (const Context& other : others) {
    EXPECT_EQ(contents(other), contents(others[0]));
  }
}

TEST_P(FailingMember, WhoseDeviceIsLostLeavesTheOtherDevicesUsable) {
  arm(1, YOKE_FAULT_DEVICE_LOST);
  const std::vector<std::byte> bytes = some_bytes(YOKE_TYPE_F32, 1000, 9);
  fail([&] {
    contexts[1].from_host("g", bytes);
    sum.run();
  });
  expect_failed(ErrorCode::kDeviceLost, "lost");
  EXPECT_FALSE(devices[0]->is_lost());
  EXPECT_NO_THROW(members(1));
}

TEST_F(Native, QueuesNothingIfAMemberIsKnownToHaveFailed) {
  const std::vector<Context> contexts = members(3);
  const auto group = Collectives::create(MergeStrategy::kNative, contexts);
  const LinkedCollective sum = group->all_reduce("g");
  contexts[1].stream()->abort();
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(ErrorCode::kAborted, "was aborted"));
  EXPECT_TRUE(contexts[0].stream()->is_idle());
  EXPECT_TRUE(contexts[2].stream()->is_idle());
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(ErrorCode::kAborted, "member 1 of 3"));
}

TEST_F(Native, WorkIsDoneBeforeItsMemoryIsReleased) {
  std::vector<Context> contexts = members(3);
  {
    const auto group = Collectives::create(MergeStrategy::kNative, contexts);
    const LinkedCollective sum = group->all_reduce("g");
    for (int i = 0; i < 20; ++i) {
      sum.run();
    }
  }
  for (const Context& context : contexts) {
    EXPECT_TRUE(context.stream()->is_idle());
  }
}

// The parameters after some steps.
std::vector<float> trained(std::uint32_t shards, MergeStrategy merge, Placement placement) {
  DataParallelOptions options;
  options.runtime = std::make_shared<Runtime>(mutant_options());
  options.backend_name = "mutant";
  options.shards = shards;
  options.merge = merge;
  options.placement = placement;
  options.learning_rate = 0.05F;
  options.optimizer = Sgd{.momentum = 0.5};
  options.bucket_byte_count = 256;
  options.check_replicas_every = 1;
  std::vector<float> x(120);
  std::iota(x.begin(), x.end(), 0.0F);
  std::transform(x.begin(), x.end(), x.begin(), [](float i) { return std::sin(i * i); });
  const std::vector<float> y(x.begin() + 5, x.begin() + 29);
  const auto model = nn::sequential(nn::linear(7), nn::relu(), nn::linear(1));
  std::vector<float> values;
  data_parallel(
      options, tensor(x, {24, 5}), tensor(y, {24, 1}),
      [&](const Tensor& in, const Tensor& out) { return mse(model(in), out); },
      [&](Trainer& trainer) {
        for (int i = 0; i < 4; ++i) {
          trainer.step();
        }
        for (const Parameter& parameter : trainer.owner_params()) {
          const std::vector<float> part = trainer.read_values(parameter.name());
          values.insert(values.end(), part.begin(), part.end());
        }
      });
  return values;
}

TEST(NativeTraining, HasTheBitsOfOwner) {
  using Counts = std::vector<std::uint32_t>;
  for (const std::uint32_t shards : kTriesAll ? Counts{1, 2, 3, 4} : Counts{3}) {
    const std::vector<float> expected = trained(shards, MergeStrategy::kOwner, Placement::kAuto);
    ASSERT_FALSE(expected.empty());
    for (const Placement placement : {Placement::kOwner, Placement::kEverywhere, Placement::kSharded}) {
      EXPECT_EQ(trained(shards, MergeStrategy::kNative, placement), expected)
          << shards << " shards, placement " << placement_name(placement);
    }
  }
}

}  // namespace
}  // namespace yoke::test
