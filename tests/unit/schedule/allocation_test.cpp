// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/allocation_test.cpp: after linking, a step does not allocate on any thread.
#include "count_allocations.h"
#include "rig.h"

namespace yoke::test {
namespace {

TEST(AllocationTest, StepOfFourShardsAllocatesNothing) {
  Rig rig;
  constexpr const char* kAdd =
      "yoke.program 1\nprogram add(symbol row in 0..8) {\n  arg own : f32[64] inout\n  arg incoming : "
      "f32[64] in\n"
      "  own[i] = own[i] + incoming[i] + f32(row)\n}\n";
  const std::vector<float> ones(64, 1);
  std::vector<Context> shards;
  for (int s = 0; s < 4; ++s) {
    shards.emplace_back(rig.stream());
    shards.back().init_from_host("g", {YOKE_TYPE_F32, {64}}, bytes(ones));
    shards.back().allocate("copy", {YOKE_TYPE_F32, {64}});
    shards.back().stream()->wait();
  }
  std::vector<Transfer> transfers;
  std::vector<LinkedRoutine> adds;
  for (std::size_t s = 1; s < shards.size(); ++s) {
    transfers.push_back(
        device_to_device("g", s % 2 == 0 ? MergeUse::kCopy : MergeUse::kStreaming, shards[0], shards[s]));
    adds.push_back(
        shards[0].link_merge(compile(rig.device, kAdd), "add", "incoming", transfers.back(), {{"own", "g"}}));
    transfers.push_back(device_to_device("g", MergeUse::kNone, shards[s], shards[0]));
  }
  std::vector<float> values(64);
  const auto step = [&](std::int64_t row) {
    for (std::size_t s = 0; s + 1 < shards.size(); ++s) {
      transfers[2 * s].run();
      adds[s].run({&row, 1});
    }
    for (std::size_t s = 0; s + 1 < shards.size(); ++s) {
      transfers[2 * s + 1].run();
    }
    const Event event = shards[0].stream()->record();
    shards[1].stream()->wait_for(event);
    shards[0].to_host("g", std::as_writable_bytes(std::span<float>(values)));
    shards[0].stream()->wait();
    (void)event.is_done();
  };
  for (std::int64_t i = 0; i < 8; ++i) {
    step(i);
  }

  // The fake backend's program::execute allocates, so the allocations
  // of a launch are measured and subtracted.
  const std::uint64_t before_launch = allocation_count();
  adds[0].stream()->launch(adds[0].routine(), std::vector<std::int64_t>{0});
  shards[0].stream()->wait();
  const std::uint64_t per_launch = allocation_count() - before_launch - 1;  // the vector
  const std::uint64_t before = allocation_count();
  for (int i = 0; i < 50; ++i) {
    step(i % 8);
  }

  for (const Context& shard : shards) {
    shard.stream()->wait();
  }
  EXPECT_EQ(allocation_count() - before, 50 * 3 * per_launch);
}

TEST(AllocationTest, LinkedCopiesBetweenBackendsAllocateNothing) {
  Rig rig;
  register_backend(rig.runtime, 1);
  Context near(rig.stream());
  Context far(Stream::create(rig.runtime.backend("test1")->open_device(0)));
  const std::vector<float> ones(3 << 20U, 1);
  near.init_from_host("x", {YOKE_TYPE_F32, {ones.size()}}, bytes(ones));
  far.allocate("x", {YOKE_TYPE_F32, {ones.size()}});
  const Transfer transfer = device_to_device("x", MergeUse::kNone, far, near);
  transfer.run();
  far.stream()->wait();

  const std::uint64_t before = allocation_count();
  for (int i = 0; i < 10; ++i) {
    transfer.run();
    far.stream()->wait();
  }

  EXPECT_EQ(allocation_count() - before, 0U);
}

TEST(AllocationTest, JoinWithoutMemoryForItsWaitsFails) {
  Rig rig(Streams::kNative);
  const auto first = rig.stream();
  const auto joining = rig.stream();
  const auto last = rig.stream();
  const BufferView buffer = rig.buffer(16);
  std::vector<std::uint8_t> target(16);
  rig.control->is_blocked = true;
  first->to_host(target.data(), buffer);
  first->abort();  // a wait for failed work that is pending needs a thread
  {
    const FailAllocations failing(0, FailAllocations::Which::kAllFrom);
    EXPECT_THROW(joining->join(buffer), std::bad_alloc);
  }
  last->join(buffer);  // in place of the read that the join before it covers
  EXPECT_ERROR(ErrorCode::kResourceExhausted, last->wait(1s));
  rig.control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kAborted, first->wait());  // then nothing uses `target`
}

}  // namespace
}  // namespace yoke::test
