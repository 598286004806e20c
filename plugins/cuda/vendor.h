// SPDX-License-Identifier: Apache-2.0
// plugins/cuda/vendor.h: names, numbers and functions of the CUDA driver API and of NVRTC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver.h"

namespace yoke::cuda {

// NOT_SUPPORTED, ARCH_MISMATCH and BAD_PARAM of cuDNN 8, and those of cuDNN 9 with their details.
inline bool is_refusal(int code) {
  return code == 9 || code == 6 || code == 3 || code / 1000 == 2 || code / 1000 == 3;
}

class Vendor : public gpu::Vendor {
 public:
  const gpu::VendorFacts& facts() const override;
  const char* bind(gpu::Lookup lookup, void* library) override;
  void bind_compiler(gpu::Lookup lookup, void* library) override;
  std::string error_text(int code) const override;
  int identify(const gpu::Driver& driver, int device, codegen::Target& target) const override;
  // The compiler itself reports architectures that it does not know.
  std::string architecture_fault(const codegen::Target&, int) const override { return {}; }
  // A compiler that is older than the device compiles PTX for the newest architecture that it knows.
  gpu::CodeRequest code_request(const codegen::Target& target) const override;
  int portable_code(void* program, std::string& bytes) const override;
  int blas_version(gpu::Lookup lookup, void* library, void* handle, int& version) const override;
  int dnn_version(const gpu::Dnn& dnn, int& version) const override;
  int set_filters(const gpu::Dnn& dnn, void* filters, int type, const codegen::Volume& volume) const override;
  int set_convolution(const gpu::Dnn& dnn, void* object, const codegen::LibraryConvolution& convolution,
                      bool tf32) const override;
  std::vector<std::uint64_t> algorithms(const codegen::LibraryConvolution& convolution,
                                        const std::uint64_t* results, std::size_t count) const override;
  int convolve(const gpu::Dnn& dnn, const gpu::DnnCall& call, const char*& name) const override;
  bool is_unsupported(int code) const override { return is_refusal(code); }
  std::unique_ptr<gpu::AttentionPlan> plan_attention(const gpu::Dnn& dnn, void* handle,
                                                     const codegen::Target& target,
                                                     const codegen::LibraryAttention& attention,
                                                     gpu::DnnFault& fault) const override;
  int allow_shared(void* function, std::uint32_t byte_count) const override {
    constexpr int kMostDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    return set_function_(function, kMostDynamicShared, static_cast<int>(byte_count));
  }
  int launch_host(void* stream, gpu::HostCall& call) const override {
    return launch_host_(stream, call.function, call.user);
  }
  int enable_peer(gpu::Peer other) const override { return enable_peer_(other.context, 0); }
  int copy_peer(gpu::Address target, gpu::Peer to, gpu::Address source, gpu::Peer from,
                std::size_t byte_count, void* stream) const override {
    return copy_peer_(target, to.context, source, from.context, byte_count, stream);
  }

 private:
  int (*error_name_)(int code, const char** name) = nullptr;
  int (*error_string_)(int code, const char** text) = nullptr;
  int (*set_function_)(void* function, int attribute, int value) = nullptr;
  int (*launch_host_)(void* stream, void (*function)(void*), void* user) = nullptr;
  int (*enable_peer_)(void* context, unsigned flags) = nullptr;
  int (*copy_peer_)(gpu::Address target, void* to, gpu::Address source, void* from, std::size_t byte_count,
                    void* stream) = nullptr;
  // Functions of NVRTC.
  int (*architecture_count_)(int* count) = nullptr;
  int (*architectures_)(int* capabilities) = nullptr;
  int (*ptx_size_)(void* program, std::size_t* byte_count) = nullptr;
  int (*ptx_)(void* program, char* text) = nullptr;
  std::vector<int> capabilities_;  // those that the compiler knows
};

}  // namespace yoke::cuda
