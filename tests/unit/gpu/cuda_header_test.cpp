// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/cuda_header_test.cpp: the plugin's numbers and functions of the CUDA driver, compared with NVIDIA's header.
#define __CUDA_API_VERSION_INTERNAL  // cuda.h then declares each function by the name that the driver exports
#include <cuda.h>
#include <cuda/vendor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

TEST(CudaHeaderTest, DriverFunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE(Driver, member, function)
  const std::vector<HeaderFunction> functions = {ALIKE(init, cuInit),
                                                 ALIKE(driver_version, cuDriverGetVersion),
                                                 ALIKE(device_count, cuDeviceGetCount),
                                                 ALIKE(device_get, cuDeviceGet),
                                                 ALIKE(device_name, cuDeviceGetName),
                                                 ALIKE(device_uuid, cuDeviceGetUuid_v2),
                                                 ALIKE(device_pci_bus_id, cuDeviceGetPCIBusId),
                                                 ALIKE(device_attribute, cuDeviceGetAttribute),
                                                 ALIKE(device_total_memory, cuDeviceTotalMem_v2),
                                                 ALIKE(context_retain, cuDevicePrimaryCtxRetain),
                                                 ALIKE(context_release, cuDevicePrimaryCtxRelease_v2),
                                                 ALIKE(context_get, cuCtxGetCurrent),
                                                 ALIKE(context_set, cuCtxSetCurrent),
                                                 ALIKE(peer_can_access, cuDeviceCanAccessPeer),
                                                 ALIKE(memory_info, cuMemGetInfo_v2),
                                                 ALIKE(memory_allocate, cuMemAlloc_v2),
                                                 ALIKE(memory_free, cuMemFree_v2),
                                                 ALIKE(host_allocate, cuMemHostAlloc),
                                                 ALIKE(host_free, cuMemFreeHost),
                                                 ALIKE(host_register, cuMemHostRegister_v2),
                                                 ALIKE(host_unregister, cuMemHostUnregister),
                                                 ALIKE(host_device_address, cuMemHostGetDevicePointer_v2),
                                                 ALIKE(copy_from_host, cuMemcpyHtoDAsync_v2),
                                                 ALIKE(copy_to_host, cuMemcpyDtoHAsync_v2),
                                                 ALIKE(copy_on_device, cuMemcpyDtoDAsync_v2),
                                                 ALIKE(fill_bytes, cuMemsetD8Async),
                                                 ALIKE(fill_halves, cuMemsetD16Async),
                                                 ALIKE(fill_words, cuMemsetD32Async),
                                                 ALIKE(stream_create, cuStreamCreateWithPriority),
                                                 ALIKE(stream_priorities, cuCtxGetStreamPriorityRange),
                                                 ALIKE(stream_destroy, cuStreamDestroy_v2),
                                                 ALIKE(stream_query, cuStreamQuery),
                                                 ALIKE(stream_synchronize, cuStreamSynchronize),
                                                 ALIKE(stream_wait_event, cuStreamWaitEvent),
                                                 ALIKE(event_create, cuEventCreate),
                                                 ALIKE(event_record, cuEventRecord),
                                                 ALIKE(event_query, cuEventQuery),
                                                 ALIKE(event_synchronize, cuEventSynchronize),
                                                 ALIKE(event_destroy, cuEventDestroy_v2),
                                                 ALIKE(event_elapsed, cuEventElapsedTime),
                                                 ALIKE(module_load, cuModuleLoadData),
                                                 ALIKE(module_unload, cuModuleUnload),
                                                 ALIKE(module_function, cuModuleGetFunction),
                                                 ALIKE(launch, cuLaunchKernel),
                                                 ALIKE(capture_begin, cuStreamBeginCapture_v2),
                                                 ALIKE(capture_end, cuStreamEndCapture),
                                                 ALIKE(graph_instantiate, cuGraphInstantiateWithFlags),
                                                 ALIKE(graph_launch, cuGraphLaunch),
                                                 ALIKE(graph_executable_destroy, cuGraphExecDestroy),
                                                 ALIKE(graph_destroy, cuGraphDestroy)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_DRIVER(member, parameters, cuda, hip) {#member, cuda},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
}

TEST(CudaHeaderTest, ErrorsHaveTheNumbersOfTheHeader) {
  EXPECT_EQ(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(kNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(kNoImageForDevice, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(kInvalidPtx, CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(kUnsupportedPtx, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(kNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kPeerAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(kAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(kCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST(CudaHeaderTest, StickyErrorsHaveTheNumbersOfTheHeader) {
  const std::vector<int> sticky = {
    CUDA_ERROR_ECC_UNCORRECTABLE,
    CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUDA_ERROR_ASSERT,
    CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS,
    CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUDA_ERROR_INVALID_PC,
    CUDA_ERROR_LAUNCH_FAILED,
    CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUDA_ERROR_EXTERNAL_DEVICE,
#if CUDA_VERSION >= 13000
    CUDA_ERROR_CONTAINED,
    CUDA_ERROR_TENSOR_MEMORY_LEAK,
#else
    226,
    721,
#endif
  };
  for (int code = 0; code < 1000; ++code) {
    EXPECT_EQ(is_sticky(code), std::count(sticky.begin(), sticky.end(), code) != 0) << code;
  }
}

TEST(CudaHeaderTest, FlagsAndAttributesHaveTheNumbersOfTheHeader) {
  EXPECT_EQ(kNonBlockingStream, CU_STREAM_NON_BLOCKING);
  EXPECT_EQ(kEventWithoutTiming, CU_EVENT_DISABLE_TIMING);
  EXPECT_EQ(kPortableHostMemory, CU_MEMHOSTALLOC_PORTABLE);
  EXPECT_EQ(kPortableHostMemory, CU_MEMHOSTREGISTER_PORTABLE);
  EXPECT_EQ(kMappedHostMemory, CU_MEMHOSTALLOC_DEVICEMAP);
  EXPECT_EQ(kMappedHostMemory, CU_MEMHOSTREGISTER_DEVICEMAP);
  EXPECT_EQ(kCaptureOfThread, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  const VendorFacts& facts = cuda::Vendor().facts();
  EXPECT_EQ(facts.multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(facts.warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  EXPECT_EQ(facts.threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_EQ(facts.shared_bytes_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  EXPECT_EQ(sizeof(CUuuid), 16U);
  EXPECT_EQ(version_text(facts, CUDA_VERSION),
            std::to_string(CUDA_VERSION / 1000) + "." + std::to_string(CUDA_VERSION % 1000 / 10));
}

TEST(CudaHeaderTest, CapabilityIsReadFromTheAttributesOfTheHeader) {
  Driver driver;
  driver.device_attribute.address = [](int* value, int attribute, int device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 10
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 3
                                                                         : -1;
    return device == 5 ? 0 : 1;
  };
  codegen::Target target;
  EXPECT_EQ(cuda::Vendor().identify(driver, 5, target), 0);
  EXPECT_EQ(target.architecture, "sm_103");
}

// Functions with the header's types for the vendor to look up. They check the order of its arguments.
template <class Pointer>
Pointer handle(std::uintptr_t number) {
  return reinterpret_cast<Pointer>(number);  // NOLINT(performance-no-int-to-ptr)
}
constexpr decltype(&cuGetErrorName) kErrorName = [](CUresult error, const char** text) {
  *text = error == CUDA_ERROR_NOT_READY ? "name" : "other";
  return CUDA_SUCCESS;
};
constexpr decltype(&cuGetErrorString) kErrorString = [](CUresult error, const char** text) {
  *text = error == CUDA_ERROR_NOT_READY ? "text" : "other";
  return CUDA_SUCCESS;
};
constexpr decltype(&cuFuncSetAttribute) kSetFunction = [](CUfunction function, CUfunction_attribute attribute,
                                                          int value) {
  const bool is_right = function == handle<CUfunction>(1) && value == 70'000 &&
                        attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  return is_right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
};
constexpr decltype(&cuLaunchHostFunc) kLaunchHost = [](CUstream stream, CUhostFn function, void* user) {
  function(user);
  return stream == handle<CUstream>(2) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
};
constexpr decltype(&cuCtxEnablePeerAccess) kEnablePeer = [](CUcontext context, unsigned flags) {
  return context == handle<CUcontext>(3) && flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
};
constexpr decltype(&cuMemcpyPeerAsync) kCopyPeer = [](CUdeviceptr target, CUcontext to, CUdeviceptr source,
                                                      CUcontext from, std::size_t byte_count,
                                                      CUstream stream) {
  const bool is_right = target == 30 && to == handle<CUcontext>(3) && source == 40 &&
                        from == handle<CUcontext>(4) && byte_count == 50 && stream == handle<CUstream>(2);
  return is_right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
};
#define FUNCTION(name, function)                 \
  if (std::strcmp(wanted, #name) == 0) {         \
    return reinterpret_cast<void*>(+(function)); \
  }
void* look_up(void*, const char* wanted) {
  FUNCTION(cuGetErrorName, kErrorName)
  FUNCTION(cuGetErrorString, kErrorString)
  FUNCTION(cuFuncSetAttribute, kSetFunction)
  FUNCTION(cuLaunchHostFunc, kLaunchHost)
  FUNCTION(cuCtxEnablePeerAccess, kEnablePeer)
  FUNCTION(cuMemcpyPeerAsync, kCopyPeer)
  ADD_FAILURE() << wanted << " is not compared";
  return nullptr;
}

TEST(CudaHeaderTest, VendorPassesTheParametersOfTheHeader) {
  cuda::Vendor vendor;
  ASSERT_EQ(vendor.bind(look_up, nullptr), nullptr);
  EXPECT_EQ(vendor.error_text(CUDA_ERROR_NOT_READY), "name (text)");
  EXPECT_EQ(vendor.allow_shared(handle<void*>(1), 70'000), 0);
  int calls = 0;
  HostCall call = {[](void* user) { ++*static_cast<int*>(user); }, &calls};
  EXPECT_EQ(vendor.launch_host(handle<void*>(2), call), 0);
  EXPECT_EQ(calls, 1);
  const Peer to = {handle<void*>(3), 13};
  const Peer from = {handle<void*>(4), 14};
  EXPECT_EQ(vendor.enable_peer(to), 0);
  EXPECT_EQ(vendor.copy_peer(30, to, 40, from, 50, handle<void*>(2)), 0);
}

}  // namespace
}  // namespace yoke::gpu
