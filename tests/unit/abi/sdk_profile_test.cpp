// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_profile_test.cpp: the records of "yoke.profile/1" as the SDK makes them.
#include <gmock/gmock.h>
#include <yoke/ext/profile.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sdk_fixture.h"

namespace yoke::test {
namespace {

using testing::ElementsAre;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

class SdkProfileTest : public SdkTest {
 protected:
  SdkProfileTest() { control_->provides.profile = true; }

  void begin(yoke_plugin_entry_fn enter, std::uint64_t capacity) {
    entered_ = std::make_unique<Entered>(enter);
    device_ = entered_->open();
    buffer_ = entered_->buffer(device_, 8);
    const auto stream_args = sized<yoke_stream_args>();
    ASSERT_EQ(entered_->streams->stream_create(device_, &stream_args, &stream_, nullptr), YOKE_STATUS_OK);
    profile_ = entered_->table<yoke_profile_api>(YOKE_PROFILE_TABLE);
    ASSERT_NE(profile_, nullptr);
    auto args = sized<yoke_profile_args>();
    args.capacity = capacity;
    ASSERT_EQ(profile_->profile_start(device_, &args, nullptr), YOKE_STATUS_OK);
  }
  void end() {
    entered_->streams->stream_destroy(stream_);
    entered_->backend->buffer_destroy(buffer_);
    entered_->close(device_);
  }

  void fill(yoke_stream* stream) {
    EXPECT_EQ(entered_->backend->fill(stream, buffer_, 0, 8, "a", 1, &entered_->error), YOKE_STATUS_OK);
  }
  void copy(yoke_stream* stream) {
    std::int32_t source = 0;
    EXPECT_EQ(entered_->backend->from_host(stream, buffer_, 0, "12345678", 8, &source, &entered_->error),
              YOKE_STATUS_OK);
  }
  void wait() { EXPECT_EQ(entered_->streams->stream_wait(stream_, 20'000'000'000, nullptr), YOKE_STATUS_OK); }

  // Fetches at most `capacity` records and returns their names. Sets records_ and lost_.
  std::vector<std::string> fetch(std::uint32_t capacity) {
    records_.fill({nullptr, 7, 7, 7, 7, "untouched"});
    std::uint32_t count = 0;
    EXPECT_EQ(profile_->profile_fetch(device_, capacity, sizeof(yoke_profile_record), records_.data(), &count,
                                      &lost_, &entered_->error),
              YOKE_STATUS_OK)
        << entered_->error.text;
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < count; ++i) {
      names.emplace_back(records_[i].name);
    }
    return names;
  }

  std::unique_ptr<Entered> entered_;
  const yoke_profile_api* profile_ = nullptr;
  yoke_device* device_ = nullptr;
  yoke_buffer* buffer_ = nullptr;
  yoke_stream* stream_ = nullptr;
  std::array<yoke_profile_record, 4> records_{};
  std::uint64_t lost_ = 0;
};

TEST_F(SdkProfileTest, RecordsHaveTheTimesOfWorkWithAndWithoutAStream) {
  begin(entry(), 0);
  control_->delay_us = 1000;
  const std::uint64_t before = now_ns();
  copy(nullptr);
  fill(stream_);
  wait();
  const std::uint64_t after = now_ns();

  EXPECT_THAT(fetch(4), ElementsAre("from_host", "fill"));
  EXPECT_EQ(lost_, 0U);
  EXPECT_EQ(records_[0].stream, nullptr);
  EXPECT_EQ(records_[1].stream, stream_);
  EXPECT_EQ(records_[0].kind, YOKE_WORK_COPY);
  EXPECT_EQ(records_[1].kind, YOKE_WORK_FILL);
  std::uint64_t last = before;
  for (const yoke_profile_record& record : {records_[0], records_[1]}) {
    EXPECT_GE(record.begin_ns, last) << record.name;
    EXPECT_GE(record.end_ns, record.begin_ns + 1'000'000) << record.name;
    EXPECT_LE(record.end_ns, after) << record.name;
    last = record.end_ns;
  }
  end();
}

TEST_F(SdkProfileTest, RecordsAreFetchedOnceAndThoseWithoutRoomAreCounted) {
  begin(entry(), 3);
  copy(nullptr);
  fill(nullptr);
  copy(nullptr);
  fill(nullptr);

  EXPECT_THAT(fetch(1), ElementsAre("from_host"));
  EXPECT_EQ(lost_, 1U);
  EXPECT_THAT(fetch(4), ElementsAre("fill", "from_host"));
  EXPECT_EQ(lost_, 0U);
  EXPECT_STREQ(records_[2].name, "untouched") << "no record is left for this row";
  EXPECT_THAT(fetch(4), ElementsAre());
  EXPECT_STREQ(records_[0].name, "untouched");
  end();
}

TEST_F(SdkProfileTest, WorkAfterAStopOrBeforeANewStartHasNoRecord) {
  begin(entry(), 0);
  copy(nullptr);
  const auto args = sized<yoke_profile_args>();
  ASSERT_EQ(profile_->profile_start(device_, &args, nullptr), YOKE_STATUS_OK);
  fill(nullptr);
  ASSERT_EQ(profile_->profile_stop(device_, nullptr), YOKE_STATUS_OK);
  copy(nullptr);

  EXPECT_THAT(fetch(4), ElementsAre("fill"));
  end();
}

TEST_F(SdkProfileTest, PendingAndFailedWorkHasNoRecord) {
  begin(entry(), 0);
  control_->is_blocked = true;
  copy(stream_);
  EXPECT_THAT(fetch(4), ElementsAre());
  control_->is_blocked = false;
  wait();
  EXPECT_THAT(fetch(4), ElementsAre("from_host"));
  control_->fail_after = 0;
  fill(stream_);
  EXPECT_EQ(entered_->streams->stream_wait(stream_, 20'000'000'000, nullptr), YOKE_STATUS_INTERNAL);
  EXPECT_THAT(fetch(4), ElementsAre());
  end();
}

// A device whose events count themselves.
class CountedEvent final : public sdk::Event {
 public:
  explicit CountedEvent(int& live) : live_(live) { ++live_; }
  ~CountedEvent() override { --live_; }
  CountedEvent(const CountedEvent&) = delete;
  CountedEvent& operator=(const CountedEvent&) = delete;
  std::int32_t state() override { return YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {}

 private:
  int& live_;
};
class CountingStream final : public sdk::Stream {
 public:
  explicit CountingStream(int& live) : live_(live) {}
  std::int32_t state() override { return YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {}
  std::unique_ptr<sdk::Event> record(bool) override { return std::make_unique<CountedEvent>(live_); }
  void wait_event(sdk::Event&) override {}

 private:
  int& live_;
};
class CountingDevice final : public sdk::Device {
 public:
  static inline int live_events = 0;
  static inline int live_at_close = -1;
  ~CountingDevice() override { live_at_close = live_events; }
  CountingDevice() = default;
  CountingDevice(const CountingDevice&) = delete;
  CountingDevice& operator=(const CountingDevice&) = delete;
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t) override {
    return std::make_unique<CountingStream>(live_events);
  }
};
class CountingBackend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override { return {.streams = true, .profile = true}; }
  std::uint32_t device_count() override { return 1; }
  sdk::DeviceInfo describe(std::uint32_t) override { return {}; }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options&) override {
    return std::make_unique<CountingDevice>();
  }
};

TEST_F(SdkProfileTest, EventsOfRecordsThatWereNotFetchedAreDestroyedBeforeTheDevice) {
  begin(
      [](const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
        return sdk::enter(args, out_plugin, error, {"counting", "1", "tests"},
                          [] { return std::make_unique<CountingBackend>(); });
      },
      0);
  fill(stream_);
  EXPECT_EQ(CountingDevice::live_events, 2);
  end();
  EXPECT_EQ(CountingDevice::live_at_close, 0);
}

}  // namespace
}  // namespace yoke::test
