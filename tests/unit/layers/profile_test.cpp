// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/profile_test.cpp: the layer trace records the work of devices (yoke.profile/1).
#include <yoke/ext/profile.h>

#include <sstream>

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
  // Closes the trace and returns it as text.
  std::string closed(void (*print)(std::span<const std::byte>, std::ostream&)) {
    if (session != nullptr) {
      EXPECT_EQ(backend->device_close(device, error()), YOKE_STATUS_OK) << status.text;
      plugin->destroy(plugin);
      session = nullptr;
    }
    std::ostringstream text;
    print(read_bytes(trace_file), text);
    return text.str();
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
