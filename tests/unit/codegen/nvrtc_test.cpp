// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/nvrtc_test.cpp: compiles generated kernels with NVRTC, which needs no GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>

#include "codegen.h"
#include "generator.h"

namespace yoke::codegen::test {
namespace {

// The compiler's functions, or null where it is not installed.
struct Nvrtc {
  using Handle = void*;
  int (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Handle, int, const char* const*) = nullptr;
  int (*log_size)(Handle, std::size_t*) = nullptr;
  int (*log)(Handle, char*) = nullptr;
  int (*destroy)(Handle*) = nullptr;

  static const Nvrtc& get() {
    static const Nvrtc opened = open();
    return opened;
  }

  static Nvrtc open() {
    Nvrtc nvrtc;
    const char* named = std::getenv("YOKE_NVRTC_LIBRARY");
    for (const char* path : {named, "libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13"}) {
      void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        continue;
      }
      const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      };
      find(nvrtc.create, "nvrtcCreateProgram");
      find(nvrtc.compile, "nvrtcCompileProgram");
      find(nvrtc.log_size, "nvrtcGetProgramLogSize");
      find(nvrtc.log, "nvrtcGetProgramLog");
      find(nvrtc.destroy, "nvrtcDestroyProgram");
      break;
    }
    return nvrtc;
  }

  // The compiler's messages if it fails, else nothing.
  std::string error_of(const std::string& source, const std::string& architecture) const {
    Handle handle = nullptr;
    if (create(&handle, source.c_str(), "kernels.cu", 0, nullptr, nullptr) != 0) {
      return "nvrtcCreateProgram failed";
    }
    const std::string target = "--gpu-architecture=" + architecture;
    const std::array<const char*, 3> options = {target.c_str(), "--fmad=false", "--std=c++20"};
    std::string text;
    if (compile(handle, static_cast<int>(options.size()), options.data()) != 0) {
      std::size_t size = 0;
      log_size(handle, &size);
      text.resize(size);
      log(handle, text.data());
    }
    destroy(&handle);
    return text;
  }
};

class NvrtcTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Nvrtc::get().create == nullptr) {
      GTEST_SKIP() << "libnvrtc.so.13 is not installed";
    }
  }
  static void expect_compiles(const program::Program& program) {
    Target target;
    target.capability = static_cast<std::uint32_t>(std::stoul(std::string(GetParam()).substr(3)));
    const Plan plan = generate(program, target);
    EXPECT_EQ(Nvrtc::get().error_of(plan.source, GetParam()), "") << plan.source;
  }
};

TEST_P(NvrtcTest, CompilesRandomPrograms) {
  constexpr std::uint64_t kCount = 24;
  for (std::uint64_t i = 0; i < kCount && !HasFailure(); ++i) {
    expect_compiles(conformance::generate_case(3, i).program);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, NvrtcTest, testing::Values("sm_80", "sm_90", "sm_100"));

}  // namespace
}  // namespace yoke::codegen::test
