// SPDX-License-Identifier: Apache-2.0
// plugins/hip/vendor.h: names, numbers and functions of the HIP runtime and of hiprtc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "driver.h"

namespace yoke::hip {

class Vendor final : public gpu::Vendor {
 public:
  const gpu::VendorFacts& facts() const override;
  const char* bind(gpu::Lookup lookup, void* library) override;
  std::string error_text(int code) const override;
  int identify(const gpu::Driver& driver, int device, codegen::Target& target) const override;
  std::string architecture_fault(const codegen::Target& target, int driver_version) const override;
  gpu::CodeRequest code_request(const codegen::Target& target) const override;
  int blas_version(gpu::Lookup lookup, void* library, void* handle, int& version) const override;
  int dnn_version(const gpu::Dnn& dnn, int& version) const override;
  int set_filters(const gpu::Dnn& dnn, void* filters, int type, const codegen::Volume& volume) const override;
  int set_convolution(const gpu::Dnn& dnn, void* object, const codegen::LibraryConvolution& convolution,
                      bool tf32) const override;
  std::vector<std::uint64_t> algorithms(const codegen::LibraryConvolution& convolution,
                                        const std::uint64_t* results, std::size_t count) const override;
  int prepare(const gpu::Dnn& dnn, const gpu::DnnCall& call) const override;
  int convolve(const gpu::Dnn& dnn, const gpu::DnnCall& call, const char*& name) const override;
  // miopenStatusBadParm, NotImplemented and UnsupportedOp.
  bool is_unsupported(int code) const override { return code == 3 || code == 6 || code == 8; }
  int launch_host(void* stream, gpu::HostCall& call) const override;
  void forget_error() const override { (void)last_error_(); }
  int enable_peer(gpu::Peer other) const override { return enable_peer_(other.device, 0); }
  int copy_peer(gpu::Address target, gpu::Peer to, gpu::Address source, gpu::Peer from,
                std::size_t byte_count, void* stream) const override {
    return copy_peer_(target, to.device, source, from.device, byte_count, stream);
  }

 private:
  const char* (*error_name_)(int code) = nullptr;
  const char* (*error_string_)(int code) = nullptr;
  int (*add_callback_)(void* stream, void (*function)(void* stream, int code, void* user), void* user,
                       unsigned flags) = nullptr;
  int (*last_error_)() = nullptr;
  int (*enable_peer_)(int device, unsigned flags) = nullptr;
  int (*copy_peer_)(gpu::Address target, int to, gpu::Address source, int from, std::size_t byte_count,
                    void* stream) = nullptr;
  int (*properties_)(void* properties, int device) = nullptr;
  std::size_t architecture_offset_ = 0;  // in the properties
};

}  // namespace yoke::hip
