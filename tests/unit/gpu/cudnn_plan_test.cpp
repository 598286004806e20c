// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/cudnn_plan_test.cpp: lets the installed cuDNN plan attention for devices that are described to it, so
// that it needs no GPU. It compiles the kernels; only a driver can load them.
#include <cuda/attention.h>
#include <cuda/graph.h>
#include <cuda/vendor.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace yoke::gpu {
namespace {

using codegen::AttentionKind;
using codegen::LibraryAttention;

void* open_first(std::initializer_list<const char*> files) {
  for (const char* file : files) {
    if (void* library = file != nullptr ? dlopen(file, RTLD_NOW | RTLD_GLOBAL) : nullptr) {
      return library;
    }
  }
  return nullptr;
}

struct Cudnn {
  std::string missing;  // why it cannot be used
  Dnn dnn;
  void (*last_error)(char* text, std::size_t capacity) = nullptr;
};

// cuDNN opens libcuda.so.1 for the functions that load code; the toolkit's stub has them and fails in each.
Cudnn open_cudnn() {
  Cudnn made;
  if (open_first({"libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so",
                  "/usr/local/cuda/lib/stubs/libcuda.so"}) == nullptr) {
    made.missing = "neither a driver nor the toolkit's stub of it is installed";
    return made;
  }
  void* library =
      open_first({std::getenv("YOKE_CUDNN_LIBRARY"), "libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"});
  if (library == nullptr) {
    made.missing = "cuDNN 9 is not installed";
    return made;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    made.missing += function == nullptr ? std::string("cuDNN has no ") + name : "";
  };
#define YOKE_CUDNN(member, parameters, function) \
  made.dnn.member.name = function;               \
  find(made.dnn.member.address, function);
#include <gpu/driver.def>
  find(made.last_error, "cudnnGetLastErrorString");
  int version = 0;
  if (made.missing.empty() && cuda::Vendor().dnn_version(made.dnn, version) == 0 &&
      version < cuda::kOldestForAttention) {
    made.missing = "cuDNN is too old: " + std::to_string(version);
  }
  return made;
}

const Cudnn& cudnn() {
  static const Cudnn opened = open_cudnn();
  return opened;
}

// The errors of all engines that a search tries; cuDNN itself keeps only the last one.
std::string errors;

int finalize(void* descriptor) {
  const int status = cudnn().dnn.descriptor_finalize(descriptor);
  if (status != 0) {
    char text[4096] = "";
    cudnn().last_error(text, sizeof text);
    errors.append(text).append("\n");
  }
  return status;
}

// A finalized description of an A100, H100 or B200.
cuda::Descriptor described(int capability, DnnFault& fault) {
  constexpr auto kProperties = static_cast<cuda::graph::Descriptor>(38);
  constexpr auto kJson = static_cast<cuda::graph::Attribute>(2702);
  constexpr auto kOfChar = static_cast<cuda::graph::AttributeType>(24);
  const std::string text =
      R"({"cudaDeviceId":0,"deviceVer":)" + std::to_string(capability * 10) +
      R"(,"driverVer":13000,"deviceName":"described","maxGridSize":[2147483647,65535,65535],)"
      R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":)" +
      (capability < 90 ? "108" : "132") +
      R"(,"smCountOrigin":0,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)" +
      (capability < 90 ? "166912" : "232448") +
      R"(,"reservedSharedMemoryPerBlock":1024,"oversizedSharedMemoryPerBlock":0,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"totalGlobalMem":85000000000,"smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
      R"("memoryBusWidth":5120,"l2CacheSize":52428800})";
  cuda::Descriptor made(cudnn().dnn, kProperties, fault);
  made.set(kJson, kOfChar, static_cast<std::int64_t>(text.size() + 1), text.c_str());
  made.finalize();
  return made;
}

// Dense tensors [batch, length, heads, size].
LibraryAttention attention_of(AttentionKind kind, program::Type type, std::uint64_t queries,
                              std::uint64_t keys, std::uint64_t size, bool is_causal, bool has_statistics) {
  LibraryAttention made;
  made.kind = kind;
  made.type = type;
  made.scale = 0.25F;
  made.is_causal = is_causal;
  made.has_statistics = has_statistics;
  constexpr std::uint64_t kHeads = 4;
  const std::uint64_t lengths[] = {queries, keys, keys, queries, queries, queries, keys, keys};
  for (std::size_t i = 0; i < 8; ++i) {
    made.volumes[i].dims = {8, kHeads, lengths[i], size};
    made.volumes[i].strides = {lengths[i] * kHeads * size, size, kHeads * size, 1};
  }
  return made;
}

// Empty if cuDNN plans it, or if only the driver refuses to load the compiled kernel.
std::string fault_of(int capability, const LibraryAttention& attention) {
  DnnFault fault;
  const cuda::Descriptor device = described(capability, fault);
  if (fault.code != 0) {
    return "cuDNN does not take the description of the device";
  }
  Dnn dnn = cudnn().dnn;
  dnn.descriptor_finalize.address = finalize;
  errors.clear();
  const auto plan = cuda::plan_attention(dnn, {nullptr, device.get()}, static_cast<std::uint32_t>(capability),
                                         attention, fault);
  if (plan != nullptr) {
    return plan->identity.find(" engine ") == 0 ? "" : "the plan has no identity";
  }
  const bool is_compiled = std::strcmp(fault.name, "cudnnBackendFinalize") == 0 &&
                           errors.find("cuLibraryLoadData returned") != std::string::npos;
  return is_compiled ? ""
                     : std::string(fault.name) + " returns " + std::to_string(fault.code) + ": " + errors;
}

class CudnnPlanTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!cudnn().missing.empty()) {
      GTEST_SKIP() << cudnn().missing;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CudnnPlanTest, testing::Values(80, 90),
                         [](const testing::TestParamInfo<int>& one) {
                           return "Sm" + std::to_string(one.param);
                         });

TEST_P(CudnnPlanTest, CudnnCompilesAttentionOfTrainingGpt) {
  for (const AttentionKind kind : {AttentionKind::kForward, AttentionKind::kBackward}) {
    EXPECT_EQ(fault_of(GetParam(), attention_of(kind, program::Type::kBF16, 64, 64, 32, true, true)), "");
  }
}

TEST_P(CudnnPlanTest, CudnnCompilesAttentionWithoutMaskAndOfOtherSizes) {
  for (const AttentionKind kind : {AttentionKind::kForward, AttentionKind::kBackward}) {
    EXPECT_EQ(fault_of(GetParam(), attention_of(kind, program::Type::kF16, 33, 100, 128, false, true)), "");
  }
  EXPECT_EQ(fault_of(GetParam(),
                     attention_of(AttentionKind::kForward, program::Type::kBF16, 200, 72, 8, true, false)),
            "");
}

// What the plugin does not ask for.
TEST_P(CudnnPlanTest, RefusalsAreNotTakenForPlans) {
  LibraryAttention other =
      attention_of(AttentionKind::kForward, program::Type::kBF16, 64, 64, 32, true, true);
  other.volumes[2].dims[2] = 65;
  EXPECT_NE(fault_of(GetParam(), other), "");
}

}  // namespace
}  // namespace yoke::gpu
