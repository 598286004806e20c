// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/native_failure_test.cpp: a backend's collectives when a member fails before, during or after
// queuing; collectives that stay pending; how often streams query a group.
#include "expected_leak.h"
#include "scripted_rig.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr ErrorCode kAborted = ErrorCode::kAborted;
constexpr ErrorCode kInternal = ErrorCode::kInternal;
constexpr ErrorCode kUnavailable = ErrorCode::kUnavailable;

// Member 1 fails by itself. If the parameter is true, member 0 is aborted first.
class FailsByItself : public Scripted, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(AfterAbort, FailsByItself, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "OfMember0" : "OfNone"; });

TEST_P(FailsByItself, IsNamedIfQueuingFails) {
  script_.on_queue = [](auto rows) {
    if (GetParam()) {
      Script::fail_now(rows[0].stream, YOKE_STATUS_ABORTED, "stopped");
    }
    Script::fail_now(rows[1].stream, YOKE_STATUS_INTERNAL, "the copy broke");
    throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "cannot queue now");
  };
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  EXPECT_THAT(wait_error(1), is_error(kInternal, "the copy broke"));
  EXPECT_THAT(wait_error(2), is_error(kUnavailable, "member 2 of 3", "cannot queue now"));
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(kInternal, "member 1 of 3", "the copy broke"));
}

TEST_P(FailsByItself, IsFoundByWaitsOfOthers) {
  script_.on_queue = [this](auto rows) {
    if (GetParam()) {
      Script::fail(rows[0].stream, YOKE_STATUS_ABORTED, "stopped");
    } else {
      script_.hold(rows[0].stream);
    }
    Script::fail(rows[1].stream, YOKE_STATUS_INTERNAL, "the copy broke");
    script_.hold(rows[2].stream);
  };
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  EXPECT_THAT(wait_error(2), is_error(kAborted, "member 1 of 3", "the copy broke"));
  EXPECT_THAT(wait_error(1), is_error(kInternal, "the copy broke"));
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(kInternal, "member 1 of 3", "the copy broke"));
}

TEST_F(Scripted, FailedCommunicatorIsFoundByWaits) {
  script_.on_queue = [this](auto rows) {
    for (const yoke_collective& row : rows) {
      script_.hold(row.stream);
    }
  };
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  script_.broken = 2;
  EXPECT_THAT(wait_error(0), is_error(kAborted, "member 2 of 3", "the link is down"));
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(kUnavailable, "member 2 of 3", "the link is down"));
}

TEST_F(Scripted, GroupKeepsItsFirstFailure) {
  script_.on_queue = [this](auto) {
    script_.broken = 2;
    throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "cannot queue now");
  };
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  EXPECT_THAT(wait_error(0), is_error(kUnavailable, "member 0 of 3", "cannot queue now"));
  const auto again = [&] { return error_of([&] { sum.run(); }); };
  EXPECT_THAT(again(), is_error(kUnavailable, "member 2 of 3", "cannot queue now"));
  // Now that all streams have failed, a wait of another stream would name the first of them.
  rig.control->is_blocked = true;
  const auto other = rig.stream();
  const BufferView buffer = rig.buffer(4);
  fill(*other, buffer, 1.0F);
  EXPECT_FALSE(other->is_idle());
  EXPECT_GT(script_.query_count, 0);
  EXPECT_THAT(again(), is_error(kUnavailable, "member 2 of 3", "cannot queue now"));
  rig.control->is_blocked = false;
}

TEST_F(Scripted, QueuingThatFailsForAnUnknownReasonNamesMember0) {
  script_.on_queue = [](auto) { throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "cannot queue now"); };
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  for (std::uint32_t k = 0; k < 3; ++k) {
    EXPECT_THAT(wait_error(k), is_error(kUnavailable, "cannot queue now"));
  }
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(kUnavailable, "member 0 of 3"));
}

// The loss is noticed while the collective is prepared: member 2 waits for a stream of its device, which is that of
// member 0, too.
TEST_F(Scripted, IsNotQueuedOnADeviceThatWasJustLost) {
  const auto writer = rig.stream();
  rig.control->is_blocked = true;
  fill(*writer, contexts[2].tensor("g").view, 1.0F);
  script_.is_lost = true;
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  rig.control->is_blocked = false;
  EXPECT_EQ(script_.queue_count, 0);
  EXPECT_TRUE(rig.device->is_lost());
  EXPECT_THAT(wait_error(0), is_error(ErrorCode::kDeviceLost, "member 0 of 3", "its device was lost"));
  EXPECT_THAT(wait_error(1), is_error(kAborted, "member 1 of 3", "its device was lost"));
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(ErrorCode::kDeviceLost, "member 0 of 3"));
}

TEST_F(Scripted, IsNotQueuedIfTheInputOfAMemberFailed) {
  const auto writer = Stream::create(contexts[1].stream()->device());
  rig.control->fail_after = 0;
  fill(*writer, contexts[1].tensor("g").view, 1.0F);
  EXPECT_THROW(writer->wait(), Error);
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  EXPECT_EQ(script_.queue_count, 0);
  for (std::uint32_t k = 0; k < 3; ++k) {
    EXPECT_THAT(wait_error(k), is_error(kInternal, "the test injected this failure"));
  }
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(kInternal, "member 1 of 3", writer->name()));
}

// Queued by workers, because member 1 waits for another backend.
TEST_F(Scripted, MemberThatCannotQueueAbortsTheOthers) {
  const auto control = register_backend(rig.runtime, 1, Rig::make_control(Streams::kNative));
  const auto device = rig.runtime.backend(control->name)->open_device(0);
  const auto elsewhere = Stream::create(device);
  const BufferView buffer = buffer_of<float>(device, 1);
  script_.on_queue = [this](auto rows) {
    EXPECT_EQ(rows.size(), 1U);
    if (rows[0].communicator->rank == 1) {
      throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "cannot queue now");
    }
    script_.hold(rows[0].stream);
  };
  control->is_blocked = true;
  fill(*elsewhere, buffer, 1.0F);
  stream(1).wait_for(elsewhere->record());
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  EXPECT_TRUE(wait_until([&] { return script_.queue_count == 2; }));
  control->is_blocked = false;
  EXPECT_THAT(wait_error(1), is_error(kUnavailable, "all_reduce of 768 bytes of tensor 'g', member 1 of 3",
                                      "cannot queue now"));
  EXPECT_THAT(wait_error(0), is_error(kAborted, "member 1 of 3", "cannot queue now"));
  EXPECT_THAT(error_of([&] { sum.run(); }), is_error(kUnavailable, "member 1 of 3", "cannot queue now"));
}

TEST_F(Scripted, RefusesTensorsOfOtherDevices) {
  Context stranger(contexts[0].stream());
  stranger.adopt("g", contexts[1].tensor("g").spec, contexts[1].tensor("g").view);
  const std::vector<Context> members = {stranger, contexts[1]};
  const auto pair = Collectives::create(MergeStrategy::kNative, members);
  EXPECT_THAT(error_of([&] { pair->all_reduce("g"); }),
              is_error(ErrorCode::kInvalidArgument, "the tensor of member 0 is on 'test0:1'", "'test0:0'"));
}

// While a collective is pending, work on the bytes that it does not use goes on.
TEST_F(Scripted, OtherStreamsWaitOnlyForWhatItUses) {
  script_.on_queue = [this](auto rows) {
    for (const yoke_collective& row : rows) {
      script_.hold(row.stream);
    }
  };
  const auto other = Stream::create(contexts[1].stream()->device());
  std::vector<float> read(64);
  const LinkedCollective receive = group->broadcast("g", Slice{64, kCount});  // member 1 has no source
  receive.run();
  fill(*other, elements(1, 0, 64), 1.0F);
  EXPECT_NO_THROW(other->wait());
  other->to_host(read.data(), elements(1, 64, 128));
  EXPECT_FALSE(other->is_idle());
  script_.release();
  EXPECT_NO_THROW(other->wait());
}

TEST_F(Scripted, OtherStreamsReadWhatAReduceScatterOnlyReads) {
  script_.on_queue = [this](auto rows) {
    for (const yoke_collective& row : rows) {
      script_.hold(row.stream);
    }
  };
  const auto reader = Stream::create(contexts[1].stream()->device());
  const auto writer = Stream::create(contexts[1].stream()->device());
  std::vector<float> read(64);
  const LinkedCollective scatter = group->reduce_scatter("g");  // member 1 gets elements 64 to 128
  scatter.run();
  reader->to_host(read.data(), elements(1, 0, 64));
  reader->to_host(read.data(), elements(1, 128, 192));
  EXPECT_NO_THROW(reader->wait());
  fill(*writer, elements(1, 128, 192), 1.0F);
  EXPECT_FALSE(writer->is_idle());
  reader->to_host(read.data(), elements(1, 64, 128));
  EXPECT_FALSE(reader->is_idle());
  script_.release();
  EXPECT_NO_THROW(writer->wait());
  EXPECT_NO_THROW(reader->wait());
}

// The backend is asked for the state of a group while work is pending, at most every 5 ms.
TEST_F(Scripted, StreamsAskForTheStateOfAGroupOnlyWhileTheyWait) {
  const LinkedCollective sum = group->all_reduce("g");
  EXPECT_TRUE(stream(0).is_idle());
  sum.run();
  EXPECT_EQ(script_.query_count, 0);
  rig.control->is_blocked = true;
  fill(stream(0), elements(0, 0, 64), 1.0F);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(stream(0).is_idle());
  }
  const auto polls = (std::chrono::steady_clock::now() - begin) / 5ms + 1;
  EXPECT_GE(script_.query_count, 3);
  EXPECT_LE(script_.query_count, 3 * polls);
  rig.control->is_blocked = false;
}

TEST_F(Scripted, StreamsForgetGroupsThatHaveEnded) {
  group.reset();
  rig.control->is_blocked = true;
  fill(stream(0), elements(0, 0, 64), 1.0F);
  EXPECT_FALSE(stream(0).is_idle());
  EXPECT_EQ(script_.query_count, 0);
  rig.control->is_blocked = false;
  EXPECT_NO_THROW(stream(0).wait());
}

class OneWorker : public Scripted {
 protected:
  OneWorker() : Scripted({.worker_threads = 1}) {}
};

// A member's call may wait for those of the others.
TEST_F(OneWorker, QueuesForAllMembersAtTheSameTime) {
  const auto control = register_backend(rig.runtime, 1, Rig::make_control(Streams::kNative));
  const auto device = rig.runtime.backend(control->name)->open_device(0);
  const auto elsewhere = Stream::create(device);
  const BufferView buffer = buffer_of<float>(device, 1);
  script_.on_queue = [this](auto) { EXPECT_TRUE(wait_until([&] { return script_.queue_count == 3; }, 30s)); };
  control->is_blocked = true;
  fill(*elsewhere, buffer, 1.0F);
  stream(1).wait_for(elsewhere->record());
  const LinkedCollective sum = group->all_reduce("g");
  sum.run();
  control->is_blocked = false;
  // Waits of a stream would replace a worker that is stuck.
  EXPECT_TRUE(wait_until([&] { return script_.queue_count == 3; }, 10s));
  for (std::uint32_t k = 0; k < 3; ++k) {
    EXPECT_NO_THROW(stream(k).wait());
  }
}

class ShortWait : public Scripted {
 protected:
  ShortWait() : Scripted({.wait_timeout = 100ms}) {}
};

TEST_F(ShortWait, PendingCollectiveIsLeaked) {
  const ExpectedLeak leak;  // of the collective and its group
  script_.on_queue = [this](auto rows) {
    for (const yoke_collective& row : rows) {
      script_.hold(row.stream);
    }
  };
  auto pair = Collectives::create(MergeStrategy::kNative, std::span(contexts).first(2));
  LinkedCollective sum = pair->all_reduce("g");
  sum.run();
  pair.reset();
  sum = {};
  EXPECT_THAT(rig.log.all(), Contains(HasSubstr("collective.leak device=test0:0 tensor=g")));
  script_.release();
  for (const std::uint32_t k : {0U, 1U}) {  // before the script ends, because the leak keeps the streams open
    EXPECT_NO_THROW(stream(k).wait(30s));
  }
}

}  // namespace
}  // namespace yoke::test
