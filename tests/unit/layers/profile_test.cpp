// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/profile_test.cpp: the layer trace records the work of devices (yoke.profile/1).
#include <yoke/ext/profile.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "layers_test.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TraceProfile : public LayersTest {
 protected:
  TraceProfile() {
    control->provides.profile = true;
    trace_file = folder_ / "run.yoketrace";
  }
  void copy_twice(yoke_stream* stream, yoke_buffer* buffer) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(copy_in(stream, buffer, kData.data(), 64), YOKE_STATUS_OK);
    }
  }
  std::string printed(void (*print)(std::span<const std::byte>, std::ostream&) = replay::print) const {
    std::ostringstream text;
    print(read_bytes(trace_file), text);
    return text.str();
  }
  // Closes the trace and returns it as text.
  std::string closed(void (*print)(std::span<const std::byte>, std::ostream&)) {
    if (session != nullptr) {
      EXPECT_EQ(backend->device_close(device, error()), YOKE_STATUS_OK) << status.text;
      plugin->destroy(plugin);
      session = nullptr;
    }
    return printed(print);
  }

  TemporaryFolder folder_;
};

std::size_t count_of(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(TraceProfile, StreamsHaveLanes) {
  enter("trace");
  auto* first = make_stream();
  auto* second = make_stream();
  auto* buffer = make_buffer(64);
  copy_twice(first, buffer);
  EXPECT_EQ(streams->stream_wait(first, 10'000'000'000, error()), YOKE_STATUS_OK);
  copy_twice(second, buffer);
  copy_twice(nullptr, buffer);
  auto* event = record(second);
  EXPECT_EQ(streams->event_wait(event, 10'000'000'000, error()), YOKE_STATUS_OK);
  streams->event_destroy(event);
  streams->stream_destroy(first);
  streams->stream_destroy(second);
  backend->buffer_destroy(buffer);

  const std::string text = closed(replay::print);
  EXPECT_EQ(count_of("device from_host", text), 6) << text;
  const std::string events = closed(replay::write_chrome);
  EXPECT_EQ(count_of("\"name\": \"thread_name\"", events), 3);
  EXPECT_THAT(events, HasSubstr(R"("args": {"name": "stream 2"})"));
  EXPECT_THAT(events, HasSubstr(R"("args": {"name": "stream 3"})"));
  EXPECT_THAT(events, HasSubstr(R"("tid": 1000002)"));
}

// Records from before the trace, or that end before they begin, begin and end in it; those of unknown streams are
// of stream 0. A fetch that is full is followed by another one.
TEST_F(TraceProfile, OddRecordsAreKept) {
  static std::uint32_t left = 0;
  static std::uint64_t lost = 0;
  left = 258;
  lost = 0;
  static yoke_profile_api odd{};
  odd.struct_size = sizeof(odd);
  odd.profile_start = [](auto...) { return YOKE_STATUS_OK; };
  odd.profile_stop = [](auto...) { return YOKE_STATUS_OK; };
  odd.profile_fetch = [](auto, std::uint32_t capacity, std::uint64_t stride, yoke_profile_record* records,
                         std::uint32_t* count, std::uint64_t* out_lost, auto) {
    EXPECT_EQ(stride, sizeof(records[0]));
    *count = std::min(capacity, left);
    left -= *count;
    for (std::uint32_t i = 0; i < *count; ++i) {
      records[i] = {};
      records[i].begin_ns = i % 2 == 0 ? 1 : std::uint64_t{1} << 62U;
      records[i].end_ns = 2;
      records[i].kind = YOKE_WORK_COPY;
      std::memset(&records[i].name[0], 'n', sizeof(records[i].name));
    }
    if (lost != 0) {
      *out_lost = std::exchange(lost, 0);
    }
    return YOKE_STATUS_OK;
  };
  control->on_table = [&](const char* id, const void* table) {
    return std::string_view(id) == YOKE_PROFILE_TABLE ? &odd : table;
  };
  enter("trace");
  auto* const stream = make_stream();
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  EXPECT_EQ(left, 0U);
  const std::string name(sizeof(yoke_profile_record::name), 'n');
  const std::string text = printed();
  EXPECT_EQ(count_of("0.0  device " + name + "\n", text), 258) << text;
  EXPECT_EQ(count_of("s0 ", text), 258);
  EXPECT_THAT(text, Not(HasSubstr("dropped")));
  lost = 2;
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  EXPECT_THAT(printed(), HasSubstr("the device dropped 2 records of its work\n"));
}

TEST_F(TraceProfile, WorkThatFailedHasNoRecord) {
  enter("trace");
  auto* stream = make_stream();
  auto* buffer = make_buffer(64);
  control->fail_after = 0;
  copy_twice(stream, buffer);
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_INTERNAL);
  streams->stream_destroy(stream);
  backend->buffer_destroy(buffer);
  EXPECT_THAT(closed(replay::print), Not(HasSubstr("device from_host")));
}

TEST_F(TraceProfile, HostThatProfilesKeepsItsRecords) {
  enter("trace");
  const auto* table = static_cast<const yoke_profile_api*>(plugin->get_table(plugin, YOKE_PROFILE_TABLE));
  ASSERT_NE(table, nullptr);
  const auto args = sized<yoke_profile_args>();
  EXPECT_EQ(table->profile_start(device, &args, error()), YOKE_STATUS_OK);
  auto* stream = make_stream();
  auto* buffer = make_buffer(64);
  copy_twice(stream, buffer);
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  yoke_profile_record records[4];
  std::uint32_t count = 0;
  std::uint64_t lost = 0;
  EXPECT_EQ(table->profile_fetch(device, 4, sizeof(records[0]), &records[0], &count, &lost, error()),
            YOKE_STATUS_OK);
  EXPECT_EQ(count, 2);
  EXPECT_STREQ(records[0].name, "from_host");
  EXPECT_EQ(records[0].stream, stream);
  streams->stream_destroy(stream);
  backend->buffer_destroy(buffer);
  EXPECT_THAT(closed(replay::print), Not(HasSubstr("device from_host")));
}

}  // namespace
}  // namespace yoke::test
