// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/miopen_header_test.cpp: the plugin's numbers and functions of MIOpen, compared with AMD's header.
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

#define EXPECT_ALIKE(member, function) \
  EXPECT_TRUE(are_alike(Dnn().member.address, static_cast<decltype(&(function))>(nullptr)))

TEST(MiopenHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
  EXPECT_ALIKE(miopen_version, miopenGetVersion);
  EXPECT_ALIKE(create, miopenCreate);
  EXPECT_ALIKE(destroy, miopenDestroy);
  EXPECT_ALIKE(set_stream, miopenSetStream);
  EXPECT_ALIKE(tensor_create, miopenCreateTensorDescriptor);
  EXPECT_ALIKE(tensor_set, miopenSet4dTensorDescriptorEx);
  EXPECT_ALIKE(tensor_destroy, miopenDestroyTensorDescriptor);
  EXPECT_ALIKE(convolution_create, miopenCreateConvolutionDescriptor);
  EXPECT_ALIKE(convolution_init, miopenInitConvolutionDescriptor);
  EXPECT_ALIKE(convolution_attribute, miopenSetConvolutionAttribute);
  EXPECT_ALIKE(convolution_groups, miopenSetConvolutionGroupCount);
  EXPECT_ALIKE(convolution_destroy, miopenDestroyConvolutionDescriptor);
  EXPECT_ALIKE(forward_find, miopenConvolutionForwardGetSolution);
  EXPECT_ALIKE(input_find, miopenConvolutionBackwardDataGetSolution);
  EXPECT_ALIKE(filter_find, miopenConvolutionBackwardWeightsGetSolution);
  EXPECT_ALIKE(forward_workspace, miopenConvolutionForwardGetSolutionWorkspaceSize);
  EXPECT_ALIKE(input_workspace, miopenConvolutionBackwardDataGetSolutionWorkspaceSize);
  EXPECT_ALIKE(filter_workspace, miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize);
  EXPECT_ALIKE(forward_compile, miopenConvolutionForwardCompileSolution);
  EXPECT_ALIKE(input_compile, miopenConvolutionBackwardDataCompileSolution);
  EXPECT_ALIKE(filter_compile, miopenConvolutionBackwardWeightsCompileSolution);
  EXPECT_ALIKE(forward_now, miopenConvolutionForwardImmediate);
  EXPECT_ALIKE(input_now, miopenConvolutionBackwardDataImmediate);
  EXPECT_ALIKE(filter_now, miopenConvolutionBackwardWeightsImmediate);
}

}  // namespace
}  // namespace yoke::gpu
