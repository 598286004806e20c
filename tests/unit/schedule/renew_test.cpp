// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/renew_test.cpp: streams that have failed work again after renew(), with everything that is linked
// with them.
#include "rig.h"

namespace yoke::test {
namespace {

constexpr const char* kAdd =
    "yoke.program 1\nprogram add() {\n  arg own : f32[2] inout\n  arg incoming : f32[2] in\n  own[i] = "
    "own[i] + incoming[i]\n}\n";

class RenewTest : public testing::TestWithParam<Streams> {
 protected:
  void fail() {
    rig.control->fail_after = 0;
    fill<std::uint8_t>(*stream, buffer, 1);
    EXPECT_ERROR(ErrorCode::kInternal, stream->wait());
  }
  Rig rig{GetParam()};
  const std::shared_ptr<Stream> stream = rig.stream("first");
  const BufferView buffer = rig.buffer(4);
};
INSTANTIATE_TEST_SUITE_P(Streams, RenewTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(RenewTest, FailedStreamWorksAgain) {
  const std::string& name = stream->name();
  const std::uint64_t id = stream->id();
  fail();
  const Event failed = stream->record();
  stream->renew();

  EXPECT_NE(stream->id(), id);
  EXPECT_EQ(name, "first");
  EXPECT_FALSE(stream->failure());
  fill<std::uint8_t>(*stream, buffer, 7);
  EXPECT_EQ(read<std::uint8_t>(*stream, buffer), std::vector<std::uint8_t>(4, 7));
  EXPECT_TRUE(stream->is_idle());
  EXPECT_ERROR(ErrorCode::kInternal, failed.wait());
  EXPECT_EQ(debug_info(rig.runtime).size(), 1U);
}

TEST_P(RenewTest, AbortedStreamWorksAgain) {
  stream->abort();
  EXPECT_ERROR(ErrorCode::kAborted, stream->wait());
  stream->renew();
  fill<std::uint8_t>(*stream, buffer, 7);
  EXPECT_EQ(read<std::uint8_t>(*stream, buffer), std::vector<std::uint8_t>(4, 7));
}

TEST_P(RenewTest, WorkingStreamKeepsItsResults) {
  for (int i = 0; i < 3; ++i) {
    fill<std::uint8_t>(*stream, buffer, static_cast<std::uint8_t>(i));
    stream->renew();
  }
  EXPECT_EQ(read<std::uint8_t>(*stream, buffer), std::vector<std::uint8_t>(4, 2));
}

TEST_P(RenewTest, ReadersOfAFailedResultFailUntilItIsWritten) {
  fail();
  stream->renew();
  EXPECT_THAT(error_of([&] { read<std::uint8_t>(*stream, buffer); }),
              is_error(ErrorCode::kInternal, "'first'", "the test injected this failure"));
  stream->renew();
  fill<std::uint8_t>(*stream, buffer, 3);
  EXPECT_EQ(read<std::uint8_t>(*stream, buffer), std::vector<std::uint8_t>(4, 3));
}

// A routine that merges, its transfer, and tensors of both contexts.
TEST_P(RenewTest, LinkedWorkStaysLinked) {
  Context owner(stream);
  Context source(rig.stream("source"));
  set(owner, "g", {1, 2});
  set(source, "g", {3, 4});
  const Transfer transfer = device_to_device("g", MergeUse::kCopy, owner, source);
  const LinkedRoutine add =
      owner.link_merge(compile(rig.device, kAdd), "add", "incoming", transfer, {{"own", "g"}});
  transfer.run();
  add.run();
  EXPECT_EQ(get(owner, "g"), std::vector<float>({4, 6}));

  stream->abort();
  stream->renew();
  EXPECT_THAT(error_of([&] { add.run(); }),
              is_error(ErrorCode::kFailedPrecondition, "the merge buffer holds nothing"));
  transfer.run();
  add.run();
  EXPECT_EQ(get(owner, "g"), std::vector<float>({7, 10}));
  source.stream()->renew();
  transfer.run();
  add.run();
  EXPECT_EQ(get(owner, "g"), std::vector<float>({10, 14}));
}

TEST_P(RenewTest, LostDeviceIsAnError) {
  rig.control->fail_code = YOKE_STATUS_DEVICE_LOST;
  rig.control->fail_after = 0;
  fill<std::uint8_t>(*stream, buffer, 1);
  EXPECT_ERROR(ErrorCode::kDeviceLost, stream->wait());
  EXPECT_THAT(error_of([&] { stream->renew(); }), is_error(ErrorCode::kDeviceLost, "'first'", "'test0:0'"));
  EXPECT_ERROR(ErrorCode::kDeviceLost, stream->wait());
}

TEST_P(RenewTest, PendingWorkIsAnErrorAtTheDeadline) {
  RuntimeOptions options;
  options.wait_timeout = 200ms;
  const Rig slow(GetParam(), options);
  const auto busy = slow.stream("busy");
  const BufferView view = slow.buffer(4);
  slow.control->is_blocked = true;
  fill<std::uint8_t>(*busy, view, 5);
  EXPECT_THAT(error_of([&] { busy->renew(); }),
              is_error(ErrorCode::kDeadlineExceeded, "'busy'", "renew", "abort the stream, or wait longer"));
  slow.control->is_blocked = false;
  EXPECT_EQ(read<std::uint8_t>(*busy, view), std::vector<std::uint8_t>(4, 5));
}

}  // namespace
}  // namespace yoke::test
