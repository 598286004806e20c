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
  for (int i = 0; i < 5; ++i) {
    fill(nullptr);
  }
  auto args = sized<yoke_profile_args>();
  args.capacity = 1;
  ASSERT_EQ(profile_->profile_start(device_, &args, nullptr), YOKE_STATUS_OK);
  EXPECT_THAT(fetch(4), ElementsAre());
  EXPECT_EQ(lost_, 0U) << "those before the start do not count";
  end();
}

TEST_F(SdkProfileTest, RecordsHaveTheNameOfTheFunctionOrProgram) {
  sdk::Entry entry_of_code;
  entry_of_code.name = "step";
  control_->entries = {entry_of_code};
  begin(entry(), 0);
  yoke_code* code = entered_->compile(device_, "any");
  yoke_routine* routine = entered_->link(code, 0, {}, nullptr);
  std::string host(4, '?');
  for (yoke_stream* stream : {stream_, static_cast<yoke_stream*>(nullptr)}) {
    EXPECT_EQ(entered_->backend->to_host(stream, buffer_, 0, host.data(), 4, nullptr), YOKE_STATUS_OK);
    EXPECT_EQ(entered_->backend->device_to_device(stream, buffer_, 0, buffer_, 4, 4, nullptr),
              YOKE_STATUS_OK);
    EXPECT_EQ(entered_->programs->routine_launch(stream, routine, nullptr, 0, nullptr), YOKE_STATUS_OK);
    wait();
    EXPECT_THAT(fetch(4), ElementsAre("to_host", "device_to_device", "step"));
    EXPECT_EQ(records_[0].kind, YOKE_WORK_COPY);
    EXPECT_EQ(records_[1].kind, YOKE_WORK_COPY);
    EXPECT_EQ(records_[2].kind, YOKE_WORK_LAUNCH);
  }
  entered_->programs->routine_destroy(routine);
  entered_->programs->code_destroy(code);
  end();
}

// A copy between two devices may run on a stream of the source.
TEST_F(SdkProfileTest, WorkIsRecordedByTheDeviceOfItsStream) {
  begin(entry(), 0);
  yoke_device* other = entered_->open(1);
  yoke_buffer* target = entered_->buffer(other, 8);
  EXPECT_EQ(entered_->backend->device_to_device(stream_, target, 0, buffer_, 0, 8, &entered_->error),
            YOKE_STATUS_OK)
      << entered_->error.text;
  wait();
  EXPECT_THAT(fetch(4), ElementsAre("device_to_device"));
  EXPECT_EQ(entered_->backend->device_to_device(stream_, buffer_, 0, target, 0, 8, &entered_->error),
            YOKE_STATUS_OK);
  wait();
  EXPECT_THAT(fetch(4), ElementsAre("device_to_device"));
  EXPECT_EQ(entered_->backend->device_to_device(nullptr, target, 0, buffer_, 0, 8, nullptr), YOKE_STATUS_OK);
  EXPECT_THAT(fetch(4), ElementsAre()) << "without a stream, by the device of the target";
  entered_->backend->buffer_destroy(target);
  entered_->close(other);
  end();
}

TEST_F(SdkProfileTest, RecordsThatDoNotFitIntoARowAreCutAndUnknownFlagsAreRefused) {
  begin(entry(), 0);
  fill(nullptr);
  fill(nullptr);
  struct Shorter {  // an older host
    yoke_stream* stream;
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
  };
  std::array<Shorter, 3> rows{};
  rows[2] = {stream_, 7, 7};
  std::uint32_t count = 0;
  ASSERT_EQ(
      profile_->profile_fetch(device_, 3, sizeof rows[0], reinterpret_cast<yoke_profile_record*>(rows.data()),
                              &count, &lost_, nullptr),
      YOKE_STATUS_OK);
  EXPECT_EQ(count, 2U);
  EXPECT_GE(rows[1].begin_ns, rows[0].end_ns);
  EXPECT_GT(rows[0].begin_ns, 7U);
  EXPECT_EQ(rows[2].begin_ns, 7U);
  auto args = sized<yoke_profile_args>();
  args.flags = 1;
  EXPECT_EQ(profile_->profile_start(device_, &args, nullptr), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(profile_->profile_fetch(device_, 0, 0, nullptr, &count, &lost_, nullptr), YOKE_STATUS_OK);
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
  CountedEvent(int& live, int number) : live_(live), time_ns_(number == 0 ? 50 : 30) { ++live_; }
  ~CountedEvent() override { --live_; }
  CountedEvent(const CountedEvent&) = delete;
  CountedEvent& operator=(const CountedEvent&) = delete;
  std::int32_t state() override { return YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {}
  std::uint64_t time_ns() override { return time_ns_; }

 private:
  int& live_;
  std::uint64_t time_ns_;
};
class CountingStream final : public sdk::Stream {
 public:
  static inline int record_limit = 1000;  // the device is lost after that many
  explicit CountingStream(int& live) : live_(live) {}
  std::int32_t state() override { return YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {}
  std::unique_ptr<sdk::Event> record(bool timing) override {
    EXPECT_TRUE(timing);
    if (record_limit-- == 0) {
      throw sdk::Failure(YOKE_STATUS_DEVICE_LOST, "the card is gone");
    }
    return std::make_unique<CountedEvent>(live_, live_);
  }
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

yoke_plugin_entry_fn counting_entry() {
  return [](const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
    return sdk::enter(args, out_plugin, error, {"counting", "1", "tests"},
                      [] { return std::make_unique<CountingBackend>(); });
  };
}

// The clocks of some devices jump.
TEST_F(SdkProfileTest, WorkDoesNotEndBeforeItBegins) {
  begin(counting_entry(), 0);
  fill(stream_);
  EXPECT_THAT(fetch(4), ElementsAre("fill"));
  EXPECT_EQ(records_[0].begin_ns, 50U);
  EXPECT_EQ(records_[0].end_ns, 50U);
  EXPECT_EQ(CountingDevice::live_events, 0) << "events of fetched records";
  end();
}

TEST_F(SdkProfileTest, WorkBeforeALossSucceedsWithoutARecord) {
  begin(counting_entry(), 0);
  CountingStream::record_limit = 1;
  fill(stream_);
  EXPECT_THAT(fetch(4), ElementsAre());
  EXPECT_EQ(lost_, 1U);
  CountingStream::record_limit = 1000;
  end();
}

TEST_F(SdkProfileTest, EventsOfRecordsThatWereNotFetchedAreDestroyedBeforeTheDevice) {
  begin(counting_entry(), 0);
  fill(stream_);
  EXPECT_EQ(CountingDevice::live_events, 2);
  end();
  EXPECT_EQ(CountingDevice::live_at_close, 0);
}

}  // namespace
}  // namespace yoke::test
