// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/profile_test.cpp: the records of yoke.profile/1 reach RuntimeOptions::on_work.
#include "device/profile.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "device_test.h"

namespace yoke::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What one call of profile_fetch does.
struct Fetch {
  std::vector<yoke_profile_record> records;
  std::uint32_t count = 0;  // reported; 0: as many as there are
  std::uint64_t lost = 0;   // 0: not written
  std::int32_t code = YOKE_STATUS_OK;
};

constexpr std::uint32_t kBatch = 128;  // the most records per call

yoke_profile_record record_of(std::string_view name, std::int32_t kind = YOKE_WORK_LAUNCH) {
  yoke_profile_record record{};
  record.kind = kind;
  std::copy(name.begin(), name.end(), std::begin(record.name));
  return record;
}

class ProfileTest : public DeviceTest {
 protected:
  struct Work {
    WorkRecord::Kind kind;
    std::string stream, name;
    std::uint64_t begin_ns, end_ns;
  };

  ProfileTest() {
    fetches_.clear();
    fetch_count_ = 0;
    start_code_ = YOKE_STATUS_OK;
    table_ = {.struct_size = sizeof(table_),
              .profile_start = [](yoke_device*, const yoke_profile_args* args, yoke_error*) -> std::int32_t {
                EXPECT_EQ(args->struct_size, sizeof(*args));
                EXPECT_EQ(args->flags + args->capacity, 0U);
                return start_code_;
              },
              .profile_stop = [](auto...) -> std::int32_t { return YOKE_STATUS_OK; },
              .profile_fetch = fetch};
    control_->provides.streams = true;
    control_->on_table = [](std::string_view id, const void* found) {
      return id == YOKE_PROFILE_TABLE ? static_cast<const void*>(&table_) : found;
    };
    options_.on_work = [this](const WorkRecord& work) {
      works_.push_back(
          {work.kind, std::string(work.stream), std::string(work.name), work.begin_ns, work.end_ns});
    };
  }

  ~ProfileTest() override { rig_.reset(); }  // calls on_work

  static std::int32_t fetch(yoke_device*, std::uint32_t capacity, std::uint64_t stride,
                            yoke_profile_record* records, std::uint32_t* out_count, std::uint64_t* out_lost,
                            yoke_error*) noexcept {
    EXPECT_EQ(capacity, kBatch);
    EXPECT_EQ(stride, sizeof(yoke_profile_record));
    ++fetch_count_;
    if (fetches_.empty()) {
      *out_count = 0;
      return YOKE_STATUS_OK;
    }
    const Fetch next = fetches_.front();
    fetches_.erase(fetches_.begin());
    std::copy(next.records.begin(), next.records.end(), records);
    *out_count = next.count == 0 ? static_cast<std::uint32_t>(next.records.size()) : next.count;
    if (next.lost != 0) {
      *out_lost = next.lost;
    }
    return next.code;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Work& work : works_) {
      all.push_back(work.name);
    }
    return all;
  }

  static inline yoke_profile_api table_;
  static inline std::vector<Fetch> fetches_;  // the results of the next calls; then none
  static inline int fetch_count_;
  static inline std::int32_t start_code_;
  std::vector<Work> works_;
};

TEST_F(ProfileTest, FieldsOfARecordArePassedOn) {
  using Kind = WorkRecord::Kind;
  const std::pair<std::int32_t, Kind> kinds[] = {{YOKE_WORK_LAUNCH, Kind::kLaunch},
                                                 {YOKE_WORK_COPY, Kind::kCopy},
                                                 {YOKE_WORK_FILL, Kind::kFill},
                                                 {YOKE_WORK_COLLECTIVE, Kind::kCollective},
                                                 {0, Kind::kCopy},
                                                 {99, Kind::kCopy}};
  detail::WorkProfile& profile = *device()->profile();
  for (const auto& [from, to] : kinds) {
    fetches_ = {{{record_of("work", from)}}};
    profile.fetch();
    EXPECT_EQ(works_.back().kind, to) << from;
  }
  works_.clear();
  auto* const stream = reinterpret_cast<yoke_stream*>(&works_);  // only compared
  profile.name_stream(stream, "lane");
  yoke_profile_record record = record_of(std::string(YOKE_NAME_CAPACITY, 'n'));  // not terminated
  record.begin_ns = 7;
  record.end_ns = 9;
  fetches_ = {{{record, record}}};
  fetches_[0].records[1].stream = stream;
  profile.fetch();
  ASSERT_THAT(works_, SizeIs(2));
  EXPECT_EQ(works_[0].stream, "test0:0") << "the stream has no name";
  EXPECT_EQ(works_[1].stream, "lane");
  EXPECT_EQ(works_[1].name, std::string(YOKE_NAME_CAPACITY, 'n'));
  EXPECT_EQ(works_[1].begin_ns, 7U);
  EXPECT_EQ(works_[1].end_ns, 9U);
}

TEST_F(ProfileTest, RecordsAreFetchedUntilABatchIsNotFull) {
  const std::vector<yoke_profile_record> full(kBatch, record_of("first"));
  fetches_ = {{full}, {{record_of("second"), record_of("third")}}, {{record_of("later")}}};
  device()->profile()->fetch();
  EXPECT_EQ(fetch_count_, 2);
  ASSERT_THAT(works_, SizeIs(kBatch + 2));
  EXPECT_EQ(works_[kBatch - 1].name, "first");
  EXPECT_EQ(works_[kBatch].name, "second");
  EXPECT_EQ(works_[kBatch + 1].name, "third");
}

TEST_F(ProfileTest, FailedOrInvalidFetchHasNoRecords) {
  const std::vector<yoke_profile_record> full(kBatch, record_of("x"));
  const Fetch cases[] = {{full, 0, 5, YOKE_STATUS_DEVICE_LOST},
                         {{record_of("x")}, 0, 5, -1},
                         {full, kBatch + 1, 5, YOKE_STATUS_OK}};
  for (const Fetch& one : cases) {
    fetches_ = {one};
    fetch_count_ = 0;
    device()->profile()->fetch();
    EXPECT_EQ(fetch_count_, 1);
  }
  EXPECT_THAT(works_, IsEmpty());
  EXPECT_THAT(rig().log.all(), IsEmpty());
}

TEST_F(ProfileTest, LostRecordsAreLoggedOnce) {
  fetches_ = {{{record_of("a")}}, {{record_of("b")}, 0, 1}, {{record_of("c")}, 0, 3}};
  detail::WorkProfile& profile = *device()->profile();
  profile.fetch();
  EXPECT_THAT(rig().log.all(), IsEmpty());
  profile.fetch();
  profile.fetch();
  EXPECT_THAT(rig().log.all(), ElementsAre(HasSubstr("profile.lost device=test0:0 records=1 ")));
  EXPECT_THAT(names(), ElementsAre("a", "b", "c"));
}

TEST_F(ProfileTest, LastRecordsAreFetchedBeforeTheDeviceIsClosed) {
  device();
  fetches_ = {{{record_of("last")}}};
  rig_.reset();
  EXPECT_THAT(names(), ElementsAre("last"));
}

TEST_F(ProfileTest, WorkIsRecordedOnlyIfTheApplicationAndTheBackendCan) {
  const auto is_recorded = [this] {
    rig_.reset();
    return device()->profile() != nullptr;
  };
  EXPECT_TRUE(is_recorded());
  for (const std::int32_t code : {std::int32_t{YOKE_STATUS_UNIMPLEMENTED}, -1}) {
    start_code_ = code;
    EXPECT_FALSE(is_recorded());
  }
  start_code_ = YOKE_STATUS_OK;
  const yoke_profile_api whole = table_;
  table_.profile_start = nullptr;
  EXPECT_FALSE(is_recorded());
  table_ = whole;
  table_.profile_fetch = nullptr;
  EXPECT_FALSE(is_recorded());
  table_ = whole;
  control_->provides.streams = false;
  EXPECT_FALSE(is_recorded());
  control_->provides.streams = true;
  const auto on_table = std::exchange(control_->on_table, nullptr);
  EXPECT_FALSE(is_recorded()) << "without the table";
  control_->on_table = on_table;
  options_.on_work = nullptr;
  EXPECT_FALSE(is_recorded());
}

}  // namespace
}  // namespace yoke::test
