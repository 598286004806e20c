// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_call_test.cpp: how the SDK handles structs, forks, and functions that a backend lacks.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/fault.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "sdk_fixture.h"

static bool madvise_fails = false;

// In place of the C library's, for the code of this program.
extern "C" int madvise(void* address, std::size_t byte_count, int advice) noexcept {
  if (madvise_fails) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_madvise, address, byte_count, advice));
}

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

TEST_F(SdkTest, DevicesAreDescribedInFull) {
  control_->device_count = 1;
  control_->device_info = {.name = "card",
                           .unique_id = "",
                           .memory_bytes = std::uint64_t{1} << 33,
                           .types = {YOKE_TYPE_F64, YOKE_TYPE_BOOL},
                           .kind = YOKE_DEVICE_GPU,
                           .compute_unit_count = 17,
                           .suggested_stream_count = 3,
                           .host_visible = true,
                           .numa_node = 2};
  Entered entered(entry());
  const auto& api = *entered.backend;
  auto info = sized<yoke_device_info>();
  ASSERT_EQ(api.device_describe(entered.plugin, 0, &info, &entered.error), YOKE_STATUS_OK);
  EXPECT_STREQ(info.name, "card");
  EXPECT_STREQ(info.unique_id, "test:0");
  EXPECT_EQ(info.memory_bytes, std::uint64_t{1} << 33);
  EXPECT_EQ(info.type_mask, 2U + 512U);
  EXPECT_EQ(info.kind, YOKE_DEVICE_GPU);
  EXPECT_EQ(info.compute_unit_count, 17U);
  EXPECT_EQ(info.suggested_stream_count, 3U);
  EXPECT_EQ(info.host_visible, 1);
  EXPECT_EQ(info.numa_node, 2);
  control_->device_info.host_visible = false;
  ASSERT_EQ(api.device_describe(entered.plugin, 0, &info, &entered.error), YOKE_STATUS_OK);
  EXPECT_EQ(info.host_visible, 0);
  EXPECT_EQ(api.device_describe(entered.plugin, 1, &info, &entered.error), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(entered.error.text, "backend 'fake' has no device 1; it has 1 device");
  yoke_device* device = nullptr;
  EXPECT_EQ(entered.try_open(1, {}, &device), YOKE_STATUS_OUT_OF_RANGE);
}

TEST_F(SdkTest, MissingDevicesHaveAReasonAsLongAsTheCallersArray) {
  Entered entered(entry());
  std::uint32_t count = 7;
  std::string reason;
  const auto code_of = [&](std::uint64_t capacity) {
    reason.assign(32, 'z');
    return entered.backend->device_count(entered.plugin, &count, reason.data(), capacity, &entered.error);
  };
  EXPECT_EQ(code_of(32), YOKE_STATUS_OK);
  EXPECT_EQ(count, 2U);
  EXPECT_STREQ(reason.c_str(), "") << "no device is missing";
  control_->device_count = 0;
  for (const std::uint64_t capacity : {1U, 8U, 21U, 22U, 31U}) {
    EXPECT_EQ(code_of(capacity), YOKE_STATUS_OK);
    EXPECT_EQ(count, 0U);
    EXPECT_EQ(std::string(reason.c_str()), control_->no_device_reason.substr(0, capacity - 1));
    EXPECT_EQ(reason[capacity], 'z');
  }
  EXPECT_EQ(entered.backend->device_count(entered.plugin, &count, nullptr, 0, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered.backend->device_count(entered.plugin, &count, nullptr, 1, &entered.error),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "out_reason is NULL");
}

TEST_F(SdkTest, LiveObjectsAreCountedByKind) {
  sdk::Entry nothing;
  nothing.name = "nothing";
  control_->entries = {nothing};
  control_->provides.collectives = true;
  Entered entered(entry());
  yoke_device* const device = entered.open();
  yoke_device* const other = entered.open(1);
  std::vector<yoke_buffer*> buffers;
  std::vector<yoke_stream*> streams(3);
  std::vector<yoke_event*> events(4);
  std::vector<yoke_code*> codes;
  std::vector<yoke_routine*> routines;
  const auto stream_args = sized<yoke_stream_args>();
  const auto event_args = sized<yoke_event_args>();
  for (int i = 0; i < 2; ++i) {
    buffers.push_back(entered.buffer(i == 0 ? device : other, 8));
  }
  for (yoke_stream*& stream : streams) {
    ASSERT_EQ(entered.streams->stream_create(device, &stream_args, &stream, nullptr), YOKE_STATUS_OK);
  }
  for (yoke_event*& event : events) {
    ASSERT_EQ(entered.streams->event_record(streams[0], &event_args, &event, nullptr), YOKE_STATUS_OK);
  }
  for (int i = 0; i < 5; ++i) {
    codes.push_back(entered.compile(device, "any"));
  }
  for (int i = 0; i < 6; ++i) {
    routines.push_back(entered.link(codes[0], 0, {}, nullptr));
  }
  const auto* collectives = entered.table<yoke_collectives_api>(YOKE_COLLECTIVES_TABLE);
  const std::array<std::uint8_t, YOKE_GROUP_ID_BYTES> id{};
  auto group_args = sized<yoke_communicator_args>();
  group_args.id = id.data();
  group_args.size = 1;
  yoke_communicator* communicator = nullptr;
  ASSERT_EQ(collectives->communicator_create(device, &group_args, &communicator, nullptr), YOKE_STATUS_OK);

  const yoke_live_counts live = entered.live_counts();
  EXPECT_EQ(live.devices, 2U);
  EXPECT_EQ(live.buffers, 2U);
  EXPECT_EQ(live.streams, 3U);
  EXPECT_EQ(live.events, 4U);
  EXPECT_EQ(live.codes, 5U);
  EXPECT_EQ(live.routines, 6U);
  EXPECT_EQ(entered.backend->device_close(device, &entered.error), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(entered.error.text,
            "device 0 cannot be closed: 1 buffer, 3 streams, 4 events, 5 codes, 6 routines, 1 communicator "
            "alive; destroy them first");
  collectives->communicator_destroy(communicator);
  for (yoke_routine* routine : routines) {
    entered.programs->routine_destroy(routine);
  }
  for (yoke_code* code : codes) {
    entered.programs->code_destroy(code);
  }
  for (yoke_event* event : events) {
    entered.streams->event_destroy(event);
  }
  for (yoke_stream* stream : streams) {
    entered.streams->stream_destroy(stream);
  }
  for (yoke_buffer* buffer : buffers) {
    entered.backend->buffer_destroy(buffer);
  }
  entered.close(device);
  entered.close(other);
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
class BareEvent final : public sdk::Event {
 public:
  std::int32_t state() override { return YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {}
};
class BareDevice final : public sdk::Device {
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t priority) override {
    return priority == 0 ? std::make_unique<BareStream>() : sdk::Device::create_stream(priority);
  }
};
class BareBackend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = true,
            .programs = true,
            .peers = true,
            .memory = true,
            .faults = true,
            .collectives = true};
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
  const auto* collectives = entered.table<yoke_collectives_api>(YOKE_COLLECTIVES_TABLE);
  auto collectives_info = sized<yoke_collectives_info>();
  auto id = sized<yoke_group_id>();
  std::uint32_t reason_count = 7;
  char reason = 'z';
  EXPECT_EQ(collectives->collectives_describe(device, &collectives_info, &entered.error),
            YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.error.text, "the backend does not implement collectives");
  EXPECT_EQ(collectives->group_id_create(device, &id, nullptr), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_THROW(BareBackend().queue_collectives({}), sdk::Failure);
  EXPECT_THROW(BareDevice().join_group({}, 0, 1), sdk::Failure);
  const auto* faults = entered.table<yoke_fault_api>(YOKE_FAULT_TABLE);
  EXPECT_EQ(faults->fault_arm(device, YOKE_FAULT_COPY, 1, 0, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(faults->fault_arm(device, YOKE_FAULT_EVENT_LATE, 1, 0, nullptr), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered.streams->stream_debug_text(stream, &reason, 1, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(reason, '\0');
  EXPECT_EQ(entered.table<void>("org.example.own/1"), nullptr);
  EXPECT_EQ(entered.backend->device_count(entered.plugin, &reason_count, nullptr, 0, nullptr),
            YOKE_STATUS_OK);
  EXPECT_EQ(reason_count, 1U);
  const auto event_args = sized<yoke_event_args>();
  yoke_event* recorded = nullptr;
  EXPECT_EQ(entered.streams->event_record(stream, &event_args, &recorded, nullptr),
            YOKE_STATUS_RESOURCE_EXHAUSTED)
      << "what its own function throws";
  BareDevice bare_device;
  EXPECT_TRUE(bare_device.peer_access(bare_device));
  EXPECT_FALSE(bare_device.peer_access(sdk::object_of(device)));
  BareStream bare;
  BareEvent event;
  EXPECT_THROW((void)event.time_ns(), sdk::Failure);
  EXPECT_THROW((void)event.elapsed_since(event), sdk::Failure);
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

TEST_F(SdkTest, HandlesOfTheParentAreLeftAloneInAForkedChild) {
  control_->provides.memory = true;
  Entered entered(entry());
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 8);
  const auto args = sized<yoke_pinned_args>();
  void* pinned = nullptr;
  ASSERT_EQ(entered.memory->pinned_allocate(device, &args, &pinned, nullptr), YOKE_STATUS_OK);
  const auto counts = [&] { return control_->live_pinned_count.load(); };
  EXPECT_TRUE(in_child([&] {
    entered.backend->buffer_destroy(buffer);
    entered.memory->pinned_free(device, pinned);
    entered.plugin->destroy(entered.plugin);
    auto info = sized<yoke_memory_info>();
    return counts() == 1 && sdk::detail::state_of(entered.plugin).live[sdk::detail::kBuffer] == 1 &&
           entered.backend->device_memory(device, &info, &entered.error) == YOKE_STATUS_FAILED_PRECONDITION &&
           entered.error.text == "this process was forked after the devices were counted; it may only exec" &&
           entered.host.lines().empty();
  }));
  entered.memory->pinned_free(device, pinned);
  entered.backend->buffer_destroy(buffer);
  entered.close(device);
}

TEST(ForkGuard, ComparesProcessesIfTheKernelCannotClearPages) {
  for (const bool is_supported : {true, false}) {
    madvise_fails = !is_supported;
    sdk::detail::ForkGuard guard;
    madvise_fails = false;
    EXPECT_FALSE(in_child([&] { return guard.forked(); })) << "not armed";
    guard.arm();
    EXPECT_FALSE(guard.forked());
    EXPECT_TRUE(in_child([&] {
      guard.arm();  // does nothing: it is armed
      return guard.forked();
    }));
  }
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
