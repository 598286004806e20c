// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/product_test.cpp: products that the fakes of cublasLt and hipBLASLt compute, and what
// the plugins do without these libraries. Each test runs in its own process, because the fakes read variables
// once.
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "products_on_fakes.h"

namespace yoke::gpu {
namespace {

constexpr const char* kNone = "";
constexpr Product kProducts[] = {
    {"plain",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] out\n"
     "c[m, n] = sum[k] a[m, k] * b[k, n]\n",
     "48 x 40 x 72"},
    {"left_transposed",
     "arg a: f32[72, 48] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] out\n"
     "c[m, n] = sum[k] a[k, m] * b[k, n]\n",
     "48 x 40 x 72"},
    {"right_transposed",
     "arg a: f32[48, 72] in\n arg b: f32[40, 72] in\n arg c: f32[48, 40] out\n"
     "c[m, n] = sum[k] a[m, k] * b[n, k]\n",
     "48 x 40 x 72"},
    {"target_transposed",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg c: f32[40, 48] out\n"
     "c[n, m] = sum[k] a[m, k] * b[k, n]\n",
     "40 x 48 x 72"},
    {"batch",
     "arg a: f32[3, 16, 32] in\n arg b: f32[3, 32, 24] in\n arg c: f32[3, 16, 24] out\n"
     "c[i, m, n] = sum[k] a[i, m, k] * b[i, k, n]\n",
     "16 x 24 x 32, batch 3"},
    {"interleaved_batch",
     "arg a: f32[16, 3, 32] in\n arg b: f32[24, 3, 32] in\n arg c: f32[16, 3, 24] out\n"
     "c[m, i, n] = sum[k] a[m, i, k] * b[n, i, k]\n",
     "16 x 24 x 32, batch 3"},
    {"part_of_a_tensor",
     "arg a: f32[50, 80] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] out\n"
     "c[m, n] = sum[k:72] a[m + 2, k + 5] * b[k, n]\n",
     "48 x 40 x 72"},
    {"accumulates",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] inout\n"
     "c[m, n] += sum[k] a[m, k] * b[k, n]\n",
     "48 x 40 x 72"},
    {"bias",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg v: f32[41] in\n arg c: f32[48, 40] out\n"
     "temp y: f32[48, 40]\n y[m, n] = sum[k] a[m, k] * b[k, n]\n c[m, n] = v[n + 1] + y[m, n]\n",
     "48 x 40 x 72, bias"},
    {"row_bias_is_a_kernel",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg v: f32[48] in\n"
     "arg c: f32[48, 40] out\n temp y: f32[48, 40]\n"
     "y[m, n] = sum[k] a[m, k] * b[k, n]\n c[m, n] = y[m, n] + v[m]\n",
     "48 x 40 x 72"},
    {"mirrored_bias_is_a_kernel",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg v: f32[40] in\n"
     "arg c: f32[48, 40] out\n temp y: f32[48, 40]\n"
     "y[m, n] = sum[k] a[m, k] * b[k, n]\n c[m, n] = y[m, n] + v[39 - n]\n",
     "48 x 40 x 72"},
    {"mirrored_result_is_a_kernel",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg v: f32[40] in\n"
     "arg c: f32[48, 40] out\n temp y: f32[48, 40]\n"
     "y[m, n] = sum[k] a[m, k] * b[k, n]\n c[m, n] = y[m, 39 - n] + v[n]\n",
     "48 x 40 x 72"},
    {"result_is_kept",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg v: f32[40] in\n"
     "arg y: f32[48, 40] out\n arg c: f32[48, 40] out\n"
     "y[m, n] = sum[k] a[m, k] * b[k, n]\n c[m, n] = y[m, n] + v[n]\n",
     "48 x 40 x 72"},
    {"bf16",
     "arg a: bf16[48, 72] in\n arg b: bf16[72, 40] in\n arg c: bf16[48, 40] out\n temp y: f32[48, 40]\n"
     "y[m, n] = sum[k] f32(a[m, k]) * f32(b[k, n])\n c[m, n] = bf16(y[m, n])\n",
     "48 x 40 x 72, rounded"},
    {"bf16_to_f32",
     "arg a: bf16[48, 72] in\n arg b: bf16[72, 40] in\n arg c: f32[48, 40] inout\n"
     "c[m, n] += sum[k] f32(a[m, k]) * f32(b[k, n])\n",
     "48 x 40 x 72"},
    {"f16",
     "arg a: f16[48, 72] in\n arg b: f16[72, 40] in\n arg c: f16[48, 40] out\n temp y: f32[48, 40]\n"
     "y[m, n] = sum[k] f32(a[m, k]) * f32(b[k, n])\n c[m, n] = f16(y[m, n])\n",
     "48 x 40 x 72, rounded"},
    {"bf16_result",
     "arg a: bf16[48, 72] in\n arg b: bf16[72, 40] in\n arg c: bf16[48, 40] out\n"
     "c[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[k, n])\n",
     "48 x 40 x 72, rounded"},
    {"biased_bf16",
     "arg a: bf16[48, 72] in\n arg b: bf16[72, 40] in\n arg v: f32[40] in\n"
     "arg c: bf16[48, 40] out\n temp y: f32[48, 40]\n temp z: f32[48, 40]\n"
     "y[m, n] = sum[k] f32(a[m, k]) * f32(b[k, n])\n z[m, n] = y[m, n] + v[n]\n"
     "c[m, n] = bf16(z[m, n])\n",
     "48 x 40 x 72, bias"},
    {"long_sums",
     "arg a: f32[16, 600] in\n arg b: f32[600, 24] in\n arg c: f32[16, 24] out\n"
     "c[m, n] = sum[k] a[m, k] * b[k, n]\n",
     "16 x 24 x 600"},
    {"chain",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] out\n temp y: f32[48, 40]\n"
     "y[m, n] = sum[k] a[m, k] * b[k, n]\n y[m, n] = exp(0.01 * y[m, n])\n"
     "c[m, n] = sum[k:40] y[m, k] * b[k, n]\n",
     "48 x 40 x 72"},
    {"f64",
     "arg a: f64[48, 72] in\n arg b: f64[72, 40] in\n arg c: f64[48, 40] out\n"
     "c[m, n] = sum[k] a[m, k] * b[k, n]\n",
     kNone},
    {"padding",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] out\n"
     "c[m, n] = sum[k] (a[m, k + 1] else 0) * b[k, n]\n",
     kNone},
    {"largest",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] inout\n"
     "c[m, n] max= sum[k] a[m, k] * b[k, n]\n",
     kNone},
    {"different_types",
     "arg a: bf16[48, 72] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] out\n"
     "c[m, n] = sum[k] f32(a[m, k]) * b[k, n]\n",
     kNone},
    {"f32_to_bf16",
     "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg c: bf16[48, 40] out\n"
     "c[m, n] = sum:f32[k] a[m, k] * b[k, n]\n",
     kNone},
    {"accumulates_in_bf16",
     "arg a: bf16[48, 72] in\n arg b: bf16[72, 40] in\n arg c: bf16[48, 40] inout\n"
     "c[m, n] += sum:f32[k] f32(a[m, k]) * f32(b[k, n])\n",
     kNone},
    {"strided",
     "arg a: f32[48, 144] in\n arg b: f32[72, 40] in\n arg c: f32[48, 40] out\n"
     "c[m, n] = sum[k] a[m, 2 * k] * b[k, n]\n",
     kNone},
    {"two_row_loops",
     "arg a: f32[6, 9, 72] in\n arg b: f32[72, 40] in\n arg c: f32[6, 8, 40] out\n"
     "c[l, m, n] = sum[k] a[l, m, k] * b[k, n]\n",
     kNone},
};

std::string library_of(const Conditions& setup) {
  return setup.is_hip ? "hipBLASLt" : "cublasLt";
}

class ProductTest : public testing::TestWithParam<bool> {
 protected:
  Conditions conditions(std::map<std::string, std::string> variables = {}) const {
    return {GetParam(), {}, std::move(variables)};
  }
  std::string variable() const { return GetParam() ? "YOKE_HIPBLASLT_LIBRARY" : "YOKE_CUBLASLT_LIBRARY"; }
};
INSTANTIATE_TEST_SUITE_P(Vendors, ProductTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& one) { return one.param ? "Hip" : "Cuda"; });

TEST_P(ProductTest, LibraryComputesProductsWithinTheReferencesBounds) {
  expect_ok([&]() -> std::string {
    std::string faults;
    for (const Product& product : kProducts) {
      const std::string by = product.by;
      if (!by.empty()) {
        faults += fault_of(conditions(), product, "by " + library_of(conditions()) + ": " + by);
      }
    }
    return faults;
  });
}

TEST_P(ProductTest, KernelsComputeWhatTheLibraryDoesNot) {
  const std::string reasons[] = {"f64",
                                 "reads may be out of range",
                                 "the assignment is neither = nor +=",
                                 "the factors have different types",
                                 "the result has another type than the factors",
                                 "+= rounds the sum before it adds it",
                                 "the strides are not those of matrices",
                                 "the loops are not those of matrices"};
  expect_ok([&]() -> std::string {
    std::string faults;
    std::size_t next = 0;
    for (const Product& product : kProducts) {
      if (product.by == kNone) {
        faults +=
            fault_of(conditions(), product, "not by " + library_of(conditions()) + ": " + reasons[next++]);
      }
    }
    return faults;
  });
}

TEST_P(ProductTest, KernelsComputeProductsWithoutTheLibrary) {
  const std::map<std::string, std::map<std::string, std::string>> cases = {
      {"nonexistent.so", {{variable(), "/nonexistent.so"}}},
      {"is too old: libm.so.6 has no", {{variable(), "libm.so.6"}}},
      {"version is 0.9", {{"FAKE_GPU_BLAS", GetParam() ? "900" : "9000"}}},
      {"Create failed with status 1", {{"FAKE_GPU_FAIL", "blas_create:1:1"}}}};
  for (const auto& [sign, variables] : cases) {
    expect_ok([&, s = sign, v = variables]() -> std::string {
      const std::string fault = fault_of(conditions(v), kProducts[0], "");
      const bool is_logged =
          the_log.find("products.skip") != std::string::npos && the_log.find(s) != std::string::npos;
      return fault + (is_logged ? "" : "the log lacks '" + s + "': " + the_log);
    });
  }
  expect_ok([&]() -> std::string {
    Conditions off = conditions();
    off.options.vendor = false;
    return fault_of(off, kProducts[0], "") + the_log;
  });
}

// As when the library of ROCm 6 is found beside the runtime of ROCm 7.
TEST_P(ProductTest, LibraryThatIsLinkedWithAnotherDriverIsNotUsed) {
  const std::string driver = GetParam() ? "/hip/libamdhip64.so.5" : "/cuda/libcuda.so.1";
  const std::string other = testing::TempDir() + "yoke-other-driver-" + std::to_string(::getpid()) + ".so";
  std::filesystem::copy_file(FAKE_GPU_FOLDER + driver, other,
                             std::filesystem::copy_options::overwrite_existing);
  expect_ok([&]() -> std::string {
    const std::string fault = fault_of(conditions({{variable(), other}}), kProducts[0], "");
    const std::string sign = "cannot be used: " + other + " is linked with " + other + ", and yoke uses ";
    return fault +
           (the_log.find(sign) != std::string::npos ? "" : "the log lacks '" + sign + "': " + the_log);
  });
  std::filesystem::remove(other);
}

TEST_P(ProductTest, KernelComputesAProductWithoutAnAlgorithm) {
  const char* const not_supported = GetParam() ? "blas_find:1:7" : "blas_find:1:15";
  for (const char* call : {not_supported, "blas_layout_create:2+:3", "blas_preference_set:1+:7"}) {
    expect_ok([&]() -> std::string {
      const std::string reason = "not by " + library_of(conditions()) + ": it does not support the product";
      const std::string fault = fault_of(conditions({{"FAKE_GPU_FAIL", call}}), kProducts[0], reason);
      return fault + (the_log.find("products.plan") != std::string::npos ? "" : "the log lacks the reason");
    });
  }
}

TEST_P(ProductTest, TemporaryFailureIsForgotten) {
  for (const char* call : {"blas_find:1:3", "blas_layout_create:2:3"}) {  // while the code is compiled
    expect_ok([&]() -> std::string {
      return fault_of(conditions({{"FAKE_GPU_FAIL", call}}), kProducts[0],
                      "by " + library_of(conditions()) + ": 48 x 40 x 72");
    });
  }
}

TEST_P(ProductTest, ProductThatFailsIsAnErrorThatNamesTheCall) {
  expect_ok([&]() -> std::string {
    Bound bound(conditions({{"FAKE_GPU_FAIL", "blas_multiply:1:13"}}), kProducts[0]);
    try {
      bound.run();
    } catch (const sdk::Failure& failure) {
      const bool is_named = failure.text().find("LtMatmul failed with status 13") != std::string::npos;
      return failure.code() == YOKE_STATUS_UNAVAILABLE && is_named ? "" : failure.text();
    }
    return "the launch succeeds";
  });
}

TEST_P(ProductTest, LibraryAppliesReluAndTf32OnlyIfAllowed) {
  constexpr Product kRelu = {
      "relu",
      "arg a: f32[48, 72] in\n arg b: f32[72, 40] in\n arg v: f32[40] in\n arg c: f32[48, 40] out\n"
      "temp y: f32[48, 40]\n y[m, n] = sum[k] a[m, k] * b[k, n]\n c[m, n] = max(y[m, n] + v[n], 0)\n",
      ""};
  expect_ok([&]() -> std::string {
    Conditions allowed = conditions();
    allowed.options.relu = true;
    return fault_of(conditions(), kRelu, "by " + library_of(allowed) + ": 48 x 40 x 72") +
           fault_of(allowed, kRelu, "by " + library_of(allowed) + ": 48 x 40 x 72, bias, relu");
  });
  expect_ok([&]() -> std::string {
    Conditions tf32 = conditions();
    tf32.options.tf32 = true;
    Bound exact(conditions(), kProducts[0]);
    Bound rounded(tf32, kProducts[0]);
    if (exact.fingerprint() == rounded.fingerprint()) {
      return "the fingerprint does not change";
    }
    return exact.run() == rounded.run() ? "tf32 changes nothing" : "";
  });
}

TEST_P(ProductTest, ArgumentsOfTheLibraryMustBeAligned) {
  expect_ok([&]() -> std::string {
    Conditions off = conditions();
    off.options.vendor = false;
    const std::vector<std::uint32_t> with = {16, 16, 16};
    const std::vector<std::uint32_t> without = {4, 4, 4};
    return Bound(conditions(), kProducts[0]).alignments() == with &&
                   Bound(off, kProducts[0]).alignments() == without
               ? ""
               : "the alignments differ";
  });
}

}  // namespace
}  // namespace yoke::gpu
