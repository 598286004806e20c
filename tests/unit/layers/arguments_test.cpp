// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/arguments_test.cpp: the layer validate finds wrong arguments of copies, links, launches and
// collectives, and does not blame the largest correct ones.
#include <yoke/ext/collectives.h>

#include <utility>

#include "layers_test.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two inputs, an output.
constexpr const char* kSum = R"(yoke.program 1
program total() {
  arg x : f32[4] in
  arg y : f32[4] in
  arg z : f32[4] out
  z[i] = x[i] + y[i]
}
)";

class HostArguments : public LayersTest {
 protected:
  HostArguments() {
    do_no_work(*control);
    control->backend.fill = [](auto...) { return YOKE_STATUS_OK; };
    control->backend.device_to_device = [](auto...) { return YOKE_STATUS_OK; };
    control->device_count = 3;
  }
  // Runs `make` with another device.
  template <class Make>
  auto on_device(std::uint32_t ordinal, Make make) {
    yoke_device* const before = device;
    device = open_device(ordinal);
    auto* const made = make();
    device = before;
    return made;
  }
  void copy_between(yoke_stream* stream, yoke_buffer* to, std::uint64_t to_offset, yoke_buffer* from,
                    std::uint64_t from_offset, std::uint64_t byte_count) {
    backend->device_to_device(stream, to, to_offset, from, from_offset, byte_count, error());
  }
  // The violations since the last call.
  std::vector<std::string> new_found() {
    auto all = found();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(seen_));
    seen_ += all.size();
    return all;
  }

 private:
  std::size_t seen_ = 0;
};

TEST_F(HostArguments, StreamOfAnotherDeviceIsReported) {
  enter();
  auto* const buffer = make_buffer(16);
  auto* const other = on_device(1, [&] { return make_stream(); });
  std::byte data[16] = {};
  copy_in(other, buffer, data, 16);
  backend->to_host(other, buffer, 0, data, 16, error());
  backend->fill(other, buffer, 0, 16, data, 1, error());
  EXPECT_THAT(new_found(), ElementsAre("18 host from_host", "18 host to_host", "18 host fill"));
  EXPECT_THAT(lines, Contains(HasSubstr("stream 4 belongs to device 1, but buffer 2 to device 0")));
  auto* const mine = make_stream();
  copy_in(mine, on_device(1, [&] { return make_buffer(16); }), data, 16);
  EXPECT_THAT(new_found(), ElementsAre("18 host from_host"));
  EXPECT_THAT(lines, Contains(HasSubstr("stream 5 belongs to device 0, but buffer 7 to device 1")));
  streams->stream_wait(mine, 10'000'000'000, error());
  streams->stream_wait(other, 10'000'000'000, error());
}

TEST_F(HostArguments, MissingMemoryIsReportedUnlessNothingIsCopied) {
  enter();
  auto* const buffer = make_buffer(16);
  copy_in(nullptr, buffer, nullptr, 0);
  backend->to_host(nullptr, buffer, 16, nullptr, 0, error());
  EXPECT_THAT(new_found(), IsEmpty());
  copy_in(nullptr, buffer, nullptr, 1);
  backend->to_host(nullptr, buffer, 0, nullptr, 1, error());
  backend->fill(nullptr, buffer, 0, 16, nullptr, 4, error());
  EXPECT_THAT(new_found(), ElementsAre("15 host from_host", "15 host to_host", "15 host fill"));
}

TEST_F(HostArguments, PatternsOfOneToEightBytesFillWholeBuffers) {
  enter();
  auto* const buffer = make_buffer(16);
  for (const std::uint32_t size : {1U, 2U, 4U, 8U}) {
    backend->fill(nullptr, buffer, 0, 16, kData.data(), size, error());
    backend->fill(nullptr, buffer, 16 - size, size, kData.data(), size, error());
  }
  EXPECT_THAT(new_found(), IsEmpty());
  for (const std::uint32_t size : {0U, 3U, 16U}) {
    backend->fill(nullptr, buffer, 0, 0, kData.data(), size, error());
  }
  backend->fill(nullptr, buffer, 4, 12, kData.data(), 8, error());
  backend->fill(nullptr, buffer, 9, 8, kData.data(), 8, error());
  backend->fill(nullptr, buffer, 17, 0, kData.data(), 8, error());
  EXPECT_THAT(new_found(), ElementsAre("16 host fill", "16 host fill", "16 host fill", "16 host fill",
                                       "16 host fill", "16 plugin fill", "16 host fill", "16 plugin fill"));
  EXPECT_THAT(lines, Contains(HasSubstr("the pattern has 3 bytes; it must have 1, 2, 4 or 8")));
  EXPECT_THAT(lines, Contains(HasSubstr("12 bytes is not a multiple of the 8-byte pattern")));
  EXPECT_THAT(lines, Contains(HasSubstr("8 bytes at offset 9 exceed the 16-byte buffer")));
}

TEST_F(HostArguments, CopiesBetweenBuffersStayInsideThem) {
  enter();
  auto* const x = make_buffer(16);
  auto* const y = make_buffer(8);
  copy_between(nullptr, x, 8, y, 0, 8);
  copy_between(nullptr, y, 0, x, 8, 8);
  copy_between(nullptr, x, 0, x, 8, 8);
  copy_between(nullptr, x, 8, x, 0, 8);
  copy_between(nullptr, y, 4, x, 4, 4);
  EXPECT_THAT(new_found(), IsEmpty());
  copy_between(nullptr, x, 8, y, 1, 8);
  EXPECT_THAT(new_found(), ElementsAre("16 host device_to_device", "16 plugin device_to_device"));
  copy_between(nullptr, x, 9, y, 0, 8);
  EXPECT_THAT(new_found(), ElementsAre("16 host device_to_device", "16 plugin device_to_device"));
  copy_between(nullptr, x, 0, x, 7, 8);
  EXPECT_THAT(new_found(), ElementsAre("16 host device_to_device"));
  copy_between(nullptr, x, 7, x, 0, 8);
  EXPECT_THAT(new_found(), ElementsAre("16 host device_to_device"));
}

TEST_F(HostArguments, CopyBetweenDevicesUsesAStreamOfOneOfThem) {
  enter();
  auto* const source = make_buffer(16);
  auto* const target = on_device(1, [&] { return make_buffer(16); });
  auto* const of_source = make_stream();
  auto* const of_target = on_device(1, [&] { return make_stream(); });
  auto* const of_third = on_device(2, [&] { return make_stream(); });
  copy_between(of_source, target, 0, source, 0, 16);
  copy_between(of_target, target, 0, source, 0, 16);
  EXPECT_THAT(new_found(), IsEmpty());
  copy_between(of_third, target, 0, source, 0, 16);
  EXPECT_THAT(new_found(), ElementsAre("18 host device_to_device"));
  for (auto* const stream : {of_source, of_target, of_third}) {
    streams->stream_wait(stream, 10'000'000'000, error());
  }
}

TEST_F(HostArguments, InputsMayShareMemoryAndOutputsMayNot) {
  enter();
  auto* const code = compile(kSum);
  auto* const x = make_buffer(512);
  auto* const z = make_buffer(16);
  link(code, {{x, 0, 16, 0}, {x, 0, 16, 0}, {z, 0, 16, 0}});
  link(code, {{x, 0, 512, 0}, {z, 0, 16, 0}, {x, 256, 256, 0}});  // the rest of a binding is not used
  EXPECT_THAT(new_found(), IsEmpty());
  link(code, {{z, 0, 16, 0}, {x, 0, 16, 0}, {x, 0, 16, 0}});
  EXPECT_THAT(new_found(), ElementsAre("26 host routine_link"));
  EXPECT_THAT(lines, Contains(HasSubstr("arguments 1 and 2 overlap, and one of them is written")));
  link(code, {{nullptr, 0, 0, 0}, {x, 0, 16, 0}, {z, 0, 16, 0}});
  EXPECT_THAT(new_found(), Contains("15 host routine_link"));
  EXPECT_THAT(lines, Contains(HasSubstr("argument 0 has no buffer")));
  link(code, {{x, 0, 16, 0}, {x, 0, 16, 0}, {z, 8, 16, 0}});
  EXPECT_THAT(new_found(), Contains("16 host routine_link"));
  EXPECT_THAT(lines, Contains(HasSubstr("argument 2: 16 bytes at offset 8 exceed the 16-byte buffer")));
  link(code, {{x, 0, 15, 0}, {x, 0, 16, 0}, {z, 0, 16, 0}});
  EXPECT_THAT(new_found(), Contains("26 host routine_link"));
  EXPECT_THAT(lines, Contains(HasSubstr("argument 0 needs 16 bytes, but its binding has 15")));
}

TEST_F(HostArguments, WorkspaceMustBeAligned) {
  enter();
  auto* const code = compile(kSum);
  auto* const x = make_buffer(16);
  auto* const y = make_buffer(512);
  auto* const z = make_buffer(16);
  const yoke_binding bindings[] = {{x, 0, 16, 0}, {x, 0, 16, 0}, {z, 0, 16, 0}};
  auto args = sized<yoke_link_args>();
  args.bindings = &bindings[0];
  args.binding_count = 3;
  args.binding_stride = sizeof(yoke_binding);
  for (const std::uint64_t offset : {0U, 256U, 128U}) {
    const yoke_binding work{y, offset, 256, 0};
    args.workspace = &work;
    yoke_routine* routine = nullptr;
    programs->routine_link(code, &args, &routine, error());
    programs->routine_destroy(routine);
    EXPECT_EQ(new_found().size(), offset == 128 ? 1U : 0U);
  }
  EXPECT_THAT(found(), ElementsAre("42 host routine_link"));
  EXPECT_THAT(lines, Contains(HasSubstr("the workspace is at offset 128, which is not a multiple of 256")));
}

TEST_F(HostArguments, RoutineOnAStreamOfAnotherDeviceIsReported) {
  enter();
  auto* const x = make_buffer(16);
  auto* const z = make_buffer(16);
  auto* const routine = link(compile(kSum), {{x, 0, 16, 0}, {x, 0, 16, 0}, {z, 0, 16, 0}});
  auto* const other = on_device(1, [&] { return make_stream(); });
  programs->routine_launch(other, routine, nullptr, 0, error());
  EXPECT_THAT(new_found(), ElementsAre("18 host routine_launch"));
  const std::int64_t value = 0;
  programs->routine_launch(nullptr, routine, &value, 1, error());
  EXPECT_THAT(new_found(), Contains("26 host routine_launch"));
  EXPECT_THAT(lines, Contains(HasSubstr("1 symbol value for 0 symbols")));
  streams->stream_wait(other, 10'000'000'000, error());
}

// The second call is made inside the first one, as another thread might.
TEST_F(HostArguments, CallsOfTwoThreadsAtOnceAreReported) {
  static std::function<void()> inside;
  control->backend.fill = [](auto...) {
    if (const auto act = std::exchange(inside, nullptr)) {
      act();
    }
    return YOKE_STATUS_OK;
  };
  control->program.routine_launch = [](auto...) {
    if (const auto act = std::exchange(inside, nullptr)) {
      act();
    }
    return YOKE_STATUS_OK;
  };
  enter();
  auto* const buffer = make_buffer(16);
  auto* const z = make_buffer(16);
  auto* const first = make_stream();
  auto* const second = make_stream();
  const auto fill = [&](yoke_stream* stream) {
    backend->fill(stream, buffer, 0, 16, kData.data(), 1, error());
  };
  inside = [&] { fill(second); };
  fill(first);
  inside = [&] { fill(nullptr); };
  fill(nullptr);
  inside = [&] {
    std::int32_t state = 0;
    streams->stream_query(first, &state, error());  // may be called from any thread
  };
  fill(first);
  EXPECT_THAT(new_found(), IsEmpty());
  inside = [&] { fill(first); };
  fill(first);
  fill(first);
  EXPECT_THAT(new_found(), ElementsAre("20 host fill"));
  EXPECT_THAT(lines, Contains(HasSubstr("two threads are in [stream-serial] calls of stream 4 at once")));

  auto* const routine = link(compile(kSum), {{buffer, 0, 16, 0}, {buffer, 0, 16, 0}, {z, 0, 16, 0}});
  inside = [&] { programs->routine_launch(nullptr, routine, nullptr, 0, error()); };
  programs->routine_launch(nullptr, routine, nullptr, 0, error());
  programs->routine_launch(nullptr, routine, nullptr, 0, error());
  EXPECT_THAT(new_found(), ElementsAre("20 host routine_launch"));
  EXPECT_THAT(lines, Contains(HasSubstr("is launched by two threads at once")));
  for (auto* const stream : {first, second}) {
    streams->stream_wait(stream, 10'000'000'000, error());
  }
}

TEST_F(HostArguments, MissingOutParametersAreReported) {
  control->backend.buffer_create = [](auto, auto, auto, auto error) {
    return fail(error, YOKE_STATUS_INTERNAL, "fails");
  };
  control->backend.device_memory = [](auto, auto, auto error) {
    return fail(error, YOKE_STATUS_INTERNAL, "fails");
  };
  control->stream.stream_host_callback = [](auto, auto callback, auto, auto error) {
    return callback == nullptr ? fail(error, YOKE_STATUS_INVALID_ARGUMENT, "callback is NULL")
                               : YOKE_STATUS_OK;
  };
  enter();
  EXPECT_EQ(backend->device_count(plugin, nullptr, nullptr, 0, error()), YOKE_STATUS_OK);
  const yoke_buffer_args args{sizeof(args), 0, 16, YOKE_MEMORY_DEVICE, 0};
  backend->buffer_create(device, &args, nullptr, error());
  backend->device_memory(device, nullptr, error());
  auto* const stream = make_stream();
  EXPECT_EQ(streams->stream_host_callback(stream, nullptr, nullptr, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(new_found(), ElementsAre("15 host device_count", "15 host buffer_create",
                                       "15 host device_memory", "15 host stream_host_callback"));
}

TEST_F(HostArguments, BothEventsOfAnElapsedTimeNeedTiming) {
  enter();
  auto* const stream = make_stream();
  auto* const timed = record(stream, YOKE_EVENT_TIMING);
  auto* const untimed = record(stream);
  streams->stream_wait(stream, 10'000'000'000, error());
  std::uint64_t ns = 0;
  streams->event_elapsed(timed, timed, &ns, error());
  EXPECT_THAT(new_found(), IsEmpty());
  streams->event_elapsed(untimed, timed, &ns, error());
  EXPECT_THAT(new_found(), ElementsAre("43 host event_elapsed"));
  streams->event_elapsed(timed, untimed, &ns, error());
  EXPECT_THAT(new_found(), ElementsAre("43 host event_elapsed"));
}

class CollectiveArguments : public HostArguments {
 protected:
  CollectiveArguments() { control->provides.collectives = true; }

  // A member of a group of two.
  yoke_communicator* join(std::uint32_t rank) {
    table = static_cast<const yoke_collectives_api*>(plugin->get_table(plugin, YOKE_COLLECTIVES_TABLE));
    auto id = sized<yoke_group_id>();
    EXPECT_EQ(table->group_id_create(device, &id, error()), YOKE_STATUS_OK);
    auto args = sized<yoke_communicator_args>();
    args.id = &id.bytes[0];
    args.rank = rank;
    args.size = 2;
    yoke_communicator* made = nullptr;
    EXPECT_EQ(table->communicator_create(device, &args, &made, error()), YOKE_STATUS_OK) << status.text;
    EXPECT_EQ(table->communicator_wait(made, 1'000'000'000, error()), YOKE_STATUS_OK);
    return made;
  }
  void queue(const yoke_collective& one) { table->collectives_queue(&one, 1, sizeof(one), error()); }

  const yoke_collectives_api* table = nullptr;
};

TEST_F(CollectiveArguments, EveryKindReadsAndWritesItsParts) {
  enter();
  auto* const member = join(1);
  auto* const stream = make_stream();
  auto* const one_part = make_buffer(64);
  auto* const two_parts = make_buffer(128);
  yoke_collective row{};
  row.communicator = member;
  row.stream = stream;
  row.count = 16;
  row.type = YOKE_TYPE_F32;
  row.reduction = YOKE_REDUCTION_SUM;
  struct Case {
    std::int32_t kind;
    yoke_buffer* source;
    yoke_buffer* target;
  };
  const Case cases[] = {{YOKE_COLLECTIVE_ALL_REDUCE, one_part, one_part},
                        {YOKE_COLLECTIVE_REDUCE_SCATTER, two_parts, one_part},
                        {YOKE_COLLECTIVE_ALL_GATHER, one_part, two_parts},
                        {YOKE_COLLECTIVE_BROADCAST, one_part, one_part}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.kind);
    row.kind = one.kind;
    row.root = 1;
    row.source = one.source;
    row.target = one.target;
    queue(row);
    EXPECT_THAT(new_found(), IsEmpty());
    row.source_offset = 4;
    queue(row);
    EXPECT_THAT(new_found(), ElementsAre("16 host collectives_queue"));
    row.source_offset = 0;
    row.target_offset = 4;
    queue(row);
    EXPECT_THAT(new_found(), ElementsAre("16 host collectives_queue"));
    row.target_offset = 0;
  }
  row.root = 0;
  row.source_offset = 4;  // this member does not read it
  queue(row);
  row.source = nullptr;
  queue(row);
  EXPECT_THAT(new_found(), IsEmpty());
  streams->stream_wait(stream, 10'000'000'000, error());
  table->communicator_destroy(member);
}

TEST_F(CollectiveArguments, TypesHaveTheirSizes) {
  enter();
  auto* const member = join(0);
  auto* const stream = make_stream();
  auto* const buffer = make_buffer(64);
  yoke_collective row{};
  row.communicator = member;
  row.stream = stream;
  row.kind = YOKE_COLLECTIVE_BROADCAST;
  row.source = row.target = buffer;
  const std::uint64_t byte_counts[] = {8, 4, 2, 2, 8, 4, 4, 1, 1};
  for (std::int32_t type = YOKE_TYPE_F64; type <= YOKE_TYPE_BOOL; ++type) {
    SCOPED_TRACE(type);
    row.type = type;
    row.count = 64 / byte_counts[type - 1];
    queue(row);
    EXPECT_THAT(new_found(), IsEmpty());
    ++row.count;
    queue(row);
    EXPECT_THAT(new_found(), ElementsAre("16 host collectives_queue", "16 host collectives_queue"));
  }
  for (const std::int32_t type : {0, YOKE_TYPE_BOOL + 1}) {
    row.type = type;
    row.count = 1'000;
    queue(row);
    EXPECT_THAT(new_found(), IsEmpty()) << "the plugin refuses it";
  }
  streams->stream_wait(stream, 10'000'000'000, error());
  table->communicator_destroy(member);
}

}  // namespace
}  // namespace yoke::test
