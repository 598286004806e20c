// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_collectives_test.cpp: what the SDK checks before a backend queues collectives.
#include <gmock/gmock.h>
#include <yoke/ext/collectives.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sdk_fixture.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

class SdkCollectivesTest : public SdkStreamTest {
 protected:
  SdkCollectivesTest() { control_->provides.collectives = true; }
  // Opens a device that is member 1 of a group of 2.
  void begin_group() {
    begin();
    table_ = entered_->table<yoke_collectives_api>(YOKE_COLLECTIVES_TABLE);
    ASSERT_NE(table_, nullptr);
    auto id = sized<yoke_group_id>();
    ASSERT_EQ(table_->group_id_create(device_, &id, error()), YOKE_STATUS_OK);
    auto args = sized<yoke_communicator_args>();
    args.id = &id.bytes[0];
    args.rank = 1;
    args.size = 2;
    ASSERT_EQ(table_->communicator_create(device_, &args, &communicator_, error()), YOKE_STATUS_OK);
  }
  void TearDown() override {
    if (table_ != nullptr) {
      table_->communicator_destroy(communicator_);
    }
    SdkStreamTest::TearDown();
  }
  // Queues a valid row after `change`.
  template <class Change>
  std::int32_t code_of(const Change& change) {
    yoke_collective row{};
    row.communicator = communicator_;
    row.stream = stream_;
    row.source = row.target = buffer_;
    row.count = 4;
    row.kind = YOKE_COLLECTIVE_BROADCAST;
    row.type = YOKE_TYPE_F32;
    row.reduction = YOKE_REDUCTION_SUM;
    change(row);
    return table_->collectives_queue(&row, 1, sizeof(row), error());
  }

  const yoke_collectives_api* table_ = nullptr;
  yoke_communicator* communicator_ = nullptr;
};

TEST_F(SdkCollectivesTest, RowsOfCollectivesAreChecked) {
  begin_group();
  EXPECT_EQ(code_of([](yoke_collective& row) { row.source = nullptr; }), YOKE_STATUS_OK)
      << "only the root has a source";
  EXPECT_EQ(code_of([](yoke_collective& row) {
              row.source = nullptr;
              row.root = 1;
            }),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](yoke_collective& row) { row.target = nullptr; }), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](yoke_collective& row) { row.root = 2; }), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(code_of([](yoke_collective& row) {
              row.kind = YOKE_COLLECTIVE_ALL_REDUCE;
              row.root = 2;
            }),
            YOKE_STATUS_OK)
      << "only a broadcast has a root";
  EXPECT_EQ(code_of([](yoke_collective& row) { row.count = 17; }), YOKE_STATUS_OUT_OF_RANGE);
  for (const std::int32_t type : {-1'000'000'000, 0, YOKE_TYPE_BOOL + 1}) {
    EXPECT_EQ(code_of([&](yoke_collective& row) { row.type = type; }), YOKE_STATUS_INVALID_ARGUMENT) << type;
    EXPECT_THAT(error()->text, HasSubstr("element type " + std::to_string(type)));
  }
  EXPECT_EQ(code_of([](yoke_collective& row) {
              row.kind = YOKE_COLLECTIVE_ALL_REDUCE;
              row.type = YOKE_TYPE_F64;
            }),
            YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(wait(), YOKE_STATUS_OK);
}

TEST_F(SdkCollectivesTest, UnknownKindsAndReductionsAreRefused) {
  begin_group();
  for (const std::int32_t kind : {-1, 0, YOKE_COLLECTIVE_BROADCAST + 1}) {
    EXPECT_EQ(code_of([&](yoke_collective& row) { row.kind = kind; }), YOKE_STATUS_INVALID_ARGUMENT) << kind;
    EXPECT_THAT(error()->text, HasSubstr("unknown kind " + std::to_string(kind)));
  }
  for (const std::int32_t reduction : {-1, 0, YOKE_REDUCTION_MIN + 1}) {
    for (const bool reduces : {true, false}) {
      EXPECT_EQ(code_of([&](yoke_collective& row) {
                  row.kind = reduces ? YOKE_COLLECTIVE_ALL_REDUCE : YOKE_COLLECTIVE_BROADCAST;
                  row.reduction = reduction;
                }),
                reduces ? YOKE_STATUS_INVALID_ARGUMENT : YOKE_STATUS_OK)
          << reduction;
    }
    EXPECT_THAT(error()->text, HasSubstr("unknown reduction " + std::to_string(reduction)));
  }
}

// The member has rank 1 of 2. A part has 16 bytes, so 32 bytes are scattered or gathered.
TEST_F(SdkCollectivesTest, SourceAndTargetMayNotOverlapExceptInPlace) {
  begin_group();
  struct Case {
    std::int32_t kind;
    std::uint64_t source_offset;
    std::uint64_t target_offset;
    bool is_accepted;
  };
  const std::vector<Case> cases = {
      {YOKE_COLLECTIVE_ALL_REDUCE, 0, 0, true},      {YOKE_COLLECTIVE_ALL_REDUCE, 48, 48, true},
      {YOKE_COLLECTIVE_ALL_REDUCE, 0, 16, true},     {YOKE_COLLECTIVE_ALL_REDUCE, 16, 0, true},
      {YOKE_COLLECTIVE_ALL_REDUCE, 0, 12, false},    {YOKE_COLLECTIVE_ALL_REDUCE, 12, 0, false},
      {YOKE_COLLECTIVE_ALL_GATHER, 16, 0, true},     {YOKE_COLLECTIVE_ALL_GATHER, 32, 0, true},
      {YOKE_COLLECTIVE_ALL_GATHER, 0, 16, true},     {YOKE_COLLECTIVE_ALL_GATHER, 0, 0, false},
      {YOKE_COLLECTIVE_ALL_GATHER, 28, 0, false},    {YOKE_COLLECTIVE_ALL_GATHER, 16, 4, false},
      {YOKE_COLLECTIVE_REDUCE_SCATTER, 0, 16, true}, {YOKE_COLLECTIVE_REDUCE_SCATTER, 0, 32, true},
      {YOKE_COLLECTIVE_REDUCE_SCATTER, 16, 0, true}, {YOKE_COLLECTIVE_REDUCE_SCATTER, 0, 0, false},
      {YOKE_COLLECTIVE_REDUCE_SCATTER, 0, 28, false}};
  for (const Case& one : cases) {
    EXPECT_EQ(code_of([&](yoke_collective& row) {
                row.kind = one.kind;
                row.source_offset = one.source_offset;
                row.target_offset = one.target_offset;
              }),
              one.is_accepted ? YOKE_STATUS_OK : YOKE_STATUS_INVALID_ARGUMENT)
        << "kind " << one.kind << " from " << one.source_offset << " to " << one.target_offset;
  }
}

// A new stream may have the address of the destroyed one.
TEST_F(SdkCollectivesTest, OnlyAnAbortOfAStreamThatItUsesAbortsACommunicator) {
  begin_group();
  const auto args = sized<yoke_stream_args>();
  const auto create = [&] {
    yoke_stream* stream = nullptr;
    EXPECT_EQ(entered_->streams->stream_create(device_, &args, &stream, error()), YOKE_STATUS_OK);
    return stream;
  };
  yoke_stream* const used = create();
  EXPECT_EQ(code_of([&](yoke_collective& row) { row.stream = used; }), YOKE_STATUS_OK);
  EXPECT_EQ(entered_->streams->stream_wait(used, kTimeoutNs, error()), YOKE_STATUS_OK);
  entered_->streams->stream_destroy(used);
  std::vector<yoke_stream*> others;
  for (int i = 0; i < 16; ++i) {
    others.push_back(create());
    EXPECT_EQ(entered_->streams->stream_abort(others.back(), error()), YOKE_STATUS_OK);
  }
  EXPECT_EQ(table_->communicator_wait(communicator_, 0, error()), YOKE_STATUS_OK);

  EXPECT_EQ(code_of([](yoke_collective&) {}), YOKE_STATUS_OK);
  EXPECT_EQ(entered_->streams->stream_abort(stream_, error()), YOKE_STATUS_OK);
  EXPECT_EQ(table_->communicator_wait(communicator_, 0, error()), YOKE_STATUS_ABORTED);
  for (yoke_stream* stream : others) {
    entered_->streams->stream_destroy(stream);
  }
}

// The members of a group wait for each other.
TEST_F(SdkCollectivesTest, AbortOfADeviceAbortsItsCommunicatorsOnly) {
  begin_group();
  yoke_device* other = entered_->open(1);
  EXPECT_EQ(code_of([](yoke_collective&) {}), YOKE_STATUS_OK);
  EXPECT_EQ(wait(), YOKE_STATUS_OK);
  EXPECT_EQ(entered_->streams->device_abort(other, error()), YOKE_STATUS_OK);
  std::int32_t state = -1;
  EXPECT_EQ(table_->communicator_query(communicator_, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_DONE);
  EXPECT_EQ(entered_->streams->device_abort(device_, error()), YOKE_STATUS_OK);
  EXPECT_EQ(table_->communicator_query(communicator_, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_FAILED);
  entered_->close(other);
}

// The source of a broadcast is unused except by its root.
TEST_F(SdkCollectivesTest, BuffersOfOtherDevicesAreRefused) {
  begin_group();
  yoke_device* other = entered_->open(1);
  yoke_buffer* far = entered_->buffer(other, 64);
  const auto all_reduce = [&](yoke_buffer* source, yoke_buffer* target) {
    return code_of([&](yoke_collective& row) {
      row.kind = YOKE_COLLECTIVE_ALL_REDUCE;
      row.source = source;
      row.target = target;
    });
  };
  for (const bool is_source : {true, false}) {
    EXPECT_EQ(all_reduce(is_source ? far : buffer_, is_source ? buffer_ : far), YOKE_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(error()->text, "collective 0: a buffer is not of the communicator's device");
  }
  EXPECT_EQ(code_of([&](yoke_collective& row) { row.source = far; }), YOKE_STATUS_OK) << "unused";
  const auto args = sized<yoke_stream_args>();
  yoke_stream* stream = nullptr;
  ASSERT_EQ(entered_->streams->stream_create(other, &args, &stream, error()), YOKE_STATUS_OK);
  EXPECT_EQ(code_of([&](yoke_collective& row) { row.stream = stream; }), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error()->text, HasSubstr("work of device 0 was queued on a stream of device 1"));
  entered_->streams->stream_destroy(stream);
  EXPECT_EQ(wait(), YOKE_STATUS_OK);
  entered_->backend->buffer_destroy(far);
  entered_->close(other);
}

TEST_F(SdkCollectivesTest, PartsHaveTheSizeOfTheirElements) {
  begin_group();
  const std::vector<std::pair<std::int32_t, std::uint64_t>> sizes = {
      {YOKE_TYPE_F64, 8}, {YOKE_TYPE_F32, 4}, {YOKE_TYPE_F16, 2}, {YOKE_TYPE_BF16, 2}, {YOKE_TYPE_I64, 8},
      {YOKE_TYPE_I32, 4}, {YOKE_TYPE_U32, 4}, {YOKE_TYPE_U8, 1},  {YOKE_TYPE_BOOL, 1}};
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  for (const auto& one : sizes) {
    const auto queue = [&](std::int32_t kind, std::uint64_t count, std::uint64_t offset) {
      return code_of([&](yoke_collective& row) {
        row.kind = kind;
        row.type = one.first;
        row.count = count;
        row.target_offset = offset;
      });
    };
    EXPECT_EQ(queue(YOKE_COLLECTIVE_BROADCAST, 64 / one.second, 0), YOKE_STATUS_OK) << one.first;
    for (const std::uint64_t count : {64 / one.second + 1, (kHuge - 1) / one.second + 1, kHuge}) {
      EXPECT_EQ(queue(YOKE_COLLECTIVE_BROADCAST, count, 0), YOKE_STATUS_OUT_OF_RANGE) << one.first;
    }
    EXPECT_EQ(queue(YOKE_COLLECTIVE_BROADCAST, 1, 64), YOKE_STATUS_OUT_OF_RANGE);
    EXPECT_EQ(queue(YOKE_COLLECTIVE_BROADCAST, 0, 64), YOKE_STATUS_OK);
    EXPECT_EQ(queue(YOKE_COLLECTIVE_ALL_GATHER, 32 / one.second + 1, 0), YOKE_STATUS_OUT_OF_RANGE);
    EXPECT_THAT(error()->text, HasSubstr("target"));
  }
  EXPECT_EQ(code_of([](yoke_collective& row) {
              row.kind = YOKE_COLLECTIVE_REDUCE_SCATTER;
              row.count = 9;
            }),
            YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_THAT(error()->text, HasSubstr("source"));
}

// The limit is on the members of one process, so a group over processes may be larger.
TEST_F(SdkCollectivesTest, GroupsMayExceedTheLimitOnlyOverProcesses) {
  control_->member_limit = 2;
  begin();
  const auto* table = entered_->table<yoke_collectives_api>(YOKE_COLLECTIVES_TABLE);
  ASSERT_NE(table, nullptr);
  auto id = sized<yoke_group_id>();
  ASSERT_EQ(table->group_id_create(device_, &id, error()), YOKE_STATUS_OK);
  const auto join = [&](std::uint32_t size) {
    auto args = sized<yoke_communicator_args>();
    args.id = &id.bytes[0];
    args.size = size;
    yoke_communicator* communicator = nullptr;
    const std::int32_t code = table->communicator_create(device_, &args, &communicator, error());
    table->communicator_destroy(communicator);
    return code;
  };
  EXPECT_EQ(join(2), YOKE_STATUS_OK);
  EXPECT_EQ(join(3), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_THAT(error()->text, HasSubstr("a group of 3 members; the most are 2"));
  control_->collectives_features = YOKE_COLLECTIVES_PROCESSES;
  EXPECT_EQ(join(3), YOKE_STATUS_OK);
}

}  // namespace
}  // namespace yoke::test
