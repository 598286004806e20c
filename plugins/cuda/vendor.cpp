// SPDX-License-Identifier: Apache-2.0
// plugins/cuda/vendor.cpp: what the CUDA driver API does differently from HIP.
#include "vendor.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "attention.h"

namespace yoke::cuda {

// NOLINTNEXTLINE(readability-function-size): a table
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
      .blas = {.library = {.name = "cublasLt",
                           .version_function = "cublasLtGetVersion",
                           .variable = "YOKE_CUBLASLT_LIBRARY",
                           .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
                           .oldest = 120000,
                           .major_unit = 10000,
                           .minor_unit = 100},
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
      .dnn = {.library = {.name = "cuDNN",
                          .version_function = "cudnnGetVersion",
                          .variable = "YOKE_CUDNN_LIBRARY",
                          .files = {"libcudnn.so.9", "libcudnn.so.8"},
                          .oldest = 80000,
                          .major_unit = 10000,
                          .minor_unit = 100},
              .f32 = 0,
              .f16 = 2,
              .bf16 = 9,
              .takes_gradient_first = false,
              .may_accumulate = true,
              .oldest_for_attention = kOldestForAttention},
      .comm = {.name = "NCCL", .variable = "YOKE_NCCL_LIBRARY", .files = {"libnccl.so.2"}},
  };
  return facts;
}

const char* Vendor::bind(gpu::Lookup lookup, void* library) {
  return gpu::bind_all(lookup, library,
                       {{"cuGetErrorName", &error_name_},
                        {"cuGetErrorString", &error_string_},
                        {"cuFuncSetAttribute", &set_function_},
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

// Releases before 9 have the unit 1000 for the major version.
int Vendor::dnn_version(const gpu::Dnn& dnn, int& version) const {
  const int number = dnn.cudnn_version();
  version = number < 10000 ? number / 1000 * 10000 + number % 1000 : number;
  return 0;
}

int Vendor::set_filters(const gpu::Dnn& dnn, void* filters, int type, const codegen::Volume& volume) const {
  constexpr int kNotSupported = 3000;
  const auto& [k, c, h, w] = volume.dims;
  const std::array<std::uint64_t, 4> channels_first = {c * h * w, h * w, w, 1};
  const std::array<std::uint64_t, 4> channels_last = {c * h * w, 1, c * w, c};
  if (volume.strides != channels_first && volume.strides != channels_last) {
    return kNotSupported;
  }
  const int format = volume.strides == channels_first ? 0 : 1;
  return dnn.filters_set(filters, type, format, static_cast<int>(k), static_cast<int>(c), static_cast<int>(h),
                         static_cast<int>(w));
}

int Vendor::set_convolution(const gpu::Dnn& dnn, void* object, const codegen::LibraryConvolution& convolution,
                            bool tf32) const {
  constexpr int kCrossCorrelation = 1;
  constexpr int kDefaultMath = 0;  // tf32 for f32
  constexpr int kTensorOpMath = 1;
  constexpr int kFmaMath = 3;
  const auto number = [](std::uint64_t value) { return static_cast<int>(value); };
  const auto& [padding, stride, dilation] =
      std::tie(convolution.padding, convolution.stride, convolution.dilation);
  const int code = dnn.convolution_set(object, number(padding[0]), number(padding[1]), number(stride[0]),
                                       number(stride[1]), number(dilation[0]), number(dilation[1]),
                                       kCrossCorrelation, facts().dnn.f32);
  const bool is_f32 = convolution.type == program::Type::kF32;
  const int math = !is_f32 ? kTensorOpMath : tf32 ? kDefaultMath : kFmaMath;
  return code != 0 ? code : dnn.convolution_math(object, math);
}

// A result: algorithm and status, time, size of the workspace, determinism and type of math.
std::vector<std::uint64_t> Vendor::algorithms(const codegen::LibraryConvolution& convolution,
                                              const std::uint64_t* results, std::size_t count) const {
  constexpr std::size_t kWords = 6;
  constexpr std::uint32_t kDeterministic = 1;
  // IMPLICIT_GEMM, IMPLICIT_PRECOMP_GEMM and GEMM; BWD_DATA_ALGO_1; BWD_FILTER_ALGO_1.
  const bool is_forward = convolution.kind == codegen::ConvolutionKind::kForward;
  const std::uint32_t first = is_forward ? 0 : 1;
  const std::uint32_t last = is_forward ? 2 : 1;
  std::vector<std::uint64_t> found;
  for (const std::uint64_t* result = results; result != results + count * kWords; result += kWords) {
    const auto algorithm = static_cast<std::uint32_t>(result[0]);
    const bool is_known = std::find(found.begin(), found.end(), algorithm) != found.end();
    if (result[0] >> 32 == 0 && static_cast<std::uint32_t>(result[3]) == kDeterministic &&
        algorithm >= first && algorithm <= last && !is_known) {
      found.push_back(algorithm);
    }
  }
  return found;
}

int Vendor::convolve(const gpu::Dnn& dnn, const gpu::DnnCall& call, const char*& name) const {
  static constexpr float kOne = 1;
  static constexpr float kZero = 0;
  const auto& function = gpu::of_kind(call.kind, dnn.forward, dnn.input, dnn.filter);
  name = function.name;
  return function(call.handle, &kOne, call.tensors[0], call.data[0], call.tensors[1], call.data[1],
                  call.convolution, static_cast<int>(call.algorithm), call.workspace, call.workspace_bytes,
                  call.accumulates ? &kOne : &kZero, call.tensors[2], call.data[2]);
}

std::unique_ptr<gpu::AttentionPlan> Vendor::plan_attention(const gpu::Dnn& dnn, void* handle,
                                                           const codegen::Target& target,
                                                           const codegen::LibraryAttention& attention,
                                                           gpu::DnnFault& fault) const {
  return cuda::plan_attention(dnn, {handle, nullptr}, target.capability, attention, fault);
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
  const std::string features = target.wgmma && !is_portable ? "a" : "";  // sm_90a
  return {{"--gpu-architecture=" + architecture + features, "--fmad=false", "--std=c++17"}, is_portable};
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
