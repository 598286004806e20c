// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/feed_stream_test.cpp: host data that is copied on a stream of its own.
#include <yoke/runtime/feed.h>

#include <algorithm>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr std::uint64_t kCount = 4;  // of floats in a slot
constexpr std::uint32_t kDelayUs = 20'000;

struct Fed {
  Fed() : rig(control_with_memory()), shard(rig.stream()) {}
  static std::shared_ptr<Control> control_with_memory() {
    auto control = Rig::make_control(Streams::kWorker);
    control->provides.memory = true;
    return control;
  }
  static void stage(FeedStream& feed, std::uint32_t slot, const std::vector<float>& values) {
    const std::span<std::byte> memory = feed.stage(slot, 0);
    EXPECT_EQ(memory.size(), kCount * sizeof(float));
    std::copy(bytes(values).begin(), bytes(values).end(), memory.begin());
  }
  Rig rig;
  Context shard;
};

TEST(FeedStreams, CopyFromAnyByteOfAnySlot) {
  Fed fed;
  FeedStream feed(fed.shard, 2, kCount * sizeof(float));
  Fed::stage(feed, 0, {1, 2, 3, 4});
  Fed::stage(feed, 1, {5, 6, 7, 8});
  const BufferView whole = fed.rig.buffer(16);
  const BufferView rest = fed.rig.buffer(8);
  feed.send(0, 0, whole);
  feed.send(1, 8, rest);
  EXPECT_EQ(read<float>(*fed.shard.stream(), whole), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(read<float>(*fed.shard.stream(), rest), (std::vector<float>{7, 8}));
}

// However long a copy takes.
TEST(FeedStreams, SlotIsReusedOnlyAfterItsCopies) {
  Fed fed;
  FeedStream feed(fed.shard, 1, kCount * sizeof(float));
  const BufferView target = fed.rig.buffer(16);
  Fed::stage(feed, 0, {1, 2, 3, 4});
  fed.rig.control->delay_us = kDelayUs;
  feed.send(0, 0, target);
  Fed::stage(feed, 0, {5, 6, 7, 8});
  EXPECT_TRUE(feed.stream()->is_idle());
  fed.rig.control->delay_us = 0;
  EXPECT_EQ(read<float>(*fed.shard.stream(), target), (std::vector<float>{1, 2, 3, 4}));
}

TEST(FeedStreams, ReleaseTheirMemoryAfterTheirCopies) {
  Fed fed;
  const BufferView target = fed.rig.buffer(16);
  {
    FeedStream feed(fed.shard, 2, kCount * sizeof(float));
    EXPECT_EQ(fed.rig.control->live_pinned_count, 2);
    Fed::stage(feed, 1, {1, 2, 3, 4});
    fed.rig.control->delay_us = kDelayUs;
    feed.send(1, 0, target);
  }
  EXPECT_EQ(fed.rig.control->live_pinned_count, 0);
  fed.rig.control->delay_us = 0;
  EXPECT_EQ(read<float>(*fed.shard.stream(), target), (std::vector<float>{1, 2, 3, 4}));
}

TEST(FeedStreams, ReleaseTheirMemoryAfterAFailedCopy) {
  Fed fed;
  {
    FeedStream feed(fed.shard, 1, kCount * sizeof(float));
    Fed::stage(feed, 0, {1, 2, 3, 4});
    fed.rig.control->fail_after = 0;
    feed.send(0, 0, fed.rig.buffer(16));
    EXPECT_ERROR(ErrorCode::kInternal, feed.stage(0, 1));
  }
  EXPECT_EQ(fed.rig.control->live_pinned_count, 0);
}

TEST(FeedStreams, RefuseWhatExceedsThem) {
  Fed fed;
  EXPECT_ERROR(ErrorCode::kInvalidArgument, FeedStream(fed.shard, 0, 16));
  FeedStream feed(fed.shard, 2, 16);
  EXPECT_ERROR(ErrorCode::kOutOfRange, feed.stage(2, 0));
  EXPECT_ERROR(ErrorCode::kOutOfRange, feed.send(2, 0, fed.rig.buffer(16)));
  EXPECT_THAT(error_of([&] { feed.send(0, 1, fed.rig.buffer(16)); }),
              is_error(ErrorCode::kOutOfRange, "a slot of 16 bytes does not have 16 bytes from byte 1"));
  EXPECT_THAT(error_of([&] { feed.send(0, 17, fed.rig.buffer(4)); }),
              is_error(ErrorCode::kOutOfRange, "a slot of 16 bytes does not have 4 bytes from byte 17"));
  EXPECT_TRUE(feed.stream()->is_idle());
}

}  // namespace
}  // namespace yoke::test
