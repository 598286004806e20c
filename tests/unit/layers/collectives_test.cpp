// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/collectives_test.cpp: the layers know yoke.collectives/1: handles, ranges, pending work,
// traces.
#include <yoke/ext/collectives.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

#include "layers_test.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ValidateCollectives : public LayersTest {
 protected:
  ValidateCollectives() { control->provides.collectives = true; }

  void begin(const std::string& names = "validate") {
    enter(names);
    table = static_cast<const yoke_collectives_api*>(plugin->get_table(plugin, YOKE_COLLECTIVES_TABLE));
    ASSERT_NE(table, nullptr);
    stream = make_stream();
    buffer = make_buffer(64);
    communicator = join(1);
  }
  yoke_communicator* join(std::uint32_t size) {
    auto id = sized<yoke_group_id>();
    EXPECT_EQ(table->group_id_create(device, &id, error()), YOKE_STATUS_OK);
    auto args = sized<yoke_communicator_args>();
    args.id = &id.bytes[0];
    args.size = size;
    yoke_communicator* made = nullptr;
    EXPECT_EQ(table->communicator_create(device, &args, &made, error()), YOKE_STATUS_OK);
    EXPECT_EQ(table->communicator_wait(made, 1'000'000'000, error()), YOKE_STATUS_OK);
    return made;
  }
  yoke_collective row() const {
    yoke_collective row{};
    row.communicator = communicator;
    row.stream = stream;
    row.source = row.target = buffer;
    row.count = 16;
    row.kind = YOKE_COLLECTIVE_ALL_REDUCE;
    row.type = YOKE_TYPE_F32;
    row.reduction = YOKE_REDUCTION_SUM;
    return row;
  }
  std::int32_t queue(const yoke_collective& one) {
    return table->collectives_queue(&one, 1, sizeof(one), error());
  }

  const yoke_collectives_api* table = nullptr;
  yoke_stream* stream = nullptr;
  yoke_buffer* buffer = nullptr;
  yoke_communicator* communicator = nullptr;
  std::size_t refused_count = 0;
};

TEST_F(ValidateCollectives, CorrectHostIsNotBlamed) {
  begin();
  auto gathered = row();
  gathered.kind = YOKE_COLLECTIVE_ALL_GATHER;
  EXPECT_EQ(queue(row()), YOKE_STATUS_OK) << status.text;
  EXPECT_EQ(queue(gathered), YOKE_STATUS_OK) << status.text;
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  table->communicator_destroy(communicator);
  table->communicator_destroy(nullptr);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(ValidateCollectives, RangesDevicesAndFlagsAreChecked) {
  begin();
  auto one = row();
  one.target_offset = 4;
  EXPECT_EQ(queue(one), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_THAT(lines, Contains(HasSubstr("64 bytes at offset 4 exceed the 64-byte buffer")));
  one = row();
  one.count = ~std::uint64_t{0};
  EXPECT_EQ(queue(one), YOKE_STATUS_OUT_OF_RANGE);
  one = row();
  one.flags = 1;
  EXPECT_EQ(queue(one), YOKE_STATUS_UNIMPLEMENTED);
  auto args = sized<yoke_device_args>();
  args.ordinal = 1;
  yoke_device* const first = device;
  ASSERT_EQ(backend->device_open(plugin, &args, &device, error()), YOKE_STATUS_OK);
  yoke_stream_args stream_args{sizeof(stream_args), 0, 0, 0};
  one = row();
  ASSERT_EQ(streams->stream_create(device, &stream_args, &one.stream, error()), YOKE_STATUS_OK);
  EXPECT_EQ(queue(one), YOKE_STATUS_INVALID_ARGUMENT);
  streams->stream_destroy(one.stream);
  backend->device_close(device, error());
  device = first;
  table->communicator_destroy(communicator);
  auto all = found();
  all.erase(std::unique(all.begin(), all.end()), all.end());
  EXPECT_THAT(all, ElementsAre("16 host collectives_queue", "40 host collectives_queue",
                               "18 host collectives_queue"));
}

TEST_F(ValidateCollectives, CommunicatorDestroyedDuringWorkIsReported) {
  begin();
  control->is_blocked = true;
  EXPECT_EQ(queue(row()), YOKE_STATUS_OK);
  table->communicator_destroy(communicator);
  EXPECT_THAT(found(), ElementsAre("15 host communicator_destroy"));
  EXPECT_EQ(queue(row()), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("already destroyed"));
  control->is_blocked = false;
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
}

TEST_F(ValidateCollectives, DestroyedHandlesAreRefused) {
  begin();
  auto* const dead_stream = make_stream();
  streams->stream_destroy(dead_stream);
  auto* const dead_buffer = make_buffer(64);
  backend->buffer_destroy(dead_buffer);
  auto* const dead_communicator = join(1);
  table->communicator_destroy(dead_communicator);
  const auto is_refused = [&](const std::function<void(yoke_collective&)>& change, const char* why) {
    auto one = row();
    change(one);
    const bool is_named =
        queue(one) == YOKE_STATUS_FAILED_PRECONDITION && status.text.find(why) != std::string::npos;
    return is_named && found().size() == std::exchange(refused_count, refused_count + 1) + 1;
  };
  EXPECT_TRUE(is_refused([&](auto& one) { one.stream = dead_stream; }, "stream"));
  EXPECT_TRUE(is_refused([&](auto& one) { one.source = dead_buffer; }, "buffer"));
  EXPECT_TRUE(is_refused([&](auto& one) { one.target = dead_buffer; }, "buffer"));
  EXPECT_TRUE(is_refused([&](auto& one) { one.communicator = dead_communicator; }, "communicator"));
  EXPECT_EQ(control->call_count, 0);
  table->communicator_destroy(communicator);
}

TEST_F(ValidateCollectives, BuffersAreInUseUntilTheCollectiveHasEnded) {
  begin();
  control->is_blocked = true;
  EXPECT_EQ(queue(row()), YOKE_STATUS_OK);
  backend->buffer_destroy(buffer);
  EXPECT_THAT(found(), ElementsAre("15 host buffer_destroy"));
  control->is_blocked = false;
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  table->communicator_destroy(communicator);
}

TEST_F(ValidateCollectives, AbortedCommunicatorStaysAborted) {
  begin();
  EXPECT_EQ(table->communicator_abort(communicator, error()), YOKE_STATUS_OK);
  EXPECT_EQ(table->communicator_wait(communicator, 0, error()), YOKE_STATUS_ABORTED);
  EXPECT_EQ(queue(row()), YOKE_STATUS_ABORTED);
  EXPECT_THAT(found(), IsEmpty());
  table->communicator_destroy(communicator);
}

TEST_F(ValidateCollectives, TraceHasTheRowsAndReplaySkipsThem) {
  const TemporaryFolder folder;
  trace_file = folder / "run.yoketrace";
  begin("trace");
  EXPECT_EQ(queue(row()), YOKE_STATUS_OK);
  EXPECT_EQ(streams->stream_wait(stream, 10'000'000'000, error()), YOKE_STATUS_OK);
  table->communicator_destroy(communicator);
  streams->stream_destroy(stream);
  backend->buffer_destroy(buffer);
  backend->device_close(device, error());
  plugin->destroy(plugin);
  session = nullptr;
  const auto bytes = read_bytes(trace_file);
  std::ostringstream text;
  replay::print(bytes, text);
  EXPECT_THAT(text.str(), HasSubstr("collectives_queue(rows=["));
  EXPECT_THAT(text.str(), HasSubstr("communicator_wait(communicator=communicator "));

  RuntimeOptions plain;
  plain.layers.use_environment = false;
  Runtime runtime(Rig::with_defaults(plain));
  const auto again = std::make_shared<Control>();
  again->provides = {.streams = true, .programs = true, .collectives = true};
  register_backend(runtime, 1, again);
  replay::Options options;
  options.backend = "test1";
  const replay::Report report = replay::run(runtime, bytes, options);
  EXPECT_EQ(report.differences, 0);
  EXPECT_EQ(report.skipped, 4);
  const auto skip = std::find_if(report.skips.begin(), report.skips.end(),
                                 [](const auto& one) { return one.function == "communicator_create"; });
  ASSERT_NE(skip, report.skips.end());
  EXPECT_THAT(skip->reason, HasSubstr("memory of the recorded process"));
}

}  // namespace
}  // namespace yoke::test
