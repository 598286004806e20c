// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/blas_header_test.cpp: the plugin's numbers of cublasLt, compared with NVIDIA's header.
#include <cublasLt.h>
#include <cuda/vendor.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

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
  EXPECT_EQ(blas.not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(BlasHeaderTest, ResultOfTheSearchHasTheHeadersLayout) {
  const BlasFacts& blas = cuda::Vendor().facts().blas;
  using Result = cublasLtMatmulHeuristicResult_t;
  EXPECT_EQ(sizeof(cublasLtMatmulAlgo_t), blas.algorithm_bytes);
  EXPECT_EQ(offsetof(Result, workspaceSize), blas.algorithm_bytes);
  EXPECT_EQ(offsetof(Result, state), blas.algorithm_bytes + 8);
  EXPECT_LE(sizeof(Result), kBlasResultWords * 8);
}

TEST(BlasHeaderTest, FunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE(Blas, member, function)
  const std::vector<HeaderFunction> functions = {ALIKE(create, cublasLtCreate),
                                                 ALIKE(destroy, cublasLtDestroy),
                                                 ALIKE(product_create, cublasLtMatmulDescCreate),
                                                 ALIKE(product_set, cublasLtMatmulDescSetAttribute),
                                                 ALIKE(product_destroy, cublasLtMatmulDescDestroy),
                                                 ALIKE(layout_create, cublasLtMatrixLayoutCreate),
                                                 ALIKE(layout_set, cublasLtMatrixLayoutSetAttribute),
                                                 ALIKE(layout_destroy, cublasLtMatrixLayoutDestroy),
                                                 ALIKE(preference_create, cublasLtMatmulPreferenceCreate),
                                                 ALIKE(preference_set, cublasLtMatmulPreferenceSetAttribute),
                                                 ALIKE(preference_destroy, cublasLtMatmulPreferenceDestroy),
                                                 ALIKE(find, cublasLtMatmulAlgoGetHeuristic),
                                                 ALIKE(multiply, cublasLtMatmul)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_BLAS(member, parameters, cublaslt, hipblaslt) {#member, cublaslt},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
}

TEST(BlasHeaderTest, VersionIsReadWithTheHeadersFunction) {
  constexpr decltype(&cublasLtGetVersion) kVersion = []() -> std::size_t { return 130100; };
  const auto look_up = [](void*, const char* name) {
    EXPECT_STREQ(name, "cublasLtGetVersion");
    return reinterpret_cast<void*>(+kVersion);
  };
  int version = 0;
  EXPECT_EQ(cuda::Vendor().blas_version(look_up, nullptr, nullptr, version), 0);
  EXPECT_EQ(version, 130100);
}

}  // namespace
}  // namespace yoke::gpu
