// SPDX-License-Identifier: Apache-2.0
// opencl_api.cpp: opens libOpenCL.so.1 and looks up its functions.
#include "opencl_api.h"

#include <dlfcn.h>
#include <yoke/sdk/failure.h>

namespace ocl {
namespace {

struct Library {
  Api api;
  std::string missing;
};

Library open_library() {
  Library library;
  void* handle = ::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    library.missing = std::string("cannot open the OpenCL loader: ") +
                      (reason == nullptr ? "libOpenCL.so.1" : reason) +
                      "; install one (Debian: ocl-icd-libopencl1) and the driver of a device";
    return library;
  }
  const auto look_up = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr && library.missing.empty()) {
      library.missing = std::string("libOpenCL.so.1 lacks ") + name + "; install OpenCL 1.2 or later";
    }
  };
#define OCL_LOOK_UP(name) look_up(library.api.name, #name);
  OCL_FUNCTIONS(OCL_LOOK_UP)
#undef OCL_LOOK_UP
  return library;
}

// Never destroyed, because a plugin must not run code at exit.
const Library& library() {
  static const Library& opened = *new Library(open_library());
  return opened;
}

struct Status {
  cl_int status;
  const char* name;
  std::int32_t code;
};

constexpr Status kStatuses[] = {
    {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND", YOKE_STATUS_NOT_FOUND},
    {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE", YOKE_STATUS_UNAVAILABLE},
    {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE", YOKE_STATUS_UNAVAILABLE},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE", YOKE_STATUS_OUT_OF_DEVICE_MEMORY},
    {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES", YOKE_STATUS_RESOURCE_EXHAUSTED},
    {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY", YOKE_STATUS_RESOURCE_EXHAUSTED},
    {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE", YOKE_STATUS_INTERNAL},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
     YOKE_STATUS_ABORTED},
    {CL_INVALID_VALUE, "CL_INVALID_VALUE", YOKE_STATUS_INTERNAL},
    {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE", YOKE_STATUS_OUT_OF_DEVICE_MEMORY},
    {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS", YOKE_STATUS_INVALID_ARGUMENT},
    {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS", YOKE_STATUS_INTERNAL},
    {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE", YOKE_STATUS_INTERNAL},
    {CL_INVALID_GLOBAL_WORK_SIZE, "CL_INVALID_GLOBAL_WORK_SIZE", YOKE_STATUS_INTERNAL},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR", YOKE_STATUS_NOT_FOUND},
};

const Status* known(cl_int status) {
  for (const Status& one : kStatuses) {
    if (one.status == status) {
      return &one;
    }
  }
  return nullptr;
}

}  // namespace

const std::string& missing_library() {
  return library().missing;
}

const Api& api() {
  return library().api;
}

std::string status_name(cl_int status) {
  const Status* one = known(status);
  return std::string(one == nullptr ? "OpenCL error" : one->name) + " (" + std::to_string(status) + ")";
}

std::int32_t code_of(cl_int status) {
  const Status* one = known(status);
  return one == nullptr ? YOKE_STATUS_INTERNAL : one->code;
}

void check(cl_int status, const char* call, const std::string& what) {
  if (status != CL_SUCCESS) [[unlikely]] {
    throw yoke::sdk::Failure(code_of(status), what + ": " + call + " failed with " + status_name(status),
                             status);
  }
}

}  // namespace ocl
