// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/blas_header_test.cpp: the plugin's numbers of cublasLt, compared with NVIDIA's header.
#include <cublasLt.h>
#include <cuda/vendor.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

TEST(BlasHeaderTest, NumbersAreThoseOfTheHeader) {
  const BlasFacts& blas = cuda::Vendor().facts().blas;
  EXPECT_EQ(kBlasF32, CUDA_R_32F);
  EXPECT_EQ(kBlasF16, CUDA_R_16F);
  EXPECT_EQ(kBlasBF16, CUDA_R_16BF);
  EXPECT_EQ(kBlasRelu, CUBLASLT_EPILOGUE_RELU);
  EXPECT_EQ(kBlasBias, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(kBlasRelu + kBlasBias, CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(1, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(kBlasMaxWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(kBlasFixedOrder, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  EXPECT_EQ(blas.compute_f32, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(blas.compute_tf32, CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(blas.plain, CUBLAS_OP_N);
  EXPECT_EQ(blas.transposed, CUBLAS_OP_T);
  EXPECT_EQ(blas.transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(blas.transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(blas.epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(blas.bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(blas.bias_type, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(blas.batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(blas.batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(blas.reduction_schemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_EQ(blas.alignment, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(blas.alignment + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  EXPECT_EQ(blas.alignment + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  EXPECT_EQ(blas.alignment + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
}

TEST(BlasHeaderTest, ResultOfTheSearchHasTheHeadersLayout) {
  const BlasFacts& blas = cuda::Vendor().facts().blas;
  using Result = cublasLtMatmulHeuristicResult_t;
  EXPECT_EQ(sizeof(cublasLtMatmulAlgo_t), blas.algorithm_bytes);
  EXPECT_EQ(offsetof(Result, workspaceSize), blas.algorithm_bytes);
  EXPECT_EQ(offsetof(Result, state), blas.algorithm_bytes + 8);
  EXPECT_LE(sizeof(Result), kBlasResultWords * 8);
}

// Takes the functions' types only: the test does not link the library.
#define EXPECT_ALIKE(member, function) \
  EXPECT_TRUE(are_alike(Blas().member.address, static_cast<decltype(&(function))>(nullptr)))

TEST(BlasHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
  EXPECT_ALIKE(create, cublasLtCreate);
  EXPECT_ALIKE(destroy, cublasLtDestroy);
  EXPECT_ALIKE(product_create, cublasLtMatmulDescCreate);
  EXPECT_ALIKE(product_set, cublasLtMatmulDescSetAttribute);
  EXPECT_ALIKE(product_destroy, cublasLtMatmulDescDestroy);
  EXPECT_ALIKE(layout_create, cublasLtMatrixLayoutCreate);
  EXPECT_ALIKE(layout_set, cublasLtMatrixLayoutSetAttribute);
  EXPECT_ALIKE(layout_destroy, cublasLtMatrixLayoutDestroy);
  EXPECT_ALIKE(preference_create, cublasLtMatmulPreferenceCreate);
  EXPECT_ALIKE(preference_set, cublasLtMatmulPreferenceSetAttribute);
  EXPECT_ALIKE(preference_destroy, cublasLtMatmulPreferenceDestroy);
  EXPECT_ALIKE(find, cublasLtMatmulAlgoGetHeuristic);
  EXPECT_ALIKE(multiply, cublasLtMatmul);
}

}  // namespace
}  // namespace yoke::gpu
