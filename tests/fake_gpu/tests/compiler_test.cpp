// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/compiler_test.cpp: options, messages and kept results of the fake compilers.
#include <algorithm>
#include <numeric>

#include "gpu.h"

namespace fake_gpu_test {
namespace {

using testing::HasSubstr;

constexpr const char* kPlain = "extern \"C\" __global__ void test(int* x) { *x = 1; }";

class Compiler : public FakeGpu {
 protected:
  int compile(Gpu& gpu, const std::vector<std::string>& options, const std::string& source = kPlain) {
    return gpu.compile(source, options, image_, log_);
  }

  std::string image_;
  std::string log_;
};

TEST_P(Compiler, ErrorsAreReportedWithTheLineOfTheText) {
  Gpu gpu(GetParam());
  EXPECT_EQ(compile(gpu, gpu.options(), "\nextern \"C\" __global__ void test(int* x) {\n  *x = unknown;\n}"),
            6);
  EXPECT_THAT(log_, testing::AllOf(HasSubstr("kernels:3"), HasSubstr("unknown")));
  EXPECT_EQ(image_, "");
}

TEST_P(Compiler, NamesThatTheRealCompilerLacksAreMissing) {
  Gpu gpu(GetParam());
  const auto in_body = [](const std::string& text) {
    return "extern \"C\" __global__ void test(int* x) { " + text + " }";
  };
  EXPECT_EQ(compile(gpu, gpu.options(), in_body("uint32_t y = 1; *x = (int)y;")), GetParam() ? 0 : 6);
  EXPECT_EQ(compile(gpu, gpu.options(), in_body("__syncwarp(); *x = __any_sync(~0u, *x);")),
            GetParam() ? 6 : 0);
  EXPECT_EQ(compile(gpu, gpu.options(), in_body("*x = __shfl(*x, 0);")), GetParam() ? 0 : 6);
  EXPECT_EQ(compile(gpu, gpu.options(), in_body("*x = INFINITY > 0;")), 6);
  EXPECT_EQ(compile(gpu, gpu.options(), "#include <stdint.h>\n"), 6);
}

TEST_P(Compiler, UnknownOptionsFailAsInTheRealCompiler) {
  Gpu gpu(GetParam());
  auto options = gpu.options();
  options.emplace_back("--no-such-option");
  EXPECT_EQ(compile(gpu, options), GetParam() ? 6 : 5);
  EXPECT_THAT(log_, HasSubstr("--no-such-option"));
}

TEST_P(Compiler, UnknownArchitecturesFail) {
  Gpu gpu(GetParam());
  if (GetParam()) {
    EXPECT_EQ(compile(gpu, {"--offload-arch=gfx942", "-ffp-contract=off"}), 6);
    EXPECT_THAT(gpu.complaints(), HasSubstr("would end the process in ROCm 5.2"));
    EXPECT_EQ(compile(gpu, {"-ffp-contract=off"}), 6);
    EXPECT_EQ(log_, "");
  } else {
    EXPECT_EQ(compile(gpu, {"--gpu-architecture=sm_42", "--fmad=false"}), 5);
    EXPECT_THAT(log_, HasSubstr("invalid value for --gpu-architecture"));
    EXPECT_EQ(compile(gpu, {"--gpu-architecture=compute_90", "--fmad=false"}), 0);
    EXPECT_EQ(image_, "");
  }
}

TEST_P(Compiler, FusedArithmeticIsReported) {
  Gpu gpu(GetParam());
  auto options = gpu.options();
  options.pop_back();
  EXPECT_EQ(compile(gpu, options), 0);
  EXPECT_THAT(gpu.complaints(), HasSubstr("would change results"));
}

TEST_P(Compiler, ImageOfAnotherArchitectureOrWithADamagedByteIsRefused) {
  Gpu gpu(GetParam(), {{"FAKE_GPU_CAPABILITY", "80"}, {"FAKE_GPU_ARCHITECTURE", "gfx906"}});
  gpu.use();
  ASSERT_EQ(compile(gpu, gpu.options()), 0);
  void* module = nullptr;
  EXPECT_EQ(gpu.module_load(&module, image_.data()), 209);
  image_[image_.size() - 1] ^= 1;
  EXPECT_EQ(gpu.module_load(&module, image_.data()), 200);
}

TEST_P(Compiler, KeptResultsAreSharedAndBrokenOnesReplaced) {
  const std::string folder = testing::TempDir() + "/fake_gpu_cache_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  Gpu gpu(GetParam(), {{"FAKE_GPU_CACHE", folder}});
  ASSERT_EQ(compile(gpu, gpu.options()), 0);
  const std::string first = image_;
  const auto files = [&] {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      all.push_back(entry.path());
    }
    return all;
  };
  ASSERT_EQ(files().size(), 1U);
  const std::string path = files()[0].string();
  std::ofstream(path).write(first.data(), static_cast<std::streamsize>(first.size() / 2));
  ASSERT_EQ(compile(gpu, gpu.options()), 0);
  EXPECT_EQ(std::filesystem::file_size(path), first.size());
  // Threads that compile the same text at once write one result.
  std::filesystem::remove(path);
  std::vector<std::thread> threads;
  std::vector<int> codes(4, -1);
  for (int& code : codes) {
    threads.emplace_back([&gpu, &code] {
      std::string image;
      std::string log;
      code = gpu.compile(kPlain, gpu.options(), image, log);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(codes, testing::Each(0));
  EXPECT_EQ(files().size(), 1U);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Of, Compiler, testing::Bool(),
                         [](const auto& vendor) { return vendor.param ? "hip" : "cuda"; });

}  // namespace
}  // namespace fake_gpu_test
