// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/dlpack_test.cpp: DLPack tensors of GPUs and of cc share the memory of yoke's tensors.
#include <yoke/runtime/dlpack.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "on_fakes.h"
#include "test_paths.h"

namespace yoke::testing {
namespace {

constexpr std::string_view kTwice = R"(yoke.program 1
program twice() {
  arg x : f32[2, 3] inout
  x[i, j] = x[i, j] * 2.0
}
)";

struct Place {
  const char* backend;
  std::uint32_t ordinal;
  dlpack::DLDeviceType type;
};

class DlpackOnFakes : public OnFakes, public ::testing::WithParamInterface<Place> {
 protected:
  void SetUp() override {
    OnFakes::SetUp();
    RuntimeOptions options;
    options.plugin_dirs = {test::plugin_folder()};
    options.search_environment = false;
    runtime_.emplace(options);
  }
  void TearDown() override {
    runtime_.reset();
    OnFakes::TearDown();
  }
  Context context_on(const std::string& backend, std::uint32_t ordinal) {
    return Context(Stream::create(runtime_->backend(backend)->open_device(ordinal)));
  }
  static std::vector<float> values_of(const Context& context, const std::string& name) {
    std::vector<float> values(6);
    context.to_host(name, std::as_writable_bytes(std::span(values)));
    context.stream()->wait();
    return values;
  }
  static void double_values(Context& context) {
    context.link(compile(context.stream()->device(), kTwice), "twice").run();
    context.stream()->wait();
  }

  const std::vector<float> values_ = {1, 2, 3, 4, 5, 6};
  std::optional<Runtime> runtime_;
};

TEST_P(DlpackOnFakes, TensorsShareTheMemoryOfADevice) {
  const Place place = GetParam();
  Context context = context_on(place.backend, place.ordinal);
  context.init_from_host("x", {YOKE_TYPE_F32, {2, 3}}, std::as_bytes(std::span(values_)));
  context.stream()->wait();
  const std::uint64_t used = context.stream()->device()->memory().used_bytes;
  dlpack::DLManagedTensorVersioned* const shared = to_dlpack(context.tensor("x"));
  EXPECT_EQ(shared->dl_tensor.device.device_type, place.type);
  EXPECT_EQ(shared->dl_tensor.device.device_id, static_cast<std::int32_t>(place.ordinal));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shared->dl_tensor.data),
            context.tensor("x").view.buffer->device_address());
  {
    Context other = context_on(place.backend, place.ordinal);
    from_dlpack(other, "x", shared);
    EXPECT_EQ(other.tensor("x").view.buffer->device_address(),
              context.tensor("x").view.buffer->device_address());
    double_values(other);
    EXPECT_EQ(context.stream()->device()->memory().used_bytes, used) << "nothing was copied";
  }
  EXPECT_EQ(values_of(context, "x"), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST_P(DlpackOnFakes, HostMemoryOfAnotherLibraryIsUsedInPlace) {
  alignas(4096) static float memory[1024];
  std::copy(values_.begin(), values_.end(), memory);
  std::int64_t shape[] = {2, 3};
  static int released = 0;
  released = 0;
  dlpack::DLManagedTensor tensor = {};
  tensor.dl_tensor = {memory, {dlpack::kDLCPU, 0}, 2, {dlpack::kDLFloat, 32, 1}, shape, nullptr, 0};
  tensor.deleter = [](dlpack::DLManagedTensor*) { ++released; };
  {
    Context context = context_on(GetParam().backend, 0);
    from_dlpack(context, "x", &tensor);
    double_values(context);
    EXPECT_EQ(memory[5], 12.0F);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST_P(DlpackOnFakes, MemoryOfAnotherDeviceIsRefused) {
  Context context = context_on(GetParam().backend, 0);
  float memory[1] = {};
  std::int64_t shape[] = {1};
  dlpack::DLManagedTensor tensor = {};
  tensor.deleter = [](dlpack::DLManagedTensor*) { ADD_FAILURE() << "the caller keeps the tensor"; };
  for (const dlpack::DLDevice device : {dlpack::DLDevice{dlpack::kDLCUDA, 3},
                                        {dlpack::kDLROCM, 3},
                                        {static_cast<dlpack::DLDeviceType>(8), 0}}) {
    tensor.dl_tensor = {memory, device, 1, {dlpack::kDLFloat, 32, 1}, shape, nullptr, 0};
    try {
      from_dlpack(context, "x", &tensor);
      FAIL() << device.device_type;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, DlpackOnFakes,
                         ::testing::Values(Place{"cc", 0, dlpack::kDLCPU}, Place{"cuda", 2, dlpack::kDLCUDA},
                                           Place{"hip", 1, dlpack::kDLROCM}),
                         [](const auto& one) { return std::string(one.param.backend); });

}  // namespace
}  // namespace yoke::testing
