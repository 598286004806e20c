// SPDX-License-Identifier: Apache-2.0
// opencl_api.h: OpenCL by function pointers, looked up when a device is first asked for: the plugin loads on
// every machine. And who releases what.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace ocl {

// Every function of OpenCL that is used, once.
#define OCL_FUNCTIONS(X)          \
  X(clGetPlatformIDs)             \
  X(clGetPlatformInfo)            \
  X(clGetDeviceIDs)               \
  X(clGetDeviceInfo)              \
  X(clCreateContext)              \
  X(clReleaseContext)             \
  X(clCreateCommandQueue)         \
  X(clReleaseCommandQueue)        \
  X(clCreateBuffer)               \
  X(clReleaseMemObject)           \
  X(clCreateProgramWithSource)    \
  X(clBuildProgram)               \
  X(clGetProgramBuildInfo)        \
  X(clReleaseProgram)             \
  X(clCreateKernel)               \
  X(clSetKernelArg)               \
  X(clReleaseKernel)              \
  X(clEnqueueNDRangeKernel)       \
  X(clEnqueueReadBuffer)          \
  X(clEnqueueWriteBuffer)         \
  X(clEnqueueCopyBuffer)          \
  X(clEnqueueFillBuffer)          \
  X(clEnqueueMarkerWithWaitList)  \
  X(clEnqueueBarrierWithWaitList) \
  X(clCreateUserEvent)            \
  X(clSetUserEventStatus)         \
  X(clSetEventCallback)           \
  X(clGetEventInfo)               \
  X(clGetEventProfilingInfo)      \
  X(clRetainEvent)                \
  X(clReleaseEvent)               \
  X(clFlush)

struct Api {
#define OCL_DECLARE(name) decltype(&::name) name = nullptr;
  OCL_FUNCTIONS(OCL_DECLARE)
#undef OCL_DECLARE
};

// Why there is no OpenCL on this machine and what would mend it; empty when there is. The first call opens
// the library; it stays open. Threads: any.
const std::string& missing_library();

// The functions; only after missing_library() said that they are there.
const Api& api();

// "CL_OUT_OF_RESOURCES (-5)"
std::string status_name(cl_int status);

// The code of yoke/plugin.h that says the same.
std::int32_t code_of(cl_int status);

// Throws a Failure that names the call and what it was for, unless `status` is CL_SUCCESS.
void check(cl_int status, const char* call, const std::string& what);

template <auto kRelease>
struct Release {
  template <class T>
  void operator()(T* object) const noexcept {
    (void)(api().*kRelease)(object);
  }
};
template <class Object, auto kRelease>
using Owned = std::unique_ptr<std::remove_pointer_t<Object>, Release<kRelease>>;

using OwnedContext = Owned<cl_context, &Api::clReleaseContext>;
using OwnedQueue = Owned<cl_command_queue, &Api::clReleaseCommandQueue>;
using OwnedMemory = Owned<cl_mem, &Api::clReleaseMemObject>;
using OwnedProgram = Owned<cl_program, &Api::clReleaseProgram>;
using OwnedKernel = Owned<cl_kernel, &Api::clReleaseKernel>;
using OwnedEvent = Owned<cl_event, &Api::clReleaseEvent>;

// One more owner of the same event.
OwnedEvent share(const OwnedEvent& event);

}  // namespace ocl
