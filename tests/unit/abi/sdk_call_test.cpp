// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_call_test.cpp: how the SDK handles structs, rows, flags, forks and streams.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
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

TEST_F(SdkTest, RowsHonorCapacityAndStride) {
  Entered entered(entry());
  struct Longer {
    yoke_option_spec known;
    std::uint64_t added = 7;
  };
  std::array<Longer, 3> rows{};
  const auto list = [&](std::uint32_t capacity, yoke_option_spec* specs, std::uint32_t* count) {
    return entered.backend->option_specs(entered.plugin, capacity, sizeof(Longer), specs, count, nullptr);
  };
  std::uint32_t count = 0;

  EXPECT_EQ(list(0, nullptr, &count), YOKE_STATUS_OK);
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(list(2, &rows[0].known, &count), YOKE_STATUS_OK);
  EXPECT_EQ(count, 4U);
  EXPECT_STREQ(rows[0].known.name, "threads");
  EXPECT_EQ(rows[0].known.integer_max, 64);
  EXPECT_EQ(rows[0].known.scope, YOKE_OPTION_SCOPE_DEVICE);
  EXPECT_STREQ(rows[1].known.name, "share");
  EXPECT_EQ(rows[1].added, 7U) << "members that the plugin does not have stay untouched";
  EXPECT_EQ(rows[2].known.name, nullptr) << "rows past the capacity stay untouched";
  EXPECT_EQ(list(2, nullptr, &count), YOKE_STATUS_INVALID_ARGUMENT);
}

TEST_F(SdkTest, InfoStructsAreFilledUpToTheCallersSize) {
  Entered entered(entry());
  auto info = sized<yoke_device_info>();
  info.struct_size = offsetof(yoke_device_info, type_mask);
  info.type_mask = 0x1234;

  ASSERT_EQ(entered.backend->device_describe(entered.plugin, 1, &info, &entered.error), YOKE_STATUS_OK);
  EXPECT_STREQ(info.unique_id, "test:1");
  EXPECT_EQ(std::string(info.name), std::string(126, 'n')) << "truncated between two characters";
  EXPECT_EQ(info.type_mask, 0x1234U) << "past the caller's struct_size";
  EXPECT_EQ(info.struct_size, offsetof(yoke_device_info, type_mask));

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

TEST_F(SdkTest, DestroysAcceptNull) {
  Entered entered(entry());

  EXPECT_EQ(entered.backend->device_close(nullptr, nullptr), YOKE_STATUS_OK);
  entered.backend->buffer_destroy(nullptr);
  entered.streams->stream_destroy(nullptr);
  entered.streams->event_destroy(nullptr);
  entered.programs->code_destroy(nullptr);
  entered.programs->routine_destroy(nullptr);
  entered.plugin->destroy(nullptr);
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
  EXPECT_EQ(entered.live_counts().streams, 1U);
  entered.streams->stream_destroy(stream);
  entered.close(device);
}

TEST_F(SdkTest, UnknownFlagsAreUnimplemented) {
  control_->provides.memory = true;
  Entered entered(entry());
  yoke_device* device = entered.open();
  auto stream_args = sized<yoke_stream_args>();
  yoke_stream* stream = nullptr;
  ASSERT_EQ(entered.streams->stream_create(device, &stream_args, &stream, nullptr), YOKE_STATUS_OK);
  const auto refused = [&](auto args, auto call) {
    args.flags |= std::uint64_t{1} << 63;
    EXPECT_EQ(call(&args), YOKE_STATUS_UNIMPLEMENTED);
    EXPECT_THAT(entered.error.text, HasSubstr("unknown flags 9223372036854775808"));
  };

  refused(sized<yoke_device_args>(), [&](const yoke_device_args* args) {
    yoke_device* made = nullptr;
    return entered.backend->device_open(entered.plugin, args, &made, &entered.error);
  });
  refused(sized<yoke_buffer_args>(), [&](const yoke_buffer_args* args) {
    yoke_buffer* made = nullptr;
    return entered.backend->buffer_create(device, args, &made, &entered.error);
  });
  refused(sized<yoke_stream_args>(), [&](const yoke_stream_args* args) {
    yoke_stream* made = nullptr;
    return entered.streams->stream_create(device, args, &made, &entered.error);
  });
  auto timed = sized<yoke_event_args>();
  timed.flags = YOKE_EVENT_TIMING;
  refused(timed, [&](const yoke_event_args* args) {
    yoke_event* made = nullptr;
    return entered.streams->event_record(stream, args, &made, &entered.error);
  });
  refused(as_text(""), [&](const yoke_compile_args* args) {
    yoke_code* made = nullptr;
    return entered.programs->code_compile(device, args, &made, &entered.error);
  });
  refused(as_text(""), [&](const yoke_compile_args* args) {
    std::uint32_t count = 0;
    return entered.programs->can_compile(device, args, 0, 0, nullptr, &count, &entered.error);
  });
  refused(sized<yoke_pinned_args>(), [&](const yoke_pinned_args* args) {
    void* made = nullptr;
    return entered.memory->pinned_allocate(device, args, &made, &entered.error);
  });
  refused(sized<yoke_import_args>(), [&](const yoke_import_args* args) {
    yoke_buffer* made = nullptr;
    return entered.memory->buffer_import(device, args, &made, &entered.error);
  });
  entered.streams->stream_destroy(stream);
  entered.close(device);
}

// Runs `act` in a forked child and returns its result.
bool in_child(const std::function<bool()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(act() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(SdkTest, ForkedChildGetsFailedPreconditionFromEveryCall) {
  Entered entered(entry());
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 8);

  EXPECT_TRUE(in_child([&] {
    std::uint32_t count = 0;
    char byte = 0;
    entered.backend->buffer_destroy(buffer);  // must not touch the parent's object
    return entered.backend->device_count(entered.plugin, &count, nullptr, 0, nullptr) ==
               YOKE_STATUS_FAILED_PRECONDITION &&
           entered.backend->to_host(nullptr, buffer, 0, &byte, 1, nullptr) ==
               YOKE_STATUS_FAILED_PRECONDITION &&
           entered.backend->device_close(device, nullptr) == YOKE_STATUS_FAILED_PRECONDITION;
  }));
  entered.backend->buffer_destroy(buffer);
  entered.close(device);
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

class SdkStreamTest : public SdkTest {
 protected:
  SdkStreamTest() : entered_(entry()), device_(entered_.open()) {}
  ~SdkStreamTest() override {
    for (yoke_event* event : events_) {
      entered_.streams->event_destroy(event);
    }
    for (yoke_stream* stream : streams_) {
      entered_.streams->stream_destroy(stream);
    }
    for (yoke_buffer* buffer : buffers_) {
      entered_.backend->buffer_destroy(buffer);
    }
    entered_.close(device_);
  }

  yoke_stream* stream(yoke_device* device) {
    const auto args = sized<yoke_stream_args>();
    streams_.push_back(nullptr);
    EXPECT_EQ(entered_.streams->stream_create(device, &args, &streams_.back(), &entered_.error),
              YOKE_STATUS_OK);
    return streams_.back();
  }
  yoke_event* record(yoke_stream* stream, std::uint64_t flags = 0) {
    auto args = sized<yoke_event_args>();
    args.flags = flags;
    events_.push_back(nullptr);
    EXPECT_EQ(entered_.streams->event_record(stream, &args, &events_.back(), &entered_.error),
              YOKE_STATUS_OK);
    return events_.back();
  }
  yoke_buffer* buffer(yoke_device* device) {
    buffers_.push_back(entered_.buffer(device, 8));
    return buffers_.back();
  }
  std::int32_t write(yoke_stream* stream, yoke_buffer* buffer) {
    return entered_.backend->from_host(stream, buffer, 0, "original", 8, nullptr, &entered_.error);
  }

  static constexpr std::uint64_t kLong = 20'000'000'000;
  Entered entered_;
  yoke_device* device_;
  std::vector<yoke_stream*> streams_;
  std::vector<yoke_event*> events_;
  std::vector<yoke_buffer*> buffers_;
};

TEST_F(SdkStreamTest, QueriesReportFailureAsAState) {
  yoke_stream* one = stream(device_);
  yoke_event* before = record(one);
  control_->fail_after = 0;
  control_->fail_code = YOKE_STATUS_DATA_LOSS;
  EXPECT_EQ(write(one, buffer(device_)), YOKE_STATUS_OK);
  yoke_event* after = record(one);
  std::int32_t state = YOKE_STATE_PENDING;

  EXPECT_EQ(entered_.streams->event_wait(after, kLong, nullptr), YOKE_STATUS_DATA_LOSS);
  EXPECT_EQ(entered_.streams->event_query(after, &state, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_FAILED);
  EXPECT_EQ(entered_.streams->stream_query(one, &state, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_FAILED);
  EXPECT_EQ(entered_.streams->event_query(before, &state, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(state, YOKE_STATE_DONE);
}

TEST_F(SdkStreamTest, ElapsedTimeNeedsTimingAndDoneEvents) {
  yoke_stream* one = stream(device_);
  yoke_event* untimed = record(one);
  yoke_event* start = record(one, YOKE_EVENT_TIMING);
  control_->is_blocked = true;
  EXPECT_EQ(write(one, buffer(device_)), YOKE_STATUS_OK);
  yoke_event* stop = record(one, YOKE_EVENT_TIMING);
  std::uint64_t ns = 0;
  const auto elapsed = [&](yoke_event* from, yoke_event* to) {
    return entered_.streams->event_elapsed(from, to, &ns, &entered_.error);
  };

  EXPECT_EQ(elapsed(start, stop), YOKE_STATUS_FAILED_PRECONDITION) << "pending";
  control_->is_blocked = false;
  EXPECT_EQ(entered_.streams->event_wait(stop, kLong, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(elapsed(start, stop), YOKE_STATUS_OK);
  EXPECT_EQ(elapsed(untimed, stop), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(entered_.error.text, HasSubstr("recorded with YOKE_EVENT_TIMING"));
}

TEST_F(SdkStreamTest, HandlesOfOneDeviceShareStreamsAndBuffers) {
  yoke_device* second = entered_.open(0);
  yoke_device* other = entered_.open(1);
  yoke_stream* one = stream(device_);
  yoke_buffer* of_second = buffer(second);
  yoke_buffer* of_other = buffer(other);
  std::array<char, 8> got{};

  EXPECT_EQ(write(one, of_second), YOKE_STATUS_OK) << entered_.error.text;
  EXPECT_EQ(entered_.backend->to_host(one, of_second, 0, got.data(), 8, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.streams->stream_wait(one, kLong, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(std::string(got.data(), 8), "original");
  EXPECT_EQ(write(one, of_other), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered_.error.text, "work of device 1 was queued on a stream of device 0");
  yoke_stream* of_device_1 = stream(other);
  EXPECT_EQ(entered_.streams->stream_wait_event(of_device_1, record(one), nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(entered_.streams->stream_wait(of_device_1, kLong, nullptr), YOKE_STATUS_OK);

  entered_.streams->stream_destroy(of_device_1);
  streams_.pop_back();
  for (yoke_buffer* made : buffers_) {
    entered_.backend->buffer_destroy(made);
  }
  buffers_.clear();
  entered_.close(second);
  entered_.close(other);
}

}  // namespace
}  // namespace yoke::test
