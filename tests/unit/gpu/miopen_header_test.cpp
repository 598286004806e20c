// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/miopen_header_test.cpp: the plugin's numbers and functions of MIOpen, compared with AMD's header.
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <gtest/gtest.h>
#include <hip/vendor.h>
#include <miopen/miopen.h>

#include <array>
#include <cstring>
#include <vector>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

TEST(MiopenHeaderTest, NumbersAreThoseOfTheHeader) {
  const DnnFacts& dnn = hip::Vendor().facts().dnn;
  EXPECT_EQ(dnn.f32, miopenFloat);
  EXPECT_EQ(dnn.f16, miopenHalf);
  EXPECT_EQ(dnn.bf16, miopenBFloat16);
  const hip::Vendor vendor;
  EXPECT_TRUE(vendor.is_unsupported(miopenStatusNotImplemented));
  EXPECT_TRUE(vendor.is_unsupported(miopenStatusUnsupportedOp));
  EXPECT_TRUE(vendor.is_unsupported(miopenStatusBadParm));
  EXPECT_FALSE(vendor.is_unsupported(miopenStatusInternalError));
  EXPECT_FALSE(vendor.is_unsupported(miopenStatusUnknownError));
}

// What the plugin passes to functions that the test replaces.
std::vector<int> passed;

TEST(MiopenHeaderTest, DescriptionsHaveTheNumbersOfTheHeader) {
  Dnn dnn;
  dnn.convolution_init.address = [](void*, int mode, int, int, int, int, int, int) {
    passed = {mode};
    return 0;
  };
  dnn.convolution_attribute.address = [](void*, int attribute, int value) {
    passed.insert(passed.end(), {attribute, value});
    return 0;
  };
  EXPECT_EQ(hip::Vendor().set_convolution(dnn, nullptr, {}, false), 0);
  EXPECT_EQ(passed, (std::vector<int>{miopenConvolution, MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, 0,
                                      MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1}));
}

TEST(MiopenHeaderTest, AlgorithmsMultiplyDirectly) {
  const miopenConvSolution_t results[] = {{1, 8, 50, miopenConvolutionAlgoWinograd},
                                          {2, 8, 51, miopenConvolutionAlgoImplicitGEMM},
                                          {3, 8, 52, miopenConvolutionAlgoFFT},
                                          {4, 8, 53, miopenConvolutionAlgoDirect},
                                          {5, 8, 54, miopenConvolutionAlgoGEMM}};
  std::array<std::uint64_t, kDnnResults* kDnnResultWords> words = {};
  std::memcpy(words.data(), results, sizeof results);
  codegen::LibraryConvolution convolution;
  EXPECT_EQ(hip::Vendor().algorithms(convolution, words.data(), 5), (std::vector<std::uint64_t>{51, 53, 54}));
  convolution.type = program::Type::kBF16;
  convolution.kind = codegen::ConvolutionKind::kFilterGradient;
  EXPECT_EQ(hip::Vendor().algorithms(convolution, words.data(), 5), (std::vector<std::uint64_t>{51, 53}));
}

TEST(MiopenHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE(Dnn, member, function)
  const std::vector<HeaderFunction> functions = {
      ALIKE(create, miopenCreate),
      ALIKE(destroy, miopenDestroy),
      ALIKE(set_stream, miopenSetStream),
      ALIKE(tensor_create, miopenCreateTensorDescriptor),
      ALIKE(tensor_set, miopenSet4dTensorDescriptorEx),
      ALIKE(tensor_destroy, miopenDestroyTensorDescriptor),
      ALIKE(convolution_create, miopenCreateConvolutionDescriptor),
      ALIKE(convolution_groups, miopenSetConvolutionGroupCount),
      ALIKE(convolution_destroy, miopenDestroyConvolutionDescriptor),
      ALIKE(forward_find, miopenConvolutionForwardGetSolution),
      ALIKE(input_find, miopenConvolutionBackwardDataGetSolution),
      ALIKE(filter_find, miopenConvolutionBackwardWeightsGetSolution),
      ALIKE(forward_workspace, miopenConvolutionForwardGetSolutionWorkspaceSize),
      ALIKE(input_workspace, miopenConvolutionBackwardDataGetSolutionWorkspaceSize),
      ALIKE(filter_workspace, miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize),
      ALIKE(miopen_version, miopenGetVersion),
      ALIKE(convolution_init, miopenInitConvolutionDescriptor),
      ALIKE(convolution_attribute, miopenSetConvolutionAttribute),
      ALIKE(forward_compile, miopenConvolutionForwardCompileSolution),
      ALIKE(input_compile, miopenConvolutionBackwardDataCompileSolution),
      ALIKE(filter_compile, miopenConvolutionBackwardWeightsCompileSolution),
      ALIKE(forward_now, miopenConvolutionForwardImmediate),
      ALIKE(input_now, miopenConvolutionBackwardDataImmediate),
      ALIKE(filter_now, miopenConvolutionBackwardWeightsImmediate)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_DNN(member, parameters, cudnn, miopen) {#member, miopen},
#define YOKE_MIOPEN(member, parameters, name) {#member, name},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
}

}  // namespace
}  // namespace yoke::gpu
