// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/vendor_test.cpp: what the vendors say about libraries, versions and architectures.
#include <cuda/vendor.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gpu/library.h>
#include <gtest/gtest.h>
#include <hip/vendor.h>
#include <yoke/plugin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace yoke::gpu {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::string hip_fault(const std::string& architecture, int driver_version) {
  codegen::Target target;
  target.architecture = architecture;
  return hip::Vendor().architecture_fault(target, driver_version);
}

TEST(VendorTest, ArchitectureUnknownToHiprtcIsRefused) {
  constexpr int kRocm52 = 50221153;
  constexpr int kRocm62 = 60241133;
  EXPECT_THAT(hip_fault("gfx90a:sramecc+:xnack-", kRocm52), IsEmpty());
  EXPECT_THAT(hip_fault("gfx1030", kRocm52), IsEmpty());
  EXPECT_THAT(hip_fault("gfx942:sramecc+:xnack-", kRocm52), HasSubstr("HIP 5.2 does not support gfx942"));
  EXPECT_THAT(hip_fault("gfx942:sramecc+:xnack-", kRocm62), IsEmpty());
  EXPECT_THAT(hip_fault("gfx1201", kRocm62), HasSubstr("gfx1201"));
  EXPECT_THAT(hip_fault("gfx1201", 70000000), IsEmpty());
  EXPECT_THAT(hip_fault("gfx", 70000000), HasSubstr("does not support"));
}

TEST(VendorTest, VersionsAreWrittenAsTheVendorsWriteThem) {
  EXPECT_EQ(version_text(cuda::Vendor().facts(), 13020), "13.2");
  EXPECT_EQ(version_text(hip::Vendor().facts(), 60241133), "6.2");
}

TEST(VendorTest, OptionsForbidContractionAndNameTheArchitecture) {
  codegen::Target target;
  target.architecture = "sm_90";
  EXPECT_THAT(cuda::Vendor().code_request(target).options, Contains("--fmad=false"));
  EXPECT_THAT(cuda::Vendor().code_request(target).options, Contains("--gpu-architecture=sm_90"));
  target.architecture = "gfx90a";
  EXPECT_THAT(hip::Vendor().code_request(target).options, Contains("-ffp-contract=off"));
  EXPECT_THAT(hip::Vendor().code_request(target).options, Contains("--offload-arch=gfx90a"));
}

// An NVRTC that knows 7.5, 10.0 and 9.0.
int count_architectures(int* count) {
  *count = 3;
  return 0;
}
int list_architectures(int* capabilities) {
  std::copy_n(std::array{75, 100, 90}.begin(), 3, capabilities);
  return 0;
}
void* symbol_of_nvrtc(void*, const char* name) {
  return std::strcmp(name, "nvrtcGetNumSupportedArchs") == 0 ? reinterpret_cast<void*>(&count_architectures)
                                                             : reinterpret_cast<void*>(&list_architectures);
}

TEST(VendorTest, DeviceThatIsNewerThanTheCompilerGetsPortableCode) {
  cuda::Vendor vendor;
  vendor.bind_compiler(&symbol_of_nvrtc, nullptr);
  const auto request = [&](std::uint32_t capability) {
    codegen::Target target;
    target.capability = capability;
    target.architecture = "sm_" + std::to_string(capability);
    const CodeRequest made = vendor.code_request(target);
    return std::string(made.is_portable ? "portable " : "") + made.options[0];
  };
  EXPECT_EQ(request(90), "--gpu-architecture=sm_90");
  EXPECT_EQ(request(89), "portable --gpu-architecture=compute_75");
  EXPECT_EQ(request(103), "portable --gpu-architecture=compute_100");
  EXPECT_EQ(request(70), "--gpu-architecture=sm_70") << "the compiler refuses it";
}

TEST(VendorTest, MissingFunctionIsNamed) {
  cuda::Vendor vendor;
  const char* missing = vendor.bind(
      [](void*, const char* name) {
        return std::strcmp(name, "cuLaunchHostFunc") == 0 ? nullptr : ::dlsym(RTLD_DEFAULT, "malloc");
      },
      nullptr);
  EXPECT_STREQ(missing, "cuLaunchHostFunc");
}

TEST(VendorTest, FailureNamesTheCallAndStickyErrorsLoseTheDevice) {
  const cuda::Vendor vendor;
  const sdk::Failure sticky = failure_of(vendor, "cuLaunchKernel", 700);
  EXPECT_EQ(sticky.code(), YOKE_STATUS_DEVICE_LOST);
  EXPECT_EQ(sticky.vendor_code(), 700);
  EXPECT_THAT(sticky.text(), HasSubstr("cuLaunchKernel failed"));
  EXPECT_EQ(failure_of(vendor, "cuMemAlloc_v2", kOutOfMemory).code(), YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(failure_of(vendor, "cuEventQuery", kNotSupported).code(), YOKE_STATUS_UNIMPLEMENTED);
  for (const int code : {214, 220, 226, 702, 709, 719, 721, 810, 911}) {
    EXPECT_TRUE(is_sticky(code)) << code;
  }
  for (const int code : {kNotReady, kDeviceUnavailable, kOutOfMemory, kCaptureUnsupported, 701}) {
    EXPECT_FALSE(is_sticky(code)) << code;
  }
  EXPECT_THAT(failure_of(vendor, "cuDevicePrimaryCtxRetain", kDeviceUnavailable).text(),
              HasSubstr("another process"));
}

TEST(VendorTest, CompilerOfTheDriversReleaseIsPreferred) {
  const VendorFacts& cuda = cuda::Vendor().facts();
  EXPECT_STREQ(own_release_first(cuda, cuda.compiler_files, 12040).front(), "libnvrtc.so.12");
  EXPECT_STREQ(own_release_first(cuda, cuda.compiler_files, 13010).front(), "libnvrtc.so.13");
  EXPECT_STREQ(own_release_first(cuda, cuda.compiler_files, 14000).front(), "libnvrtc.so.13");
  const VendorFacts& hip = hip::Vendor().facts();
  EXPECT_STREQ(own_release_first(hip, hip.compiler_files, 60241133).front(), "libhiprtc.so.6");
  EXPECT_EQ(own_release_first(hip, hip.compiler_files, 60241133).size(), hip.compiler_files.size());
}

}  // namespace
}  // namespace yoke::gpu
