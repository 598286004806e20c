// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/memory_test.cpp: yoke.memory/1 through the runtime: pinned staging, foreign memory,
// native handles.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fallback_rig.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

std::shared_ptr<Control> memory_control(bool has_memory = true) {
  auto control = std::make_shared<Control>();
  control->provides.memory = has_memory;
  return control;
}

TEST(PinnedStagingTest, CopiesBetweenBackendsUsePinnedMemoryOfEitherDevice) {
  for (const bool near_pins : {false, true}) {
    Rig rig(memory_control(near_pins));
    const auto far_control = register_backend(rig.runtime, 1, memory_control(!near_pins));
    const auto& pinning = near_pins ? rig.control : far_control;
    {
      const auto far = rig.runtime.backend("test1")->open_device(0);
      const auto stream = rig.stream();
      const std::vector<std::uint32_t> data(1000, 7);
      const BufferView here = buffer_of<std::uint32_t>(rig.device, data.size());
      const BufferView there = buffer_of<std::uint32_t>(far, data.size());
      stream->from_host(here, data.data());
      stream->copy(there, here);
      EXPECT_EQ(read<std::uint32_t>(*Stream::create(far), there), data);
      EXPECT_EQ(pinning->pinned_count, 2U) << "one for each of the two chunks";
    }
    rig.device.reset();
    EXPECT_EQ(pinning->live_pinned_count, 0);
    EXPECT_EQ(rig.backend->live_counts().devices, 0U);
  }
}

TEST(PinnedStagingTest, DeviceThatTheHostCannotAddressPinsFirst) {
  auto near_control = memory_control();
  near_control->device_info.host_visible = true;
  Rig rig(near_control);
  const auto far_control = register_backend(rig.runtime, 1, memory_control());
  const auto far = rig.runtime.backend("test1")->open_device(0);
  for (const auto& [from, to] : {std::pair(rig.device, far), std::pair(far, rig.device)}) {
    const auto stream = Stream::create(from);
    stream->copy(buffer_of<std::uint8_t>(to, 16), buffer_of<std::uint8_t>(from, 16));
    stream->wait();
  }
  EXPECT_EQ(near_control->pinned_count, 0U);
  EXPECT_EQ(far_control->pinned_count, 4U);
}

// Copies between two backends through host memory. Returns the log lines about memory.
std::vector<std::string> log_of_a_copy(const std::shared_ptr<Control>& control) {
  RuntimeOptions options;
  LogLines log;
  options.log_sink = log.sink();
  options.log_level = LogLevel::kDebug;
  Rig rig(control, options);
  register_backend(rig.runtime, 1);
  const auto far = rig.runtime.backend("test1")->open_device(0);
  const auto stream = rig.stream();
  stream->copy(buffer_of<std::uint8_t>(far, 16), rig.buffer(16));
  stream->wait();
  std::vector<std::string> lines = log.all();
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("memory."); });
  return lines;
}

TEST(PinnedStagingTest, OnlyMemoryThatCannotBePinnedIsLogged) {
  EXPECT_THAT(log_of_a_copy(memory_control()), testing::IsEmpty());
  EXPECT_THAT(log_of_a_copy(memory_control(false)), testing::IsEmpty());
  using Allocate = decltype(yoke_memory_api::pinned_allocate);
  const Allocate exhausted = [](auto...) -> std::int32_t { return YOKE_STATUS_RESOURCE_EXHAUSTED; };
  const Allocate unknown = [](auto...) -> std::int32_t { return -1; };
  for (const Allocate allocate : {exhausted, unknown}) {
    for (const bool host_visible : {false, true}) {
      auto control = memory_control();
      control->device_info.host_visible = host_visible;
      control->memory.pinned_allocate = allocate;
      const auto line = HasSubstr("memory.unpinned device=test0:0 bytes=16 reason=\"");
      EXPECT_THAT(log_of_a_copy(control), testing::ElementsAre(line, line))
          << "one for each of the two chunks";
    }
  }
}

TEST(PinnedStagingTest, HeapIsUsedIfNothingCanBePinned) {
  for (const std::int32_t code : {YOKE_STATUS_RESOURCE_EXHAUSTED, -1}) {
    static std::int32_t answer;
    answer = code;
    auto control = memory_control();
    control->memory.pinned_allocate = [](yoke_device*, const yoke_pinned_args* args, void** out,
                                         yoke_error*) {
      EXPECT_EQ(args->struct_size, sizeof(*args));
      EXPECT_EQ(args->flags, 0U);
      *out = reinterpret_cast<void*>(std::uintptr_t{8});  // against the rules; the runtime must not use it
      return answer;
    };
    Rig rig(control);
    register_backend(rig.runtime, 1);
    const auto far = rig.runtime.backend("test1")->open_device(0);
    const auto stream = rig.stream();
    const BufferView there = buffer_of<std::uint8_t>(far, 4);
    const BufferView here = rig.buffer(4);
    fill<std::uint8_t>(*stream, here, 9);
    stream->copy(there, here);
    EXPECT_EQ(read<std::uint8_t>(*Stream::create(far), there), std::vector<std::uint8_t>(4, 9));
  }
}

TEST(PinnedStagingTest, AbandonedCopyKeepsItsMemory) {
  RuntimeOptions options;
  options.wait_timeout = 50ms;
  Rig rig(memory_control(), options);
  const auto far_control = register_backend(rig.runtime, 1);
  const BufferView there = buffer_of<std::uint8_t>(rig.runtime.backend("test1")->open_device(0), 16);
  const BufferView here = rig.buffer(16);
  auto stream = rig.stream();
  far_control->is_blocked = true;
  stream->copy(there, here);
  EXPECT_TRUE(wait_for_calls(*far_control, 1)) << "the other device reads the staging memory";
  const Event copied = stream->record();
  stream->abort();
  stream.reset();
  EXPECT_EQ(rig.control->live_pinned_count, 2);
  far_control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kAborted, copied.wait(30s));
}

TEST(PinnedStagingTest, FallbackArgumentsUsePinnedMemory) {
  auto device = FallbackRig::without_programs();
  device->provides.memory = true;
  auto fallback = std::make_shared<Control>();
  fallback->make_bare();
  FallbackRig rig(device, fallback);
  const auto routine = link(rig.device, kAddTo, arguments(rig.device));
  EXPECT_EQ(device->pinned_count, 3U);
}

class ForeignMemoryTest : public testing::Test {
 protected:
  // Imports `memory`; `releases` counts the calls of the release function.
  std::shared_ptr<Buffer> import(void* memory, std::uint64_t byte_count) {
    return Buffer::import(rig.device, {.address = reinterpret_cast<std::uintptr_t>(memory),
                                       .byte_count = byte_count,
                                       .kind = YOKE_MEMORY_HOST,
                                       .release = [this] { ++releases; }});
  }

  Rig rig{memory_control()};
  int releases = 0;
};

TEST_F(ForeignMemoryTest, IsUsedInPlaceAndReleasedOnce) {
  alignas(YOKE_BUFFER_ALIGNMENT) std::uint32_t memory[4] = {1, 2, 3, 4};
  const auto stream = rig.stream();
  {
    const BufferView view = {import(memory, sizeof(memory)), 0, sizeof(memory)};
    EXPECT_EQ(rig.device->memory().used_bytes, 0U);
    EXPECT_EQ(read<std::uint32_t>(*stream, view), (std::vector<std::uint32_t>{1, 2, 3, 4}));
    rig.control->delay_us = 20000;
    fill<std::uint32_t>(*stream, view, 5);
    EXPECT_EQ(releases, 0);
  }
  EXPECT_EQ(memory[3], 5U) << "released only after the work that uses it";
  EXPECT_EQ(releases, 1);
}

TEST_F(ForeignMemoryTest, FailedImportDoesNotRelease) {
  EXPECT_ERROR(ErrorCode::kInvalidArgument, import(nullptr, 16));
  rig.control->memory.buffer_import = nullptr;
  EXPECT_EQ(releases, 0);
  auto plain = std::make_shared<Control>();
  register_backend(rig.runtime, 1, plain);
  const auto far = rig.runtime.backend("test1")->open_device(0);
  int memory = 0;
  EXPECT_ERROR(ErrorCode::kUnimplemented,
               Buffer::import(far, {.address = reinterpret_cast<std::uintptr_t>(&memory),
                                    .byte_count = sizeof(memory),
                                    .release = {}}));
}

TEST_F(ForeignMemoryTest, NeedsNoReleaseFunction) {
  int memory = 0;
  Buffer::import(rig.device, {.address = reinterpret_cast<std::uintptr_t>(&memory),
                              .byte_count = sizeof(memory),
                              .kind = YOKE_MEMORY_HOST,
                              .release = {}});
  EXPECT_THAT(rig.log.all(), testing::IsEmpty());
}

TEST_F(ForeignMemoryTest, BuffersWithoutADeviceAreRefused) {
  EXPECT_THAT(error_of([] { const Buffer buffer(nullptr, 4); }),
              is_error(ErrorCode::kInvalidArgument, "Buffer: the device is null"));
  rig.device.reset();
  int memory = 0;
  EXPECT_THAT(error_of([&] { import(&memory, sizeof(memory)); }),
              is_error(ErrorCode::kInvalidArgument, "Buffer::import: the device is null"));
  EXPECT_EQ(releases, 0);
}

TEST_F(ForeignMemoryTest, MisalignedMemoryIsRefusedAtLink) {
  rig.control->on_describe = [](std::vector<sdk::Entry>& entries) { entries[0].arguments[0].alignment = 64; };
  alignas(64) std::byte memory[256];
  const char* const text = "yoke.program 1\nprogram ones() {\n  arg y : f32[4] out\n  y[i] = 1.0\n}\n";
  EXPECT_NE(link(rig.device, text, {{import(memory, 64), 0, 16}}), nullptr);
  EXPECT_NE(link(rig.device, text, {{import(memory + 16, 128), 48, 16}}), nullptr) << "the address counts";
  EXPECT_THAT(error_of([&] {
                link(rig.device, text, {{import(memory + 16, 64), 0, 16}});
              }),
              is_error(ErrorCode::kInvalidArgument, "argument 'y' is bound at offset 0 of imported memory",
                       "needs an alignment of 64 bytes"));
}

TEST(NativeHandleTest, HandlesComeFromTheBackend) {
  auto control = memory_control();
  control->provides.streams = true;
  control->memory.stream_native = [](yoke_stream*, yoke_native_info* info, yoke_error*) {
    std::strcpy(info->api, "queue");
    info->handle = 5;
    info->context = 6;
    return YOKE_STATUS_OK;
  };
  Rig rig(control);
  EXPECT_EQ(rig.device->native().api, "fake");
  const NativeHandle stream = rig.stream()->native();
  EXPECT_EQ(stream.api, "queue");
  EXPECT_EQ(stream.handle, 5U);
  EXPECT_EQ(stream.context, 6U);
}

TEST(NativeHandleTest, MissingHandlesAreUnimplemented) {
  Rig rig(memory_control());
  EXPECT_ERROR(ErrorCode::kUnimplemented, (void)rig.stream()->native()) << "a worker's stream";
  Rig plain;
  EXPECT_ERROR(ErrorCode::kUnimplemented, (void)plain.device->native());
  EXPECT_ERROR(ErrorCode::kUnimplemented, (void)plain.buffer(1).buffer->device_address());
}

}  // namespace
}  // namespace yoke::test
