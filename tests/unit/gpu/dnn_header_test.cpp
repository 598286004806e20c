// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/dnn_header_test.cpp: the plugin's numbers and functions of cuDNN, compared with NVIDIA's headers.
#include <cuda/graph.h>
#include <cuda/vendor.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
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

TEST(DnnHeaderTest, GraphsHaveTheNumbersOfTheHeader) {
  const std::pair<int, int> numbers[] = {
      {cuda::graph::kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
      {cuda::graph::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR},
      {cuda::graph::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
      {cuda::graph::kHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR},
      {cuda::graph::kPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR},
      {cuda::graph::kKnobChoice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR},
      {cuda::graph::kPointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR},
      {cuda::graph::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
      {cuda::graph::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR},
      {cuda::graph::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR},
      {cuda::graph::kMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR},
      {cuda::graph::kMatmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR},
      {cuda::graph::kReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
      {cuda::graph::kReductionOperation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR},
      {cuda::graph::kReshapeOperation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR},
      {cuda::graph::kPointwiseMode, CUDNN_ATTR_POINTWISE_MODE},
      {cuda::graph::kPointwiseType, CUDNN_ATTR_POINTWISE_MATH_PREC},
      {cuda::graph::kPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS},
      {cuda::graph::kHeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE},
      {cuda::graph::kHeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH},
      {cuda::graph::kHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS},
      {cuda::graph::kConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE},
      {cuda::graph::kConfigKnobs, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES},
      {cuda::graph::kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE},
      {cuda::graph::kPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG},
      {cuda::graph::kPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE},
      {cuda::graph::kKnobType, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE},
      {cuda::graph::kKnobValue, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE},
      {cuda::graph::kPointwiseDescriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR},
      {cuda::graph::kPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC},
      {cuda::graph::kPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC},
      {cuda::graph::kPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC},
      {cuda::graph::kPointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
      {cuda::graph::kGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE},
      {cuda::graph::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS},
      {cuda::graph::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT},
      {cuda::graph::kTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE},
      {cuda::graph::kTensorDims, CUDNN_ATTR_TENSOR_DIMENSIONS},
      {cuda::graph::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES},
      {cuda::graph::kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID},
      {cuda::graph::kTensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL},
      {cuda::graph::kTensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE},
      {cuda::graph::kPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS},
      {cuda::graph::kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS},
      {cuda::graph::kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE},
      {cuda::graph::kEngineIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX},
      {cuda::graph::kEngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE},
      {cuda::graph::kMatmulType, CUDNN_ATTR_MATMUL_COMP_TYPE},
      {cuda::graph::kMatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC},
      {cuda::graph::kMatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
      {cuda::graph::kMatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC},
      {cuda::graph::kMatmulDescriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC},
      {cuda::graph::kReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR},
      {cuda::graph::kReductionType, CUDNN_ATTR_REDUCTION_COMP_TYPE},
      {cuda::graph::kReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC},
      {cuda::graph::kReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC},
      {cuda::graph::kReductionDescriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC},
      {cuda::graph::kReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC},
      {cuda::graph::kReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC},
      {cuda::graph::kOfHandle, CUDNN_TYPE_HANDLE},
      {cuda::graph::kOfDataType, CUDNN_TYPE_DATA_TYPE},
      {cuda::graph::kOfBoolean, CUDNN_TYPE_BOOLEAN},
      {cuda::graph::kOfInt64, CUDNN_TYPE_INT64},
      {cuda::graph::kOfPointer, CUDNN_TYPE_VOID_PTR},
      {cuda::graph::kOfHeuristicMode, CUDNN_TYPE_HEUR_MODE},
      {cuda::graph::kOfKnobType, CUDNN_TYPE_KNOB_TYPE},
      {cuda::graph::kOfNote, CUDNN_TYPE_NUMERICAL_NOTE},
      {cuda::graph::kOfPointwiseMode, CUDNN_TYPE_POINTWISE_MODE},
      {cuda::graph::kOfDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR},
      {cuda::graph::kOfReduction, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
      {cuda::graph::kF32, CUDNN_DATA_FLOAT},
      {cuda::graph::kF16, CUDNN_DATA_HALF},
      {cuda::graph::kI32, CUDNN_DATA_INT32},
      {cuda::graph::kBF16, CUDNN_DATA_BFLOAT16},
      {cuda::graph::kBool, CUDNN_DATA_BOOLEAN},
      {cuda::graph::kAdd, CUDNN_POINTWISE_ADD},
      {cuda::graph::kMultiply, CUDNN_POINTWISE_MUL},
      {cuda::graph::kDivide, CUDNN_POINTWISE_DIV},
      {cuda::graph::kSubtract, CUDNN_POINTWISE_SUB},
      {cuda::graph::kExp, CUDNN_POINTWISE_EXP},
      {cuda::graph::kLog, CUDNN_POINTWISE_LOG},
      {cuda::graph::kIsGreaterOrEqual, CUDNN_POINTWISE_CMP_GE},
      {cuda::graph::kIndex, CUDNN_POINTWISE_GEN_INDEX},
      {cuda::graph::kSelect, CUDNN_POINTWISE_BINARY_SELECT},
      {cuda::graph::kSum, CUDNN_REDUCE_TENSOR_ADD},
      {cuda::graph::kMaximum, CUDNN_REDUCE_TENSOR_MAX},
      {cuda::graph::kFallback, CUDNN_HEUR_MODE_FALLBACK},
      {cuda::graph::kBest, CUDNN_HEUR_MODE_A},
      {cuda::graph::kConvertsInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS},
      {cuda::graph::kReducedSums, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
      {cuda::graph::kNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}};
  for (const auto& [ours, theirs] : numbers) {
    EXPECT_EQ(ours, theirs);
  }
  EXPECT_GE(static_cast<int>(cuda::graph::kNoteCount), static_cast<int>(CUDNN_NUMERICAL_NOTE_TYPE_COUNT));
#if CUDNN_VERSION >= 90800
  EXPECT_EQ(static_cast<int>(cuda::graph::kHeuristicDevice),
            static_cast<int>(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP));
#endif
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

// cuDNN counts algorithms in 4 bytes and numbers them with an int, where MIOpen has 8 bytes; the plugin passes 8 bytes,
// whose lower half is the same.
TEST(DnnHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE_WIDENED(Dnn, member, function)
  const std::vector<HeaderFunction> functions = {
      ALIKE(create, cudnnCreate),
      ALIKE(destroy, cudnnDestroy),
      ALIKE(set_stream, cudnnSetStream),
      ALIKE(tensor_create, cudnnCreateTensorDescriptor),
      ALIKE(tensor_set, cudnnSetTensor4dDescriptorEx),
      ALIKE(tensor_destroy, cudnnDestroyTensorDescriptor),
      ALIKE(convolution_create, cudnnCreateConvolutionDescriptor),
      ALIKE(convolution_groups, cudnnSetConvolutionGroupCount),
      ALIKE(convolution_destroy, cudnnDestroyConvolutionDescriptor),
      ALIKE(forward_find, cudnnGetConvolutionForwardAlgorithm_v7),
      ALIKE(input_find, cudnnGetConvolutionBackwardDataAlgorithm_v7),
      ALIKE(filter_find, cudnnGetConvolutionBackwardFilterAlgorithm_v7),
      ALIKE(forward_workspace, cudnnGetConvolutionForwardWorkspaceSize),
      ALIKE(input_workspace, cudnnGetConvolutionBackwardDataWorkspaceSize),
      ALIKE(filter_workspace, cudnnGetConvolutionBackwardFilterWorkspaceSize),
      ALIKE(cudnn_version, cudnnGetVersion),
      ALIKE(filters_create, cudnnCreateFilterDescriptor),
      ALIKE(filters_set, cudnnSetFilter4dDescriptor),
      ALIKE(filters_destroy, cudnnDestroyFilterDescriptor),
      ALIKE(convolution_set, cudnnSetConvolution2dDescriptor),
      ALIKE(convolution_math, cudnnSetConvolutionMathType),
      ALIKE(forward, cudnnConvolutionForward),
      ALIKE(input, cudnnConvolutionBackwardData),
      ALIKE(filter, cudnnConvolutionBackwardFilter),
      ALIKE(descriptor_create, cudnnBackendCreateDescriptor),
      ALIKE(descriptor_set, cudnnBackendSetAttribute),
      ALIKE(descriptor_get, cudnnBackendGetAttribute),
      ALIKE(descriptor_finalize, cudnnBackendFinalize),
      ALIKE(descriptor_destroy, cudnnBackendDestroyDescriptor),
      ALIKE(graph_execute, cudnnBackendExecute)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_DNN(member, parameters, cudnn, miopen) {#member, cudnn},
#define YOKE_CUDNN(member, parameters, name) {#member, name},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
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
