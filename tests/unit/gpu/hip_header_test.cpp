// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/hip_header_test.cpp: the plugin's numbers and functions of the HIP runtime, compared with AMD's header.
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>
#include <hip/vendor.h>
#if __has_include(<hip/hip_deprecated.h>)
#include <hip/hip_deprecated.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

// The header also has templates with the names of these two.
using HipMalloc = decltype(static_cast<hipError_t (*)(void**, std::size_t)>(&hipMalloc));
using HipHostMalloc = decltype(static_cast<hipError_t (*)(void**, std::size_t, unsigned)>(&hipHostMalloc));

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // functions of contexts
TEST(HipHeaderTest, DriverFunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE(Driver, member, function)
  const std::vector<HeaderFunction> functions = {
      ALIKE(init, hipInit),
      ALIKE(driver_version, hipDriverGetVersion),
      ALIKE(device_count, hipGetDeviceCount),
      ALIKE(device_get, hipDeviceGet),
      ALIKE(device_name, hipDeviceGetName),
      ALIKE(device_uuid, hipDeviceGetUuid),
      ALIKE(device_pci_bus_id, hipDeviceGetPCIBusId),
      ALIKE(device_attribute, hipDeviceGetAttribute),
      ALIKE(device_total_memory, hipDeviceTotalMem),
      ALIKE(context_retain, hipDevicePrimaryCtxRetain),
      ALIKE(context_release, hipDevicePrimaryCtxRelease),
      ALIKE(context_get, hipCtxGetCurrent),
      ALIKE(context_set, hipCtxSetCurrent),
      ALIKE(peer_can_access, hipDeviceCanAccessPeer),
      ALIKE(memory_info, hipMemGetInfo),
      {"memory_allocate", "hipMalloc", are_alike(Driver().memory_allocate.address, HipMalloc())},
      ALIKE(memory_free, hipFree),
      {"host_allocate", "hipHostMalloc", are_alike(Driver().host_allocate.address, HipHostMalloc())},
      ALIKE(host_free, hipHostFree),
      ALIKE(host_register, hipHostRegister),
      ALIKE(host_unregister, hipHostUnregister),
      ALIKE(host_device_address, hipHostGetDevicePointer),
      ALIKE(copy_from_host, hipMemcpyHtoDAsync),
      ALIKE(copy_to_host, hipMemcpyDtoHAsync),
      ALIKE(copy_on_device, hipMemcpyDtoDAsync),
      ALIKE(fill_bytes, hipMemsetD8Async),
      ALIKE(fill_halves, hipMemsetD16Async),
      ALIKE(fill_words, hipMemsetD32Async),
      ALIKE(stream_create, hipStreamCreateWithPriority),
      ALIKE(stream_priorities, hipDeviceGetStreamPriorityRange),
      ALIKE(stream_destroy, hipStreamDestroy),
      ALIKE(stream_query, hipStreamQuery),
      ALIKE(stream_synchronize, hipStreamSynchronize),
      ALIKE(stream_wait_event, hipStreamWaitEvent),
      ALIKE(event_create, hipEventCreateWithFlags),
      ALIKE(event_record, hipEventRecord),
      ALIKE(event_query, hipEventQuery),
      ALIKE(event_synchronize, hipEventSynchronize),
      ALIKE(event_destroy, hipEventDestroy),
      ALIKE(event_elapsed, hipEventElapsedTime),
      ALIKE(module_load, hipModuleLoadData),
      ALIKE(module_unload, hipModuleUnload),
      ALIKE(module_function, hipModuleGetFunction),
      ALIKE(launch, hipModuleLaunchKernel),
      ALIKE(capture_begin, hipStreamBeginCapture),
      ALIKE(capture_end, hipStreamEndCapture),
      ALIKE(graph_instantiate, hipGraphInstantiateWithFlags),
      ALIKE(graph_launch, hipGraphLaunch),
      ALIKE(graph_executable_destroy, hipGraphExecDestroy),
      ALIKE(graph_destroy, hipGraphDestroy)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_DRIVER(member, parameters, cuda, hip) {#member, hip},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
}

// HIP has no numbers for a device that another process uses (46) and for unsupported PTX (222).
TEST(HipHeaderTest, ErrorsHaveTheNumbersOfTheHeader) {
  EXPECT_EQ(kInvalidValue, hipErrorInvalidValue);
  EXPECT_EQ(kOutOfMemory, hipErrorOutOfMemory);
  EXPECT_EQ(kNoDevice, hipErrorNoDevice);
  EXPECT_EQ(kInvalidDevice, hipErrorInvalidDevice);
  EXPECT_EQ(kInvalidImage, hipErrorInvalidImage);
  EXPECT_EQ(kNoImageForDevice, hipErrorNoBinaryForGpu);
  EXPECT_EQ(kInvalidPtx, hipErrorInvalidKernelFile);
  EXPECT_EQ(kNotReady, hipErrorNotReady);
  EXPECT_EQ(kPeerAlreadyEnabled, hipErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(kAlreadyRegistered, hipErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(kNotSupported, hipErrorNotSupported);
  EXPECT_EQ(kCaptureUnsupported, hipErrorStreamCaptureUnsupported);
}

TEST(HipHeaderTest, StickyErrorsHaveTheNumbersOfTheHeader) {
  for (const int code : {hipErrorECCNotCorrectable, hipErrorIllegalAddress, hipErrorLaunchTimeOut,
                         hipErrorContextIsDestroyed, hipErrorAssert, hipErrorLaunchFailure}) {
    EXPECT_TRUE(is_sticky(code)) << code;
  }
  for (const int code : {hipErrorInvalidValue,
                         hipErrorOutOfMemory,
                         hipErrorNotInitialized,
                         hipErrorInvalidConfiguration,
                         hipErrorInvalidContext,
                         hipErrorInvalidHandle,
                         hipErrorNotFound,
                         hipErrorNotReady,
                         hipErrorLaunchOutOfResources,
                         hipErrorPeerAccessAlreadyEnabled,
                         hipErrorPeerAccessNotEnabled,
                         hipErrorHostMemoryAlreadyRegistered,
                         hipErrorHostMemoryNotRegistered,
                         hipErrorCooperativeLaunchTooLarge,
                         hipErrorNotSupported,
                         hipErrorStreamCaptureUnsupported,
                         hipErrorStreamCaptureInvalidated,
                         hipErrorStreamCaptureWrongThread,
                         hipErrorGraphExecUpdateFailure,
                         hipErrorUnknown}) {
    EXPECT_FALSE(is_sticky(code)) << code;
  }
}

TEST(HipHeaderTest, FlagsAndAttributesHaveTheNumbersOfTheHeader) {
  EXPECT_EQ(kNonBlockingStream, static_cast<unsigned>(hipStreamNonBlocking));
  EXPECT_EQ(kEventWithoutTiming, static_cast<unsigned>(hipEventDisableTiming));
  EXPECT_EQ(kPortableHostMemory, static_cast<unsigned>(hipHostMallocPortable));
  EXPECT_EQ(kPortableHostMemory, static_cast<unsigned>(hipHostRegisterPortable));
  EXPECT_EQ(kMappedHostMemory, static_cast<unsigned>(hipHostMallocMapped));
  EXPECT_EQ(kMappedHostMemory, static_cast<unsigned>(hipHostRegisterMapped));
  EXPECT_EQ(kCaptureOfThread, hipStreamCaptureModeThreadLocal);
  const VendorFacts& facts = hip::Vendor().facts();
  EXPECT_EQ(facts.multiprocessor_count, hipDeviceAttributeMultiprocessorCount);
  EXPECT_EQ(facts.warp_size, hipDeviceAttributeWarpSize);
  EXPECT_EQ(facts.threads_per_block, hipDeviceAttributeMaxThreadsPerBlock);
  EXPECT_EQ(facts.shared_bytes_per_block, hipDeviceAttributeMaxSharedMemoryPerBlock);
  EXPECT_EQ(sizeof(hipUUID), 16U);
  EXPECT_EQ(version_text(facts, HIP_VERSION),
            std::to_string(HIP_VERSION_MAJOR) + "." + std::to_string(HIP_VERSION_MINOR));
}

// Functions with the header's types for the vendor to look up. They check the order of its arguments.
template <class Pointer>
Pointer handle(std::uintptr_t number) {
  return reinterpret_cast<Pointer>(number);  // NOLINT(performance-no-int-to-ptr)
}
constexpr decltype(&hipGetErrorName) kErrorName = [](hipError_t error) {
  return error == hipErrorNotReady ? "name" : "other";
};
constexpr decltype(&hipGetErrorString) kErrorString = [](hipError_t error) {
  return error == hipErrorNotReady ? "text" : "other";
};
constexpr decltype(&hipStreamAddCallback) kAddCallback = [](hipStream_t stream, hipStreamCallback_t function,
                                                            void* user, unsigned flags) {
  function(stream, hipSuccess, user);
  return stream == handle<hipStream_t>(2) && flags == 0 ? hipSuccess : hipErrorInvalidValue;
};
constexpr decltype(&hipGetLastError) kLastError = []() { return hipErrorInvalidValue; };
constexpr decltype(&hipDeviceEnablePeerAccess) kEnablePeer = [](int device, unsigned flags) {
  return device == 13 && flags == 0 ? hipSuccess : hipErrorInvalidValue;
};
constexpr decltype(&hipMemcpyPeerAsync) kCopyPeer = [](void* target, int to, const void* source, int from,
                                                       std::size_t byte_count, hipStream_t stream) {
  const bool is_right = target == handle<void*>(30) && to == 13 && source == handle<void*>(40) &&
                        from == 14 && byte_count == 50 && stream == handle<hipStream_t>(2);
  return is_right ? hipSuccess : hipErrorInvalidValue;
};
template <class Properties>
hipError_t describe(Properties* properties, int device) {
  std::memset(properties, '?', sizeof *properties);
  (void)std::strncpy(properties->gcnArchName, "gfx90a:xnack-", sizeof properties->gcnArchName);
  return device == 5 ? hipSuccess : hipErrorInvalidDevice;
}
// The layout of ROCm 5, and that of later releases. ROCm 5 has only one.
#ifdef hipGetDeviceProperties
constexpr decltype(&hipGetDevicePropertiesR0000) kOldProperties = describe<hipDeviceProp_tR0000>;
constexpr decltype(&hipGetDevicePropertiesR0600) kNewProperties = describe<hipDeviceProp_tR0600>;
#else
constexpr decltype(&hipGetDeviceProperties) kOldProperties = describe<hipDeviceProp_t>;
constexpr auto kNewProperties = kOldProperties;
#endif

#define FUNCTION(name, function)                 \
  if (std::strcmp(wanted, name) == 0) {          \
    return reinterpret_cast<void*>(+(function)); \
  }
// `is_new`: whether the driver has the function of newer releases.
template <bool is_new>
void* look_up(void*, const char* wanted) {
  FUNCTION("hipGetErrorName", kErrorName)
  FUNCTION("hipGetErrorString", kErrorString)
  FUNCTION("hipStreamAddCallback", kAddCallback)
  FUNCTION("hipGetLastError", kLastError)
  FUNCTION("hipDeviceEnablePeerAccess", kEnablePeer)
  FUNCTION("hipMemcpyPeerAsync", kCopyPeer)
  FUNCTION("hipGetDeviceProperties", kOldProperties)
  FUNCTION("hipGetDevicePropertiesR0600", is_new ? kNewProperties : nullptr)
  ADD_FAILURE() << wanted << " is not compared";
  return nullptr;
}

TEST(HipHeaderTest, VendorPassesTheParametersOfTheHeader) {
  hip::Vendor vendor;
  ASSERT_EQ(vendor.bind(look_up<false>, nullptr), nullptr);
  EXPECT_EQ(vendor.error_text(hipErrorNotReady), "name (text)");
  int calls = 0;
  HostCall call = {[](void* user) { ++*static_cast<int*>(user); }, &calls};
  EXPECT_EQ(vendor.launch_host(handle<void*>(2), call), 0);
  EXPECT_EQ(calls, 1);
  const Peer to = {handle<void*>(3), 13};
  const Peer from = {handle<void*>(4), 14};
  EXPECT_EQ(vendor.enable_peer(to), 0);
  EXPECT_EQ(vendor.copy_peer(30, to, 40, from, 50, handle<void*>(2)), 0);
}

TEST(HipHeaderTest, ArchitectureIsReadFromTheLayoutsOfTheHeader) {
  const auto architecture = [](const char* missing, const hip::Vendor& vendor) {
    codegen::Target target;
    EXPECT_EQ(missing, nullptr);
    EXPECT_EQ(vendor.identify(Driver(), 5, target), 0);
    return target.architecture;
  };
  hip::Vendor vendor;
  EXPECT_EQ(architecture(vendor.bind(look_up<false>, nullptr), vendor), "gfx90a:xnack-");
#ifdef hipGetDeviceProperties
  EXPECT_EQ(architecture(vendor.bind(look_up<true>, nullptr), vendor), "gfx90a:xnack-");
#endif
}

}  // namespace
}  // namespace yoke::gpu
