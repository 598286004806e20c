// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/on_fakes.h: runs the plugins on four fake devices, and fails if a driver was misused.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace yoke::testing {

class OnFakes : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = FAKE_GPU_FOLDER;
    report_ = ::testing::TempDir() + "/fake_training_" + std::to_string(getpid());
    const std::pair<const char*, std::string> variables[] = {
        {"YOKE_CUDA_LIBRARY", folder + "/cuda/libcuda.so.1"},
        {"YOKE_NVRTC_LIBRARY", folder + "/cuda/libnvrtc.so.13"},
        {"YOKE_HIP_LIBRARY", folder + "/hip/libamdhip64.so.5"},
        {"YOKE_HIPRTC_LIBRARY", folder + "/hip/libamdhip64.so.5"},
        {"YOKE_CUBLASLT_LIBRARY", folder + "/cuda/libcuda.so.1"},
        {"YOKE_NCCL_LIBRARY", folder + "/cuda/libcuda.so.1"},
        {"YOKE_RCCL_LIBRARY", folder + "/hip/libamdhip64.so.5"},
        {"YOKE_HIPBLASLT_LIBRARY", folder + "/hip/libamdhip64.so.5"},
        {"YOKE_CUDNN_LIBRARY", folder + "/cuda/libcuda.so.1"},
        {"YOKE_MIOPEN_LIBRARY", folder + "/hip/libamdhip64.so.5"},
        {"FAKE_GPU_DEVICES", "4"},
        {"FAKE_GPU_SEED", "5"},
        {"FAKE_GPU_REPORT", report_},
        {"XDG_CACHE_HOME", ::testing::TempDir() + "/fake_training_cache"}};
    for (const auto& [name, value] : variables) {
      setenv(name, value.c_str(), 1);
    }
    std::filesystem::remove(report_);
  }

  void TearDown() override {
    std::ifstream file(report_);
    const std::string complaints(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(complaints, "");
    std::filesystem::remove(report_);
  }

 private:
  std::string report_;
};

}  // namespace yoke::testing
