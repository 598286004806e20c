// SPDX-License-Identifier: Apache-2.0
// tests/bench/gpu/cublas.cpp: a product of matrices by cublasLt, opened at run time, as a peer.
#include <stdexcept>

#include "gpu_bench.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>

namespace yoke::bench {
namespace {

struct CublasLt {
  CublasLt() {
    const char* chosen = std::getenv("YOKE_CUBLASLT_LIBRARY");
    for (const char* name : {chosen, "libcublasLt.so.13", "libcublasLt.so.12"}) {
      library = library == nullptr && name != nullptr ? ::dlopen(name, RTLD_NOW | RTLD_LOCAL) : library;
    }
    if (library == nullptr) {
      throw std::runtime_error("libcublasLt.so.13 cannot be opened");
    }
  }
  // Calls the function of this name, with the type that the header declares.
  template <class Function, class... Args>
  void call(Function* declared, const char* name, Args... args) const {
    (void)declared;
    auto* function = reinterpret_cast<Function*>(::dlsym(library, name));
    if (function == nullptr || function(args...) != CUBLAS_STATUS_SUCCESS) {
      throw std::runtime_error(std::string(name) + " failed");
    }
  }
  void* library = nullptr;
};
#define YOKE_CUBLAS(name, ...) lt.call(static_cast<decltype(&(name))>(nullptr), #name, __VA_ARGS__)

}  // namespace

double cublas_seconds(const Bench& bench, std::uint64_t n) {
  if (bench.driver() == nullptr || bench.device().backend()->name() != "cuda") {
    throw std::runtime_error("cublasLt needs the backend cuda");
  }
  static const CublasLt lt;
  const std::uint64_t bytes = 2 * n * n;
  const std::shared_ptr<Device> device = bench.stream().device();
  const Buffer a(device, bytes);
  const Buffer b(device, bytes);
  const Buffer c(device, bytes);
  const std::uint64_t workspace_bytes = bench.size(std::uint64_t{32} << 20, 1 << 16);
  const Buffer workspace(device, workspace_bytes);
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  YOKE_CUBLAS(cublasLtCreate, &handle);
  YOKE_CUBLAS(cublasLtMatmulDescCreate, &description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  YOKE_CUBLAS(cublasLtMatrixLayoutCreate, &layout, CUDA_R_16BF, n, n, static_cast<std::int64_t>(n));
  YOKE_CUBLAS(cublasLtMatmulPreferenceCreate, &preference);
  YOKE_CUBLAS(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
              &workspace_bytes, sizeof workspace_bytes);
  cublasLtMatmulHeuristicResult_t chosen = {};
  int count = 0;
  YOKE_CUBLAS(cublasLtMatmulAlgoGetHeuristic, handle, description, layout, layout, layout, layout, preference,
              1, &chosen, &count);
  const float one = 1;
  const float zero = 0;
  const auto pointer = [](const Buffer& buffer) { return reinterpret_cast<void*>(buffer.device_address()); };
  auto* stream = static_cast<cudaStream_t>(bench.native_stream());
  return bench.seconds_of([&] {
    YOKE_CUBLAS(cublasLtMatmul, handle, description, &one, pointer(a), layout, pointer(b), layout, &zero,
                pointer(c), layout, pointer(c), layout, &chosen.algo, pointer(workspace), workspace_bytes,
                stream);
  });
}

}  // namespace yoke::bench

#else

namespace yoke::bench {

double cublas_seconds(const Bench&, std::uint64_t) {
  throw std::runtime_error("built without the headers of cublasLt");
}

}  // namespace yoke::bench

#endif
