// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/hipblaslt_header_test.cpp: the plugin's numbers and functions of hipBLASLt, compared with AMD's header.
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <gtest/gtest.h>
#include <hip/vendor.h>
#include <hipblaslt/hipblaslt.h>

#include <cstddef>
#include <vector>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

TEST(HipblasltHeaderTest, NumbersAreThoseOfTheHeader) {
  const BlasFacts& blas = hip::Vendor().facts().blas;
  EXPECT_EQ(kBlasF32, HIP_R_32F);
  EXPECT_EQ(kBlasF16, HIP_R_16F);
  EXPECT_EQ(kBlasBF16, HIP_R_16BF);
  EXPECT_EQ(kBlasRelu, HIPBLASLT_EPILOGUE_RELU);
  EXPECT_EQ(kBlasBias, HIPBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(kBlasRelu + kBlasBias, HIPBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(1, HIPBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(kBlasMaxWorkspace, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(blas.compute_f32, HIPBLAS_COMPUTE_32F);
  EXPECT_EQ(blas.compute_tf32, HIPBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(blas.plain, HIPBLAS_OP_N);
  EXPECT_EQ(blas.transposed, HIPBLAS_OP_T);
  EXPECT_EQ(blas.transpose_a, HIPBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(blas.transpose_b, HIPBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(blas.epilogue, HIPBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(blas.bias_pointer, HIPBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(blas.bias_type, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(blas.batch_count, HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(blas.batch_stride, HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(blas.not_supported, HIPBLAS_STATUS_NOT_SUPPORTED);
}

TEST(HipblasltHeaderTest, ResultOfTheSearchHasTheHeadersLayout) {
  const BlasFacts& blas = hip::Vendor().facts().blas;
  using Result = hipblasLtMatmulHeuristicResult_t;
  EXPECT_EQ(sizeof(hipblasLtMatmulAlgo_t), blas.algorithm_bytes);
  EXPECT_EQ(offsetof(Result, workspaceSize), blas.algorithm_bytes);
  EXPECT_EQ(offsetof(Result, state), blas.algorithm_bytes + 8);
  EXPECT_LE(sizeof(Result), kBlasResultWords * 8);
}

TEST(HipblasltHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE(Blas, member, function)
  const std::vector<HeaderFunction> functions = {ALIKE(create, hipblasLtCreate),
                                                 ALIKE(destroy, hipblasLtDestroy),
                                                 ALIKE(product_create, hipblasLtMatmulDescCreate),
                                                 ALIKE(product_set, hipblasLtMatmulDescSetAttribute),
                                                 ALIKE(product_destroy, hipblasLtMatmulDescDestroy),
                                                 ALIKE(layout_create, hipblasLtMatrixLayoutCreate),
                                                 ALIKE(layout_set, hipblasLtMatrixLayoutSetAttribute),
                                                 ALIKE(layout_destroy, hipblasLtMatrixLayoutDestroy),
                                                 ALIKE(preference_create, hipblasLtMatmulPreferenceCreate),
                                                 ALIKE(preference_set, hipblasLtMatmulPreferenceSetAttribute),
                                                 ALIKE(preference_destroy, hipblasLtMatmulPreferenceDestroy),
                                                 ALIKE(find, hipblasLtMatmulAlgoGetHeuristic),
                                                 ALIKE(multiply, hipblasLtMatmul)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_BLAS(member, parameters, cublaslt, hipblaslt) {#member, hipblaslt},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
  int (*version)(void* handle, int* version) = nullptr;
  EXPECT_TRUE(are_alike(version, static_cast<decltype(&hipblasLtGetVersion)>(nullptr)));
}

}  // namespace
}  // namespace yoke::gpu
