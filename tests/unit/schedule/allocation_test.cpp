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

TEST(AllocationTest, RecordsOfFinishedWorkAreUsedAgain) {
  Rig rig;
  const auto stream = rig.stream();
  const BufferView buffer = rig.buffer(3000);
  const auto use = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      fill<std::uint8_t>(*stream, part<std::uint8_t>(buffer, i, 1), 1);
      if (i % 10 == 0) {
        stream->wait();
      }
    }
  };
  use(0, 1000);
  const std::uint64_t before = allocation_count();
  use(1000, 3000);
  EXPECT_EQ(allocation_count() - before, 0U);
}

TEST(AllocationTest, StreamWithoutAWorkerIsRefused) {
  Rig rig;
  bool is_refused = false;
  for (std::uint64_t first = 0; first < 60; ++first) {
    const FailAllocations failing(first, FailAllocations::Which::kOne);
    try {
      rig.stream();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
      is_refused =
          is_refused || std::string_view(error.what()).find("worker thread") != std::string_view::npos;
    } catch (const std::bad_alloc&) {
    }
  }
  EXPECT_TRUE(is_refused);
}

TEST(AllocationTest, CommandWithoutMemoryForItsRecordLeavesTheStreamUsable) {
  Rig rig;
  const auto stream = rig.stream();
  const BufferView buffer = rig.buffer(33);
  rig.control->is_blocked = true;
  for (std::size_t i = 0; i < 32; ++i) {  // so many are kept without an allocation
    fill<std::uint8_t>(*stream, part<std::uint8_t>(buffer, i, 1), 1);
  }
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  {
    const FailAllocations failing(0, FailAllocations::Which::kAllFrom);
    EXPECT_THROW(fill<std::uint8_t>(*stream, part<std::uint8_t>(buffer, 32, 1), 1), std::bad_alloc);
  }
  rig.control->is_blocked = false;
  EXPECT_NO_THROW(stream->wait());
  fill<std::uint8_t>(*stream, buffer, 2);
  EXPECT_EQ(read<std::uint8_t>(*stream, buffer), std::vector<std::uint8_t>(33, 2));
}

// Its ticket must not be complete before earlier work that still waits in the queue.
TEST(AllocationTest, CommandWithoutMemoryForItsSymbolsKeepsTheOrder) {
  for (const Streams streams : {Streams::kWorker, Streams::kNative}) {
    Rig rig(streams);
    const auto far_control = register_backend(rig.runtime, 1);
    const auto far = Stream::create(rig.runtime.backend("test1")->open_device(0));
    const BufferView there = buffer_of<std::uint8_t>(far->device(), 1);
    const auto stream = rig.stream();
    std::string symbols;
    for (int i = 0; i < 20; ++i) {
      symbols += (i == 0 ? "symbol s" : ", symbol s") + std::to_string(i) + " in 0..2";
    }
    const BufferView y = buffer_of<float>(rig.device, 1);
    const auto routine =
        link(rig.device,
             "yoke.program 1\nprogram many(" + symbols + ") {\n  arg y : f32[1] out\n  y[0] = 1.0\n}\n", {y});
    const std::vector<std::int64_t> values(20, 0);
    far_control->is_blocked = true;
    fill<std::uint8_t>(*far, there, 1);
    stream->wait_for(far->record());
    fill<float>(*stream, y, 3);
    EXPECT_TRUE(wait_for_calls(*far_control, 1));
    {
      const FailAllocations failing(0, FailAllocations::Which::kAllFrom);
      EXPECT_THROW(stream->launch(*routine, values), std::bad_alloc);
    }
    EXPECT_FALSE(stream->is_idle());
    far_control->is_blocked = false;
    EXPECT_EQ(read<float>(*stream, y), std::vector<float>{3});
  }
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
