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
  static const OldTable kTheirs = {sizeof(OldTable), [] { return 1; }};
  control_->on_table = [](const char* id, const void* found) {
    return std::strcmp(id, "org.example.one/1") == 0 ? static_cast<const void*>(&kTheirs) : found;
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
