// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_call_test.cpp: how the SDK handles structs, forks, and functions that a backend lacks.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <new>

#include "sdk_fixture.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

TEST_F(SdkTest, OrdinalOutOfRangeIsReportedWithTheDeviceCount) {
  Entered entered(entry());
  auto info = sized<yoke_device_info>();

  EXPECT_EQ(entered.backend->device_describe(entered.plugin, 2, &info, &entered.error),
            YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(entered.error.text, "backend 'fake' has no device 2; it has 2 devices");
}

TEST_F(SdkTest, LongNamesAreTruncatedBetweenCharacters) {
  Entered entered(entry());
  auto info = sized<yoke_device_info>();

  ASSERT_EQ(entered.backend->device_describe(entered.plugin, 1, &info, &entered.error), YOKE_STATUS_OK);
  EXPECT_EQ(std::string(info.name), std::string(126, 'n'));
  info.struct_size = 0;
  EXPECT_EQ(entered.backend->device_describe(entered.plugin, 1, &info, &entered.error),
            YOKE_STATUS_INVALID_ARGUMENT);
}

TEST_F(SdkTest, DestroyKeepsAPluginWithLiveObjects) {
  Entered entered(entry());
  yoke_device* device = entered.open();

  entered.plugin->destroy(entered.plugin);

  EXPECT_THAT(entered.host.lines(), testing::Contains(HasSubstr("plugin.destroy kept=1")));
  entered.close(device);
}

// A backend that overrides only the required functions.
class BareStream final : public sdk::Stream {
 public:
  std::int32_t state() override { return YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {}
  std::unique_ptr<sdk::Event> record(bool) override { throw std::bad_alloc(); }
  void wait_event(sdk::Event&) override {}
};
class BareDevice final : public sdk::Device {
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t priority) override {
    return priority == 0 ? std::make_unique<BareStream>() : sdk::Device::create_stream(priority);
  }
};
class BareBackend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = true, .programs = true, .peers = true, .memory = true, .faults = true};
  }
  std::uint32_t device_count() override { return 1; }
  sdk::DeviceInfo describe(std::uint32_t) override { return {}; }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options&) override {
    return std::make_unique<BareDevice>();
  }
};

TEST_F(SdkTest, FunctionsThatAreNotOverriddenAreUnimplemented) {
  Entered entered([](const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
    return sdk::enter(args, out_plugin, error, {"bare", "1", "tests"},
                      [] { return std::make_unique<BareBackend>(); });
  });
  yoke_device* device = entered.open();
  auto stream_args = sized<yoke_stream_args>();
  yoke_stream* stream = nullptr;
  ASSERT_EQ(entered.streams->stream_create(device, &stream_args, &stream, nullptr), YOKE_STATUS_OK);
  auto native = sized<yoke_native_info>();
  auto import = sized<yoke_import_args>();
  import.kind = YOKE_MEMORY_HOST;
  const yoke_compile_args text = as_text("");
  yoke_buffer* buffer = nullptr;
  yoke_code* code = nullptr;
  yoke_stream* second = nullptr;
  std::uint32_t count = 0;
  stream_args.priority = 1;

  EXPECT_EQ(entered.streams->stream_abort(stream, &entered.error), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.error.text, "the backend does not implement stream_abort");
  EXPECT_EQ(entered.streams->device_abort(device, nullptr), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.streams->stream_host_callback(
                stream, [](void*, std::int32_t) {}, nullptr, nullptr),
            YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.streams->stream_create(device, &stream_args, &second, nullptr),
            YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.memory->stream_native(stream, &native, nullptr), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.memory->device_native(device, &native, nullptr), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.memory->buffer_import(device, &import, &buffer, nullptr), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.programs->code_compile(device, &text, &code, nullptr), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.programs->can_compile(device, &text, 0, 0, nullptr, &count, nullptr),
            YOKE_STATUS_UNIMPLEMENTED);
  BareStream bare;
  EXPECT_THROW(bare.pause(1), sdk::Failure);
  EXPECT_THROW(bare.poison({YOKE_STATUS_INTERNAL, "a fault"}), sdk::Failure);
  EXPECT_EQ(entered.live_counts().streams, 1U);
  entered.streams->stream_destroy(stream);
  entered.close(device);
}

// Runs `act` in a forked child. Returns its result.
bool in_child(const std::function<bool()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(act() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(SdkTest, ForkingIsAllowedUntilTheFirstDeviceCount) {
  Entered entered(entry());
  std::uint32_t count = 0;
  const auto can_count = [&] {
    return entered.backend->device_count(entered.plugin, &count, nullptr, 0, nullptr) == YOKE_STATUS_OK;
  };

  EXPECT_TRUE(in_child([&] { return can_count(); })) << "before the first device_count";
  EXPECT_TRUE(can_count());
  EXPECT_FALSE(in_child([&] { return can_count(); })) << "after the first device_count";
}

TEST_F(SdkTest, WorkOfAnotherDeviceIsRejectedOnAStream) {
  Entered entered(entry());
  yoke_device* device = entered.open(0);
  yoke_device* other = entered.open(1);
  yoke_buffer* buffer = entered.buffer(other, 8);
  const auto args = sized<yoke_stream_args>();
  yoke_stream* stream = nullptr;
  ASSERT_EQ(entered.streams->stream_create(device, &args, &stream, nullptr), YOKE_STATUS_OK);

  EXPECT_EQ(entered.backend->from_host(stream, buffer, 0, "original", 8, nullptr, &entered.error),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "work of device 1 was queued on a stream of device 0");

  entered.streams->stream_destroy(stream);
  entered.backend->buffer_destroy(buffer);
  entered.close(device);
  entered.close(other);
}

}  // namespace
}  // namespace yoke::test
