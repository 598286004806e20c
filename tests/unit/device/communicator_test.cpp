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
  // The backend's table from now on, for a test to change.
  yoke_collectives_api& table() {
    static yoke_collectives_api table;
    table = sdk::detail::kCollectivesTable;
    control_->on_table = [](std::string_view id, const void* found) -> const void* {
      return id == YOKE_COLLECTIVES_TABLE ? &table : found;
    };
    return table;
  }
};

TEST_F(CommunicatorTest, CollectivesNeedStreams) {
  EXPECT_TRUE(detail::has_collectives(*device()));
  const yoke_collectives_info info = detail::describe_collectives(*device());
  EXPECT_EQ(info.features, std::uint64_t{YOKE_COLLECTIVES_PROCESSES});
  EXPECT_EQ(info.sum_types, std::uint64_t{1} << YOKE_TYPE_F32);
  control_->provides.collectives = false;
  EXPECT_FALSE(detail::has_collectives(*Rig(control_).device));
  control_->provides.collectives = true;
  control_->provides.streams = false;
  EXPECT_FALSE(detail::has_collectives(*Rig(control_).device));
}

TEST_F(CommunicatorTest, IdHasAllBytesThatTheBackendWrites) {
  table().group_id_create = [](yoke_device*, yoke_group_id* id, yoke_error*) -> std::int32_t {
    EXPECT_EQ(id->struct_size, sizeof(*id));
    yoke_group_id mine{};
    std::fill(std::begin(mine.bytes), std::end(mine.bytes), std::uint8_t{7});
    sdk::write_sized(mine, id);
    return YOKE_STATUS_OK;
  };
  EXPECT_THAT(detail::create_group_id(*device()).bytes, testing::Each(7));
}

TEST_F(CommunicatorTest, MemberReceivesTheIdOfItsGroupAndItsRank) {
  static std::uint8_t received[sizeof(yoke_group_id::bytes)];
  static yoke_communicator_args with;
  table().communicator_create = [](yoke_device* on, const yoke_communicator_args* args,
                                   yoke_communicator** out, yoke_error* error) -> std::int32_t {
    std::memcpy(received, args->id, sizeof(received));
    with = *args;
    return sdk::detail::communicator_create(on, args, out, error);
  };
  yoke_group_id id = detail::create_group_id(*device());
  std::iota(std::begin(id.bytes), std::end(id.bytes), std::uint8_t{1});
  const Communicator member(device(), id, 3, 5);
  EXPECT_THAT(received, testing::ElementsAreArray(id.bytes));
  EXPECT_EQ(with.struct_size, sizeof(with));
  EXPECT_EQ(with.rank, 3U);
  EXPECT_EQ(with.size, 5U);
}

TEST_F(CommunicatorTest, TimeoutIsPassedOnAndANegativeOneIsZero) {
  static std::vector<std::uint64_t> timeouts;
  timeouts.clear();
  table().communicator_wait = [](yoke_communicator*, std::uint64_t timeout_ns, yoke_error*) -> std::int32_t {
    timeouts.push_back(timeout_ns);
    return YOKE_STATUS_OK;
  };
  const Communicator member(device(), detail::create_group_id(*device()), 0, 1);
  member.wait(5us);
  member.wait(-1ns);
  EXPECT_THAT(timeouts, testing::ElementsAre(5000U, 0U));
}

TEST_F(CommunicatorTest, MemberWhoseStateIsUnknownHasFailed) {
  static std::int32_t code;
  static std::int32_t state;
  table().communicator_query = [](yoke_communicator*, std::int32_t* out_state, yoke_error*) -> std::int32_t {
    *out_state = state;
    return code;
  };
  const Communicator member(device(), detail::create_group_id(*device()), 0, 1);
  for (const std::int32_t known : {YOKE_STATE_PENDING, YOKE_STATE_DONE}) {
    state = known;
    code = YOKE_STATUS_OK;
    EXPECT_FALSE(member.has_failed()) << known;
    for (const std::int32_t failure : {YOKE_STATUS_DEVICE_LOST, -1}) {
      code = failure;
      EXPECT_TRUE(member.has_failed()) << known << " " << failure;
    }
  }
}

TEST_F(CommunicatorTest, MemberIsDestroyedOnce) {
  static int destroyed_count;
  destroyed_count = 0;
  table().communicator_destroy = [](yoke_communicator* member) {
    ++destroyed_count;
    sdk::detail::communicator_destroy(member);
  };
  {
    Communicator member(device(), detail::create_group_id(*device()), 0, 1);
    const Communicator moved = std::move(member);
    EXPECT_EQ(destroyed_count, 0);
  }
  EXPECT_EQ(destroyed_count, 1);
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
