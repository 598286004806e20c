// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/communicator_test.cpp: the calls of yoke.collectives/1 for one member of a group.
#include "device/communicator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <string_view>

#include "device_test.h"

namespace yoke::test {
namespace {

using detail::Communicator;

class CommunicatorTest : public DeviceTest {
 protected:
  CommunicatorTest() {
    control_->provides.streams = control_->provides.collectives = true;
    control_->collectives_features = YOKE_COLLECTIVES_PROCESSES;
  }
};

TEST_F(CommunicatorTest, CollectivesNeedStreams) {
  EXPECT_TRUE(detail::has_collectives(*device()));
  const yoke_collectives_info info = detail::describe_collectives(*device());
  EXPECT_EQ(info.features, std::uint64_t{YOKE_COLLECTIVES_PROCESSES});
  EXPECT_EQ(info.sum_types, std::uint64_t{1} << YOKE_TYPE_F32);
  control_->provides.streams = false;
  EXPECT_FALSE(detail::has_collectives(*Rig(control_).device));
}

TEST_F(CommunicatorTest, IdHasAllBytesThatTheBackendWrites) {
  static yoke_collectives_api table;
  table = sdk::detail::kCollectivesTable;
  table.group_id_create = [](yoke_device*, yoke_group_id* id, yoke_error*) -> std::int32_t {
    yoke_group_id mine{};
    std::fill(std::begin(mine.bytes), std::end(mine.bytes), std::uint8_t{7});
    sdk::write_sized(mine, id);
    return YOKE_STATUS_OK;
  };
  control_->on_table = [](std::string_view id, const void* found) -> const void* {
    return id == YOKE_COLLECTIVES_TABLE ? &table : found;
  };
  EXPECT_THAT(detail::create_group_id(*device()).bytes, testing::Each(7));
}

TEST_F(CommunicatorTest, MemberReceivesTheIdOfItsGroup) {
  static std::uint8_t received[sizeof(yoke_group_id::bytes)];
  static yoke_collectives_api table;
  table = sdk::detail::kCollectivesTable;
  table.communicator_create = [](yoke_device* on, const yoke_communicator_args* args, yoke_communicator** out,
                                 yoke_error* error) -> std::int32_t {
    std::memcpy(received, args->id, sizeof(received));
    return sdk::detail::communicator_create(on, args, out, error);
  };
  control_->on_table = [](std::string_view id, const void* found) -> const void* {
    return id == YOKE_COLLECTIVES_TABLE ? &table : found;
  };
  yoke_group_id id = detail::create_group_id(*device());
  std::iota(std::begin(id.bytes), std::end(id.bytes), std::uint8_t{1});
  const Communicator member(device(), id, 0, 1);
  EXPECT_THAT(received, testing::ElementsAreArray(id.bytes));
}

TEST_F(CommunicatorTest, AbortedMemberHasFailed) {
  Communicator member(device(), detail::create_group_id(*device()), 1, 2);
  member.wait(0ns);
  EXPECT_FALSE(member.has_failed());
  member.abort();
  EXPECT_TRUE(member.has_failed());
  EXPECT_ERROR(ErrorCode::kAborted, member.wait(0ns));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, Communicator(device(), detail::create_group_id(*device()), 2, 2));
}

}  // namespace
}  // namespace yoke::test
