// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/functions.cpp: refers to every exported function, so that the library does not link or
// load if one is missing.
#include "functions.h"

#include <utility>

namespace fake_gpu {
namespace {

#ifdef FAKE_GPU_DRIVER
__attribute__((used)) const void* const kDriverFunctions[] = {
#define YOKE_DRIVER(member, parameters, cuda, hip) reinterpret_cast<const void*>(&fake_##member),
#define YOKE_BLAS(member, parameters, cublaslt, hipblaslt) reinterpret_cast<const void*>(&fake_blas_##member),
#define YOKE_DNN(member, parameters, cudnn, miopen) reinterpret_cast<const void*>(&fake_dnn_##member),
#define YOKE_DNN_ENTRY(member, parameters, name) reinterpret_cast<const void*>(&fake_dnn_##member),
#ifdef FAKE_GPU_HIP
#define YOKE_MIOPEN YOKE_DNN_ENTRY
#else
#define YOKE_CUDNN YOKE_DNN_ENTRY
#endif
#define YOKE_COMM(member, parameters, function) reinterpret_cast<const void*>(&fake_comm_##member),
#include "gpu/driver.def"
    reinterpret_cast<const void*>(&fake_copy_peer),     reinterpret_cast<const void*>(&fake_peer_enable),
    reinterpret_cast<const void*>(&fake_host_function), reinterpret_cast<const void*>(&fake_error_name),
    reinterpret_cast<const void*>(&fake_error_string),  reinterpret_cast<const void*>(&fake_blas_version)};
#endif

#ifdef FAKE_GPU_COMPILER
__attribute__((used)) const void* const kCompilerFunctions[] = {
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) \
  reinterpret_cast<const void*>(&fake_compiler_##member),
#include "gpu/driver.def"
#ifndef FAKE_GPU_HIP
    reinterpret_cast<const void*>(&fake_compiler_architecture_count),
    reinterpret_cast<const void*>(&fake_compiler_architectures),
    reinterpret_cast<const void*>(&fake_compiler_ptx_size), reinterpret_cast<const void*>(&fake_compiler_ptx),
#endif
    reinterpret_cast<const void*>(&fake_compiler_error_string)};
#endif

}  // namespace

#if defined(FAKE_GPU_DRIVER) && defined(FAKE_GPU_HIP)
int fake_last_error() {
  return std::exchange(last_error, 0);
}
#endif

}  // namespace fake_gpu
