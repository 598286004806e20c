// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/memory_test.cpp: yoke.memory/1 through the runtime: pinned staging, foreign memory,
// native handles, and a round trip through DLPack.
#include <cstdint>

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
  const auto stream = rig.stream();
  stream->copy(buffer_of<std::uint8_t>(far, 16), rig.buffer(16));
  stream->wait();
  EXPECT_EQ(near_control->pinned_count, 0U);
  EXPECT_EQ(far_control->pinned_count, 2U);
}

TEST(PinnedStagingTest, HeapIsUsedIfNothingCanBePinned) {
  auto control = memory_control();
  control->memory.pinned_allocate = [](yoke_device*, const yoke_pinned_args*, void** out, yoke_error*) {
    *out = reinterpret_cast<void*>(std::uintptr_t{8});  // against the rules; the runtime must not use it
    return YOKE_STATUS_RESOURCE_EXHAUSTED;
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

// The structures of DLPack 0.8 (dlpack.h).
enum DLDeviceType : std::int32_t { kDLCPU = 1 };
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
constexpr std::uint8_t kDLFloat = 2;

// Shares a tensor of f32 with other libraries. The buffer lives until they call the deleter.
DLManagedTensor* to_dlpack(const ContextTensor& tensor) {
  struct Owner {
    DLManagedTensor managed;
    std::vector<std::int64_t> shape;
    std::shared_ptr<Buffer> buffer;
  };
  auto* const owner = new Owner{{}, {tensor.spec.dims.begin(), tensor.spec.dims.end()}, tensor.view.buffer};
  owner->managed.dl_tensor = {.data = reinterpret_cast<void*>(tensor.view.buffer->device_address()),
                              .device = {kDLCPU, 0},
                              .ndim = static_cast<std::int32_t>(owner->shape.size()),
                              .dtype = {kDLFloat, 32, 1},
                              .shape = owner->shape.data(),
                              .strides = nullptr,
                              .byte_offset = tensor.view.offset};
  owner->managed.manager_ctx = owner;
  owner->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Owner*>(self->manager_ctx); };
  return &owner->managed;
}

// Adopts a compact f32 tensor of another library. Its deleter is called
// when the last user of the buffer is destroyed.
void from_dlpack(Context& context, std::string_view name, DLManagedTensor* managed) {
  const DLTensor& from = managed->dl_tensor;
  const TensorSpec spec = {YOKE_TYPE_F32, {from.shape, from.shape + from.ndim}};
  const auto buffer = Buffer::import(
      context.stream()->device(), {.address = reinterpret_cast<std::uintptr_t>(from.data) + from.byte_offset,
                                   .byte_count = spec.byte_count(),
                                   .kind = YOKE_MEMORY_HOST,
                                   .release = [managed] { managed->deleter(managed); }});
  context.adopt(name, spec, {buffer, 0, spec.byte_count()});
}

TEST(DlpackTest, TensorSurvivesARoundTripWithoutACopy) {
  Rig rig(memory_control());
  const auto other = register_backend(rig.runtime, 1, memory_control());
  const auto other_backend = rig.runtime.backend("test1");
  DLManagedTensor* shared = nullptr;
  {
    Context context(rig.stream());
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(values));
    context.stream()->wait();
    shared = to_dlpack(context.tensor("x"));
  }
  EXPECT_EQ(rig.backend->live_counts().buffers, 1U) << "the DLPack tensor keeps the buffer";
  static_cast<float*>(shared->dl_tensor.data)[5] = 60;  // another library writes to it
  {
    Context context(Stream::create(other_backend->open_device(0)));
    from_dlpack(context, "x", shared);
    context.allocate("y", {YOKE_TYPE_F32, {2, 3}});
    const auto code =
        compile(context.stream()->device(),
                "yoke.program 1\nprogram twice() {\n  arg x : f32[2, 3] inout\n  arg y : f32[2, 3] out\n"
                "  y[i, j] = x[i, j] * 2.0\n  x[i, j] = 0.0\n}\n");
    context.link(code, "twice").run();
    EXPECT_EQ(read<float>(*context.stream(), context.tensor("y").view),
              (std::vector<float>{2, 4, 6, 8, 10, 120}));
    EXPECT_EQ(static_cast<const float*>(shared->dl_tensor.data)[5], 0.0F)
        << "the program used the memory in place";
    EXPECT_EQ(rig.backend->live_counts().buffers, 1U);
  }
  EXPECT_EQ(rig.backend->live_counts().buffers, 0U) << "the deleter was called with the last buffer";
  EXPECT_EQ(other_backend->live_counts().buffers, 0U);
}

}  // namespace
}  // namespace yoke::test
