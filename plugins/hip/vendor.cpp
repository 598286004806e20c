// SPDX-License-Identifier: Apache-2.0
// plugins/hip/vendor.cpp: what the HIP runtime does differently from the CUDA driver API.
#include "vendor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace yoke::hip {
namespace {

// ROCm 6 changed the layout of hipDeviceProp_t, and gave the function for the new layout a new name.
constexpr std::size_t kArchitectureOffset = 396;
constexpr std::size_t kArchitectureOffsetR0600 = 1160;
constexpr std::size_t kArchitectureBytes = 256;
constexpr std::size_t kPropertyBytes = 8192;  // more than any layout has

void call_host(void*, int, void* user) {
  const auto* call = static_cast<const gpu::HostCall*>(user);
  call->function(call->user);
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
const gpu::VendorFacts& Vendor::facts() const {
  static const gpu::VendorFacts facts = {
      .name = "hip",
      .display = "HIP",
      .dialect = codegen::Dialect::kHip,
      .driver_variable = "YOKE_HIP_LIBRARY",
      .compiler_variable = "YOKE_HIPRTC_LIBRARY",
      .driver_files = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                       "/opt/rocm/lib/libamdhip64.so"},
      .compiler_files = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "/opt/rocm/lib/libhiprtc.so"},
      .visible_variables = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"},
      .nodes = {"/dev/kfd", "/dev/dri/renderD128"},
      .driver_hint = "install ROCm's HIP runtime (Debian: libamdhip64-5) and the amdgpu kernel module",
      .permission_hint = "add the user to the groups render and video",
      .compiler_hint =
          "install hiprtc of a ROCm release that is new enough for the device, or set "
          "YOKE_HIPRTC_LIBRARY to its libhiprtc.so",
      .identify_function = "hipGetDeviceProperties",
      .host_function = "hipStreamAddCallback",
      .oldest_driver = 50000000,
      .major_unit = 10000000,
      .minor_unit = 100000,
      .multiprocessor_count = 63,
      .warp_size = 87,
      .threads_per_block = 56,
      .shared_bytes_per_block = 74,
      .blas = {.library = {.name = "hipBLASLt",
                           .version_function = "hipblasLtGetVersion",
                           .variable = "YOKE_HIPBLASLT_LIBRARY",
                           .files = {"libhipblaslt.so.1", "libhipblaslt.so.0",
                                     "/opt/rocm/lib/libhipblaslt.so"},
                           .oldest =
                               1000,  // 0.10, of ROCm 6.3: older releases have other layouts and numbers
                           .major_unit = 100000,
                           .minor_unit = 100},
               .compute_f32 = 2,
               .compute_tf32 = 6,
               .plain = 111,
               .transposed = 112,
               .transpose_a = 0,
               .transpose_b = 1,
               .epilogue = 2,
               .bias_pointer = 3,
               .bias_type = 4,
               .batch_count = 0,
               .batch_stride = 1,
               .reduction_schemes = -1,
               .alignment = -1,
               .not_supported = 7,
               .algorithm_bytes = 24},
      .dnn = {.library = {.name = "MIOpen",
                          .version_function = "miopenGetVersion",
                          .variable = "YOKE_MIOPEN_LIBRARY",
                          .files = {"libMIOpen.so.1", "/opt/rocm/lib/libMIOpen.so"},
                          .oldest = 30000,  // of ROCm 6.0
                          .major_unit = 10000,
                          .minor_unit = 100},
              .f32 = 1,
              .f16 = 0,
              .bf16 = 5,
              .takes_gradient_first = true,
              .may_accumulate = false,
              .oldest_for_attention = 0},
      .comm = {.name = "RCCL",
               .variable = "YOKE_RCCL_LIBRARY",
               .files = {"librccl.so.1", "/opt/rocm/lib/librccl.so"}},
  };
  return facts;
}

const char* Vendor::bind(gpu::Lookup lookup, void* library) {
  const bool is_new = lookup(library, "hipGetDevicePropertiesR0600") != nullptr;
  architecture_offset_ = is_new ? kArchitectureOffsetR0600 : kArchitectureOffset;
  return gpu::bind_all(lookup, library,
                       {{"hipGetErrorName", &error_name_},
                        {"hipGetErrorString", &error_string_},
                        {"hipStreamAddCallback", &add_callback_},
                        {"hipGetLastError", &last_error_},
                        {"hipDeviceEnablePeerAccess", &enable_peer_},
                        {"hipMemcpyPeerAsync", &copy_peer_},
                        {is_new ? "hipGetDevicePropertiesR0600" : "hipGetDeviceProperties", &properties_}});
}

int Vendor::blas_version(gpu::Lookup lookup, void* library, void* handle, int& version) const {
  constexpr int kNotSupported = 7;
  int (*get)(void* handle, int* version) = nullptr;
  return gpu::bind_all(lookup, library, {{"hipblasLtGetVersion", &get}}) == nullptr ? get(handle, &version)
                                                                                    : kNotSupported;
}

int Vendor::dnn_version(const gpu::Dnn& dnn, int& version) const {
  std::size_t major = 0;
  std::size_t minor = 0;
  std::size_t patch = 0;
  const int code = dnn.miopen_version(&major, &minor, &patch);
  version = static_cast<int>(major * 10000 + minor * 100 + patch % 100);
  return code;
}

int Vendor::set_filters(const gpu::Dnn& dnn, void* filters, int type, const codegen::Volume& volume) const {
  const auto dim = [&](std::size_t i) { return static_cast<int>(volume.dims[i]); };
  const auto stride = [&](std::size_t i) { return static_cast<int>(volume.strides[i]); };
  return dnn.tensor_set(filters, type, dim(0), dim(1), dim(2), dim(3), stride(0), stride(1), stride(2),
                        stride(3));
}

int Vendor::set_convolution(const gpu::Dnn& dnn, void* object, const codegen::LibraryConvolution& convolution,
                            bool) const {
  constexpr int kCrossCorrelation = 0;
  constexpr int kBf16ForF16 = 0;  // attributes; by default, gfx90a rounds f16 gradients to bf16
  constexpr int kDeterministic = 1;
  const auto number = [](std::uint64_t value) { return static_cast<int>(value); };
  int code = dnn.convolution_init(object, kCrossCorrelation, number(convolution.padding[0]),
                                  number(convolution.padding[1]), number(convolution.stride[0]),
                                  number(convolution.stride[1]), number(convolution.dilation[0]),
                                  number(convolution.dilation[1]));
  code = code == 0 ? dnn.convolution_attribute(object, kBf16ForF16, 0) : code;
  return code == 0 ? dnn.convolution_attribute(object, kDeterministic, 1) : code;
}

// A result: time, size of the workspace, algorithm and its family: GEMM (0), direct (1), implicit GEMM (5). GEMM adds
// the images of a gradient in memory of the result's type: sums of 16-bit types would be rounded after each image.
std::vector<std::uint64_t> Vendor::algorithms(const codegen::LibraryConvolution& convolution,
                                              const std::uint64_t* results, std::size_t count) const {
  const bool may_use_gemm =
      convolution.type == program::Type::kF32 || convolution.kind == codegen::ConvolutionKind::kForward;
  constexpr std::size_t kWords = 4;
  std::vector<std::uint64_t> found;
  for (const std::uint64_t* result = results; result != results + count * kWords; result += kWords) {
    const auto family = static_cast<std::uint32_t>(result[3]);
    if ((family == 0 && may_use_gemm) || family == 1 || family == 5) {
      found.push_back(result[2]);
    }
  }
  return found;
}

int Vendor::prepare(const gpu::Dnn& dnn, const gpu::DnnCall& call) const {
  const auto& function = gpu::of_kind(call.kind, dnn.forward_compile, dnn.input_compile, dnn.filter_compile);
  return function(call.handle, call.tensors[0], call.tensors[1], call.convolution, call.tensors[2],
                  call.algorithm);
}

int Vendor::convolve(const gpu::Dnn& dnn, const gpu::DnnCall& call, const char*& name) const {
  const auto& function = gpu::of_kind(call.kind, dnn.forward_now, dnn.input_now, dnn.filter_now);
  name = function.name;
  return function(call.handle, call.tensors[0], call.data[0], call.tensors[1], call.data[1], call.convolution,
                  call.tensors[2], call.data[2], call.workspace, call.workspace_bytes, call.algorithm);
}

std::string Vendor::error_text(int code) const {
  if (error_name_ == nullptr || error_string_ == nullptr) {
    return "error " + std::to_string(code);
  }
  const std::string name = error_name_(code);
  const std::string text = error_string_(code);  // ROCm 5 has no texts and returns the name
  return name == text ? name : name + " (" + text + ")";
}

int Vendor::identify(const gpu::Driver&, int device, codegen::Target& target) const {
  std::vector<char> properties(kPropertyBytes);
  if (const int code = properties_(properties.data(), device); code != 0) {
    return code;
  }
  const char* name = properties.data() + architecture_offset_;
  target.dialect = codegen::Dialect::kHip;
  target.architecture.assign(name, ::strnlen(name, kArchitectureBytes));
  return 0;
}

// hiprtc ends the process if it does not know an architecture, so the plugin checks first.
std::string Vendor::architecture_fault(const codegen::Target& target, int driver_version) const {
  static constexpr std::array<std::string_view, 30> kRocm5 = {
      "gfx700",  "gfx701",  "gfx702",  "gfx703",  "gfx704",  "gfx705",  "gfx801",  "gfx802",
      "gfx803",  "gfx805",  "gfx810",  "gfx900",  "gfx902",  "gfx904",  "gfx906",  "gfx908",
      "gfx909",  "gfx90a",  "gfx90c",  "gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx1030",
      "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"};
  static constexpr std::array<std::string_view, 9> kRocm6 = {
      "gfx940", "gfx941", "gfx942", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151"};
  static constexpr std::array<std::string_view, 4> kRocm64 = {"gfx950", "gfx1152", "gfx1200", "gfx1201"};
  constexpr int kFirstRocm6 = 60000000;
  constexpr int kFirstRocm64 = 60400000;
  const std::string_view base =
      std::string_view(target.architecture).substr(0, target.architecture.find(':'));
  const auto has = [&](const auto& list) { return std::find(list.begin(), list.end(), base) != list.end(); };
  if (has(kRocm5) || (driver_version >= kFirstRocm6 && has(kRocm6)) ||
      (driver_version >= kFirstRocm64 && has(kRocm64))) {
    return {};
  }
  return "hiprtc of HIP " + gpu::version_text(facts(), driver_version) + " does not support " +
         std::string(base) + "; " + facts().compiler_hint;
}

gpu::CodeRequest Vendor::code_request(const codegen::Target& target) const {
  return {{"--offload-arch=" + target.architecture, "-ffp-contract=off", "-std=c++17", "-O3"}};
}

int Vendor::launch_host(void* stream, gpu::HostCall& call) const {
  return add_callback_(stream, call_host, &call, 0);
}

}  // namespace yoke::hip
