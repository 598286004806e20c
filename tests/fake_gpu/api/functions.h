// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/functions.h: the exported functions, declared from plugins/gpu/driver.def: fake_<member>
// has the name that the vendor's library exports. functions.cpp refers to all of them, so none can be
// missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

#include "settings.h"
#include "vendor.h"

#define FAKE_GPU_EXPORT __attribute__((visibility("default")))
// Declares fake_<member>, exported as `name`.
#define FAKE_GPU_FUNCTION(result, member, parameters, name) \
  extern "C" FAKE_GPU_EXPORT result fake_##member parameters __asm__(name);

namespace fake_gpu {

#ifdef FAKE_GPU_DRIVER
#define YOKE_DRIVER(member, parameters, cuda, hip) \
  FAKE_GPU_FUNCTION(int, member, parameters, FAKE_GPU_NAME(cuda, hip))
#define YOKE_BLAS(member, parameters, cublaslt, hipblaslt) \
  FAKE_GPU_FUNCTION(int, blas_##member, parameters, FAKE_GPU_NAME(cublaslt, hipblaslt))
#define YOKE_DNN(member, parameters, cudnn, miopen) \
  FAKE_GPU_FUNCTION(int, dnn_##member, parameters, FAKE_GPU_NAME(cudnn, miopen))
#define YOKE_DNN_OWN(member, parameters, name) FAKE_GPU_FUNCTION(int, dnn_##member, parameters, name)
#ifdef FAKE_GPU_HIP
#define YOKE_MIOPEN YOKE_DNN_OWN
#else
#define YOKE_CUDNN YOKE_DNN_OWN
#endif
#define YOKE_COMM(member, parameters, function) FAKE_GPU_FUNCTION(int, comm_##member, parameters, function)
#include "gpu/driver.def"

FAKE_GPU_FUNCTION(int, copy_peer,
                  (Address target, FAKE_GPU_NAME(void*, int) target_context, Address source,
                   FAKE_GPU_NAME(void*, int) source_context, std::size_t byte_count, void* stream),
                  FAKE_GPU_NAME("cuMemcpyPeerAsync", "hipMemcpyPeerAsync"))
FAKE_GPU_FUNCTION(int, peer_enable, (FAKE_GPU_NAME(void*, int) peer, unsigned flags),
                  FAKE_GPU_NAME("cuCtxEnablePeerAccess", "hipDeviceEnablePeerAccess"))
#ifdef FAKE_GPU_HIP
using Callback = void (*)(void* stream, int status, void* data);
FAKE_GPU_FUNCTION(int, host_function, (void* stream, Callback callback, void* data, unsigned flags),
                  "hipStreamAddCallback")
FAKE_GPU_FUNCTION(const char*, error_name, (int code), "hipGetErrorName")
FAKE_GPU_FUNCTION(const char*, error_string, (int code), "hipGetErrorString")
FAKE_GPU_FUNCTION(int, last_error, (), "hipGetLastError")
FAKE_GPU_FUNCTION(int, properties, (void* properties, int device), "hipGetDeviceProperties")
FAKE_GPU_FUNCTION(int, blas_version, (void* handle, int* version), "hipblasLtGetVersion")
#else
using Callback = void (*)(void* data);
FAKE_GPU_FUNCTION(int, host_function, (void* stream, Callback callback, void* data), "cuLaunchHostFunc")
FAKE_GPU_FUNCTION(int, function_attribute, (void* function, int attribute, int value), "cuFuncSetAttribute")
FAKE_GPU_FUNCTION(int, error_name, (int code, const char** text), "cuGetErrorName")
FAKE_GPU_FUNCTION(int, error_string, (int code, const char** text), "cuGetErrorString")
FAKE_GPU_FUNCTION(std::size_t, blas_version, (), "cublasLtGetVersion")
#endif
#endif  // FAKE_GPU_DRIVER

#ifdef FAKE_GPU_COMPILER
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) \
  FAKE_GPU_FUNCTION(int, compiler_##member, parameters, FAKE_GPU_NAME(nvrtc, hiprtc))
#include "gpu/driver.def"
#ifndef FAKE_GPU_HIP
FAKE_GPU_FUNCTION(int, compiler_architecture_count, (int* count), "nvrtcGetNumSupportedArchs")
FAKE_GPU_FUNCTION(int, compiler_architectures, (int* capabilities), "nvrtcGetSupportedArchs")
FAKE_GPU_FUNCTION(int, compiler_ptx_size, (void* program, std::size_t* byte_count), "nvrtcGetPTXSize")
FAKE_GPU_FUNCTION(int, compiler_ptx, (void* program, char* text), "nvrtcGetPTX")
#endif
FAKE_GPU_FUNCTION(const char*, compiler_error_string, (int code),
                  FAKE_GPU_NAME("nvrtcGetErrorString", "hiprtcGetErrorString"))
#endif

// The error of the thread's last call that failed, unless the caller only had to wait. HIP keeps it.
inline thread_local int last_error = 0;
inline int keep_error(int code) {
  last_error = code != 0 && code != kNotReady ? code : last_error;
  return code;
}

// Counts the call `name` and runs `body` unless a failure is injected; Errors become the result.
template <class Body>
int run(const char* name, const Body& body) {
  if (const int code = count_call(name); code != 0) {
    return keep_error(code);
  }
  wait_if_held(name);
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return keep_error(error.code);
  } catch (const std::bad_alloc&) {
    return keep_error(kOutOfMemory);
  }
}

}  // namespace fake_gpu
