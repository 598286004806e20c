// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/launch_test.cpp: the driver calls of a launch, counted by the fake driver.
#include <backend.h>
#include <cuda/vendor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace yoke::gpu {
namespace {

constexpr const char* kOneKernel = R"(yoke.program 1
program one() {
  arg x: f32[64] inout
  x[i] = x[i] + 1
}
)";

// A statement that reads the result of another at other indices needs its own kernel.
constexpr const char* kThreeKernels = R"(yoke.program 1
program three(symbol shift in 0..1000) {
  arg x: f32[64] inout
  temp y: f32[64]
  temp z: f32[64]
  y[i] = x[63 - i] * f32(shift)
  z[i] = y[63 - i] + 1
  x[i] = z[63 - i] * 0.5
}
)";

// The values of the symbol in each launch; the program without symbols gets their number only.
void launch(const char* text, const std::vector<std::int64_t>& values) {
  BackendOf<cuda::Vendor> backend;
  if (backend.device_count() != 1) {
    throw std::runtime_error(backend.why_no_device());
  }
  yoke_option cache{};
  cache.name = "cache";
  cache.type = YOKE_OPTION_TEXT;
  cache.text = "off";
  const sdk::Options options(backend.option_specs(), YOKE_OPTION_SCOPE_DEVICE, &cache, 1, sizeof cache);
  const std::unique_ptr<sdk::Device> device = backend.open_device(0, options);
  const std::unique_ptr<sdk::Code> code = device->compile(text);
  const sdk::Entry& entry = code->entries()[0];
  const auto buffer = device->create_buffer(256, YOKE_MEMORY_DEVICE);
  const auto workspace = device->create_buffer(entry.workspace_byte_count, YOKE_MEMORY_DEVICE);
  const std::array bindings = {sdk::Binding{buffer.get(), 0}};
  const auto routine = code->link(0, bindings, {workspace.get(), 0});
  const auto stream = device->create_stream(0);
  const std::uint32_t zero = 0;
  buffer->fill(stream.get(), 0, 256, std::as_bytes(std::span(&zero, 1)));
  for (const std::int64_t& value : values) {
    routine->launch(stream.get(), std::span(&value, entry.symbols.size()));
  }
  stream->wait(UINT64_MAX);
}

// The number of calls of each function of the driver, by its name in driver.def. The fake driver writes them
// when the process ends, so a child runs the launches.
std::map<std::string, int> calls_of(const char* text, const std::vector<std::int64_t>& values) {
  const std::string file = testing::TempDir() + "yoke-calls-" + std::to_string(::getpid());
  std::filesystem::remove(file);
  EXPECT_EXIT(
      {
        ::setenv("FAKE_GPU_CALLS", file.c_str(), 1);
        ::setenv("FAKE_GPU_DEVICES", "1", 1);
        ::setenv("YOKE_CUDA_LIBRARY", FAKE_CUDA_FOLDER "/libcuda.so.1", 1);
        ::setenv("YOKE_NVRTC_LIBRARY", FAKE_CUDA_FOLDER "/libnvrtc.so.13", 1);
        launch(text, values);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  std::map<std::string, int> counts;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {  // "launch 3"
    const std::size_t space = line.rfind(' ');
    counts[line.substr(0, space)] += std::stoi(line.substr(space));
  }
  std::filesystem::remove(file);
  EXPECT_FALSE(counts.empty());
  return counts;
}

// The calls of one more launch than in `before`, and the kernels and fills that then ran. Waiting and the
// context are left out.
std::map<std::string, int> one_more(const char* text, std::vector<std::int64_t> before, std::int64_t value) {
  std::map<std::string, int> calls = calls_of(text, before);
  before.push_back(value);
  std::map<std::string, int> more = calls_of(text, before);
  std::map<std::string, int> difference;
  for (const auto& [name, count] : more) {
    const bool is_counted = !name.empty() && !name.starts_with("context_") && name != "stream_query" &&
                            !name.starts_with("event_");
    if (is_counted && count != calls[name]) {
      difference[name] = count - calls[name];
    }
  }
  return difference;
}

using Calls = std::map<std::string, int>;

TEST(LaunchTest, OneKernelWithoutSymbolsIsOneCall) {
  EXPECT_EQ(one_more(kOneKernel, {0, 0, 0}, 0), (Calls{{"launch", 1}, {"kernel", 1}}));
}

TEST(LaunchTest, SecondLaunchRecordsTheGraphThatLaterLaunchesUse) {
  EXPECT_EQ(one_more(kThreeKernels, {7}, 7), (Calls{{"capture_begin", 1},
                                                    {"capture_end", 1},
                                                    {"graph_instantiate", 1},
                                                    {"graph_destroy", 1},
                                                    {"graph_executable_destroy", 1},
                                                    {"launch", 3},
                                                    {"kernel", 3},
                                                    {"graph_launch", 1}}));
  EXPECT_EQ(one_more(kThreeKernels, {7, 7, 7}, 7), (Calls{{"graph_launch", 1}, {"kernel", 3}}));
}

TEST(LaunchTest, NewValueOfASymbolIsWrittenToTheDeviceWithoutAnotherGraph) {
  EXPECT_EQ(one_more(kThreeKernels, {7, 7, 7}, 8),
            (Calls{{"graph_launch", 1}, {"kernel", 3}, {"fill_words", 1}, {"fill", 1}}));
}

}  // namespace
}  // namespace yoke::gpu
