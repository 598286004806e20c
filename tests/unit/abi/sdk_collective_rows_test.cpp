// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_collective_rows_test.cpp: what reaches the backend of groups and collectives.
#include <gmock/gmock.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/profile.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "recording_backend.h"
#include "sdk_fixture.h"

namespace yoke::test {
namespace {

// A backend that records what reaches it.
class RecordedCollectivesTest : public testing::Test {
 protected:
  RecordedCollectivesTest() {
    table_ = entered_.table<yoke_collectives_api>(YOKE_COLLECTIVES_TABLE);
    device_ = entered_.open();
    buffer_ = entered_.buffer(device_, 64);
    auto args = sized<yoke_stream_args>();
    args.priority = -2;
    EXPECT_EQ(entered_.streams->stream_create(device_, &args, &stream_, error()), YOKE_STATUS_OK);
    EXPECT_EQ(table_->group_id_create(device_, &id_, error()), YOKE_STATUS_OK);
    EXPECT_EQ(join(0, 3), YOKE_STATUS_OK);
    row_ = {
        communicator_,      stream_, buffer_, 8, buffer_, 32, 3, YOKE_COLLECTIVE_ALL_REDUCE, YOKE_TYPE_F64,
        YOKE_REDUCTION_SUM, 7,       0};
  }
  ~RecordedCollectivesTest() override {
    table_->communicator_destroy(communicator_);
    entered_.streams->stream_destroy(stream_);
    entered_.backend->buffer_destroy(buffer_);
    entered_.close(device_);
  }
  yoke_error* error() { return &entered_.error; }
  std::int32_t join(std::uint32_t rank, std::uint32_t size) {
    auto args = sized<yoke_communicator_args>();
    args.id = &id_.bytes[0];
    args.rank = rank;
    args.size = size;
    return table_->communicator_create(device_, &args, &communicator_, error());
  }
  template <class Change>
  std::int32_t code_of(const Change& change) {
    yoke_collective row = row_;
    change(row);
    return table_->collectives_queue(&row, 1, sizeof row, error());
  }

  Entered entered_{&recording_entry};
  Recorded& recorded_ = RecordingBackend::recorded();
  const yoke_collectives_api* table_ = nullptr;
  yoke_device* device_ = nullptr;
  yoke_buffer* buffer_ = nullptr;
  yoke_stream* stream_ = nullptr;
  yoke_group_id id_ = sized<yoke_group_id>();
  yoke_communicator* communicator_ = nullptr;
  yoke_collective row_{};
};

TEST_F(RecordedCollectivesTest, DescriptionsIdsAndMembersAreThoseOfTheBackend) {
  auto info = sized<yoke_collectives_info>();
  ASSERT_EQ(table_->collectives_describe(device_, &info, error()), YOKE_STATUS_OK);
  EXPECT_EQ(info.features, std::uint64_t{YOKE_COLLECTIVES_PROCESSES});
  EXPECT_EQ(info.sum_types, 2U + 4U);
  EXPECT_EQ(info.order_types, 64U);
  EXPECT_EQ(info.sum_order, YOKE_SUM_ORDER_RANKS);
  EXPECT_EQ(info.member_limit, 9U);
  EXPECT_EQ(id_.bytes[0], 1);
  EXPECT_EQ(id_.bytes[254], 255);
  EXPECT_TRUE(std::equal(recorded_.joined.begin(), recorded_.joined.end(), &id_.bytes[0]));
  EXPECT_EQ(recorded_.rank, 0U);
  EXPECT_EQ(recorded_.size, 3U);
  EXPECT_EQ(recorded_.priority, -2);
  EXPECT_EQ(join(3, 3), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "rank 3 is not in a group of 3 members");
  EXPECT_EQ(table_->collectives_describe(device_, nullptr, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(table_->group_id_create(device_, nullptr, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(table_->communicator_query(communicator_, nullptr, error()), YOKE_STATUS_INVALID_ARGUMENT);
  auto args = sized<yoke_communicator_args>();
  args.size = 3;
  yoke_communicator* none = nullptr;
  EXPECT_EQ(table_->communicator_create(device_, &args, &none, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "the group's id is NULL");
  args.id = &id_.bytes[0];
  EXPECT_EQ(table_->communicator_create(device_, &args, nullptr, error()), YOKE_STATUS_INVALID_ARGUMENT);
  args.flags = 1;
  EXPECT_EQ(table_->communicator_create(device_, &args, &none, error()), YOKE_STATUS_UNIMPLEMENTED);
}

TEST_F(RecordedCollectivesTest, RowsReachTheBackendWithTheirObjects) {
  struct Longer {  // a newer host has longer rows
    yoke_collective row;
    std::uint64_t more;
  };
  std::array<Longer, 2> rows = {Longer{row_, 1}, Longer{row_, 2}};
  rows[1].row.kind = YOKE_COLLECTIVE_BROADCAST;
  rows[1].row.root = 2;
  rows[1].row.source = nullptr;
  ASSERT_EQ(table_->collectives_queue(&rows[0].row, 2, sizeof(Longer), error()), YOKE_STATUS_OK)
      << error()->text;
  ASSERT_EQ(recorded_.rows.size(), 2U);
  const sdk::Collective& sum = recorded_.rows[0];
  EXPECT_NE(sum.communicator, nullptr);
  EXPECT_EQ(sum.stream, &sdk::object_of(stream_));
  EXPECT_EQ(sum.source, &sdk::object_of(buffer_));
  EXPECT_EQ(sum.source_offset, 8U);
  EXPECT_EQ(sum.target, &sdk::object_of(buffer_));
  EXPECT_EQ(sum.target_offset, 32U);
  EXPECT_EQ(sum.count, 3U);
  EXPECT_EQ(sum.kind, YOKE_COLLECTIVE_ALL_REDUCE);
  EXPECT_EQ(sum.type, YOKE_TYPE_F64);
  EXPECT_EQ(sum.reduction, YOKE_REDUCTION_SUM);
  const sdk::Collective& broadcast = recorded_.rows[1];
  EXPECT_EQ(broadcast.source, nullptr);
  EXPECT_EQ(broadcast.source_offset, 0U);
  EXPECT_EQ(broadcast.root, 2U);
  EXPECT_EQ(code_of([](yoke_collective& row) {
              row.kind = YOKE_COLLECTIVE_BROADCAST;
              row.root = 0;
            }),
            YOKE_STATUS_OK);
  EXPECT_EQ(recorded_.rows[0].source, &sdk::object_of(buffer_)) << "this member is the root";
  EXPECT_EQ(recorded_.rows[0].source_offset, 8U);
}

TEST_F(RecordedCollectivesTest, ReductionsNeedATypeThatTheDeviceReduces) {
  for (const std::int32_t kind : {YOKE_COLLECTIVE_ALL_REDUCE, YOKE_COLLECTIVE_REDUCE_SCATTER}) {
    for (const std::int32_t reduction : {YOKE_REDUCTION_SUM, YOKE_REDUCTION_MAX, YOKE_REDUCTION_MIN}) {
      for (const std::int32_t type : {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_I32}) {
        const std::int32_t code = code_of([&](yoke_collective& row) {
          row.kind = kind;
          row.reduction = reduction;
          row.type = type;
          row.count = 1;
        });
        EXPECT_EQ(code == YOKE_STATUS_OK, (reduction == YOKE_REDUCTION_SUM) == (type != YOKE_TYPE_I32));
      }
    }
    EXPECT_EQ(code_of([&](yoke_collective& row) {
                row.kind = kind;
                row.count = 1;
                row.reduction = YOKE_REDUCTION_MIN + 1;
              }),
              YOKE_STATUS_INVALID_ARGUMENT);
  }
}

TEST_F(RecordedCollectivesTest, RowsAreRefusedAllOrNone) {
  recorded_.rows.clear();
  EXPECT_EQ(code_of([](yoke_collective& row) { row.stream = nullptr; }), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "collective 0: communicator or stream is NULL");
  EXPECT_EQ(code_of([](yoke_collective& row) { row.flags = 5; }), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(error()->text, "collectives_queue: unknown flags 5; update the plugin");
  std::array<yoke_collective, 2> rows = {row_, row_};
  rows[1].communicator = nullptr;
  EXPECT_EQ(table_->collectives_queue(rows.data(), 2, sizeof row_, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "collective 1: communicator or stream is NULL");
  EXPECT_EQ(table_->collectives_queue(rows.data(), 0, sizeof row_, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(table_->collectives_queue(rows.data(), 1, 7, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "the stride of the rows is 7");
  const auto* faults = entered_.table<yoke_fault_api>(YOKE_FAULT_TABLE);
  recorded_.member_state = YOKE_STATE_PENDING;
  EXPECT_EQ(code_of([](yoke_collective&) {}), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(error()->text, "collective 0: members of the group are missing; call communicator_wait first");
  EXPECT_EQ(table_->communicator_wait(communicator_, 12, error()), YOKE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_EQ(error()->text, "12 ns");
  EXPECT_EQ(table_->communicator_abort(communicator_, error()), YOKE_STATUS_OK);
  EXPECT_EQ(code_of([](yoke_collective&) {}), YOKE_STATUS_ABORTED);
  recorded_.member_state = YOKE_STATE_DONE;
  ASSERT_EQ(faults->fault_arm(device_, YOKE_FAULT_DEVICE_LOST, 1, 0, error()), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.backend->fill(nullptr, buffer_, 0, 8, "x", 1, error()), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(code_of([](yoke_collective&) {}), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(table_->communicator_wait(communicator_, 0, error()), YOKE_STATUS_DEVICE_LOST);
  std::int32_t state = -1;
  EXPECT_EQ(table_->communicator_query(communicator_, &state, error()), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_FAILED);
  EXPECT_TRUE(recorded_.rows.empty());
}

TEST_F(RecordedCollectivesTest, ProfileHasOneRecordOfEachStreamNamedAsItsFirstRow) {
  const auto* profile = entered_.table<yoke_profile_api>(YOKE_PROFILE_TABLE);
  yoke_stream* second = nullptr;
  const auto stream_args = sized<yoke_stream_args>();
  ASSERT_EQ(entered_.streams->stream_create(device_, &stream_args, &second, error()), YOKE_STATUS_OK);
  std::vector<yoke_collective> rows(4, row_);
  rows[1].kind = YOKE_COLLECTIVE_BROADCAST;  // on the stream of the first row
  rows[1].root = 0;
  rows[2].kind = YOKE_COLLECTIVE_REDUCE_SCATTER;
  rows[2].count = 1;
  rows[2].stream = rows[3].stream = second;
  const auto queue = [&] {
    EXPECT_EQ(table_->collectives_queue(rows.data(), 4, sizeof row_, error()), YOKE_STATUS_OK)
        << error()->text;
    EXPECT_EQ(entered_.streams->stream_wait(stream_, kTimeoutNs, error()), YOKE_STATUS_OK);
    EXPECT_EQ(entered_.streams->stream_wait(second, kTimeoutNs, error()), YOKE_STATUS_OK);
  };
  queue();  // not recorded
  const auto args = sized<yoke_profile_args>();
  ASSERT_EQ(profile->profile_start(device_, &args, error()), YOKE_STATUS_OK);
  queue();
  std::array<yoke_profile_record, 4> records{};
  std::uint32_t count = 0;
  std::uint64_t lost = 0;
  ASSERT_EQ(profile->profile_fetch(device_, 4, sizeof records[0], records.data(), &count, &lost, error()),
            YOKE_STATUS_OK);
  ASSERT_EQ(count, 2U);
  EXPECT_STREQ(records[0].name, "all_reduce");
  EXPECT_EQ(records[0].kind, YOKE_WORK_COLLECTIVE);
  EXPECT_EQ(records[0].stream, stream_);
  EXPECT_STREQ(records[1].name, "reduce_scatter");
  EXPECT_EQ(records[1].stream, second);
  entered_.streams->stream_destroy(second);
}

}  // namespace
}  // namespace yoke::test
