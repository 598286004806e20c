// SPDX-License-Identifier: Apache-2.0
// opencl_api.h: function pointers to OpenCL, looked up when devices are first enumerated, so that the
// plugin loads on machines without OpenCL; and owners of OpenCL objects.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace ocl {

// The OpenCL functions that the plugin uses.
#define OCL_FUNCTIONS(X)       \
  X(clGetPlatformIDs)          \
  X(clGetPlatformInfo)         \
  X(clGetDeviceIDs)            \
  X(clGetDeviceInfo)           \
  X(clCreateContext)           \
  X(clReleaseContext)          \
  X(clCreateCommandQueue)      \
  X(clReleaseCommandQueue)     \
  X(clCreateBuffer)            \
  X(clReleaseMemObject)        \
  X(clCreateProgramWithSource) \
  X(clBuildProgram)            \
  X(clGetProgramBuildInfo)     \
  X(clReleaseProgram)          \
  X(clCreateKernel)            \
  X(clSetKernelArg)            \
  X(clReleaseKernel)           \
  X(clEnqueueNDRangeKernel)    \
  X(clEnqueueReadBuffer)       \
  X(clEnqueueWriteBuffer)      \
  X(clEnqueueCopyBuffer)       \
  X(clEnqueueFillBuffer)       \
  X(clEnqueueMapBuffer)        \
  X(clEnqueueUnmapMemObject)   \
  X(clFinish)                  \
  X(clWaitForEvents)           \
  X(clGetEventInfo)            \
  X(clReleaseEvent)

struct Api {
#define OCL_DECLARE(name) decltype(&::name) name = nullptr;
  OCL_FUNCTIONS(OCL_DECLARE)
#undef OCL_DECLARE
};

// Why OpenCL is unavailable and how to fix it; empty if it is available. The first call opens
// the library, which stays open. Thread-safe.
const std::string& missing_library();

// Precondition: missing_library() is empty.
const Api& api();

// "CL_OUT_OF_RESOURCES (-5)"
std::string status_name(cl_int status);

// The corresponding YOKE_STATUS_ code.
std::int32_t code_of(cl_int status);

// Throws a Failure with the name and the purpose of the call, unless `status` is CL_SUCCESS.
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

}  // namespace ocl
