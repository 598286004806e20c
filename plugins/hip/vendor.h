// SPDX-License-Identifier: Apache-2.0
// plugins/hip/vendor.h: names, numbers and functions of the HIP runtime and of hiprtc.
#pragma once

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
  int launch_host(void* stream, void (*function)(void*), void* user) const override;
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
  int (*enable_peer_)(int device, unsigned flags) = nullptr;
  int (*copy_peer_)(gpu::Address target, int to, gpu::Address source, int from, std::size_t byte_count,
                    void* stream) = nullptr;
  int (*properties_)(void* properties, int device) = nullptr;
  std::size_t architecture_offset_ = 0;  // in the properties
};

}  // namespace yoke::hip
