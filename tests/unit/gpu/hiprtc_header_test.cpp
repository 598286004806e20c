// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/hiprtc_header_test.cpp: the plugin's numbers and functions of hiprtc, compared with AMD's header.
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <gtest/gtest.h>
#include <hip/hiprtc.h>
#include <hip/vendor.h>

#include <vector>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

TEST(HiprtcHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE(Compiler, member, function)
  const std::vector<HeaderFunction> functions = {
      ALIKE(version, hiprtcVersion),        ALIKE(create, hiprtcCreateProgram),
      ALIKE(compile, hiprtcCompileProgram), ALIKE(log_size, hiprtcGetProgramLogSize),
      ALIKE(log, hiprtcGetProgramLog),      ALIKE(code_size, hiprtcGetCodeSize),
      ALIKE(code, hiprtcGetCode),           ALIKE(destroy, hiprtcDestroyProgram)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) {#member, hiprtc},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
}

TEST(HiprtcHeaderTest, ErrorsHaveTheNumbersOfTheHeader) {
  EXPECT_EQ(kInvalidOption, HIPRTC_ERROR_INVALID_OPTION);
}

}  // namespace
}  // namespace yoke::gpu
