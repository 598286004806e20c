// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/nvrtc_header_test.cpp: the plugin's numbers and functions of NVRTC, compared with NVIDIA's header.
#include <cuda/vendor.h>
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

TEST(NvrtcHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE(Compiler, member, function)
  const std::vector<HeaderFunction> functions = {
      ALIKE(version, nvrtcVersion),        ALIKE(create, nvrtcCreateProgram),
      ALIKE(compile, nvrtcCompileProgram), ALIKE(log_size, nvrtcGetProgramLogSize),
      ALIKE(log, nvrtcGetProgramLog),      ALIKE(code_size, nvrtcGetCUBINSize),
      ALIKE(code, nvrtcGetCUBIN),          ALIKE(destroy, nvrtcDestroyProgram)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) {#member, nvrtc},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
}

TEST(NvrtcHeaderTest, ErrorsHaveTheNumbersOfTheHeader) {
  EXPECT_EQ(kInvalidOption, NVRTC_ERROR_INVALID_OPTION);
}

// Functions with the header's types for the vendor to look up.
const auto kProgram = reinterpret_cast<nvrtcProgram>(6);  // NOLINT(performance-no-int-to-ptr)
constexpr decltype(&nvrtcGetNumSupportedArchs) kCountArchitectures = [](int* count) {
  *count = 1;
  return NVRTC_SUCCESS;
};
constexpr decltype(&nvrtcGetSupportedArchs) kArchitectures = [](int* architectures) {
  architectures[0] = 90;
  return NVRTC_SUCCESS;
};
constexpr decltype(&nvrtcGetPTXSize) kPtxSize = [](nvrtcProgram program, std::size_t* byte_count) {
  *byte_count = 4;  // with the 0 at the end
  return program == kProgram ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
};
constexpr decltype(&nvrtcGetPTX) kPtx = [](nvrtcProgram program, char* text) {
  std::memcpy(text, "ptx", 4);
  return program == kProgram ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
};

#define FUNCTION(name, function)                 \
  if (std::strcmp(wanted, #name) == 0) {         \
    return reinterpret_cast<void*>(+(function)); \
  }
void* look_up(void*, const char* wanted) {
  FUNCTION(nvrtcGetNumSupportedArchs, kCountArchitectures)
  FUNCTION(nvrtcGetSupportedArchs, kArchitectures)
  FUNCTION(nvrtcGetPTXSize, kPtxSize)
  FUNCTION(nvrtcGetPTX, kPtx)
  ADD_FAILURE() << wanted << " is not compared";
  return nullptr;
}

TEST(NvrtcHeaderTest, VendorPassesTheParametersOfTheHeader) {
  cuda::Vendor vendor;
  vendor.bind_compiler(look_up, nullptr);
  codegen::Target target;
  target.capability = 100;
  EXPECT_EQ(vendor.code_request(target).options[0], "--gpu-architecture=compute_90");
  std::string ptx;
  EXPECT_EQ(vendor.portable_code(static_cast<void*>(kProgram), ptx), 0);
  EXPECT_EQ(ptx, std::string("ptx\0", 4));
}

}  // namespace
}  // namespace yoke::gpu
