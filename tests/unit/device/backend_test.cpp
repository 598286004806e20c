// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/backend_test.cpp: descriptions, extension tables, and several handles on one device.
#include <cstring>

#include "device_test.h"
#include "expected_leak.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

class BackendTest : public DeviceTest {};

TEST_F(BackendTest, ReasonForNoDevicesIsReported) {
  control_->device_count = 0;
  control_->no_device_reason = "no card is plugged in\n";
  Runtime runtime(Rig::with_defaults({}));
  register_backend(runtime, 0, control_);
  const auto backend = runtime.backend("test0");
  EXPECT_EQ(backend->no_device_reason(), "no card is plugged in\\x0a");
  EXPECT_THAT(error_of([&] { backend->open_device(0); }),
              is_error(ErrorCode::kOutOfRange, "test0:0: no such device: no card is plugged in"));
  control_->no_device_reason = "";
  EXPECT_EQ(backend->no_device_reason(), "'test0' found no devices and gave no reason");
}

TEST_F(BackendTest, FailureOfDeviceCountIsTheReasonForNoDevices) {
  using Count = decltype(yoke_backend_api::device_count);
  const Count unavailable = [](auto...) -> std::int32_t { return YOKE_STATUS_UNAVAILABLE; };
  const Count unknown = [](auto...) -> std::int32_t { return -1; };
  for (const Count count : {unavailable, unknown}) {
    control_->backend.device_count = count;
    Runtime runtime(Rig::with_defaults({}));
    register_backend(runtime, 0, control_);
    EXPECT_THAT(runtime.backend("test0")->no_device_reason(), HasSubstr("device_count"));
  }
}

TEST_F(BackendTest, BackendThatDoesNotAnswerHasNoDevices) {
  control_->backend.device_count = [](auto...) -> std::int32_t { return YOKE_STATUS_OK; };
  Runtime runtime(Rig::with_defaults({}));
  register_backend(runtime, 0, control_);
  EXPECT_EQ(runtime.backend("test0")->device_count(), 0U);
  EXPECT_EQ(runtime.backend("test0")->no_device_reason(), "'test0' found no devices and gave no reason");
}

TEST_F(BackendTest, DescriptionOfADeviceIsPassedOn) {
  control_->device_info = {.name = "card",
                           .unique_id = "card:7",
                           .memory_bytes = 4096,
                           .types = {YOKE_TYPE_F32, YOKE_TYPE_I32},
                           .kind = YOKE_DEVICE_GPU,
                           .compute_unit_count = 6,
                           .suggested_stream_count = 4,
                           .host_visible = true,
                           .numa_node = 3};
  DeviceInfo info = backend()->device_info(1);
  EXPECT_EQ(info.name, "card");
  EXPECT_EQ(info.unique_id, "card:7");
  EXPECT_EQ(info.memory_bytes, 4096U);
  EXPECT_EQ(info.type_mask, std::uint64_t{1} << YOKE_TYPE_F32 | std::uint64_t{1} << YOKE_TYPE_I32);
  EXPECT_EQ(info.kind, YOKE_DEVICE_GPU);
  EXPECT_EQ(info.compute_unit_count, 6U);
  EXPECT_EQ(info.suggested_stream_count, 4U);
  EXPECT_TRUE(info.host_visible);
  EXPECT_EQ(info.numa_node, 3);
  control_->device_info.host_visible = false;
  for (const std::uint32_t count : {0U, 1U}) {
    control_->device_info.compute_unit_count = control_->device_info.suggested_stream_count = count;
    info = backend()->device_info(1);
    EXPECT_EQ(info.compute_unit_count, 1U) << "at least 1";
    EXPECT_EQ(info.suggested_stream_count, 1U) << "at least 1";
    EXPECT_FALSE(info.host_visible);
  }
}

// A plugin writes as many bytes as the structure states to have.
TEST_F(BackendTest, StructuresStateTheirSize) {
  static int call_count;
  call_count = 0;
  control_->provides.memory = true;
  static const auto kCheck = [](const auto* info, std::int32_t code) {
    EXPECT_EQ(info->struct_size, sizeof(*info));
    ++call_count;
    return code;
  };
  control_->backend.device_describe = [](auto plugin, auto ordinal, yoke_device_info* info, auto error) {
    return kCheck(info, sdk::detail::device_describe(plugin, ordinal, info, error));
  };
  control_->backend.device_open = [](auto plugin, const yoke_device_args* args, auto out, auto error) {
    return kCheck(args, sdk::detail::device_open(plugin, args, out, error));
  };
  control_->backend.live_counts = [](auto plugin, yoke_live_counts* counts, auto error) {
    return kCheck(counts, sdk::detail::live_counts(plugin, counts, error));
  };
  control_->backend.device_memory = [](auto device, yoke_memory_info* info, auto error) {
    return kCheck(info, sdk::detail::device_memory(device, info, error));
  };
  control_->memory.device_native = [](auto device, yoke_native_info* info, auto error) {
    return kCheck(info, sdk::detail::device_native(device, info, error));
  };
  EXPECT_EQ(backend()->live_counts().devices, 1U);
  EXPECT_EQ(device()->memory().used_bytes, 0U);
  EXPECT_EQ(device()->native().api, "fake");
  EXPECT_EQ(call_count, 5);
}

TEST_F(BackendTest, DeviceIsOpenedByItsOrdinal) {
  static std::vector<std::uint32_t> opened;
  opened.clear();
  control_->backend.device_open = [](auto plugin, const yoke_device_args* args, auto out, auto error) {
    opened.push_back(args->ordinal);
    return sdk::detail::device_open(plugin, args, out, error);
  };
  backend()->open_device(1);
  EXPECT_THAT(opened, testing::ElementsAre(0U, 1U)) << "0 is the rig's";
}

TEST_F(BackendTest, LoadingDoesNotEnumerateDevices) {  // which may start a driver
  RuntimeOptions logged = Rig::with_defaults({});
  logged.log_level = LogLevel::kInfo;
  Runtime runtime(logged);
  register_backend(runtime, 0, control_);
  const auto backend = runtime.backend("test0");
  EXPECT_EQ(control_->enumeration_count, 0);
  EXPECT_EQ(backend->device_count(), 2U);
  EXPECT_EQ(control_->enumeration_count, 1);
}

TEST_F(BackendTest, OrdinalOutOfRangeNamesTheNumberOfDevices) {
  const Error error = error_of([&] { backend()->open_device(2); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
  EXPECT_STREQ(error.what(), "test0:2: no such device: 'test0' has 2, numbered from 0");
  EXPECT_EQ(backend()->no_device_reason(), "");
  control_->device_count = 1;
  EXPECT_EQ(backend()->no_device_reason(), "");
}

TEST_F(BackendTest, PluginOptionsAreListedButNotAcceptedByDevices) {
  control_->option_specs = {sdk::OptionSpec::integer("threads", "Threads.", 4, 1, 64),
                            sdk::OptionSpec::flag("verbose", "Log more.", false).for_plugin()};
  const auto specs = backend()->option_specs();
  ASSERT_EQ(specs.size(), 2U);
  EXPECT_EQ(specs[0].scope, YOKE_OPTION_SCOPE_DEVICE);
  EXPECT_EQ(specs[1].scope, YOKE_OPTION_SCOPE_PLUGIN);
  const std::vector<Option> plugin_option = {{"verbose", true}};
  EXPECT_STREQ(
      error_of([&] { backend()->open_device(0, plugin_option); }).what(),
      "test0:0: option 'verbose' is an option of the whole plugin; set it with --plugin-option, or in "
      "RuntimeOptions::plugin_options");
  const std::vector<Option> unknown = {{"thread", std::int64_t{1}}};
  EXPECT_STREQ(error_of([&] { backend()->open_device(0, unknown); }).what(),
               "test0:0: option 'thread' is unknown; the options are threads; did you mean 'threads'?");
}

// A table of an extension, as two versions of its header declare it.
struct OldTable {
  std::uint64_t struct_size;
  int (*one)();
};
struct NewTable {
  std::uint64_t struct_size;
  int (*one)();
  int (*two)();
};

TEST_F(BackendTest, ExtensionTableIsCompletedToTheSizeOfTheHost) {
  static const struct {
    OldTable table;
    std::uint64_t next;  // not part of it
  } kTheirs = {{sizeof(OldTable), [] { return 1; }}, ~std::uint64_t{0}};
  static int asked_count;
  asked_count = 0;
  control_->on_table = [](const char* id, const void* found) {
    const bool is_one = std::strcmp(id, "org.example.one/1") == 0;
    asked_count += is_one ? 1 : 0;
    return is_one ? static_cast<const void*>(&kTheirs.table) : found;
  };
  const auto* same = backend()->extension<OldTable>("org.example.one/1");
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->one(), 1);
  const auto* newer = backend()->extension<NewTable>("org.example.one/1");
  ASSERT_NE(newer, nullptr);
  EXPECT_EQ(newer->struct_size, sizeof(OldTable));
  EXPECT_EQ(newer->one(), 1);
  EXPECT_EQ(newer->two, nullptr) << "the plugin does not have the function";
  EXPECT_EQ(backend()->extension<NewTable>("org.example.one/1"), newer) << "valid while the backend lives";
  EXPECT_EQ(asked_count, 2) << "once for each size: another thread may read the table";
  EXPECT_EQ(backend()->extension<OldTable>("org.example.two/1"), nullptr);
}

TEST_F(BackendTest, ExtensionTableLargerThanTheHostsIsCut) {
  static const NewTable kTheirs = {sizeof(NewTable), [] { return 1; }, [] { return 2; }};
  control_->on_table = [](const char* id, const void* found) {
    return std::strcmp(id, "org.example.one/1") == 0 ? static_cast<const void*>(&kTheirs) : found;
  };
  EXPECT_EQ(backend()->extension<OldTable>("org.example.one/1")->struct_size, sizeof(OldTable));
}

TEST_F(BackendTest, ExtensionTableNeedsAnId) {
  EXPECT_THAT(error_of([&] { static_cast<void>(backend()->extension<OldTable>(nullptr)); }),
              is_error(ErrorCode::kInvalidArgument, "backend 'test0': extension: the id is null"));
}

TEST(SuggestedStreamCount, DependsOnTheDeviceAndItsUse) {
  DeviceInfo cpu;
  cpu.kind = YOKE_DEVICE_CPU;
  cpu.suggested_stream_count = 8;
  DeviceInfo gpu;
  gpu.kind = YOKE_DEVICE_GPU;
  gpu.suggested_stream_count = 4;
  EXPECT_EQ(suggested_stream_count(cpu, StreamUse::kOnlyDevicesParallel), 1U);
  EXPECT_EQ(suggested_stream_count(gpu, StreamUse::kOnlyDevicesParallel), 1U);
  EXPECT_EQ(suggested_stream_count(cpu, StreamUse::kForParallelCopying), 1U);
  EXPECT_EQ(suggested_stream_count(gpu, StreamUse::kForParallelCopying), 2U);
  EXPECT_EQ(suggested_stream_count(cpu, StreamUse::kMostParallelStreams), 8U);
  EXPECT_EQ(suggested_stream_count(gpu, StreamUse::kMostParallelStreams), 4U);
  DeviceInfo other = gpu;
  other.kind = YOKE_DEVICE_OTHER;
  EXPECT_EQ(suggested_stream_count(other, StreamUse::kForParallelCopying), 2U);
  gpu.suggested_stream_count = 1;
  EXPECT_EQ(suggested_stream_count(gpu, StreamUse::kForParallelCopying), 1U);
  EXPECT_EQ(suggested_stream_count(gpu, StreamUse::kMostParallelStreams), 1U);
  gpu.suggested_stream_count = 0;
  EXPECT_EQ(suggested_stream_count(gpu, StreamUse::kMostParallelStreams), 1U) << "at least 1";
}

TEST_F(BackendTest, HandlesOfOneDeviceCanBeMixed) {
  for (const bool streams : {false, true}) {
    control_->provides.streams = streams;
    control_->has_peers = false;
    Rig rig(control_);
    const auto other = rig.backend->open_device(0);
    EXPECT_NE(other->get(), rig.device->get());
    EXPECT_TRUE(other->is_same(*rig.device));
    EXPECT_TRUE(other->can_access(*rig.device));
    EXPECT_FALSE(rig.backend->open_device(1)->is_same(*rig.device));

    const BufferView x = buffer_of<float>(other, 4);
    const BufferView y = rig.buffer(16);
    const auto stream = rig.stream();
    const std::vector<float> ones(4, 1);
    stream->from_host(x, ones.data());  // a buffer of the other handle
    const auto routine = link(
        other,
        "yoke.program 1\nprogram p() {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  y[i] = x[i] + 1.0\n}\n",
        {x, y});
    stream->launch(*routine);  // and a routine of it
    const auto stream_of_other = Stream::create(other);
    stream_of_other->wait_for(stream->record());
    EXPECT_EQ(read<float>(*stream_of_other, y), std::vector<float>(4, 2));
  }
}

TEST_F(BackendTest, DevicesAccessEachOtherOnlyIfTheirCommonBackendAllowsIt) {
  Rig& one = rig();
  register_backend(one.runtime, 1);
  const auto other = one.runtime.backend("test1")->open_device(0);
  const auto second = backend()->open_device(1);
  EXPECT_TRUE(device()->can_access(*second));
  EXPECT_FALSE(device()->can_access(*other)) << "of another backend";
  EXPECT_FALSE(other->can_access(*device()));
}

TEST_F(BackendTest, DevicesOfABackendWithoutPeersDoNotAccessEachOther) {
  control_->provides.peers = false;
  EXPECT_FALSE(device()->can_access(*backend()->open_device(1)));
  EXPECT_TRUE(device()->can_access(*backend()->open_device(0))) << "the same device";
}

TEST_F(BackendTest, BackendThatDoesNotAnswerAllowsNoAccess) {
  control_->peer.peer_access = [](auto...) -> std::int32_t { return YOKE_STATUS_OK; };
  EXPECT_FALSE(device()->can_access(*backend()->open_device(1)));
}

TEST_F(BackendTest, HandlesHaveSeparateCountsAndAborts) {
  control_->provides.streams = true;
  control_->stream.stream_abort = nullptr;  // so that abort is for all streams of a handle
  const auto other = backend()->open_device(0);
  const Buffer buffer(other, 100);
  EXPECT_EQ(other->memory().used_bytes, 100U);
  EXPECT_EQ(device()->memory().used_bytes, 0U);
  const auto mine = rig().stream();
  const auto theirs = Stream::create(other);
  theirs->abort();
  EXPECT_ERROR(ErrorCode::kAborted, theirs->wait());
  fill<std::uint8_t>(*mine, rig().buffer(1), 1);
  mine->wait();
}

TEST_F(BackendTest, EveryCodeButOkIsAFailedClose) {
  const ExpectedLeak leak;  // of the plugin
  control_->backend.device_close = [](yoke_device* on, yoke_error* error) {
    EXPECT_EQ(sdk::detail::device_close(on, error), YOKE_STATUS_OK);
    return -1;
  };
  const auto log = rig().log;
  rig_.reset();
  EXPECT_THAT(log.all(), testing::Contains(HasSubstr("device.leak device=test0:0")));
}

}  // namespace
}  // namespace yoke::test
