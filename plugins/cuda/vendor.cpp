// SPDX-License-Identifier: Apache-2.0
// plugins/cuda/vendor.cpp: what the CUDA driver API does differently from HIP.
#include "vendor.h"

#include <algorithm>

namespace yoke::cuda {

const gpu::VendorFacts& Vendor::facts() const {
  static const gpu::VendorFacts facts = {
      .name = "cuda",
      .display = "CUDA",
      .dialect = codegen::Dialect::kCuda,
      .driver_variable = "YOKE_CUDA_LIBRARY",
      .compiler_variable = "YOKE_NVRTC_LIBRARY",
      .driver_files = {"libcuda.so.1"},
      .compiler_files = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"},
      .visible_variables = {"CUDA_VISIBLE_DEVICES"},
      .nodes = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"},
      .driver_hint =
          "install or update the NVIDIA driver, which includes libcuda.so.1 (nvidia-smi shows its version)",
      .permission_hint = "give the user access to /dev/nvidia*, for example through the group video",
      .compiler_hint =
          "install NVRTC of a CUDA toolkit that is new enough for the device, or set "
          "YOKE_NVRTC_LIBRARY to its libnvrtc.so",
      .identify_function = "cuDeviceGetAttribute",
      .host_function = "cuLaunchHostFunc",
      .oldest_driver = 12000,
      .major_unit = 1000,
      .minor_unit = 10,
      .multiprocessor_count = 16,
      .warp_size = 10,
      .threads_per_block = 1,
      .shared_bytes_per_block = 8,
      .blas = {.name = "cublasLt",
               .version_function = "cublasLtGetVersion",
               .variable = "YOKE_CUBLASLT_LIBRARY",
               .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
               .oldest = 120000,
               .major_unit = 10000,
               .minor_unit = 100,
               .compute_f32 = 68,
               .compute_tf32 = 77,
               .plain = 0,
               .transposed = 1,
               .transpose_a = 3,
               .transpose_b = 4,
               .epilogue = 7,
               .bias_pointer = 8,
               .bias_type = 26,
               .batch_count = 5,
               .batch_stride = 6,
               .reduction_schemes = 3,
               .alignment = 5,
               .not_supported = 15,
               .algorithm_bytes = 64},
      .comm = {.name = "NCCL", .variable = "YOKE_NCCL_LIBRARY", .files = {"libnccl.so.2"}},
  };
  return facts;
}

const char* Vendor::bind(gpu::Lookup lookup, void* library) {
  return gpu::bind_all(lookup, library,
                       {{"cuGetErrorName", &error_name_},
                        {"cuGetErrorString", &error_string_},
                        {"cuLaunchHostFunc", &launch_host_},
                        {"cuCtxEnablePeerAccess", &enable_peer_},
                        {"cuMemcpyPeerAsync", &copy_peer_}});
}

int Vendor::blas_version(gpu::Lookup lookup, void* library, void*, int& version) const {
  constexpr int kNotSupported = 15;
  std::size_t (*get)() = nullptr;
  if (gpu::bind_all(lookup, library, {{"cublasLtGetVersion", &get}}) != nullptr) {
    return kNotSupported;
  }
  version = static_cast<int>(get());
  return 0;
}

std::string Vendor::error_text(int code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name_ == nullptr || error_name_(code, &name) != 0 || error_string_(code, &text) != 0) {
    return "error " + std::to_string(code);
  }
  return std::string(name) + " (" + text + ")";
}

int Vendor::identify(const gpu::Driver& driver, int device, codegen::Target& target) const {
  constexpr int kCapabilityMajor = 75;
  constexpr int kCapabilityMinor = 76;
  int major = 0;
  int minor = 0;
  if (const int code = driver.device_attribute(&major, kCapabilityMajor, device); code != 0) {
    return code;
  }
  const int code = driver.device_attribute(&minor, kCapabilityMinor, device);
  target.dialect = codegen::Dialect::kCuda;
  target.capability = static_cast<std::uint32_t>(10 * major + minor);
  target.architecture = "sm_" + std::to_string(target.capability);
  return code;
}

void Vendor::bind_compiler(gpu::Lookup lookup, void* library) {
  const char* missing = gpu::bind_all(lookup, library,
                                      {{"nvrtcGetNumSupportedArchs", &architecture_count_},
                                       {"nvrtcGetSupportedArchs", &architectures_},
                                       {"nvrtcGetPTXSize", &ptx_size_},
                                       {"nvrtcGetPTX", &ptx_}});
  int count = 0;
  if (missing == nullptr && architecture_count_(&count) == 0 && count > 0) {
    capabilities_.resize(static_cast<std::size_t>(count));
    if (architectures_(capabilities_.data()) != 0) {
      capabilities_.clear();
    }
  }
}

gpu::CodeRequest Vendor::code_request(const codegen::Target& target) const {
  const auto capability = static_cast<int>(target.capability);
  int newest = 0;  // the newest known one that the device can run
  for (const int known : capabilities_) {
    newest = known <= capability ? std::max(newest, known) : newest;
  }
  const bool is_portable = newest != 0 && newest != capability;
  const std::string architecture = is_portable ? "compute_" + std::to_string(newest) : target.architecture;
  return {{"--gpu-architecture=" + architecture, "--fmad=false", "--std=c++17"}, is_portable};
}

int Vendor::portable_code(void* program, std::string& bytes) const {
  std::size_t byte_count = 0;
  if (const int code = ptx_size_(program, &byte_count); code != 0) {
    return code;
  }
  bytes.resize(byte_count);
  return ptx_(program, bytes.data());
}

}  // namespace yoke::cuda
