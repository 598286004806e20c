// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/dlpack_test.cpp: tensors as DLPack structures, and back.
#include <yoke/runtime/dlpack.h>

#include <cstdint>
#include <cstring>
#include <functional>

#include "rig.h"

namespace yoke::test {
namespace {

using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;

// A device of a CPU: the fake backend calls its interface "fake", so only the host address tells.
std::shared_ptr<Control> host_control(bool is_visible = true) {
  auto control = std::make_shared<Control>();
  control->provides.memory = true;
  control->device_info.host_visible = is_visible;
  return control;
}

// The offsets of dlpack.h 1.0 on machines of 64 bits.
static_assert(sizeof(dlpack::DLTensor) == 48 && offsetof(dlpack::DLTensor, ndim) == 16 &&
              offsetof(dlpack::DLTensor, dtype) == 20 && offsetof(dlpack::DLTensor, shape) == 24 &&
              offsetof(dlpack::DLTensor, byte_offset) == 40);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, deleter) == 56);
static_assert(sizeof(DLManagedTensorVersioned) == 80 &&
              offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
              offsetof(DLManagedTensorVersioned, flags) == 24 &&
              offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

// Moves a tensor from one backend through DLPack to another one and back.
template <class Managed>
void check_round_trip(Managed* (*share)(const ContextTensor&)) {
  Rig rig(host_control());
  const auto other = register_backend(rig.runtime, 1, host_control());
  const auto other_backend = rig.runtime.backend("test1");
  Managed* shared = nullptr;
  {
    Context context(rig.stream());
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, bytes(values));
    context.stream()->wait();
    shared = share(context.tensor("x"));
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

TEST(DlpackTest, TensorSurvivesARoundTripWithoutACopy) {
  check_round_trip(&to_dlpack);
  check_round_trip(&to_dlpack_unversioned);
}

TEST(DlpackTest, EveryTypeHasItsCode) {
  Rig rig(host_control());
  Context context(rig.stream());
  struct Case {
    std::int32_t type;
    int code;
    int bits;
  };
  // The codes of dlpack.h: 0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool.
  for (const Case& one : {Case{YOKE_TYPE_F64, 2, 64}, Case{YOKE_TYPE_F32, 2, 32}, Case{YOKE_TYPE_F16, 2, 16},
                          Case{YOKE_TYPE_BF16, 4, 16}, Case{YOKE_TYPE_I64, 0, 64}, Case{YOKE_TYPE_I32, 0, 32},
                          Case{YOKE_TYPE_U32, 1, 32}, Case{YOKE_TYPE_U8, 1, 8}, Case{YOKE_TYPE_BOOL, 6, 8}}) {
    const std::string name = "t" + std::to_string(one.type);
    context.allocate(name, {one.type, {4}});
    DLManagedTensorVersioned* const shared = to_dlpack(context.tensor(name));
    EXPECT_EQ(int{shared->dl_tensor.dtype.code}, one.code) << name;
    EXPECT_EQ(int{shared->dl_tensor.dtype.bits}, one.bits) << name;
    EXPECT_EQ(shared->dl_tensor.dtype.lanes, 1) << name;
    EXPECT_EQ(shared->version.major, 1U);
    EXPECT_EQ(shared->flags, 0U);
    EXPECT_EQ(from_dlpack(context, name + "_back", shared).spec, context.tensor(name).spec);
  }
}

TEST(DlpackTest, SharedTensorDescribesItsView) {
  Rig rig(host_control());
  Context context(rig.stream());
  const BufferView all = rig.buffer(100);
  context.adopt("x", {YOKE_TYPE_F32, {2, 1, 3}}, {all.buffer, 16, 24});
  DLManagedTensor* const shared = to_dlpack_unversioned(context.tensor("x"));
  const dlpack::DLTensor& tensor = shared->dl_tensor;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data), all.buffer->device_address() + 16);
  EXPECT_EQ(tensor.byte_offset, 0U);
  EXPECT_EQ(tensor.device.device_type, dlpack::kDLCPU);
  EXPECT_EQ(tensor.device.device_id, 0);
  EXPECT_EQ(std::vector(tensor.shape, tensor.shape + tensor.ndim), (std::vector<std::int64_t>{2, 1, 3}));
  EXPECT_EQ(std::vector(tensor.strides, tensor.strides + tensor.ndim), (std::vector<std::int64_t>{3, 3, 1}));
  shared->deleter(shared);
}

TEST(DlpackTest, DeviceWithoutANameInDlpackIsRefused) {
  Rig rig(host_control(false));
  Context context(rig.stream());
  context.allocate("x", {YOKE_TYPE_F32, {4}});
  EXPECT_THAT(error_of([&] { (void)to_dlpack(context.tensor("x")); }),
              is_error(ErrorCode::kUnimplemented, "DLPack has no name for the device 'test0:0'"));
}

TEST(DlpackTest, TensorsThatExceedTheirViewOrBufferAreRefused) {
  Rig rig(host_control());
  const BufferView all = rig.buffer(16);
  const TensorSpec four = {YOKE_TYPE_F32, {4}};
  const TensorSpec two = {YOKE_TYPE_F32, {2}};
  struct Case {
    ContextTensor tensor;
    const char* reason;
  };
  for (const Case& one : {Case{{four, {nullptr, 0, 16}}, "the tensor has no buffer"},
                          Case{{{77, {4}}, all}, "type 77 is unknown"},
                          Case{{{YOKE_TYPE_F32, {0}}, all}, "0 bytes, its view 16 at offset 0 of 16"},
                          Case{{four, {all.buffer, 0, 8}}, "16 bytes, its view 8 at offset 0 of 16"},
                          Case{{two, {all.buffer, 12, 8}}, "8 bytes, its view 8 at offset 12 of 16"},
                          Case{{two, {all.buffer, 20, 8}}, "8 bytes, its view 8 at offset 20 of 16"}}) {
    EXPECT_THAT(error_of([&] { (void)to_dlpack(one.tensor); }),
                is_error(ErrorCode::kInvalidArgument, one.reason));
  }
}

// What device_native returns.
constexpr auto kCuda2 = [](yoke_device*, yoke_native_info* info, yoke_error*) -> std::int32_t {
  std::strcpy(info->api, "cuda");
  info->handle = 2;
  return YOKE_STATUS_OK;
};
constexpr auto kHip1 = [](yoke_device*, yoke_native_info* info, yoke_error*) -> std::int32_t {
  std::strcpy(info->api, "hip");
  info->handle = 1;
  return YOKE_STATUS_OK;
};
constexpr auto kWithoutName = [](yoke_device*, yoke_native_info*, yoke_error*) -> std::int32_t {
  return YOKE_STATUS_UNIMPLEMENTED;
};

TEST(DlpackTest, FailureToDescribeTheDeviceIsAnError) {
  auto control = host_control();
  control->memory.device_native = [](yoke_device*, yoke_native_info*, yoke_error*) -> std::int32_t {
    return YOKE_STATUS_INTERNAL;
  };
  const Rig failing(control);
  EXPECT_ERROR(ErrorCode::kInternal, (void)to_dlpack({{YOKE_TYPE_F32, {4}}, failing.buffer(16)}));
  control = host_control();
  control->memory.device_native = kWithoutName;
  const Rig rig(control);
  DLManagedTensorVersioned* const shared = to_dlpack({{YOKE_TYPE_F32, {4}}, rig.buffer(16)});
  EXPECT_EQ(shared->dl_tensor.device.device_type, dlpack::kDLCPU) << "the host can address it";
  shared->deleter(shared);
}

TEST(DlpackTest, OnlyHostMemoryAndMemoryOfTheSameDeviceAreImported) {
  constexpr std::int32_t kRefused = -1;
  static std::int32_t kind;
  struct Case {
    decltype(yoke_memory_api::device_native) native;
    dlpack::DLDevice device;  // of the memory
    std::int32_t kind;
  };
  for (const Case& one :
       {Case{kCuda2, {dlpack::kDLCUDA, 2}, YOKE_MEMORY_DEVICE}, Case{kCuda2, {dlpack::kDLCUDA, 1}, kRefused},
        Case{kCuda2, {dlpack::kDLROCM, 2}, kRefused},
        Case{kCuda2, {dlpack::kDLCUDAManaged, 0}, YOKE_MEMORY_DEVICE},
        Case{kCuda2, {dlpack::kDLCPU, 0}, YOKE_MEMORY_HOST},
        Case{kCuda2, {dlpack::kDLCUDAHost, 0}, YOKE_MEMORY_HOST},
        Case{kHip1, {dlpack::kDLROCM, 1}, YOKE_MEMORY_DEVICE}, Case{kHip1, {dlpack::kDLROCM, 2}, kRefused},
        Case{kHip1, {dlpack::kDLCUDA, 1}, kRefused}, Case{kHip1, {dlpack::kDLCUDAManaged, 1}, kRefused},
        Case{kHip1, {dlpack::kDLROCMHost, 0}, YOKE_MEMORY_HOST},
        Case{kWithoutName, {dlpack::kDLCUDA, 0}, kRefused},
        Case{kWithoutName, {dlpack::kDLCPU, 0}, YOKE_MEMORY_HOST}}) {
    auto control = host_control(/*is_visible=*/false);
    control->memory.device_native = one.native;
    control->memory.buffer_import = [](yoke_device* device, const yoke_import_args* args, yoke_buffer** out,
                                       yoke_error* error) {
      kind = args->kind;
      return sdk::detail::buffer_import(device, args, out, error);
    };
    float memory[4] = {};
    std::int64_t shape[] = {4};
    DLManagedTensor tensor = {};  // outlives the context
    tensor.dl_tensor = {memory, one.device, 1, {dlpack::kDLFloat, 32, 1}, shape, nullptr, 0};
    Rig rig(control);
    Context context(rig.stream());
    kind = kRefused;
    if (one.kind == kRefused) {
      EXPECT_THAT(error_of([&] { from_dlpack(context, "x", &tensor); }),
                  is_error(ErrorCode::kInvalidArgument, "and the context's device is 'test0:0'; copy it"));
    } else {
      from_dlpack(context, "x", &tensor);
    }
    EXPECT_EQ(kind, one.kind) << one.device.device_type << ":" << one.device.device_id;
  }
}

// A tensor of another library, and how often it was released.
class ForeignTensorTest : public testing::Test {
 protected:
  ForeignTensorTest() {
    managed.version = {1, 3};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<ForeignTensorTest*>(self->manager_ctx)->releases;
    };
    managed.dl_tensor = {memory, {dlpack::kDLCPU, 0}, 2, {dlpack::kDLFloat, 32, 1}, shape, strides, 0};
  }

  void expect_refused(ErrorCode code, const std::string& part,
                      const std::function<void(DLManagedTensorVersioned&)>& change) {
    DLManagedTensorVersioned changed = managed;
    change(changed);
    EXPECT_THAT(error_of([&] { from_dlpack(context, "x", &changed); }), is_error(code, part));
    EXPECT_FALSE(context.has("x")) << part;
  }

  Rig rig{host_control()};
  Context context{rig.stream()};
  float memory[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::int64_t shape[2] = {2, 3};
  std::int64_t strides[2] = {3, 1};
  DLManagedTensorVersioned managed = {};
  int releases = 0;
};

TEST_F(ForeignTensorTest, MalformedOrForeignTensorsAreRefusedAndNotReleased) {
  const auto refused = [&](ErrorCode code, const std::string& part, auto change) {
    expect_refused(code, part, change);
  };
  std::int64_t others[2] = {1, 2};
  std::int64_t empty[2] = {0, 3};
  std::int64_t huge[2] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  refused(ErrorCode::kInvalidArgument, "its strides are [1, 2], not [3, 1] as for a compact tensor; copy it",
          [&](auto& one) { one.dl_tensor.strides = others; });
  refused(ErrorCode::kInvalidArgument, "its shape is [0, 3]; each dimension must be at least 1",
          [&](auto& one) { one.dl_tensor.shape = empty; });
  refused(ErrorCode::kInvalidArgument, "2^63", [&](auto& one) { one.dl_tensor.shape = huge; });
  refused(ErrorCode::kInvalidArgument, "2 dimensions and no shape",
          [](auto& one) { one.dl_tensor.shape = nullptr; });
  refused(ErrorCode::kInvalidArgument, "-1 dimensions", [](auto& one) { one.dl_tensor.ndim = -1; });
  refused(ErrorCode::kInvalidArgument, "data pointer is null",
          [](auto& one) { one.dl_tensor.data = nullptr; });
  refused(ErrorCode::kUnimplemented, "type code 5, 64 bits and 1 lane, which yoke lacks", [](auto& one) {
    one.dl_tensor.dtype = {5, 64, 1};
  });
  refused(ErrorCode::kUnimplemented, "and 4 lanes", [](auto& one) { one.dl_tensor.dtype.lanes = 4; });
  refused(ErrorCode::kInvalidArgument, "its memory is on cuda:1, and the context's device is 'test0:0'",
          [](auto& one) {
            one.dl_tensor.device = {dlpack::kDLCUDA, 1};
          });
  refused(ErrorCode::kUnimplemented, "it has version 2.0 of DLPack; yoke reads 1.x", [](auto& one) {
    one.version = {2, 0};
  });
  context.allocate("y", {YOKE_TYPE_F32, {1}});
  EXPECT_ERROR(ErrorCode::kAlreadyExists, from_dlpack(context, "y", &managed));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, from_dlpack(context, "", &managed));
  EXPECT_EQ(releases, 0);
  EXPECT_EQ(rig.backend->live_counts().buffers, 1U);
}

TEST_F(ForeignTensorTest, OffsetsScalarsAndStridesOfDimensionsOfOneAreAccepted) {
  managed.dl_tensor.byte_offset = 8;
  from_dlpack(context, "x", &managed);
  EXPECT_EQ(read<float>(*context.stream(), context.tensor("x").view), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  std::int64_t row[2] = {1, 8};
  std::int64_t any[2] = {77, 1};
  managed.dl_tensor = {memory, {dlpack::kDLCPU, 0}, 2, {dlpack::kDLFloat, 32, 1}, row, any, 0};
  EXPECT_EQ(from_dlpack(context, "row", &managed).spec.byte_count(), 32U);
  DLManagedTensor scalar = {};
  scalar.dl_tensor = {memory + 7, {dlpack::kDLCPU, 0}, 0, {dlpack::kDLFloat, 32, 1}, nullptr, nullptr, 0};
  from_dlpack(context, "scalar", &scalar);  // without a deleter
  EXPECT_EQ(read<float>(*context.stream(), context.tensor("scalar").view), std::vector<float>{8});
  EXPECT_EQ(releases, 0);
  context = Context(rig.stream());
  EXPECT_EQ(releases, 2);
}

TEST_F(ForeignTensorTest, ReadOnlyTensorsAreConstants) {
  const auto code =
      compile(rig.device, "yoke.program 1\nprogram clear() {\n  arg x : f32[2, 3] out\n  x[i, j] = 0.0\n}\n");
  from_dlpack(context, "x", &managed);
  EXPECT_NO_THROW(context.link(code, "clear"));
  Context second = Context(rig.stream());
  managed.flags = dlpack::kDLReadOnly;
  from_dlpack(second, "x", &managed);
  EXPECT_THAT(error_of([&] { second.link(code, "clear"); }),
              is_error(ErrorCode::kFailedPrecondition, "tensor 'x' is a constant"));
}

}  // namespace
}  // namespace yoke::test
