// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/dnn_header_test.cpp: the plugin's numbers and functions of cuDNN, compared with NVIDIA's headers.
#include <cuda/vendor.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

using Kind = codegen::ConvolutionKind;

TEST(DnnHeaderTest, NumbersAreThoseOfTheHeader) {
  const DnnFacts& dnn = cuda::Vendor().facts().dnn;
  EXPECT_EQ(dnn.f32, CUDNN_DATA_FLOAT);
  EXPECT_EQ(dnn.f16, CUDNN_DATA_HALF);
  EXPECT_EQ(dnn.bf16, CUDNN_DATA_BFLOAT16);
}

// What the plugin passes to functions that the test replaces.
std::vector<int> passed;

TEST(DnnHeaderTest, DescriptionsHaveTheNumbersOfTheHeader) {
  Dnn dnn;
  dnn.filters_set.address = [](void*, int type, int format, int, int, int, int) {
    passed = {type, format};
    return 0;
  };
  dnn.convolution_set.address = [](void*, int, int, int, int, int, int, int mode, int type) {
    passed = {mode, type};
    return 0;
  };
  dnn.convolution_math.address = [](void*, int math) {
    passed.push_back(math);
    return 0;
  };
  const cuda::Vendor vendor;
  codegen::Volume filters = {{4, 3, 2, 5}, {30, 10, 5, 1}, 0};
  EXPECT_EQ(vendor.set_filters(dnn, nullptr, 2, filters), 0);
  EXPECT_EQ(passed, (std::vector<int>{2, CUDNN_TENSOR_NCHW}));
  filters.strides = {30, 1, 15, 3};
  EXPECT_EQ(vendor.set_filters(dnn, nullptr, 2, filters), 0);
  EXPECT_EQ(passed, (std::vector<int>{2, CUDNN_TENSOR_NHWC}));
  filters.strides = {30, 1, 3, 6};
  EXPECT_TRUE(vendor.is_unsupported(vendor.set_filters(dnn, nullptr, 2, filters)));

  codegen::LibraryConvolution made;
  const auto set = [&](program::Type type, bool tf32) {
    made.type = type;
    EXPECT_EQ(vendor.set_convolution(dnn, nullptr, made, tf32), 0);
    return passed;
  };
  const std::vector<int> start = {CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT};
  EXPECT_EQ(set(program::Type::kF32, false), (std::vector<int>{start[0], start[1], CUDNN_FMA_MATH}));
  EXPECT_EQ(set(program::Type::kF32, true), (std::vector<int>{start[0], start[1], CUDNN_DEFAULT_MATH}));
  EXPECT_EQ(set(program::Type::kBF16, false), (std::vector<int>{start[0], start[1], CUDNN_TENSOR_OP_MATH}));
}

// A result in the layout of the header for each of these algorithms, in order.
template <class Result, class... Algorithms>
std::vector<std::uint64_t> chosen(Kind kind, cudnnStatus_t status, cudnnDeterminism_t determinism,
                                  Algorithms... algorithms) {
  Result results[] = {Result{algorithms, status, 1, 64, determinism, CUDNN_FMA_MATH, {}}...};
  std::array<std::uint64_t, kDnnResults* kDnnResultWords> words = {};
  static_assert(sizeof(Result) == kDnnResultWords * sizeof(words[0]));
  std::memcpy(words.data(), results, sizeof results);
  codegen::LibraryConvolution convolution;
  convolution.kind = kind;
  return cuda::Vendor().algorithms(convolution, words.data(), sizeof...(algorithms));
}

TEST(DnnHeaderTest, AlgorithmsAddInAFixedOrderAndMultiplyDirectly) {
  using Numbers = std::vector<std::uint64_t>;
  const auto forward = [](cudnnStatus_t status, cudnnDeterminism_t determinism) {
    return chosen<cudnnConvolutionFwdAlgoPerf_t>(
        Kind::kForward, status, determinism, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
        CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  };
  EXPECT_EQ(forward(CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC), (Numbers{2, 1, 0}));
  EXPECT_EQ(forward(CUDNN_STATUS_SUCCESS, CUDNN_NON_DETERMINISTIC), Numbers{});
  EXPECT_EQ(forward(CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC), Numbers{});
  EXPECT_EQ(chosen<cudnnConvolutionBwdDataAlgoPerf_t>(
                Kind::kInputGradient, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC,
                CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
                CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1),
            (Numbers{CUDNN_CONVOLUTION_BWD_DATA_ALGO_1}));
  EXPECT_EQ(chosen<cudnnConvolutionBwdFilterAlgoPerf_t>(
                Kind::kFilterGradient, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC,
                CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3,
                CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1),
            (Numbers{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1}));
}

TEST(DnnHeaderTest, UnsupportedStatusesAreNotFailures) {
  const cuda::Vendor vendor;
  EXPECT_TRUE(vendor.is_unsupported(CUDNN_STATUS_NOT_SUPPORTED));
  EXPECT_TRUE(vendor.is_unsupported(CUDNN_STATUS_BAD_PARAM));
  EXPECT_FALSE(vendor.is_unsupported(CUDNN_STATUS_INTERNAL_ERROR));
  EXPECT_FALSE(vendor.is_unsupported(CUDNN_STATUS_EXECUTION_FAILED));
  EXPECT_FALSE(vendor.is_unsupported(CUDNN_STATUS_ALLOC_FAILED));
  EXPECT_FALSE(vendor.is_unsupported(CUDNN_STATUS_NOT_INITIALIZED));
}

TEST(DnnHeaderTest, VersionsOfAllReleasesUseTheSameUnit) {
  Dnn dnn;
  int version = 0;
  dnn.cudnn_version.address = [] { return 8907; };
  EXPECT_EQ(cuda::Vendor().dnn_version(dnn, version), 0);
  EXPECT_EQ(version, 80907);
  dnn.cudnn_version.address = [] { return CUDNN_VERSION; };
  EXPECT_EQ(cuda::Vendor().dnn_version(dnn, version), 0);
  EXPECT_EQ(version, CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL);
}

// Each row of driver.def names a function with its parameters. cuDNN counts algorithms in 4 bytes and numbers them
// with an int, where MIOpen has 8 bytes; the plugin passes 8 bytes, whose lower half is the same.
#define EXPECT_ALIKE(member, function) \
  EXPECT_TRUE(are_alike(Dnn().member.address, static_cast<decltype(&(function))>(nullptr), true))

TEST(DnnHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
  EXPECT_ALIKE(create, cudnnCreate);
  EXPECT_ALIKE(destroy, cudnnDestroy);
  EXPECT_ALIKE(set_stream, cudnnSetStream);
  EXPECT_ALIKE(tensor_create, cudnnCreateTensorDescriptor);
  EXPECT_ALIKE(tensor_set, cudnnSetTensor4dDescriptorEx);
  EXPECT_ALIKE(tensor_destroy, cudnnDestroyTensorDescriptor);
  EXPECT_ALIKE(filters_create, cudnnCreateFilterDescriptor);
  EXPECT_ALIKE(filters_set, cudnnSetFilter4dDescriptor);
  EXPECT_ALIKE(filters_destroy, cudnnDestroyFilterDescriptor);
  EXPECT_ALIKE(convolution_create, cudnnCreateConvolutionDescriptor);
  EXPECT_ALIKE(convolution_set, cudnnSetConvolution2dDescriptor);
  EXPECT_ALIKE(convolution_math, cudnnSetConvolutionMathType);
  EXPECT_ALIKE(convolution_groups, cudnnSetConvolutionGroupCount);
  EXPECT_ALIKE(convolution_destroy, cudnnDestroyConvolutionDescriptor);
  EXPECT_ALIKE(forward_find, cudnnGetConvolutionForwardAlgorithm_v7);
  EXPECT_ALIKE(input_find, cudnnGetConvolutionBackwardDataAlgorithm_v7);
  EXPECT_ALIKE(filter_find, cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  EXPECT_ALIKE(forward_workspace, cudnnGetConvolutionForwardWorkspaceSize);
  EXPECT_ALIKE(input_workspace, cudnnGetConvolutionBackwardDataWorkspaceSize);
  EXPECT_ALIKE(filter_workspace, cudnnGetConvolutionBackwardFilterWorkspaceSize);
  EXPECT_ALIKE(forward, cudnnConvolutionForward);
  EXPECT_ALIKE(input, cudnnConvolutionBackwardData);
  EXPECT_ALIKE(filter, cudnnConvolutionBackwardFilter);
}

// A tensor's descriptor must not be passed as the filters: the headers' types are the order of the arguments.
template <class Result, class... P>
constexpr std::array<int, sizeof...(P)> descriptors_of(Result (*)(P...)) {
  return {(std::is_same_v<P, cudnnTensorDescriptor_t>   ? 1
           : std::is_same_v<P, cudnnFilterDescriptor_t> ? 2
                                                        : 0)...};
}

TEST(DnnHeaderTest, FactorsAreInTheOrderOfTheHeader) {
  constexpr std::array<int, 13> kForward = {0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0};
  constexpr std::array<int, 13> kInput = {0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0};
  constexpr std::array<int, 13> kFilter = {0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0};
  EXPECT_EQ(descriptors_of(static_cast<decltype(&cudnnConvolutionForward)>(nullptr)), kForward);
  EXPECT_EQ(descriptors_of(static_cast<decltype(&cudnnConvolutionBackwardData)>(nullptr)), kInput);
  EXPECT_EQ(descriptors_of(static_cast<decltype(&cudnnConvolutionBackwardFilter)>(nullptr)), kFilter);
}

}  // namespace
}  // namespace yoke::gpu
